"""When first-order steps have come to the end of what floating point can give."""

from __future__ import annotations

import math

from proxyprox._arrays import Vector, norm
from proxyprox._subproblem import Subproblem

EPSILON = 2.0**-52
FEW_DIGITS = 1e4


class Patience:
    """Counts steps without a new smallest residual.

    On a smooth convex function the gradient of each step of descent is shorter than the last, so
    many steps without a new minimum mean that only rounding moves it (or that the step size
    diverges). A rule that asks for more than rounding allows would otherwise never be met.

    Parameters
    ----------
    steps : int
        Steps to bear; a tenth of them where the residual is next to rounding anyway.
    rounding : float
        A residual that is next to rounding, see :func:`next_to_rounding`.
    """

    def __init__(self, steps: int, rounding: float = 0.0) -> None:
        self._allowed, self._waited, self._best = steps, 0, math.inf
        self._rounding = rounding

    def lost(self, residual: float) -> bool:
        """Take note of a residual and tell whether to give up."""
        self._waited = 0 if residual < self._best else self._waited + 1
        self._best = min(self._best, residual)
        near = self._best <= self._rounding
        return self._waited >= (self._allowed // 10 if near else self._allowed)


def next_to_rounding(phi: Subproblem, w: Vector, smoothness: float) -> float:
    """Return a residual that is within a few digits of what the terms of ∇φ cancel to.

    At a minimiser of the target ∇L̂ and m are each other's negative: what is left of them is
    rounding, of the size of m's and of that which w's own causes.
    """
    return FEW_DIGITS * EPSILON * (norm(phi.linear) + smoothness * norm(w))
