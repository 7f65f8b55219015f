"""``ProxyLogisticRegression`` on text, against ``LogisticRegressionCV``: time and memory."""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.linear_model import LogisticRegressionCV

from _measure import Row
from proxyprox.sklearn import ProxyLogisticRegression


def text(rows: int, columns: int, words: int, rng: np.random.Generator) -> Any:
    """Return rows of unit length whose words follow Zipf's law."""
    share = 1 / np.arange(1, columns + 1)
    indices = rng.choice(columns, size=(rows, words), p=share / share.sum())
    idf = np.log(columns / (1 + np.arange(columns))) + 1
    pointers = np.arange(0, rows * words + 1, words)
    X = scipy.sparse.csr_matrix(
        (idf[indices].ravel(), indices.ravel(), pointers), shape=(rows, columns)
    )
    X.sum_duplicates()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return scipy.sparse.csr_matrix(scipy.sparse.diags(1 / norms) @ X)


def problem() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = text(9_000, 20_000, 80, rng)
    z = 8 * X @ rng.standard_normal(20_000)
    z -= z.mean()
    y = (rng.random(9_000) < 1 / (1 + np.exp(-z))).astype(int)
    return X[:1000], y[:1000], X[1000:]


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rows() -> list[Row]:
    X, y, X_proxy = problem()
    times = []
    LogisticRegressionCV(max_iter=1000).fit(X[:100], y[:100])
    ProxyLogisticRegression().fit(X[:100, :50], y[:100])
    before = peak()
    fits = (
        lambda: LogisticRegressionCV(max_iter=1000).fit(X, y),
        lambda: ProxyLogisticRegression().fit(X, y, X_proxy=X_proxy),
    )
    for fit in fits:
        begun = time.process_time()
        fit()
        times.append(time.process_time() - begun)
    theirs, ours = times
    extra = peak() - before
    name = "text, 1000 labels × 20,000"
    return [
        Row(f"{name}: fit / LogisticRegressionCV", ours, theirs, ours / theirs, 4.0, ""),
        Row(f"{name}: MiB above the data", extra, 300.0, extra / 300, 1.0, ""),
    ]


if __name__ == "__main__":
    for row in rows():
        print(row)
