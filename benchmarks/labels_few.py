"""Test log-loss with 20 to 100 labels: ProxyLogisticRegression, scikit-learn's two, self-training.

    python benchmarks/labels_few.py --draws 10 --out docs/results/labels/few.json

A third of the rows is the test set; labels are drawn from the others, of every class one at least,
and the rest of those is the proxy. Columns are standardised by all rows that are not tested.
Constants of the library were set on the tables of ``--tuning``, which are others.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from experiments.records import write_record
from proxyprox.sklearn import ProxyLogisticRegression

Array = Any


def generated(
    seed: int, columns: int, informative: int, spread: float, rate: float = 0.5,
    correlated: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    """Return a logistic table with a share of positives."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4000, columns))
    if correlated:
        X = X @ (rng.standard_normal((columns, columns)) / np.arange(1, columns + 1)[:, None])
        X /= X.std(axis=0)
    w = np.zeros(columns)
    w[:informative] = rng.standard_normal(informative)
    z = X @ w
    z *= spread / z.std()
    shift = np.quantile(z + rng.logistic(size=len(z)), 1 - rate)
    return X, (z + rng.logistic(size=len(z)) > shift).astype(int)


def clusters(seed: int, classes: int, columns: int, apart: float) -> tuple[Array, Array]:
    """Return Gaussian classes."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((classes, columns)) * apart / np.sqrt(columns)
    y = rng.integers(classes, size=3000)
    return centres[y] + rng.standard_normal((3000, columns)), y


def digits_pair() -> tuple[Array, Array]:
    """Return the digits 3 and 8."""
    X, y = datasets.load_digits(return_X_y=True)
    kept = np.isin(y, [3, 8])
    return X[kept], y[kept]


TABLES = {
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "digits 3 and 8": digits_pair,
    "easy clusters": lambda: clusters(1, 3, 4, 6.0),
    "hard clusters": lambda: clusters(2, 3, 10, 1.5),
    "ten columns": lambda: generated(3, 10, 10, 2.0),
    "sparse truth": lambda: generated(4, 60, 5, 3.0),
    "rare, 5 %": lambda: generated(5, 20, 10, 1.5, 0.05),
    "rare, correlated": lambda: generated(6, 40, 20, 1.0, 0.06, True),
}
TUNING = {
    "t diabetes": lambda: (lambda d: (d[0], (d[1] > np.median(d[1])).astype(int)))(
        datasets.load_diabetes(return_X_y=True)
    ),
    "t clusters": lambda: clusters(11, 2, 30, 4.0),
    "t easy": lambda: clusters(12, 4, 6, 8.0),
    "t noisy": lambda: generated(13, 15, 5, 0.7),
    "t correlated": lambda: generated(14, 30, 10, 3.0, 0.5, True),
    "t rare": lambda: generated(15, 15, 8, 2.0, 0.05),
    "t rare easy": lambda: generated(16, 10, 3, 5.0, 0.08),
    "t digits": lambda: (lambda d: (d[0][d[1] < 3], d[1][d[1] < 3]))(
        datasets.load_digits(return_X_y=True)
    ),
}
LABELS = (20, 40, 50, 100)


def draw(table: Any, labels: int, seed: int) -> Any:
    """Return labelled rows, the proxy's rows and test rows."""
    X, y = table
    rng = np.random.default_rng([seed, labels])
    order = rng.permutation(len(y))
    test, pool = np.split(order, [len(y) // 3])
    first = [int(pool[np.flatnonzero(y[pool] == c)[0]]) for c in np.unique(y)]
    # Two rows of each class, where stratified folds are to be possible at all.
    second = [int(pool[np.flatnonzero(y[pool] == c)[1]]) for c in np.unique(y)]
    forced = first + second
    others = [int(i) for i in pool if i not in set(forced)]
    bought = np.array(forced + others[: labels - len(forced)])
    rest = np.setdiff1d(pool, bought)
    scaler = StandardScaler().fit(X[pool])
    X = scaler.transform(X)
    return X[bought], y[bought], X[rest], X[test], y[test]


def losses(table: Any, labels: int, seed: int) -> dict[str, float]:
    """Return the test log-loss of every way."""
    X, y, rest, X_test, y_test = draw(table, labels, seed)
    classes, found = np.unique(y), {}
    marked = np.concatenate([y, np.full(len(rest), -1)])
    ways = {
        "LogisticRegression": lambda: LogisticRegression(max_iter=1000).fit(X, y),
        "LogisticRegressionCV": lambda: LogisticRegressionCV(max_iter=1000).fit(X, y),
        "SelfTrainingClassifier": lambda: SelfTrainingClassifier(
            LogisticRegression(max_iter=1000)
        ).fit(np.vstack([X, rest]), marked),
        "ours": lambda: ProxyLogisticRegression().fit(X, y, X_proxy=rest if len(rest) else None),
    }
    for name, fit in ways.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[name] = float(log_loss(y_test, fit().predict_proba(X_test), labels=classes))
    return found


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tuning", action="store_true")
    parser.add_argument("--labels", type=int, nargs="*", default=LABELS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    record: dict[str, Any] = {"draws": given.draws, "tables": {}}
    ratios = []
    for name, load in (TUNING if given.tuning else TABLES).items():
        table = load()
        for labels in given.labels:
            begun = time.process_time()
            seeds = range(given.first, given.first + given.draws)
            each = [losses(table, labels, seed) for seed in seeds]
            mean = {way: float(np.mean([run[way] for run in each])) for way in each[0]}
            best = min(mean["LogisticRegression"], mean["LogisticRegressionCV"])
            mean["ratio"] = mean["ours"] / best
            ratios.append(mean["ratio"])
            record["tables"].setdefault(name, {})[str(labels)] = mean
            shown = "  ".join(f"{value:.3f}" for value in mean.values())
            print(f"{name:18} {labels:4}  {shown}  {time.process_time() - begun:.1f} s", flush=True)
    record["mean_ratio"], record["worst_ratio"] = float(np.mean(ratios)), float(np.max(ratios))
    print(f"mean ratio {np.mean(ratios):.3f}, worst {np.max(ratios):.3f}")
    if given.out:
        write_record(given.out, record, measures=["src/proxyprox/sklearn/fitting.py"])


if __name__ == "__main__":
    main()
