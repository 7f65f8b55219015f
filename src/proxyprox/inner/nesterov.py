"""Nesterov's accelerated gradient method, tuned to the subproblem's two constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from proxyprox._arrays import Vector
from proxyprox._checks import whole
from proxyprox._subproblem import Subproblem
from proxyprox.inner._patience import Patience, next_to_rounding
from proxyprox.inner.base import InnerResult, Memory
from proxyprox.stopping import Criterion


@dataclass(frozen=True)
class Nesterov:
    """Constant momentum ``(√κ − 1)/(√κ + 1)`` for φ, (H + 1/η)-smooth and 1/η-strongly convex.

    The residual is measured at the extrapolated points, where the gradients are, so that a step
    costs one gradient.

    Parameters
    ----------
    max_steps : int
        Give up after so many steps, with the rule recorded as not held.

    References
    ----------
    Nesterov, "Lectures on Convex Optimization", section 2.2.
    """

    max_steps: int = 100_000

    needs: ClassVar[tuple[str, ...]] = ("gradient", "smoothness")
    handles_penalty: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the number."""
        whole("max_steps", self.max_steps)

    def solve(
        self,
        phi: Subproblem,
        start: Vector,
        stop: Criterion,
        memory: Memory,
        rng: np.random.Generator,
    ) -> InnerResult:
        """Descend with momentum until the criterion is met."""
        root = math.sqrt(phi.strong_convexity / phi.smoothness)
        momentum = (1 - root) / (1 + root)
        # Momentum makes waves of about √κ steps: several of them without a new low are the end.
        waves = 200 + math.ceil(10 / max(root, 1e-6))
        patience = Patience(waves, next_to_rounding(phi, start, phi.smoothness))
        w = y = start
        first = None
        for t in range(self.max_steps + 1):
            gradient = phi.gradient(y)
            progress = phi.progress(y, gradient, t, first)
            first = progress.start_residual
            if stop(progress) or t == self.max_steps or patience.lost(progress.residual):
                break
            before, w = w, y - gradient / phi.smoothness
            y = w + momentum * (w - before)
        return InnerResult(y, progress)
