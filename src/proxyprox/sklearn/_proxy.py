"""The label-free proxy around the intercept-only fit: a quadratic with one factorisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from proxyprox.problems.families import Family, Linear, Logistic, Poisson
from proxyprox.sklearn._moment import Moment

Array = Any


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
    """Return ``A''`` where ``A' = base``, as a C × C matrix."""
    base = np.atleast_1d(base)
    if family.outputs > 1:
        return np.diag(base) - np.outer(base, base)
    return np.array([[family.variance(family_link(family, base))[0]]])  # type: ignore[attr-defined]


def family_link(family: Family, mean: Array) -> Array:
    """Return z with ``A'(z) = mean``; for softmax the log-frequencies, centred."""
    if isinstance(family, Linear):
        return mean
    logs: Array = np.log(mean)
    if isinstance(family, Poisson):
        return logs
    if isinstance(family, Logistic):
        return logs - np.log1p(-mean)
    return logs - logs.mean()
