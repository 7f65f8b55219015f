"""Both losses plus ``μ/2 ‖w − w_0‖²``: how the convex theorem buys strong convexity."""

from __future__ import annotations

import math
from typing import Any

from proxyprox._arrays import Matrix, Vector, add_to_diagonal
from proxyprox._checks import has, nonnegative
from proxyprox._checks import vector as checked_vector
from proxyprox._isolation import isolated
from proxyprox.problems._fingerprint import combined
from proxyprox.problems.base import Batch
from proxyprox.problems.problem import Problem


class Regularized:
    """``f(w) + μ/2 ‖w − w_0‖²`` with every capability of ``f`` that survives it."""

    def __init__(self, loss: Any, mu: float, centre: Vector) -> None:
        self.loss = loss
        self._loss = isolated(loss)
        self.mu = nonnegative("mu", mu)
        self.centre = checked_vector("centre", centre, getattr(loss, "dim", None))
        self.dim = int(self.centre.shape[0])
        self.repeatable = getattr(loss, "repeatable", True)
        for name in ("sample", "everything", "samples", "halves", "cost", "epsilon"):
            setattr(self, name, getattr(loss, name, None))
        self.value = self._value if has(loss, "value") else None
        self.hvp = self._hvp if has(loss, "hvp") else None
        self.hessian = self._hessian if has(loss, "hessian") else None
        self.solve_shifted = self._solve_shifted if has(loss, "solve_shifted") else None
        self.gradient_from = self._gradient_from if has(loss, "gradient_from") else None
        if hasattr(loss, "zeros"):
            self.zeros = loss.zeros
        known = getattr(loss, "smoothness", None)
        self.smoothness = None if known is None else known + self.mu
        self.strong_convexity = (getattr(loss, "strong_convexity", None) or 0.0) + self.mu

    def gradient(self, w: Vector, *batch: Batch) -> Vector:
        """Return the gradient, or its estimate from a batch."""
        return self._loss.gradient(w, *batch) + self.mu * (w - self.centre)

    def fingerprint(self) -> str | None:
        """Return a text that only equal losses share, or None if a part has none."""
        return combined("Regularized", [self.loss], self.mu, self.centre)

    def _value(self, w: Vector) -> float:
        away = w - self.centre
        return float(self._loss.value(w)) + self.mu / 2 * float(away @ away)

    def _hvp(self, w: Vector, v: Vector) -> Vector:
        return self._loss.hvp(w, v) + self.mu * v

    def _hessian(self, w: Vector) -> Matrix:
        return add_to_diagonal(self._loss.hessian(w), self.mu)

    def _solve_shifted(self, v: Vector, eta: float) -> Vector:
        # (P + μI + I/η)⁻¹ is the unregularised closed form at a smaller η.
        shift = self.mu + 1 / eta
        return self._loss.solve_shifted(v, 1 / shift if shift else math.inf)

    def _gradient_from(self, w: Vector, batch: Batch, observations: Any) -> Vector:
        return self._loss.gradient_from(w, batch, observations) + self.mu * (w - self.centre)


def regularized(problem: Problem, mu: float, centre: Vector) -> Problem:
    """Return the problem with ``μ/2 ‖w − centre‖²`` added to objective and proxy alike.

    The difference of the two losses, and so δ, is untouched; both become μ-strongly convex. The
    convex theorem takes ``μ = 1/(ηK)`` and ``centre = w_0``.

    Parameters
    ----------
    problem : Problem
        The problem to regularise.
    mu : float
        Strength, zero or more.
    centre : array
        The point to stay close to.

    Returns
    -------
    Problem
        The regularised problem, with the same penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, Quadratic
    >>> flat = Problem(Quadratic(np.diag([1.0, 0.0])))
    >>> regularized(flat, mu=0.5, centre=np.zeros(2)).objective.strong_convexity
    0.5
    """
    return Problem(
        Regularized(problem.objective, mu, centre),
        Regularized(problem.proxy, mu, centre),
        problem.penalty,
    )
