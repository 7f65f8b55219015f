"""Inner solvers that use gradients only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from numpy.random import Generator

from proxyprox._util.arrays import Vector
from proxyprox._util.validation import flag, positive
from proxyprox.inner.base import (
    Criterion,
    InnerResult,
    Memory,
    Patience,
    Point,
    Solver,
    Subproblem,
    descend,
    first_finite,
    next_to_rounding,
)


@dataclass(frozen=True)
class GradientDescent(Solver):
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
        Give up after this many steps, with the rule recorded as not held.

    Examples
    --------
    >>> from proxyprox import Problem, Quadratic, minimize
    >>> from proxyprox.inner import GradientDescent
    >>> problem = Problem(Quadratic([[2.0]], b=[-2.0]), proxy=Quadratic([[1.0]]))
    >>> minimize(problem, inner=GradientDescent(), steps=60).w.round(3)
    array([1.])
    """

    step_size: float | None = None
    implicit: bool = False
    max_steps: int = 100_000

    needs: ClassVar[tuple[str, ...]] = ("gradient", "smoothness")

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        flag("implicit", self.implicit)
        if self.step_size is not None:
            positive("step_size", self.step_size)

    def solve(
        self, phi: Subproblem, start: Vector, stop: Criterion, memory: Memory, rng: Generator
    ) -> InnerResult:
        """Descend until the criterion is met."""
        gamma = 1 / phi.smoothness if self.step_size is None else self.step_size
        if self.implicit:
            # The implicit step equals an explicit one of size 1/(1/γ + 1/η).
            inverse = phi.proxy.smoothness if self.step_size is None else 1 / self.step_size
            gamma = 1 / (inverse + phi.pull)
        patience = Patience(200, next_to_rounding(phi, start, 1 / gamma))

        def step(at: Point, _: float) -> Point:
            return first_finite(phi, at.w, -gamma * at.gradient)

        return descend(phi, start, stop, self.max_steps, step, patience)


@dataclass(frozen=True)
class Nesterov(Solver):
    """Constant momentum ``(√κ − 1)/(√κ + 1)`` for φ, (H + 1/η)-smooth and 1/η-strongly convex.

    The residual is measured at the extrapolated points, where the gradients are, so that a step
    costs one gradient.

    Parameters
    ----------
    max_steps : int
        Give up after this many steps, with the rule recorded as not held.

    References
    ----------
    Nesterov, "Lectures on Convex Optimization", section 2.2.

    Examples
    --------
    >>> from proxyprox import Problem, Quadratic, minimize
    >>> from proxyprox.inner import Nesterov
    >>> problem = Problem(Quadratic([[2.0]], b=[-2.0]), proxy=Quadratic([[1.0]]))
    >>> minimize(problem, inner=Nesterov(), steps=60).w.round(3)
    array([1.])
    """

    max_steps: int = 100_000

    needs: ClassVar[tuple[str, ...]] = ("gradient", "smoothness")

    def solve(
        self, phi: Subproblem, start: Vector, stop: Criterion, memory: Memory, rng: Generator
    ) -> InnerResult:
        """Descend with momentum until the criterion is met."""
        root = math.sqrt(phi.strong_convexity / phi.smoothness)
        momentum = (1 - root) / (1 + root)
        # Momentum makes waves of about √κ steps: several of them without a new low are the end.
        waves = 200 + math.ceil(10 / max(root, 1e-6))
        patience = Patience(waves, next_to_rounding(phi, start, phi.smoothness))
        w = start

        def step(at: Point, _: float) -> Point:
            nonlocal w
            before, w = w, at.w - at.gradient / phi.smoothness
            ahead = Point.at(phi, w + momentum * (w - before))
            if math.isfinite(ahead.residual):
                return ahead
            # Momentum led to where the proxy is not finite: restart it.
            back = first_finite(phi, at.w, w - at.w)
            w = back.w
            return back

        return descend(phi, start, stop, self.max_steps, step, patience)


@dataclass(frozen=True)
class StochasticGradient(Solver):
    """SGD on φ with sampled proxy gradients, for a number of steps.

    With ``M = H + 1/η`` and λ the strong convexity of φ: half of the steps at the constant
    ``1/(2M)`` forget the start, the other half at ``2/(λ(κ + t))``, ``κ = 4M/λ``, forget the noise
    and are averaged with weights ``(κ + t)²``. One full gradient at the end measures the residual.

    Parameters
    ----------
    steps : int
        Number of steps T; :func:`proxyprox.theory.inner_steps_sgd` gives the one that is proven.

    References
    ----------
    Stich, "Unified optimal analysis of the (stochastic) gradient method".

    Examples
    --------
    >>> from proxyprox import Problem, Quadratic, minimize
    >>> from proxyprox.inner import StochasticGradient
    >>> problem = Problem(Quadratic([[2.0]], b=[-2.0]), proxy=Quadratic([[1.0]]))
    >>> minimize(problem, inner=StochasticGradient(steps=50), steps=60).w.round(3)
    array([1.])
    """

    steps: int

    needs: ClassVar[tuple[str, ...]] = ("gradient", "smoothness", "sample")

    def solve(
        self, phi: Subproblem, start: Vector, stop: Criterion, memory: Memory, rng: Generator
    ) -> InnerResult:
        """Take T sampled steps, then measure."""
        T, kappa = self.steps, 4 * phi.smoothness / phi.strong_convexity
        w = mean = start
        total = 0.0
        for t in range(T):
            late = max(0, t - T // 2)
            sampled = phi.proxy.gradient(w, phi.proxy.sample(rng))
            gradient = sampled + phi.linear + phi.pull * (w - phi.centre)
            w = w - 2 / (phi.strong_convexity * (kappa + late)) * gradient
            if t >= T // 2:
                weight = (1 + late / kappa) ** 2
                total += weight
                mean = mean + weight / total * (w - mean)
        # In a run the start is the centre, where the gradient is known already.
        first = phi.residual(start, phi.gradient(start))
        return InnerResult(mean, phi.progress(mean, phi.gradient(mean), T, first))
