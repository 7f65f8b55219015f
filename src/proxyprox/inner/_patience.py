"""When first-order steps have come to the end of what floating point can give."""

from __future__ import annotations

import math


class Patience:
    """Counts steps without a new smallest residual.

    On a smooth convex function the gradient of each step of descent is shorter than the last, so
    many steps without a new minimum mean that only rounding moves it (or that the step size
    diverges). A rule that asks for more than rounding allows would otherwise never be met.

    Parameters
    ----------
    steps : int
        Steps to bear.
    """

    def __init__(self, steps: int) -> None:
        self._allowed, self._waited, self._best = steps, 0, math.inf

    def lost(self, residual: float) -> bool:
        """Take note of a residual and tell whether to give up."""
        self._waited = 0 if residual < self._best else self._waited + 1
        self._best = min(self._best, residual)
        return self._waited >= self._allowed
