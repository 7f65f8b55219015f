"""Damped Newton: a fresh Hessian at every inner step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from proxyprox._arrays import Vector, add_to_diagonal, solve_positive
from proxyprox._checks import whole
from proxyprox._subproblem import NonFiniteError, Subproblem
from proxyprox.inner._descent import Point, damped_step, descend
from proxyprox.inner.base import InnerResult, Memory
from proxyprox.stopping import Criterion


@dataclass(frozen=True)
class Newton:
    """``w ← w − t (∇²φ(w))⁻¹∇φ(w)`` with backtracking on t; the slow, exact yardstick.

    Where the Hessian is not positive definite, a multiple of the identity that makes it safely
    so is added.

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
        return descend(phi, start, stop, self.max_steps, lambda at, _: newton_step(phi, at))


def newton_step(phi: Subproblem, at: Point) -> Point | None:
    """Take a damped Newton step, with the Hessian shifted if it is not positive definite."""
    hessian = phi.hessian(at.w)
    shift = 1e-10 * float(abs(hessian).max())
    if not math.isfinite(shift):
        raise NonFiniteError("the proxy's Hessian is not finite at a trial point")
    direction = solve_positive(hessian, -at.gradient)
    if direction is not None:
        return damped_step(phi, at, direction)
    while direction is None:
        if solve_positive(add_to_diagonal(hessian, shift), -at.gradient) is not None:
            # Twice what suffices: at the edge the matrix is all but singular.
            direction = solve_positive(add_to_diagonal(hessian, 2 * shift), -at.gradient)
        shift = max(10 * shift, 1e-12)
    return damped_step(phi, at, direction, convex=False)
