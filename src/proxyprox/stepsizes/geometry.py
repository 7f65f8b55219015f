"""How much of the noise reaches the iterate: ProxyProx's own geometry."""

from __future__ import annotations

import math

from proxyprox._arrays import Vector, dot
from proxyprox.stepsizes.base import Memory

RECENT = 0.25
"""Weight of the newest measurement, once there are four."""

LEAST = 1e-12

PER_OCTAVE = 4
"""Measurements are made four times while the number of steps doubles: it changes slowly."""


def due(k: int) -> bool:
    """Tell whether the damping should be measured at step k."""
    return k > 0 and math.floor(PER_OCTAVE * math.log2(k + 1)) > PER_OCTAVE * math.log2(k)


def horizon(memory: Memory) -> float:
    """Return over how much time (the sum of step sizes) noise adds up in one direction.

    That is all the time so far, unless ∇h has drifted since: then it is about 1/δ.
    """
    rate, eta = float(memory["rate"]), float(memory["eta"])
    return max(eta, min(float(memory["time"]), 1 / rate if rate > 0 else math.inf))


def with_damping(memory: Memory, shift: Vector, gap: Vector, eta: float) -> Memory:
    r"""Update the share r of the noise that counts, from a step that was shaken on purpose.

    .. math:: r = \frac{\langle u, w^+(0) - w^+(u)\rangle}{\eta\,\|u\|^2} \in [0, 1]

    ``w⁺(u)`` solves the subproblem with u, a sample of the noise, added to its linear term; here
    ``shift = w⁺(u) − w⁺(0)``. Since the subproblem is 1/η-strongly convex, r is at most 1 (and is
    1 without a proxy); for a quadratic proxy ``r = uᵀ(I + ηP)⁻¹u/‖u‖²``: the noise in directions
    where the proxy is steep hardly moves the iterate.

    This is the term by which noise enters the paper's proof. With ``g = ∇L(w) + ξ``, a minimiser
    w* and the noiseless step w̃, ``E⟨ξ, w* − w⁺⟩ = E⟨ξ, w̃ − w⁺⟩ = η E[r‖ξ‖²]``, which the proof
    bounds by ησ². Its bound therefore holds with ``r σ²`` in the place of σ² for the η of the step.
    The rule measures r for a longer step, the :func:`horizon`: k steps of size η regularise like
    one of size kη. That part is a heuristic.
    """
    size = eta * dot(gap, gap)
    if not size > 0:
        return memory
    share = min(1.0, max(LEAST, -dot(gap, shift) / size))
    count = memory["shaken"]
    weight = max(RECENT, 1 / (count + 1))
    damping = memory["damping"] + weight * (share - memory["damping"])
    return {**memory, "damping": damping, "shaken": count + 1}
