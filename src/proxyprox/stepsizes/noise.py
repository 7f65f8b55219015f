"""The noise of the target's gradients, from whatever the objective can offer."""

from __future__ import annotations

from proxyprox._arrays import Vector, dot
from proxyprox.stepsizes.base import Memory, Signals

RECENT = 0.1
"""Weight of the newest batch in the noise level used for weighing gradients."""

POWER = 3
"""The level used for the step size is a mean with weights k³: recent batches count most."""


def with_noise(memory: Memory, signals: Signals, estimate: Vector | None) -> Memory:
    """Update both noise levels with this batch's."""
    newest, k = _measured(memory, signals, estimate), signals.k
    recent = newest if k == 0 else memory["noise"] + RECENT * (newest - memory["noise"])
    share = min(1.0, (1 + POWER) / (k + 1 + POWER))
    if k == 1 and signals.noise is None:
        # The first batch alone says nothing about its noise: take the second's for both.
        recent, share = newest, 1.0
    spread = memory["spread"] + share * (newest - memory["spread"])
    return {**memory, "noise": recent, "spread": spread}


def _measured(memory: Memory, signals: Signals, estimate: Vector | None) -> float:
    """Return an estimate of ``E‖g − ∇L‖²``.

    Best is what the objective says: two half batches give ``‖g₁ − g₂‖²/4`` without bias. Next,
    two batches at one point: a secant re-evaluates the newest at ``w_{k−1}``, where the difference
    of the batch before is remembered. Otherwise the surprise ``‖d_k − m‖²``, of which the share
    that the error of m explains is left out.
    """
    if signals.noise is not None:
        return signals.noise
    if signals.before is not None and "last" in memory:
        gap = signals.before - memory["last"]
        return dot(gap, gap) / 2
    if estimate is None:
        return 0.0
    gap = signals.difference - estimate
    level, error = memory["noise"], memory["error"]
    explained = max(level / (level + error), 0.5) if level + error > 0 else 0.5
    return dot(gap, gap) * explained
