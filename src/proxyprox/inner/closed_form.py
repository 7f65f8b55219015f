"""The exact solution for quadratic proxies: one preconditioned gradient step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from proxyprox._util.arrays import Vector
from proxyprox.inner.base import InnerResult, Memory
from proxyprox.stopping import Criterion
from proxyprox.subproblem import Subproblem


@dataclass(frozen=True)
class ClosedForm:
    """``w = c − (P + I/η)⁻¹∇φ(c)``; from the iterate itself, ``w − η(I + ηP)⁻¹g``.

    The inverse is formed once for each η and kept by the proxy. A second application, on the
    remaining gradient, refines the answer where the first one misses the criterion by rounding.
    """

    refinements: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("gradient", "solve_shifted")
    handles_penalty: ClassVar[bool] = False

    def solve(
        self,
        phi: Subproblem,
        start: Vector,
        stop: Criterion,
        memory: Memory,
        rng: np.random.Generator,
    ) -> InnerResult:
        """Apply the shifted inverse to the gradient, and again if the residual asks for it."""
        w, gradient = start, phi.gradient(start)
        progress = phi.progress(w, gradient, 0)
        first = progress.start_residual
        # The zero proxy's inverse is a number: there is nothing to refine, and w − ηg stays SGD's.
        rounds = 1 if phi.proxy.smoothness == 0 else self.refinements
        for t in range(1, rounds + 1):
            refined = w - phi.proxy.solve_shifted(gradient, phi.eta)
            gradient = phi.gradient(refined)
            reached = phi.progress(refined, gradient, t, first)
            if t > 1 and reached.residual >= progress.residual:
                break
            w, progress = refined, reached
            if stop(progress) or progress.residual == 0:
                break
        return InnerResult(w, progress)
