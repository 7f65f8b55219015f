"""Newton's method, with a factored Hessian or by conjugate gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from proxyprox._util.arrays import (
    Vector,
    add_to_diagonal,
    dot,
    dtype_name,
    norm,
    power_of_two,
    solve_positive,
    zeros_like,
)
from proxyprox._util.validation import whole
from proxyprox.inner.base import InnerResult, Memory, Point, damped_step, descend
from proxyprox.stopping import Criterion
from proxyprox.subproblem import NonFiniteError, Subproblem


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


@dataclass(frozen=True)
class NewtonCG:
    """Damped Newton whose linear systems are solved by conjugate gradients, inexactly.

    Parameters
    ----------
    max_steps : int
        Newton steps at most.
    max_products : int
        Hessian-vector products at most for each Newton step.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization", section 7.1.
    """

    max_steps: int = 100
    max_products: int = 1000

    needs: ClassVar[tuple[str, ...]] = ("value", "gradient", "hvp")
    handles_penalty: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        whole("max_steps", self.max_steps)
        whole("max_products", self.max_products)

    def solve(
        self,
        phi: Subproblem,
        start: Vector,
        stop: Criterion,
        memory: Memory,
        rng: np.random.Generator,
    ) -> InnerResult:
        """Take inexact Newton steps until the criterion is met or rounding is reached."""

        def step(point: Point, first: float) -> Point | None:
            # Forcing term: loose far away, superlinear in the end.
            forcing = min(0.1, math.sqrt(point.residual / first)) if first else 0.1
            direction = self._conjugate_gradients(phi, point, forcing * point.residual)
            return damped_step(phi, point, direction)

        return descend(phi, start, stop, self.max_steps, step)

    def _conjugate_gradients(self, phi: Subproblem, point: Point, tolerance: float) -> Vector:
        """Return d with ``‖∇²φ d + ∇φ‖ ≤ tolerance``, or the best before negative curvature."""
        # Squares of very small or large gradients under- or overflow: the system is solved scaled.
        least, most = (1e-10, 1e10) if dtype_name(point.w) == "float32" else (1e-100, 1e100)
        scale = power_of_two(point.residual, point.w, least, most)
        direction = zeros_like(point.w)
        residual = -point.gradient if scale == 1 else -scale * point.gradient
        tolerance, search = scale * tolerance, residual
        squared = dot(residual, residual)
        for _ in range(self.max_products):
            product = phi.hvp(point.w, search)
            curvature = dot(search, product)
            if not math.isfinite(curvature):
                raise NonFiniteError("a Hessian-vector product is not finite")
            if curvature <= 0:
                direction = direction if norm(direction) > 0 else residual
                break
            step = squared / curvature
            direction = direction + step * search
            residual = residual - step * product
            before, squared = squared, dot(residual, residual)
            if math.sqrt(squared) <= tolerance:
                break
            search = residual + squared / before * search
        return direction if scale == 1 else direction / scale
