"""The running mean of all differences: no parameter, and no noise floor at δ = 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from proxyprox._arrays import Vector


@dataclass(frozen=True)
class Mean:
    """``m ← m + (g_k − ∇L̂(w_k) − m)/(k + 1)``.

    Right when ∇h does not move with w (δ = 0); for δ > 0 old differences go stale.
    """

    two_points: ClassVar[bool] = False

    def __call__(
        self, difference: Vector, before: Vector | None, estimate: Vector | None, k: int
    ) -> Vector:
        """Return the mean of the differences so far."""
        return difference if estimate is None else estimate + (difference - estimate) / (k + 1)
