"""The paper's correction: the newest difference, nothing remembered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from proxyprox._arrays import Vector


@dataclass(frozen=True)
class Plain:
    """``m = g_k − ∇L̂(w_k)``, unbiased, with all of the batch's noise."""

    two_points: ClassVar[bool] = False

    def __call__(
        self, difference: Vector, before: Vector | None, estimate: Vector | None, k: int
    ) -> Vector:
        """Return the newest difference."""
        return difference
