"""A second sequence beside the iterates: accelerated gradient sliding."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector, norm
from proxyprox._util.validation import message, nonnegative, positive
from proxyprox.methods.base import Answers, Method, OuterStep, Request
from proxyprox.stepsizes.auto import AutoStep, as_step_size
from proxyprox.stepsizes.base import Constant, StepSize


@dataclass(frozen=True)
class SlidingState:
    """The two sequences and δ; ``x_g`` and ∇h there are set between the halves of an iteration."""

    w: Vector
    x: Vector
    delta: float
    k: int = 0
    x_g: Vector | None = None
    slope: Vector | None = None


@dataclass(frozen=True)
class AcceleratedSliding(Method):
    r"""The accelerated extragradient method for ``L = L̂ + h``, h δ-smooth, L μ-strongly convex.

    .. math::
        x_g &= \tau x + (1-\tau) w, \\
        w^+ &\approx \arg\min_u\; \hat L(u) + \langle\nabla h(x_g), u\rangle
               + \delta\|u - x_g\|^2, \\
        x^+ &= x + \gamma\mu(w^+ - x) - \gamma\nabla L(w^+)

    with ``τ = min{1, √(μ/δ)/2}`` and ``γ = min{1/(2μ), 1/(2√(μδ))}``. One iteration is two steps of
    the run, each with one full target gradient: at x_g, then at w⁺.

    Parameters
    ----------
    delta : float, optional
        Similarity δ, zero or more.
    mu : float
        Strong convexity μ of the objective.
    eta : "auto", optional
        In place of δ: ``η = 1/(2δ)`` is then measured. The two gradients of an iteration show
        ``‖∇h(w⁺) − ∇h(x_g)‖/‖w⁺ − x_g‖`` at no cost; δ doubles to cover what they show, and shrinks
        by a tenth while it is more than four times that. The rate is proven for a δ that holds;
        that the measured one suffices is tested, not proven.

    References
    ----------
    Kovalev, Beznosikov, Borodich, Gasnikov and Scutari, "Optimal gradient sliding and its
    application to distributed optimization under similarity".
    """

    delta: float | None = None
    mu: float = math.nan
    eta: Any = None

    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the numbers."""
        known = self.eta is None or isinstance(as_step_size(self.eta), AutoStep)
        if not known or (self.eta is None) == (self.delta is None):
            allowed = "'auto' without delta, or left out with it"
            raise ValueError(message("eta", self.eta, allowed, "Give one of the two."))
        if self.delta is not None:
            nonnegative("delta", self.delta)
        positive("mu", self.mu)

    @property
    def step_size(self) -> StepSize:
        """The rule η = 1/(2δ); where δ is measured, each step passes its own."""
        return Constant(math.nan if self.delta is None else 1 / (2 * max(self.delta, self.mu)))

    def init(self, w0: Vector, problem: Any) -> SlidingState:
        """Start both sequences at w0."""
        return SlidingState(w=w0, x=w0, delta=float(self.mu if self.delta is None else self.delta))

    def ask(self, state: SlidingState) -> Request:
        """Ask at x_g, then at the solution of the subproblem there."""
        if state.x_g is not None:
            return Request((state.w,), everything=True)
        tau = min(1.0, math.sqrt(self.mu / self._delta(state)) / 2)
        return Request((tau * state.x + (1 - tau) * state.w,), everything=True)

    def tell(self, state: SlidingState, answers: Answers, step: OuterStep) -> SlidingState:
        """Do the first or the second half of an iteration."""
        (gradient,) = answers.gradients
        if state.x_g is None:
            (x_g,) = self.ask(state).points
            slope = gradient - step.proxy.gradient(x_g)
            w = step.solve(linear=slope, centre=x_g, eta=1 / (2 * self._delta(state)))
            return replace(state, w=w, k=state.k + 1, x_g=x_g, slope=slope)
        if self.delta is None:
            slope = gradient - step.proxy.gradient(state.w)
            state = replace(state, delta=_next_delta(state, slope))
        gamma = min(1 / (2 * self.mu), 1 / (2 * math.sqrt(self.mu * self._delta(state))))
        x = state.x + gamma * self.mu * (state.w - state.x) - gamma * gradient
        return SlidingState(w=state.w, x=x, delta=state.delta, k=state.k + 1)

    def _delta(self, state: SlidingState) -> float:
        # At δ < μ the rate is 1/2 already: a larger δ costs nothing and keeps τ at most 1/2.
        return max(state.delta, self.mu)


def _next_delta(state: SlidingState, slope: Vector) -> float:
    """Return δ after an iteration, from the change of ∇h between its two points."""
    delta, length = state.delta, norm(state.w - state.x_g)
    seen = norm(slope - state.slope) / length if length > 0 else 0.0
    if seen > delta:
        return max(2 * delta, seen)
    return 0.9 * delta if seen < delta / 4 else delta
