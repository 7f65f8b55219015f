"""Which rows to ask about: accuracy and log-loss after 40, 60 and 100 labels of each criterion.

    python benchmarks/labels_criteria.py --seeds 3 --output docs/results/labels

A third of the rows is the test set, 1000 of the others at most are the pool; batches of 20, the
first one uniform. Every criterion has the same model, ``ProxyLogisticRegression(cv=3)`` with the
whole pool as proxy; "margin" has a quarter of uniform rows, as in LabelBudget. scikit-learn's
models are fitted to uniform rows. The output is criteria.json.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets as tables
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from experiments import datasets
from experiments.records import write_record
from labels_seeds import Runs
from labels_text import docstrings
from proxyprox.sklearn import LabelBudget, ProxyLogisticRegression
from proxyprox.sklearn.labelling import fit_to_labels

MARKS, BATCH, POOL = (40, 60, 100), 20, 1000
CRITERIA = ("uniform", "margin alone", "margin")
ALL = (*CRITERIA, "LogisticRegression", "LogisticRegressionCV", "SelfTrainingClassifier")

Table = tuple[Any, np.ndarray]


def _libsvm(name: str) -> Table:
    data = datasets.load(name)
    return data.X.toarray(), (data.y == data.y.max()).astype(int)


def _made(**options: Any) -> Table:
    X, y = tables.make_classification(3000, 20, random_state=1, **options)
    return X, y


def _digits() -> Table:
    """Return the digits that are mixed up most."""
    X, y = tables.load_digits(return_X_y=True)
    kept = np.isin(y, (3, 5, 8))
    return X[kept], y[kept]


def _text() -> Table:
    """Return docstrings of four packages as 30 columns, which tables of text become."""
    X, y = docstrings()
    X, y = X[y < 4], y[y < 4]
    return TruncatedSVD(30, random_state=0).fit_transform(X), y


SETS: dict[str, Callable[[], Table]] = {
    "breast_cancer": lambda: tables.load_breast_cancer(return_X_y=True),
    "digits 3, 5, 8": _digits,
    "a9a": lambda: _libsvm("a9a"),
    "noisy": lambda: _made(n_informative=5, flip_y=0.2),
    "wine": lambda: tables.load_wine(return_X_y=True),
    "mushrooms": lambda: _libsvm("mushrooms"),
    "docstrings": _text,
    "one in twelve": lambda: _made(n_informative=6, weights=[0.92], flip_y=0.02),
}
RIVALS: dict[str, Callable[[], Any]] = {
    "LogisticRegression": lambda: LogisticRegression(max_iter=1000),
    "LogisticRegressionCV": lambda: LogisticRegressionCV(max_iter=1000),
    "SelfTrainingClassifier": lambda: SelfTrainingClassifier(LogisticRegression(max_iter=1000)),
}


def most_uncertain(model: Any, X: Any) -> np.ndarray:
    """Return the rows by the gap between their two likeliest classes, smallest first."""
    p = np.sort(model.predict_proba(X), axis=1)
    return np.argsort(p[:, -1] - p[:, -2], kind="stable")


def by_margin(X: Any, y: np.ndarray, seed: int, uniform: float) -> Any:
    """Yield the model after each batch of the most uncertain rows and some uniform ones."""
    rng, bought = np.random.default_rng(seed), np.empty(0, dtype=int)
    model: Any = None
    while len(bought) < MARKS[-1]:
        left = np.setdiff1d(rng.permutation(len(y)), bought, assume_unique=True)
        several = len(np.unique(y[bought])) > 1
        if several:
            order = most_uncertain(model, X)
            order = order[np.isin(order, left)]
            rows = np.concatenate([order[: round(BATCH * (1 - uniform))], rng.permutation(left)])
            rows = rows[np.sort(np.unique(rows, return_index=True)[1])]
        else:
            rows = rng.permutation(left)
        bought = np.concatenate([bought, rows[:BATCH]])
        if len(np.unique(y[bought])) > 1:
            model = fit_to_labels(ProxyLogisticRegression(cv=3), X, bought, y[bought], None)
        yield len(bought), model


def by_budget(X: Any, y: np.ndarray, seed: int, criterion: str) -> Any:
    """Yield the model after each batch of a LabelBudget."""
    budget = LabelBudget(
        ProxyLogisticRegression(cv=3), X, budget=MARKS[-1], batch_size=BATCH, criterion=criterion,
        rng=seed,
    )  # fmt: skip
    for most in range(BATCH, MARKS[-1] + 1, BATCH):
        while budget.spent < most:
            rows = budget.ask()[: most - budget.spent]
            budget.tell(rows, y[rows].tolist())
        yield budget.spent, budget.fit() if len(set(budget.labels.values())) > 1 else None


def by_rival(X: Any, y: np.ndarray, seed: int, name: str) -> Any:
    """Yield scikit-learn's model of uniform rows at each mark."""
    order = np.random.default_rng(seed).permutation(len(y))
    for labels in MARKS:
        bought, rest = order[:labels], order[labels : labels if "Self" not in name else None]
        marked = np.append(np.unique(y, return_inverse=True)[1][bought], np.full(len(rest), -1))
        model = RIVALS[name]().fit(X[np.append(bought, rest)], marked)
        model.classes_ = np.unique(y)[model.classes_]
        yield labels, model


