"""Every step of a run in MLflow, over what was paid for.

An observer of ten lines sends the numbers of each step to the active MLflow run, and the answer
and the ledger when the run is over. The x-axis is target samples, not steps.

    pip install mlflow
    python examples/mlflow_observer.py            # a second; `mlflow ui` shows it
"""

from __future__ import annotations

import math
from typing import Any

import mlflow
import numpy as np

from proxyprox import Problem, Result, logistic_regression, minimize


class MLflowLog:
    """Sends the numbers of every step to the active run of MLflow."""

    names = ("eta", "residual", "displacement", "gradient")

    def after_step(self, state: Any, step: Any) -> None:
        """Log what is known of this step."""
        numbers = {name: getattr(step.record, name) for name in self.names}
        known = {
            name: float(x) for name, x in numbers.items() if x is not None and math.isfinite(x)
        }
        mlflow.log_metrics(known, step=step.ledger.target_samples)


def fit() -> Result:
    """Fit a logistic model to batches, its inputs without labels as the proxy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 10))
    y = X[:, 0] - X[:, 1] + rng.logistic(size=2000) > 0
    target = logistic_regression(X, y, l2=1e-3, batch_size=64)
    with mlflow.start_run():
        mlflow.log_params({"batch_size": 64, "l2": 1e-3})
        problem = Problem(target, target.label_free())
        result = minimize(problem, steps=30, rng=0, observers=[MLflowLog()])
        mlflow.log_metrics({"final_value": target.value(result.w)})
    return result


if __name__ == "__main__":
    print(fit())
