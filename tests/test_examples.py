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
