"""The inputs' second moment, factorised once: all that the unlabelled rows are needed for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from proxyprox.problems.design import Design

EXACT_WIDTH = 1500
"""Columns up to which the moment is kept and decomposed exactly."""

NARROW = 256
"""Columns up to which one thread forms the moment as fast as several."""

RANK = 96
"""Directions kept of a wider moment."""

BLOCK = 1 << 22
"""Entries of the dense blocks that wide products go through (32 MiB)."""

Array = Any


@dataclass(frozen=True)
class Moment:
    """``Σ s_i x_i x_iᵀ / Σ s_i`` as ``V diag(values) Vᵀ + rest (I − V Vᵀ)``.

    Attributes
    ----------
    vectors : array of shape (d, k)
        Orthonormal directions, k = d for narrow data.
    values : array of shape (k,)
        The moment along them, zero or more.
    rest : float
        The moment ascribed to every other direction; zero when k = d.
    weight : float
        Σ s_i, how much the moment counts when it is merged with another.
    """

    vectors: Array
    values: Array
    rest: float
    weight: float

    def __matmul__(self, matrix: Array) -> Array:
        """Return the moment times a matrix of shape (d, c)."""
        inside = self.vectors.T @ matrix
        product = self.vectors @ (self.values[:, None] * inside)
        if self.rest:
            product += self.rest * (matrix - self.vectors @ inside)
        return product

    @property
    def top(self) -> float:
        """The largest eigenvalue."""
        return float(self.values.max(initial=self.rest))


def moment_of(design: Design, weights: Array | None = None) -> Moment:
    """Return the second moment of a design's rows, factorised.

    Parameters
    ----------
    design : Design
        The inputs, with the constant column if there is an intercept.
    weights : array, optional
        Weights ≥ 0 of the rows; zero leaves a row out without a copy of the others.
    """
    weights = np.ones(design.rows) if weights is None else np.asarray(weights, dtype=np.float64)
    total = float(weights.sum())
    if design.width <= EXACT_WIDTH:
        # Blocks of narrow rows fit the cache; between threads they would be mostly waiting.
        threads = 1 if design.width <= NARROW else None
        with threadpool_limits(threads, user_api="blas"):
            gram = np.asarray(design.gram(weights / total), dtype=np.float64)
            return factorised(gram, total)
    return _leading(lambda block: _product(design, weights / total, block), design.width, total)


def mixture(first: Moment, second: Moment, share: float) -> Moment:
    """Return ``share · first + (1 − share) · second``, factorised; the weights add up."""
    width, weight = first.vectors.shape[0], first.weight + second.weight
    if share in (0.0, 1.0):
        kept = first if share else second
        return Moment(kept.vectors, kept.values, kept.rest, weight)

    def product(block: Array) -> Array:
        return share * (first @ block) + (1 - share) * (second @ block)

    if width <= EXACT_WIDTH:
        return factorised(product(np.eye(width)), weight)
    return _leading(product, width, weight)


def pooled(first: Moment, second: Moment) -> Moment:
    """Return the moment of both sets of rows together."""
    return mixture(first, second, first.weight / (first.weight + second.weight))


def factorised(matrix: Array, weight: float) -> Moment:
    """Return a moment that is given as a matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return Moment(vectors, np.maximum(values, 0.0), 0.0, weight)


def _leading(product: Any, width: int, weight: float) -> Moment:
    """Find the leading directions by subspace iteration (Rayleigh–Ritz)."""
    # A fixed start: the same data always gives the same factor.
    block = np.random.default_rng(0).standard_normal((width, RANK))
    for _ in range(4):
        block = np.linalg.qr(product(block))[0]
    values, inner = np.linalg.eigh(block.T @ product(block))
    values = np.maximum(values, 0.0)
    # What is left lies below the smallest value kept; that value is the safe guess for all of it.
    return Moment(block @ inner, values, float(values.min()), weight)


def _product(design: Design, weights: Array, block: Array) -> Array:
    step = max(1, BLOCK // block.shape[1])
    total = np.zeros((design.width, block.shape[1]))
    for start in range(0, design.rows, step):
        rows = slice(start, start + step)
        if not weights[rows].any():
            continue
        part = design.take(rows)
        total += part.pull(weights[rows, None] * part.predict(block))
    return total
