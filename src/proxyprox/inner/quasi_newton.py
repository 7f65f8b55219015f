"""Newton's method with a Hessian factor kept across outer steps and mended by secants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from proxyprox._util.arrays import Matrix, Vector, dot, inverse_positive, namespace, norm
from proxyprox._util.validation import whole
from proxyprox.inner.base import InnerResult, Memory, Point, damped_step
from proxyprox.inner.newton import newton_step
from proxyprox.stopping import Criterion
from proxyprox.subproblem import Subproblem


@dataclass(frozen=True)
class QuasiNewton:
    """``w ← w − t B∇φ(w)`` with ``B ≈ (∇²φ)⁻¹`` carried from one subproblem to the next.

    Successive subproblems differ by a linear term and a small move of the centre, so their
    Hessians are nearly the same. B starts as the exact inverse; each step's secant ``B y = s``
    updates it (BFGS, rank two, d² operations), so that later outer steps need two or three proxy
    gradients and no Hessian. When a step fails to shrink the gradient tenfold twice running, or η
    has changed, B is rebuilt at the current point.

    Parameters
    ----------
    max_steps : int
        Give up after so many steps, with the rule recorded as not held.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization", chapter 6.
    """

    max_steps: int = 200

    needs: ClassVar[tuple[str, ...]] = ("value", "gradient", "hessian")
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
        """Step with the kept inverse; rebuild it only when it stops paying."""
        gradient = phi.gradient(start)
        point = Point(start, gradient, norm(gradient))
        first, slow = None, 0
        size = start.shape[0]
        if memory.get("eta") != phi.eta or memory["inverse"].shape != (size, size):
            memory.clear()
        for t in range(self.max_steps + 1):
            progress = phi.progress(point.w, point.gradient, t, first)
            first = progress.start_residual
            if stop(progress) or t == self.max_steps:
                break
            fresh = "inverse" not in memory or slow >= 2
            if fresh:
                slow = 0
                self._rebuild(phi, point, memory)
            moved = self._step(phi, point, memory)
            if moved is None and not fresh:
                self._rebuild(phi, point, memory)
                moved = self._step(phi, point, memory)
            if moved is None:
                break
            slow = slow + 1 if moved.residual > 0.1 * point.residual else 0
            if "inverse" in memory:
                memory["inverse"] = bfgs_update(
                    memory["inverse"], moved.w - point.w, moved.gradient - point.gradient
                )
            point = moved
        return InnerResult(point.w, progress)

    def _rebuild(self, phi: Subproblem, point: Point, memory: Memory) -> None:
        inverse = inverse_positive(phi.hessian(point.w))
        memory.clear()
        if inverse is not None:
            memory.update(inverse=inverse, eta=phi.eta)

    def _step(self, phi: Subproblem, point: Point, memory: Memory) -> Point | None:
        if "inverse" in memory:
            return damped_step(phi, point, -(memory["inverse"] @ point.gradient))
        # Not positive definite here: a non-convex proxy. Take the shifted Newton step.
        return newton_step(phi, point)


def bfgs_update(inverse: Matrix, s: Vector, y: Vector) -> Matrix:
    """Return the symmetric positive definite matrix nearest to ``inverse`` that maps y to s."""
    xp, curvature = namespace(inverse), dot(s, y)
    if not curvature > max(1e-10 * norm(s) * norm(y), float(xp.finfo(s.dtype).tiny)):
        # No usable secant: a non-convex stretch, or a step at the level of rounding.
        return inverse
    mapped = inverse @ y
    u = ((1 + dot(y, mapped) / curvature) / 2 * s - mapped) / curvature
    cross = xp.linalg.outer(s, u) if xp is not np else np.multiply.outer(s, u)
    return inverse + cross + cross.T