def contest(data: Table, criterion: str, seed: int) -> dict[str, list[float]]:
    """Return accuracy and log-loss on test rows at each mark."""
    X, y = data
    order = np.random.default_rng(seed).permutation(len(y))
    test, pool = order[: len(y) // 3][:4000], order[len(y) // 3 :][:POOL]
    scaler = StandardScaler().fit(X[pool])
    X_pool, X_test, classes = scaler.transform(X[pool]), scaler.transform(X[test]), np.unique(y)
    if criterion in RIVALS:
        steps = by_rival(X_pool, y[pool], seed, criterion)
    elif criterion.startswith("margin"):
        steps = by_margin(X_pool, y[pool], seed, 0.0 if "alone" in criterion else 0.25)
    else:
        steps = by_budget(X_pool, y[pool], seed, criterion)
    found: dict[str, list[float]] = {"accuracy": [], "log_loss": []}
    for labels, model in steps:
        if labels in MARKS:
            p = np.full((len(test), len(classes)), 1e-3)  # a class without a label yet
            p[:, np.searchsorted(classes, model.classes_)] += model.predict_proba(X_test)
            p /= p.sum(axis=1, keepdims=True)
            found["accuracy"].append(float(np.mean(classes[p.argmax(axis=1)] == y[test])))
            found["log_loss"].append(float(log_loss(y[test], p, labels=classes)))
    return found


def page_table(record: Path) -> str:
    """Return log-loss and accuracy after the last mark, means of the draws, for the page."""
    found = json.loads(record.read_text(encoding="utf-8"))
    ways = [way for way in ALL if way in next(iter(found.values()))]
    ends = {
        (name, criterion): np.array([[run["log_loss"][-1], run["accuracy"][-1]] for run in runs])
        for name, by in found.items()
        for criterion, runs in by.items()
    }
    lines = [["data (draws)", *(f"`{c}`" if c.islower() and " " not in c else c for c in ways)]]
    lines.append(["---"] * len(lines[0]))
    for name, by in found.items():
        means = [ends[name, criterion].mean(axis=0) for criterion in ways]
        cells = [f"{loss:.3f}, {100 * right:.1f} %" for loss, right in means]
        lines.append([f"{name} ({len(by[CRITERIA[0]])})", *cells])
    plain = {name: ends[name, CRITERIA[0]] for name in found}
    mean, worst, right = [], [], []
    for criterion in ways:
        pairs = [(ends[name, criterion], plain[name]) for name in found]
        ratios = [a[:, 0].mean() / b[:, 0].mean() for a, b in pairs]
        mean.append(f"{np.exp(np.mean(np.log(ratios))):.2f}")
        worst.append(f"{max(float((a[:, 0] / b[:, 0]).max()) for a, b in pairs):.2f}")
        right.append(f"{100 * np.mean([a[:, 1].mean() - b[:, 1].mean() for a, b in pairs]):+.1f}")
    lines.append(["log-loss against `uniform`, geometric mean", *mean])
    lines.append(["worst single draw", *worst])
    lines.append(["accuracy against `uniform`, mean", *right])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--output", type=Path, help="folder of criteria.json")
    parser.add_argument("--cache", type=Path, help="JSON file of finished runs to go on with")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    done, cache = dict[str, Any](), Runs(arguments.cache)
    for name in arguments.tables:
        data = SETS[name]()
        print(f"{name}: {data[0].shape[0]:,} × {data[0].shape[1]:,}", flush=True)
        for criterion in ALL:
            runs = [
                cache.result(str((name, criterion, seed)), contest, data, criterion, seed)
                for seed in range(arguments.seeds)
            ]
            done.setdefault(name, {})[criterion] = runs
            means = {key: np.mean([run[key] for run in runs], axis=0) for key in runs[0]}
            columns = "   ".join(
                f"{a:.3f} {b:.3f}"
                for a, b in zip(means["accuracy"], means["log_loss"], strict=True)
            )
            print(f"  {criterion:28} {columns}", flush=True)
    if arguments.output:
        output = arguments.output / "criteria.json"
        write_record(output, done, measures=["src/proxyprox/sklearn"])


if __name__ == "__main__":
    main()
