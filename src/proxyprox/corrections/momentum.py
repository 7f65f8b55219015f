"""An exponential moving average of the differences: less noise, some lag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from proxyprox._arrays import Vector
from proxyprox._checks import fraction


@dataclass(frozen=True)
class EMA:
    """``m ← (1 − a) m + a (g_k − ∇L̂(w_k))``.

    It averages the *difference*, never ``g`` alone: for a good proxy the difference barely moves
    with w, so that averaging removes noise without adding lag.

    Parameters
    ----------
    a : float
        Weight of the newest difference, in (0, 1]; 1 is :class:`Plain`.

    References
    ----------
    Chayti and Karimireddy, "Optimization with access to auxiliary information" (AuxMom).
    """

    a: float = 0.1
    two_points: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the weight."""
        fraction("a", self.a)

    def __call__(
        self, difference: Vector, before: Vector | None, estimate: Vector | None, k: int
    ) -> Vector:
        """Return the moving average."""
        return difference if estimate is None else estimate + self.a * (difference - estimate)
