"""What a step-size rule is shown at every outer step, and what it remembers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from proxyprox._util.arrays import Vector, dot, norm

Memory = dict[str, Any]
"""Numbers and arrays by name: all that a rule knows, so that a saved run goes on bit for bit."""


@dataclass(frozen=True)
class Signals:
    """One outer step as a rule sees it, before the step is taken.

    Attributes
    ----------
    k : int
        Number of earlier steps.
    w : array
        The iterate.
    gradient : array
        ``g_k``, the batch's gradient there.
    difference : array
        ``g_k − ∇L̂(w_k)``.
    noise : float or None
        An estimate of ``E‖g_k − ∇L(w_k)‖²`` from this batch alone; 0 for an exact gradient, None
        if the objective cannot say.
    gap : array or None
        A vector that is distributed like the noise of ``g_k``, or like a multiple of it.
    step : array or None
        ``w_k − w_{k−1}``, if the rule asked for a secant.
    before : array or None
        ``g − ∇L̂`` at ``w_{k−1}`` on the same batch as ``difference``.
    anchor_change : array or None
        ``∇L̂(w_k) − ∇L̂(w_{k−1})``.
    smoothness : float or None
        H of the proxy, where it knows one.
    """

    k: int
    w: Vector
    gradient: Vector
    difference: Vector
    noise: float | None
    gap: Vector | None = None
    step: Vector | None = None
    before: Vector | None = None
    anchor_change: Vector | None = None
    smoothness: float | None = None

    def curvature(self, change: Vector) -> float:
        """Return ``⟨change, step⟩ / ‖step‖²``; 0 where nothing moved."""
        if self.step is None:
            return 0.0
        squared = dot(self.step, self.step)
        if 0 < squared < math.inf:
            return dot(change, self.step) / squared
        length = norm(self.step)
        return dot(change, self.step / length) / length if length > 0 else 0.0
