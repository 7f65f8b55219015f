"""Sparse multi-class text: test log-loss and time against LogisticRegressionCV on the same labels.

    python benchmarks/labels_text.py --labels 100 400 --seeds 5

Two sets that need no download: a synthetic bag of words (20 topics, 5,000 columns), and docstrings
of installed packages, where the class is the package (its own names are struck out).
"""

from __future__ import annotations

import argparse
import ast
import re
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss

from proxyprox.sklearn import ProxyLogisticRegression

PACKAGES = (
    "numpy", "scipy", "sklearn", "pandas", "matplotlib", "torch", "statsmodels", "hypothesis",
    "plotly", "sympy", "pip", "rich",
)  # fmt: skip
MOST = 1500
"""Docstrings of one package, at most."""


def synthetic(rows: int = 12_000, topics: int = 20, words: int = 5000) -> tuple[Any, np.ndarray]:
    """Return documents of 60 words on average, topics sharing a common, Zipf-like background."""
    rng = np.random.default_rng(0)
    common = 1 / np.arange(3, words + 3)
    common /= common.sum()
    own = common * rng.gamma(0.15, 1 / 0.15, size=(topics, words))
    own = 0.7 * common + 0.3 * own / own.sum(axis=1, keepdims=True)
    y = rng.integers(topics, size=rows)
    lengths = 20 + rng.poisson(40, size=rows)
    parts = [
        scipy.sparse.csr_array(rng.multinomial(length, own[c])[None, :])
        for c, length in zip(y, lengths, strict=True)
    ]
    return TfidfTransformer(sublinear_tf=True).fit_transform(scipy.sparse.vstack(parts)), y


def docstrings() -> tuple[Any, np.ndarray]:
    """Return the docstrings of installed packages and the number of the package."""
    texts, classes = [], []
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            continue
        found = _docstrings(Path(next(iter(spec.submodule_search_locations))))
        if len(found) < 300:
            continue
        order = np.random.default_rng(0).permutation(len(found))[:MOST]
        texts += [found[i] for i in order]
        classes += [package] * len(order)
    own = re.compile("|".join([*PACKAGES, r"\bnp\b", r"\bpd\b", r"\bplt\b"]), re.IGNORECASE)
    texts = [own.sub(" ", text) for text in texts]
    X = TfidfVectorizer(max_features=5000, sublinear_tf=True).fit_transform(texts)
    return X, np.unique(classes, return_inverse=True)[1]


def _docstrings(folder: Path) -> list[str]:
    found = set()
    for path in sorted(folder.rglob("*.py")):
        if "tests" in path.parts:
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node)
                if text and len(text) > 150:
                    found.add(text)
    return sorted(found)


def contest(X: Any, y: np.ndarray, labels: int, seed: int) -> dict[str, tuple[float, float]]:
    """Return test log-loss and seconds of each method."""
    order = np.random.default_rng(seed).permutation(len(y))
    test, pool = order[: len(y) // 3], order[len(y) // 3 :]
    # Every class at least twice, or the yardstick cannot cross-validate.
    first = np.concatenate([pool[y[pool] == c][:2] for c in np.unique(y)])
    pool = np.concatenate([first, pool[~np.isin(pool, first)]])
    bought, rest = pool[:labels], pool[labels:]
    folds = int(min(5, np.bincount(y[bought]).min()))
    fits: dict[str, Callable[[], Any]] = {
        "ProxyLogisticRegression": lambda: ProxyLogisticRegression().fit(
            X[bought], y[bought], X_proxy=X[rest]
        ),
        "LogisticRegressionCV, by log-loss": lambda: LogisticRegressionCV(
            cv=folds, scoring="neg_log_loss", max_iter=1000
        ).fit(X[bought], y[bought]),
        "LogisticRegressionCV": lambda: LogisticRegressionCV(cv=folds, max_iter=1000).fit(
            X[bought], y[bought]
        ),
    }
    found = {}
    for name, fit in fits.items():
        begun = time.process_time()
        model = fit()
        seconds = time.process_time() - begun
        found[name] = (log_loss(y[test], model.predict_proba(X[test])), seconds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", nargs="+", type=int, default=[100, 400, 1600])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=["synthetic", "docstrings"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for title in arguments.sets:
        X, y = {"synthetic": synthetic, "docstrings": docstrings}[title]()
        print(f"{title}: {X.shape[0]:,} × {X.shape[1]:,}, {len(np.unique(y))} classes", flush=True)
        for labels in arguments.labels:
            runs = [contest(X, y, labels, seed) for seed in range(arguments.seeds)]
            for name in runs[0]:
                loss, seconds = np.mean([run[name] for run in runs], axis=0)
                print(f"  {labels:5} labels  {name:36} {loss:.4f}  {seconds:6.2f} s", flush=True)


if __name__ == "__main__":
    main()
