"""A second sequence beside the iterates: accelerated gradient sliding, stabilised DANE."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector, norm
from proxyprox._util.validation import message, nonnegative, positive
from proxyprox.methods.base import Answers, Defaults, Method, OuterStep, Request
from proxyprox.stepsizes.auto import AutoStep, as_step_size
from proxyprox.stepsizes.base import Constant, Eta, StepSize
from proxyprox.stopping import SDane


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


@dataclass(frozen=True)
class StabilizedState:
    """The iterate and the centre; η between the halves of an iteration, else 0."""

    w: Vector
    centre: Vector
    k: int = 0
    eta: float = 0.0


@dataclass(frozen=True)
class StabilizedDANE(Method):
    r"""S-DANE, also with sampled gradients: the centre moves by the target's gradient at w⁺.

    .. math::
        w^+ &\approx \arg\min_u\; \hat L(u) + \langle g(v) - \nabla\hat L(v), u\rangle
               + \frac{1}{2\eta}\|u - v\|^2, \\
        v^+ &= \frac{v/\eta + \mu w^+ - g(w^+)}{1/\eta + \mu}

    Inner solves may be coarse, ``‖∇φ(w⁺)‖ ≤ ‖w⁺ − v‖/(2η)`` (``SDane()``, the default here), for
    their errors do not enter the centre. One iteration is two steps of the run, each with one
    target gradient: at v, then, of a new batch, at w⁺. An objective with exact gradients makes it
    the published method. :func:`proxyprox.theory.stabilized_guarantee` bounds a mean of the w⁺.

    Parameters
    ----------
    eta : float or callable
        Step size η > 0, or a function of the steps of the run; at most 1/(5δ) for the guarantee.
        "auto" is refused: it expects one subproblem for each gradient.
    mu : float
        Strong convexity μ of the objective; 0 if it is not known.

    References
    ----------
    Jiang, Rodomanov and Stich, "Stabilized proximal-point methods for federated optimization",
    NeurIPS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, Quadratic, minimize
    >>> from proxyprox.methods import StabilizedDANE
    >>> target = Quadratic(np.diag([1.0, 9.0]), b=np.array([-1.0, -9.0]))
    >>> problem = Problem(target, proxy=Quadratic(np.diag([1.0, 8.0])))
    >>> minimize(problem, method=StabilizedDANE(eta=0.5, mu=1.0), steps=60).w.round(4)
    array([1., 1.])
    """

    eta: Eta
    mu: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        if as_step_size(self.eta, remedy="The theory allows eta up to 1/(5δ).").measures:
            remedy = "A measured step size expects one subproblem for each gradient."
            raise ValueError(message("eta", self.eta, "a number or a function of k", remedy))
        nonnegative("mu", self.mu)

    def defaults(self) -> Defaults:
        """Solve as exactly as its analysis asks."""
        return Defaults(stop=SDane())

    def init(self, w0: Vector, problem: Any) -> StabilizedState:
        """Start both sequences at w0."""
        return StabilizedState(w=w0, centre=w0)

    def ask(self, state: StabilizedState) -> Request:
        """Ask at the centre, then at the solution of the subproblem there."""
        return Request((state.w if state.eta else state.centre,))

    def tell(self, state: StabilizedState, answers: Answers, step: OuterStep) -> StabilizedState:
        """Solve the subproblem, or move the centre."""
        (gradient,), v = answers.gradients, state.centre
        if not state.eta:
            w = step.solve(linear=gradient - step.proxy.gradient(v), centre=v)
            return StabilizedState(w, v, state.k + 1, step.eta)
        pull = 1 / state.eta
        v = (pull * v + self.mu * state.w - gradient) / (pull + self.mu)
        return StabilizedState(state.w, v, state.k + 1)
