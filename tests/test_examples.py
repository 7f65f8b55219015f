"""Examples that are no pages of the gallery run, if their packages are installed."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize

import proxyprox as pp

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


def test_a_proxy_helps_a_method_of_scipy():
    scipy_method = runpy.run_path(str(EXAMPLES / "scipy_method.py"))["scipy_method"]
    A, b, start = np.diag([1.0, 10.0, 100.0]), np.array([1.0, -2.0, 3.0]), np.zeros(3)
    solver = scipy_method(pp.Quadratic(A + 0.1 * np.eye(3)))
    both = lambda x, scale=1.0: (x @ A @ x / 2 - scale * b @ x, A @ x - scale * b)  # noqa: E731
    bounds, seen = scipy.optimize.Bounds(ub=[0.5] * 3), []
    for call in ({}, {"args": (3.0,)}, {"bounds": bounds}, {"bounds": [(None, 0.5)] * 3}):
        found = scipy.optimize.minimize(both, start, jac=True, method=solver, tol=1e-8, **call)
        want = scipy.optimize.minimize(both, start, jac=True, method="L-BFGS-B", tol=1e-12, **call)
        np.testing.assert_allclose(found.x, want.x, atol=1e-6)
        assert (found.success, found.status) == (True, 0)
        assert found.fun == pytest.approx(want.fun)
    few = {"jac": True, "method": solver, "options": {"maxiter": 2}, "callback": seen.append}
    answer = scipy.optimize.minimize(both, start, tol=1e-14, **few)
    assert (answer.nit, answer.success, len(seen)) == (2, False, 2)
    for name, wrong in {
        "jac": {"jac": None},
        "constraints": {"constraints": [{"type": "eq", "fun": sum}]},
        "maxitr": {"options": {"maxitr": 5}},
    }.items():
        with pytest.raises((TypeError, ValueError), match=name):
            scipy.optimize.minimize(both, start, **{"jac": True, "method": solver, **wrong})
