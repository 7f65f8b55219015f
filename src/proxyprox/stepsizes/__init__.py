"""Step sizes: numbers, schedules, and the rule behind ``eta="auto"`` that measures its own."""

from proxyprox.stepsizes.auto import AutoStep, as_step_size
from proxyprox.stepsizes.base import Constant, Decay, Observation, Restart, Schedule, StepSize

__all__ = [
    "AutoStep",
    "Constant",
    "Decay",
    "Observation",
    "Restart",
    "Schedule",
    "StepSize",
    "as_step_size",
]
