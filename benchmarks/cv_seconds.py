"""CPU seconds of a cross-validated strength: ProxyLogisticRegression, LogisticRegressionCV, glum.

    python benchmarks/cv_seconds.py --repeats 5 --out docs/results/seconds/cv.json

Ten strengths and five folds, one thread, interleaved runs, medians. The held-out log-loss of the
strength that each one chooses is shown: nobody is fast by stopping early. Set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import importlib
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV

from experiments.records import write_record
from glm_seconds import Table, make
from proxyprox.sklearn import ProxyLogisticRegression

Array = Any
TABLES = {
    "100,000 × 50": Table("logistic", 100_000, 50, "correlated"),
    "20,000 × 200": Table("logistic", 20_000, 200, "correlated"),
    "20,000 × 200, scales 1 to .01": Table("logistic", 20_000, 200, "correlated", scaled=True),
}


def ours(X: Array, y: Array) -> float:
    """Fit ours and return the least held-out loss."""
    return float(ProxyLogisticRegression().fit(X, y).cv_curve_.min())


def scikit(solver: str, X: Array, y: Array) -> float:
    """Fit scikit-learn's and return the least held-out loss."""
    model = LogisticRegressionCV(cv=5, scoring="neg_log_loss", solver=solver, max_iter=1000)
    scores = model.fit(X, y).scores_
    return -float(max(np.mean(each, axis=0).max() for each in scores.values()))


def glum(X: Array, y: Array) -> float:
    """Fit glum's path and return the least held-out loss (its deviance is twice the loss)."""
    kind = importlib.import_module("glum").GeneralizedLinearRegressorCV
    model = kind(family="binomial", l1_ratio=0, n_alphas=10, cv=5, fit_intercept=True)
    found = model.fit(X, y.astype(float)).deviance_path_
    return float(np.mean(np.squeeze(found), axis=0).min()) / 2


WAYS = {
    "ours": ours,
    "LogisticRegressionCV, lbfgs": lambda X, y: scikit("lbfgs", X, y),
    "LogisticRegressionCV, newton-cholesky": lambda X, y: scikit("newton-cholesky", X, y),
    "glum": glum,
}


def page_table(path: Path) -> str:
    """Return the table of the page."""
    import json

    record = json.loads(path.read_text())
    lines = ["| CPU s | " + " | ".join(WAYS) + " |", "|---" * (len(WAYS) + 1) + "|"]
    for name, own in record["tables"].items():
        cells = [f"{own[way]['seconds']:.2f}" if way in own else "–" for way in WAYS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    record: dict[str, Any] = {"repeats": given.repeats, "tables": {}}
    for name, table in TABLES.items():
        X, y = make(table)
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        losses: dict[str, float] = {}
        for _ in range(given.repeats):
            for way, fit in WAYS.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    begun = time.process_time()
                    try:
                        losses[way] = fit(X, y)
                    except ImportError:
                        continue
                    seconds[way].append(time.process_time() - begun)
        record["tables"][name] = {
            way: {"seconds": float(np.median(each)), "held_out": losses[way]}
            for way, each in seconds.items()
            if each
        }
        print(name, record["tables"][name], flush=True)
    if given.out:
        write_record(given.out, record, measures=["src/proxyprox/sklearn/fitting.py"])


if __name__ == "__main__":
    main()
