"""The L1 norm: sparse solutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proxyprox._arrays import Vector, namespace, norm
from proxyprox.penalties._strength import checked_strength, strength_like


@dataclass(frozen=True, eq=False)
class L1:
    """``ψ(w) = Σ alpha_j |w_j|``.

    Parameters
    ----------
    alpha : float or array of shape (d,)
        Strength ≥ 0; an array sets it for each coordinate, zero where nothing is penalised
        (an intercept, say).

    Examples
    --------
    >>> import numpy as np
    >>> L1(1.0).prox(np.array([3.0, -0.5]), step=1.0)
    array([ 2., -0.])
    """

    alpha: Any

    def __post_init__(self) -> None:
        """Check the strength."""
        object.__setattr__(self, "alpha", checked_strength("alpha", self.alpha))

    def value(self, w: Vector) -> float:
        """Return ψ(w)."""
        xp = namespace(w)
        return float(xp.sum(strength_like(self.alpha, w) * xp.abs(w)))

    def prox(self, w: Vector, step: float) -> Vector:
        """Return w shrunk towards zero by ``step · alpha``."""
        xp = namespace(w)
        shrunk = xp.abs(w) - step * strength_like(self.alpha, w)
        return xp.sign(w) * xp.where(shrunk > 0, shrunk, xp.zeros_like(w))

    def distance(self, w: Vector, gradient: Vector) -> float:
        """Return the distance from 0 to ``gradient + ∂ψ(w)``."""
        xp, alpha = namespace(w), strength_like(self.alpha, w)
        # At zero the subdifferential is the whole interval [−alpha, alpha].
        slack = xp.abs(gradient) - alpha
        at_zero = xp.where(slack > 0, slack, xp.zeros_like(slack))
        return norm(xp.where(w == 0, at_zero, gradient + alpha * xp.sign(w)))
