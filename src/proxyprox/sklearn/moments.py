"""Rows of a table, their second moments, and the label-free proxy made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from proxyprox.problems.families import Family, Linear, Poisson
from proxyprox.problems.glm import GLM, Design, as_targets

Array = Any


def predictors(design: Design, family: Family, w: Array) -> Array:
    """Return the linear predictors of each row, shape (n, C)."""
    z = np.asarray(design.predict(w.reshape(design.width, family.outputs)))
    return z.reshape(design.rows, family.outputs)


def means(design: Design, family: Family, w: Array) -> Array:
    """Return ``A'(z)`` of each row, shape (n, C)."""
    z = predictors(design, family, w)
    if family.outputs > 1:
        return np.asarray(family.mean(z))
    return np.asarray(family.mean(z[:, 0]))[:, None]


def targets_of(loss: GLM) -> Array:
    """Return the labels in the shape of the means, (n, C)."""
    labels: Array = loss.targets
    targets = np.asarray(as_targets(loss.design, loss.family, labels), dtype=np.float64)
    return targets.reshape(loss.design.rows, loss.family.outputs)


def row_losses(loss: GLM, w: Array) -> Array:
    """Return the loss of each row."""
    z, targets = predictors(loss.design, loss.family, w), targets_of(loss)
    if loss.family.outputs == 1:
        z, targets = z[:, 0], targets[:, 0]
    with np.errstate(over="ignore"):
        return np.asarray(loss.family.loss(z, targets))


def slopes(design: Design, family: Family, w: Array, targets: Array) -> Array:
    """Return the derivative of each row's loss in its linear predictors, shape (n, C)."""
    z = predictors(design, family, w)
    if family.outputs > 1:
        return np.asarray(family.slope(z, targets))
    return np.asarray(family.slope(z[:, 0], targets[:, 0]))[:, None]


def row_gradients(design: Design, residuals: Array) -> Array:
    """Return ``x_i ⊗ r_i`` of each row as a dense (n, d · C) matrix."""
    X = dense_rows(design)
    return (X[:, :, None] * residuals[:, None, :]).reshape(design.rows, -1)


def dense_rows(design: Design) -> Array:
    """Return the rows as a dense (n, d) matrix, with the constant if there is one."""
    X = design.X.toarray() if design.sparse else np.asarray(design.X, dtype=np.float64)
    return np.hstack([X, np.ones((design.rows, 1))]) if design.intercept else X


def centred(w: Array, outputs: int) -> Array:
    """Return softmax parameters whose classes sum to zero; a shift of all changes no prediction."""
    if outputs == 1:
        return w
    matrix = w.reshape(-1, outputs)
    return (matrix - matrix.mean(axis=1, keepdims=True)).ravel()


EXACT_WIDTH = 1500
"""Columns up to which the moment is kept and decomposed exactly."""

NARROW = 256
"""Columns up to which one thread forms the moment as fast as several."""

RANK = 96
"""Directions kept of a wider moment."""

BLOCK = 1 << 22
"""Entries of the dense blocks that wide products go through (32 MiB)."""


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


class LabelFree:
    r"""``½⟨W − W_0, M (W − W_0) S⟩``: the label-free loss to second order at ``W_0``.

    At the intercept-only fit every row has the same curvature ``S = A''(z_0)``, a C × C matrix, so
    that the Hessian of the label-free loss on all inputs is ``M ⊗ S`` with the inputs' second
    moment ``M``. Its labels cancel in every method, so nothing else of the proxy matters. One
    eigendecomposition of M serves all classes, folds, step sizes and strengths.

    Parameters
    ----------
    moment : Moment
        M, factorised.
    family : Family
        The exponential family.
    w0 : array of shape (d · C,)
        The intercept-only fit.
    base : array of shape (C,)
        ``A'(z_0)`` there: the class frequencies, or the mean.
    """

    def __init__(self, moment: Moment, family: Family, w0: Array, base: Array) -> None:
        self.moment = moment
        self.w0 = w0
        self.dim = int(w0.shape[0])
        self._shape = (-1, family.outputs)
        self._spread, self._turn = np.linalg.eigh(curvature(family, base))
        self._spread = np.maximum(self._spread, 0.0)
        self.smoothness = moment.top * float(self._spread.max())
        self.strong_convexity = 0.0

    def value(self, w: Array) -> float:
        """Return the quadratic."""
        away = w - self.w0
        return float(away @ self.hvp(w, away)) / 2

    def gradient(self, w: Array) -> Array:
        """Return its gradient."""
        return self.hvp(w, w - self.w0)

    def hvp(self, w: Array, v: Array) -> Array:
        """Return its Hessian times v."""
        turned = v.reshape(self._shape) @ self._turn
        return (((self.moment @ turned) * self._spread) @ self._turn.T).ravel()

    def solve_shifted(self, v: Array, eta: float) -> Array:
        """Return ``(H + I/η)⁻¹ v`` exactly."""
        pull, M = 1 / eta, self.moment
        turned = v.reshape(self._shape) @ self._turn
        inside = M.vectors.T @ turned
        solved = M.vectors @ (inside / (M.values[:, None] * self._spread + pull))
        if M.rest:
            outside = turned - M.vectors @ inside
            solved += outside / (M.rest * self._spread + pull)
        return (solved @ self._turn.T).ravel()


def curvature(family: Family, base: Array) -> Array:
    """Return the expected curvature where the mean is ``base``, as a C × C matrix."""
    base = np.atleast_1d(base)
    if family.outputs > 1:
        return np.diag(base) - np.outer(base, base)
    return np.array([[family.expected_curvature(family.link(base))[0]]])


def base_rate(loss: GLM, unit: float = 1.0) -> Array:
    """Return the labels' mean: class frequencies with half a label added to each, or the mean.

    Parameters
    ----------
    loss : GLM
        The labelled rows.
    unit : float
        Mean weight of the rows: a row of weight two counts as two labels.
    """
    family, weights = loss.family, unit * loss.sample_weight
    labels: Array = loss.targets
    targets = np.asarray(as_targets(loss.design, family, labels), dtype=np.float64)
    return np.atleast_1d(family.base_rate(targets, weights))


def intercept_only(loss: GLM, base: Array) -> Array:
    """Return the parameters of the constant model; zeros where there is no intercept."""
    w = np.zeros((loss.design.width, loss.family.outputs))
    if loss.design.intercept:
        w[-1] = loss.family.link(base)
    return w.ravel()


def label_free(loss: GLM, moment: Moment, unit: float = 1.0) -> LabelFree:
    """Return the proxy for a labelled loss: its curvature from the labels' mean, M from inputs."""
    base = base_rate(loss, unit)
    w0 = intercept_only(loss, base)
    if not loss.design.intercept and not isinstance(loss.family, Linear):
        # The constant model is w = 0 then; of counts the larger curvature is the safe one.
        base = np.maximum(base, 1.0) if isinstance(loss.family, Poisson) else _neutral(loss)
    return LabelFree(moment, loss.family, w0, base)


def _neutral(loss: GLM) -> Array:
    return np.full(loss.family.outputs, loss.family.neutral)
