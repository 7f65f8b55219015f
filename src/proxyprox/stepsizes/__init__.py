"""Step sizes: numbers, schedules, and the rules behind ``eta="auto"`` that measure their own."""

from proxyprox.stepsizes.auto import AutoStep, as_step_size
from proxyprox.stepsizes.base import Constant, Observation, Restart, Schedule, StepSize

__all__ = [
    "AutoStep", "Constant", "Observation", "Restart", "Schedule", "StepSize",
    "as_step_size",
]  # fmt: skip
