"""The elastic net: an L1 norm and a squared L2 norm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from proxyprox._arrays import Vector, namespace
from proxyprox._checks import message
from proxyprox.penalties._strength import checked_strength, strength_like
from proxyprox.penalties.l1 import L1


@dataclass(frozen=True, eq=False)
class ElasticNet:
    """``ψ(w) = Σ alpha_j (l1_ratio |w_j| + (1 − l1_ratio)/2 w_j²)``.

    Parameters
    ----------
    alpha : float or array of shape (d,)
        Strength ≥ 0, of each coordinate if an array.
    l1_ratio : float
        Share of the L1 norm, in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> ElasticNet(2.0, l1_ratio=0.5).value(np.array([1.0, -2.0]))
    5.5
    """

    alpha: Any
    l1_ratio: float = 0.5
    _l1: L1 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check both numbers and set the L1 part aside."""
        alpha = checked_strength("alpha", self.alpha)
        if not isinstance(self.l1_ratio, (int, float)) or not 0 <= self.l1_ratio <= 1:
            raise ValueError(message("l1_ratio", self.l1_ratio, "a number in [0, 1]"))
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "_l1", L1(alpha * self.l1_ratio))

    def _ridge(self, w: Vector) -> Any:
        return strength_like(self.alpha, w) * (1 - self.l1_ratio)

    def value(self, w: Vector) -> float:
        """Return ψ(w)."""
        return self._l1.value(w) + float(namespace(w).sum(self._ridge(w) * w * w)) / 2

    def prox(self, w: Vector, step: float) -> Vector:
        """Return the L1 shrinkage, scaled down by the quadratic part."""
        return self._l1.prox(w, step) / (1 + step * self._ridge(w))

    def distance(self, w: Vector, gradient: Vector) -> float:
        """Return the distance from 0 to ``gradient + ∂ψ(w)``."""
        return self._l1.distance(w, gradient + self._ridge(w) * w)
