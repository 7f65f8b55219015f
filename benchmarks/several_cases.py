"""Targets with five proxies each: three parts of the rows, shuffled columns, other units."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

import proxyprox as pp
from experiments import datasets
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import MixedProxy

L2 = 1e-5
NAMES = ("low", "middle", "high", "shuffled", "old units")
GOOD, USELESS = NAMES[:3], NAMES[3:]


@cache
def table(name: str) -> tuple[Any, Any]:
    """Return the rows and labels of a real or generated table."""
    if name in ("a9a", "mushrooms"):
        data = datasets.load(name)
        return data.X, data.y
    if name == "sparse":
        rng = np.random.default_rng(3)
        rates = 0.5 / (1 + np.arange(120)) ** 0.6
        X = scipy.sparse.csr_matrix((rng.random((15_000, 120)) < rates).astype(float))
        score = X @ rng.normal(size=120)
        return X, score + rng.logistic(size=15_000) > np.median(score)
    rows, columns, seed, decay = {
        "generated": (12_000, 80, 1, 1.0), "generated, steep": (12_000, 60, 2, 2.0),
        "wide": (15_000, 150, 11, 0.7), "heavy": (10_000, 100, 12, 1.5),
    }[name]  # fmt: skip
    rng = np.random.default_rng(seed)
    scales = np.geomspace(1, 10**-decay, columns)
    mixing = rng.normal(size=(columns, columns)) / np.sqrt(columns)
    X = (rng.normal(size=(rows, columns)) @ (np.eye(columns) + mixing)) * scales
    if name == "heavy":
        X = np.sign(X) * np.abs(X) ** 1.5
    score = X @ (rng.normal(size=columns) / scales**0.5)
    y = score + rng.logistic(size=rows) * np.std(score) / 2 > 0
    return X, y


@cache
def target(name: str) -> tuple[Any, float]:
    """Return the loss on all rows and its least value."""
    loss = pp.logistic_regression(*table(name), l2=L2)
    least = minimise_exactly(loss, np.zeros(loss.dim), tol=1e-12)
    return loss, float(loss.value(least))


def five(name: str, seed: int, rows: int = 400) -> dict[str, Any]:
    """Return the proxies of a draw: thirds along a random direction, and two useless ones."""
    X, y = table(name)
    rng = np.random.default_rng([seed, 34])
    order = np.argsort(X @ rng.normal(size=X.shape[1]))
    parts = [rng.choice(third, rows, replace=False) for third in np.array_split(order, 3)]
    anywhere = [rng.choice(len(y), rows, replace=False) for _ in range(2)]
    mixed = X[anywhere[0]][:, rng.permutation(X.shape[1])]
    tables = [*(X[p] for p in parts), mixed, X[anywhere[1]] * 30]
    labels = [y[p] for p in (*parts, *anywhere)]
    losses = [
        pp.logistic_regression(
            scipy.sparse.csr_matrix(A) if scipy.sparse.issparse(A) else A, b, l2=L2
        )
        for A, b in zip(tables, labels, strict=True)
    ]
    return dict(zip(NAMES, losses, strict=True))


class Counted:
    """A target whose rounds are counted: values at the points asked about, one each."""

    def __init__(self, loss: Any, least: float, limit: int = 300) -> None:
        self.loss, self.least, self.limit, self.values = loss, least, limit, []

    def objective(self) -> Any:
        def both(w: Any) -> tuple[float, Any]:
            value, gradient = self.loss.value_and_gradient(w)
            self.values.append(value - self.least)
            return value, gradient

        return pp.FunctionObjective(
            lambda w: both(w)[1], value=self.loss.value, value_and_gradient=both
        )

    def rounds(self, level: float = 1e-6) -> int:
        """Return the rounds until the loss was within a level of the least; the limit if never."""
        within = np.flatnonzero(np.array(self.values) <= level)
        return int(within[0]) + 1 if len(within) else self.limit


def rounds_with(name: str, proxy: Any, level: float = 1e-6, **settings: Any) -> tuple[int, Any]:
    """Return the rounds of the library with some proxy, and its result."""
    counted = Counted(*target(name))
    problem = pp.Problem(counted.objective(), proxy) if proxy else pp.Problem(counted.objective())

    def done(step: Any) -> bool:
        return counted.values[-1] <= level

    result = pp.minimize(problem, np.zeros(target(name)[0].dim) if not proxy else None,
                         steps=counted.limit, callback=done, **settings)  # fmt: skip
    return counted.rounds(level), result


def mean_of(proxies: dict[str, Any], names: Any) -> Any:
    return MixedProxy([proxies[n] for n in names], [1 / len(names)] * len(names))
