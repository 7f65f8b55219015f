"""Problems whose rows share few columns, or whose means span three decades, in small batches.

The constants of the rule were fixed on the tables of the first half; the second half has other
seeds, sizes and, for a9a and mushrooms, other data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

import proxyprox as pp
from auto_cases import FIXED, REPORTED, Cell, Table
from experiments import datasets

L2 = 1e-4


def one_hot(seed: int, rows: int, levels: int, intercept: bool) -> Table:
    """Return logistic regression on three columns of levels whose frequencies fall like 1/rank."""
    rng = np.random.default_rng(seed)
    rates = 1 / np.arange(1, levels + 1)
    columns = rng.choice(levels, p=rates / rates.sum(), size=(rows, 3)) + levels * np.arange(3)
    return _logistic(_indicators(columns, 3 * levels), rng, 1.0, -0.5, intercept)


def zipf(seed: int, rows: int, columns: int, shift: float, intercept: bool) -> Table:
    """Return logistic regression on binary columns, the j-th present in a share of 1/j."""
    rng = np.random.default_rng(seed)
    shares = np.minimum(0.5, 2 / np.arange(1, columns + 1))
    X = scipy.sparse.csr_matrix((rng.random((rows, columns)) < shares).astype(float))
    return _logistic(X, rng, 0.7, shift, intercept)


def words(seed: int, rows: int, columns: int, length: int, intercept: bool) -> Table:
    """Return logistic regression on counts of words, documents of any length."""
    rng = np.random.default_rng(seed)
    rates = 1 / (3 + np.arange(columns))
    counts = rng.multinomial(1 + rng.poisson(length, size=rows), rates / rates.sum())
    return _logistic(scipy.sparse.csr_matrix(counts, dtype=float), rng, 0.5, 0.0, intercept)


def wide_poisson(seed: int, rows: int, columns: int, least: float, one_hot: bool) -> Table:
    """Return Poisson regression whose means go from ``least`` to a thousand times that."""
    X, means, rng = _wide(seed, rows, columns, least, one_hot)
    y = rng.poisson(means)
    scales = {"eta_scale": 4.0**-2 if one_hot else 4.0**-3, "sgd_scale": 0.05}
    return Table(X, y, pp.poisson_regression, {"intercept": True, "l2": L2}, **scales)


def wide_gamma(seed: int, rows: int, columns: int, least: float, one_hot: bool) -> Table:
    """Return Gamma regression whose means go from ``least`` to a thousand times that."""
    X, means, rng = _wide(seed, rows, columns, least, one_hot)
    y = rng.gamma(2.0, means / 2.0) + 1e-6 * least
    scale = 16.0 if one_hot else 1.0
    options = {"intercept": True, "l2": L2}
    return Table(X, y, pp.gamma_regression, options, eta_scale=scale)


def known(name: str, rows: int, intercept: bool) -> Table:
    """Return logistic regression on some rows of a table of the paper."""
    data = datasets.load(name)
    picked = np.random.default_rng(0).choice(data.X.shape[0], rows, replace=False)
    options = {"l2": L2, "intercept": intercept}
    return Table(data.X[picked], data.y[picked], pp.logistic_regression, options)


def _indicators(columns: Any, width: int) -> Any:
    rows, picked = columns.shape
    where = np.repeat(np.arange(rows), picked), columns.ravel()
    return scipy.sparse.csr_matrix((np.ones(columns.size), where), shape=(rows, width))


def _logistic(X: Any, rng: Any, strength: float, shift: float, intercept: bool) -> Table:
    rows, columns = X.shape
    y = X @ (strength * rng.normal(size=columns)) + shift + rng.logistic(size=rows) > 0
    return Table(X, y, pp.logistic_regression, {"l2": L2, "intercept": intercept})


def _wide(seed: int, rows: int, columns: int, least: float, one_hot: bool) -> Any:
    """Return inputs, means over three decades and the generator."""
    rng = np.random.default_rng(seed)
    if one_hot:
        levels = rng.integers(columns // 3, size=(rows, 3)) + columns // 3 * np.arange(3)
        X = _indicators(levels, columns)
    else:
        X = rng.normal(size=(rows, columns)) / np.sqrt(columns)
    log = X @ rng.normal(size=columns)
    low, high = np.quantile(log, [0.01, 0.99])
    means = least * 1000 ** np.clip((log - low) / (high - low), 0, 1)
    return X, means, rng


class Make:
    """A table by its name, made once."""

    def __init__(self, name: str, maker: Callable[..., Table], *values: Any) -> None:
        self.__name__ = name
        self._table = cache(lambda: maker(*values))

    def __call__(self) -> Table:
        """Return the table."""
        return self._table()


ONE = [(1, "10%"), (2, "label-free"), (4, "10%"), (8, "label-free")]
OTHER = [(1, "label-free"), (2, "10%"), (4, "label-free"), (8, "10%")]
WIDE = [(1, "10%"), (2, "10%"), (4, "10%"), (8, "10%"), (1, "label-free")]


def tables(half: str) -> list[tuple[Make, list[tuple[int, str]]]]:
    """Return the tables of a half, each with its batches and proxies."""
    last = half == REPORTED
    seed, rows = (200, 3000) if last else (100, 2000)
    found = [
        (Make("one-hot 12", one_hot, seed, rows, 12, False), ONE),
        (Make("one-hot 20", one_hot, seed + 1, rows, 20, False), OTHER),
        (Make("one-hot 30", one_hot, seed + 2, rows, 30, False), ONE),
        (Make("one-hot 30 intercept", one_hot, seed + 3, rows, 30, True), OTHER),
        (Make("zipf 100", zipf, seed + 4, rows, 100, 0.0, False), OTHER),
        (Make("zipf 280 rare", zipf, seed + 5, rows, 280, -4.0, False), ONE),
        (Make("zipf 150 intercept", zipf, seed + 6, rows, 150, -1.0, True), ONE),
        (Make("words 290", words, seed + 7, rows, 290, 8, False), OTHER),
        (Make("words 800", words, seed + 8, rows, 800, 20, False), ONE[:2]),
        (Make("poisson wide", wide_poisson, seed + 9, rows, 15, 0.1, False), WIDE),
        (Make("poisson one-hot wide", wide_poisson, seed + 10, rows, 36, 0.03, True), ONE),
        (Make("gamma wide", wide_gamma, seed + 11, rows, 15, 0.1, False), WIDE),
        (Make("gamma one-hot wide", wide_gamma, seed + 12, rows, 36, 1.0, True), OTHER),
    ]
    if last:
        found += [
            (Make("a9a 5000", known, "a9a", 5000, False), ONE),
            (Make("mushrooms 4000", known, "mushrooms", 4000, False), OTHER),
        ]
    return found


@cache
def cells() -> list[Cell]:
    """Return every problem with a proxy."""
    return [
        Cell(half, make, *rest)
        for half in (FIXED, REPORTED)
        for make, kinds in tables(half)
        for rest in kinds
    ]
