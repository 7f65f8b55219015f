"""STORM: a moving average that is corrected for the step just taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from proxyprox._arrays import Vector
from proxyprox._checks import fraction


@dataclass(frozen=True)
class Storm:
    """``m ← d_k + (1 − a)(m − d'_{k−1})``, both differences on the *same* batch.

    With ``d_k = g(w_k; ξ) − ∇L̂(w_k)`` and ``d'_{k−1} = g(w_{k−1}; ξ) − ∇L̂(w_{k−1})`` this is
    ``(1 − a) m + a d_k + (1 − a)(d_k − d'_{k−1})``: momentum without its lag, for two target
    gradients a step.

    Parameters
    ----------
    a : float
        Weight of the newest difference, in (0, 1].

    References
    ----------
    Cutkosky and Orabona, "Momentum-based variance reduction in non-convex SGD"; Chayti and
    Karimireddy, "Optimization with access to auxiliary information" (AuxMVR).
    """

    a: float = 0.1
    two_points: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the weight."""
        fraction("a", self.a)

    def __call__(
        self, difference: Vector, before: Vector | None, estimate: Vector | None, k: int
    ) -> Vector:
        """Return the corrected moving average."""
        if estimate is None or before is None:
            return difference
        return difference + (1 - self.a) * (estimate - before)
