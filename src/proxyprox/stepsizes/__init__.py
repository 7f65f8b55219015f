"""Step sizes that need neither δ nor σ nor the distance to the minimiser: ``eta="auto"``."""

from proxyprox.stepsizes.auto import (
    answer,
    begin,
    horizon,
    moved,
    observed,
    overshot,
    shortened,
    too_long,
    tracked,
    wants_secant,
    wants_shaking,
    with_damping,
)
from proxyprox.stepsizes.base import Memory, Signals

__all__ = [
    "Memory",
    "Signals",
    "answer",
    "begin",
    "horizon",
    "moved",
    "observed",
    "overshot",
    "shortened",
    "too_long",
    "tracked",
    "wants_secant",
    "wants_shaking",
    "with_damping",
]
