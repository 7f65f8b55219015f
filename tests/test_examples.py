"""Examples that are no pages of the gallery run, if their packages are installed."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_differences_in_processes_of_joblib():
    pytest.importorskip("joblib")
    result = runpy.run_path(str(EXAMPLES / "joblib_executor.py"))["fit"]()
    assert result.success
    assert result.fun < 1e-3


def test_steps_are_logged_to_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(tmp_path.as_uri())
    mlflow.set_experiment("proxyprox")
    runpy.run_path(str(EXAMPLES / "mlflow_observer.py"))["fit"]()
    logged = mlflow.last_active_run().data.metrics
    assert {"eta", "gradient"} <= set(logged)
    assert logged["final_value"] < 0.6  # log 2 at the start


def test_hospitals_spend_their_budgets_and_a_missing_or_lying_one_is_survived():
    example = runpy.run_path(str(EXAMPLES / "flower_hospitals.py"))

    class Odd(example["Here"]):
        rounds = 0

        def ask(self, arrays, **config):
            answers = super().ask(arrays, **config)
            if config["question"] == "gradient":
                self.rounds += 1
                answers.pop(0) if self.rounds == 2 else None
                answers[1] = [1e6 * answers[1][0]] if self.rounds == 3 else answers[1]
                answers[2] = [answers[2][0] * float("nan")] if self.rounds == 3 else answers[2]
            return answers

    public, test = example["losses"](0)
    for hospitals, worst in ((example["Here"](), 0.19), (Odd(), 0.3)):
        w = example["proxyprox"](hospitals, public, seed=0, epsilon=1.0, rounds=3)
        assert test.value(w) < worst
        assert [h.spent() for h in hospitals.hospitals] == pytest.approx([1.0] * 3)
