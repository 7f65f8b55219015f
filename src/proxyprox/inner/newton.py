"""Damped Newton: a fresh Hessian at every inner step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from proxyprox._arrays import Matrix, Vector, add_to_diagonal, norm, solve_positive
from proxyprox._checks import whole
from proxyprox._subproblem import Subproblem
from proxyprox.inner._descent import Point, damped_step
from proxyprox.inner.base import InnerResult, Memory
from proxyprox.stopping import Criterion


@dataclass(frozen=True)
class Newton:
    """``w ← w − t (∇²φ(w))⁻¹∇φ(w)`` with backtracking on t; the slow, exact yardstick.

    Where the Hessian is not positive definite, the least multiple of the identity (up to a
    factor of ten) that makes it so is added.

    Parameters
    ----------
    max_steps : int
        Give up after so many steps, with the rule recorded as not held.
    """

    max_steps: int = 100

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
        """Take damped Newton steps until the criterion is met or rounding is reached."""
        gradient = phi.gradient(start)
        point = Point(start, gradient, norm(gradient))
        first = None
        for t in range(self.max_steps + 1):
            progress = phi.progress(point.w, point.gradient, t, first)
            first = progress.start_residual
            if stop(progress) or t == self.max_steps:
                break
            direction = newton_direction(phi.hessian(point.w), point.gradient)
            moved = damped_step(phi, point, direction)
            if moved is None:
                break
            point = moved
        return InnerResult(point.w, progress)


def newton_direction(hessian: Matrix, gradient: Vector) -> Vector:
    """Return ``−hessian⁻¹ gradient``, with the Hessian shifted if it is not positive definite."""
    direction = solve_positive(hessian, -gradient)
    shift = 1e-10 * float(abs(hessian).max())
    while direction is None:
        direction = solve_positive(add_to_diagonal(hessian, shift), -gradient)
        shift = max(10 * shift, 1e-12)
    return direction
