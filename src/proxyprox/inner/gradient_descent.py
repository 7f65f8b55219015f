"""Gradient descent on the subproblem: the paper's own inner solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from proxyprox._arrays import Vector
from proxyprox._checks import positive, whole
from proxyprox._subproblem import Subproblem
from proxyprox.inner._patience import Patience, next_to_rounding
from proxyprox.inner.base import InnerResult, Memory
from proxyprox.stopping import Criterion


@dataclass(frozen=True)
class GradientDescent:
    """``w ← w − γ∇φ(w)``, or its form that is implicit in the quadratic.

    The implicit step ``w ← (w/γ + c/η − [∇L̂(w) + m]) / (1/γ + 1/η)`` takes the quadratic term
    exactly, so that γ need only suit the proxy and the step is stable for every η.

    Parameters
    ----------
    step_size : float, optional
        γ; by default ``1/(H + 1/η)``, or ``1/H`` for the implicit step.
    implicit : bool
        Take the quadratic term implicitly.
    max_steps : int
        Give up after so many steps, with the rule recorded as not held.
    """

    step_size: float | None = None
    implicit: bool = False
    max_steps: int = 100_000

    needs: ClassVar[tuple[str, ...]] = ("gradient", "smoothness")
    handles_penalty: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.step_size is not None:
            positive("step_size", self.step_size)
        whole("max_steps", self.max_steps)

    def solve(
        self,
        phi: Subproblem,
        start: Vector,
        stop: Criterion,
        memory: Memory,
        rng: np.random.Generator,
    ) -> InnerResult:
        """Descend until the criterion is met."""
        gamma = self._effective_step(phi)
        w, first = start, None
        patience = Patience(200, next_to_rounding(phi, start, 1 / gamma))
        for t in range(self.max_steps + 1):
            gradient = phi.gradient(w)
            progress = phi.progress(w, gradient, t, first)
            first = progress.start_residual
            if stop(progress) or t == self.max_steps or patience.lost(progress.residual):
                break
            w = w - gamma * gradient
        return InnerResult(w, progress)

    def _effective_step(self, phi: Subproblem) -> float:
        if self.implicit:
            # The implicit step equals an explicit one of size 1/(1/γ + 1/η).
            inverse = phi.proxy.smoothness if self.step_size is None else 1 / self.step_size
            return 1 / (inverse + phi.pull)
        return 1 / phi.smoothness if self.step_size is None else self.step_size
