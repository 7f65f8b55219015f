"""ProxyProx and its relatives: one corrected proximal step on the proxy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from proxyprox import stepsizes
from proxyprox._util.arrays import Vector
from proxyprox._util.isolation import copied_tree, is_ours
from proxyprox._util.validation import message, positive, require_takes
from proxyprox.corrections import EMA, Correction, Plain, Storm
from proxyprox.inner import GradientDescent
from proxyprox.methods.base import Answers, Eta, Solve, State, checked_eta, eta_at
from proxyprox.problems.quadratic import NotConvexError
from proxyprox.stepsizes import Memory, Signals
from proxyprox.subproblem import NonFiniteError


def checked_correction(correction: Any) -> None:
    """Refuse what is not a correction, such as its class."""
    if isinstance(correction, type) or not (
        callable(correction) and hasattr(correction, "two_points")
    ):
        allowed = "a correction, such as Plain() or EMA(0.1)"
        remedy = "One of your own has two_points and __call__(difference, before, estimate, k)."
        raise TypeError(message("correction", correction, allowed, remedy))
    require_takes("correction", correction, ("difference", "before", "estimate", "k"))


def start(w0: Vector, eta: Eta, problem: Any, *, uses_proxy: bool = True) -> State:
    """Return the state before the first step, with a rule's memory if η is to be measured."""
    if eta != "auto":
        return State(w=w0)
    return State(w=w0, rule=stepsizes.begin(w0, problem, uses_proxy=uses_proxy))


def best(state: State) -> Vector:
    """Return the rule's average, or the last iterate where nothing is measured."""
    return state.w if state.rule is None else stepsizes.answer(state.rule, state.w)


def points(state: State, correction: Correction) -> tuple[Vector, ...]:
    """Return w_k, and w_{k−1} too if the correction or the step size compares the two."""
    secant = state.rule is not None and stepsizes.wants_secant(state.rule, state.k)
    if (correction.two_points or secant) and state.previous is not None:
        return (state.w, state.previous)
    return (state.w,)


def corrected_step(
    state: State,
    gradients: Sequence[Vector],
    proxy: Any,
    solve: Solve,
    *,
    correction: Correction,
    eta: float,
) -> State:
    """Estimate ∇L − ∇L̂ and minimise the proxy with that correction around w_k."""
    if state.rule is not None:
        # With a rule the plain correction becomes the mean that the rule finds best.
        chosen = None if isinstance(correction, Plain) else correction
        return measured_step(state, gradients, proxy, solve, correction=chosen)
    anchor = proxy.gradient(state.w)
    difference = gradients[0] - anchor
    before = gradients[1] - state.previous_anchor if len(gradients) == 2 else None
    estimate = corrected(correction, difference, before, state.estimate, state.k)
    w = solve(linear=estimate, centre=state.w, eta=eta)
    return replace(
        state,
        w=w,
        k=state.k + 1,
        estimate=estimate,
        previous=state.w if correction.two_points else None,
        previous_anchor=anchor if correction.two_points else None,
    )


TRIES = 20


def measured_step(
    state: State,
    gradients: Sequence[Vector],
    proxy: Any,
    solve: Solve,
    *,
    correction: Correction | None,
) -> State:
    """Measure δ and the noise, then take the corrected step; without a correction, track ∇h."""
    memory, centre = _rule(state), state.w
    anchor = proxy.gradient(centre)
    signals = _signals(state, gradients, anchor, proxy)
    taken_back = stepsizes.overshot(memory, signals)
    memory = stepsizes.observed(memory, signals, state.estimate)
    difference, before = signals.difference, signals.before
    if taken_back:
        # The newest batch is known at the point before: begin there again, with a shorter step.
        centre, anchor, difference, before = state.previous, state.previous_anchor, before, None
    if correction is None:
        estimate = stepsizes.tracked(memory, difference, state.estimate)
    else:
        estimate = corrected(correction, difference, before, state.estimate, state.k)
    if signals.gap is not None and stepsizes.wants_shaking(memory, state.k):
        memory = _shaken(solve, estimate, centre, memory, signals.gap)
    w, memory = _solved(solve, estimate, centre, memory)
    return State(
        w=w,
        k=state.k + 1,
        estimate=estimate,
        previous=centre,
        previous_anchor=anchor,
        rule=stepsizes.moved(memory, centre, w, state.k),
    )


def corrected(
    correction: Correction,
    difference: Vector,
    before: Vector | None,
    estimate: Vector | None,
    k: int,
) -> Vector:
    """Return the correction's estimate; a user's may write into its arguments, or answer them."""
    if is_ours(correction):
        return correction(difference, before, estimate, k)
    handed = copied_tree(difference), copied_tree(before), copied_tree(estimate)
    return copied_tree(correction(*handed, k))


def _rule(state: State) -> Memory:
    assert state.rule is not None
    return state.rule


def _signals(state: State, gradients: Sequence[Vector], anchor: Vector, proxy: Any) -> Signals:
    memory, before = _rule(state), None
    if len(gradients) == 2:
        before = gradients[1] - state.previous_anchor
    elif memory["exact"]:
        # One batch for all steps: its gradient at the point before was the last answer.
        before = memory["last"]
    gap = getattr(gradients, "gap", None)
    if gap is None and len(gradients) == 2 and "last" in memory:
        # Two batches at one point: what they differ by is noise.
        gap = before - memory["last"]
    later = state.previous is not None
    return Signals(
        k=state.k,
        w=state.w,
        gradient=gradients[0],
        difference=gradients[0] - anchor,
        noise=getattr(gradients, "noise", None),
        gap=gap,
        step=state.w - state.previous if later else None,
        before=before,
        anchor_change=anchor - state.previous_anchor if later else None,
        smoothness=proxy.smoothness,
    )


def _shaken(solve: Solve, estimate: Vector, centre: Vector, memory: Memory, gap: Vector) -> Memory:
    """Find out how far a sample of the noise moves the solution of a subproblem."""
    eta = stepsizes.horizon(memory)
    try:
        still = solve(linear=estimate, centre=centre, eta=eta)
        moved = solve(linear=estimate + gap, centre=centre, eta=eta)
    except (NonFiniteError, NotConvexError):
        return memory
    return stepsizes.with_damping(memory, moved - still, gap, eta)


def _solved(
    solve: Solve, estimate: Vector, centre: Vector, memory: Memory
) -> tuple[Vector, Memory]:
    """Solve the subproblem, with a smaller η where it is not convex, or all but not."""
    for _ in range(TRIES):
        try:
            w = solve(linear=estimate, centre=centre, eta=memory["eta"])
        except (NonFiniteError, NotConvexError):
            memory = stepsizes.shortened(memory)
            continue
        if not stepsizes.too_long(memory, centre, w):
            return w, memory
        memory = stepsizes.shortened(memory)
    return solve(linear=estimate, centre=centre, eta=memory["eta"]), memory


PLAIN = Plain()


@dataclass(frozen=True)
class ProxyProx:
    r"""Algorithm 1 of the paper, with a choice of correction.

    .. math:: w_{k+1} \approx \arg\min_w\; \hat L(w)
              + \langle g_k - \nabla\hat L(w_k), w - w_k\rangle + \frac{1}{2\eta}\|w - w_k\|^2

    Parameters
    ----------
    eta : float, callable or "auto"
        Step size η > 0, or a function of the outer step. The theory allows ``η ≤ 1/(4δ)``.
        "auto" measures it on the way, with 10 % more target gradients at no new samples; see
        :mod:`proxyprox.stepsizes.auto`.
    correction : Correction
        How ``g_k − ∇L̂(w_k)`` is estimated; :class:`~proxyprox.corrections.Plain` is the paper's.
        With ``eta="auto"`` the plain correction becomes a mean of all differences, weighed by
        their expected errors; ``EMA(1.0)`` keeps the newest alone.

    References
    ----------
    Woodworth, Mishchenko and Bach, "Two Losses Are Better Than One: Faster Optimization Using a
    Cheaper Proxy", ICML 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, ProxyProx, Quadratic, minimize
    >>> target = Quadratic(np.diag([1.0, 100.0]), b=np.array([-1.0, -1.0]))
    >>> proxy = Quadratic(np.diag([1.0, 99.0]))
    >>> result = minimize(Problem(target, proxy), method=ProxyProx(eta=0.25), steps=100)
    >>> result.w.round(6)
    array([1.  , 0.01])
    """

    eta: Eta
    correction: Correction = PLAIN

    uses_proxy: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    default_inner: ClassVar[None] = None

    def __post_init__(self) -> None:
        """Check η and the correction."""
        checked_eta(self.eta)
        checked_correction(self.correction)

    @property
    def two_points(self) -> bool:
        """Whether the correction compares two points on one batch."""
        return self.correction.two_points

    def init(self, w0: Vector, problem: Any = None) -> State:
        """Start at w0."""
        return start(w0, self.eta, problem)

    def ask(self, state: State) -> tuple[Vector, ...]:
        """Ask at w_k."""
        return points(state, self.correction)

    def tell(self, state: State, gradients: Sequence[Vector], proxy: Any, solve: Solve) -> State:
        """Solve the corrected proximal subproblem."""
        eta = self.step_size(state.k)
        return corrected_step(state, gradients, proxy, solve, correction=self.correction, eta=eta)

    def step_size(self, k: int) -> float:
        """Return η of outer step k."""
        return eta_at(self.eta, k)

    def answer(self, state: State) -> Vector:
        """Return the point to answer with."""
        return best(state)


@dataclass(frozen=True)
class Auxiliary:
    """Inner steps on ``L̂ + ⟨m, ·⟩``, m an estimate of ``∇L − ∇L̂`` at w_k; abstract."""

    a: float = 0.1
    eta: Eta = math.inf

    estimator: ClassVar[type[EMA | Storm]]
    """How m is made of the differences, given their weight a."""

    uses_proxy: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    default_inner: ClassVar[GradientDescent] = GradientDescent()

    def __post_init__(self) -> None:
        """Check both numbers."""
        self.estimator(self.a)
        checked_eta(self.eta, allow_inf=True)

    @property
    def two_points(self) -> bool:
        """Whether the estimate compares two points on one batch."""
        return self.estimator.two_points

    def init(self, w0: Vector, problem: Any = None) -> State:
        """Start at w0."""
        return start(w0, self.eta, problem)

    def ask(self, state: State) -> tuple[Vector, ...]:
        """Ask at w_k and, where the estimate compares the two, at w_{k−1} on the same batch."""
        return points(state, self.estimator(self.a))

    def tell(self, state: State, gradients: Sequence[Vector], proxy: Any, solve: Solve) -> State:
        """Descend on the corrected proxy."""
        m, eta = self.estimator(self.a), self.step_size(state.k)
        return corrected_step(state, gradients, proxy, solve, correction=m, eta=eta)

    def step_size(self, k: int) -> float:
        """Return η of outer step k."""
        return eta_at(self.eta, k, allow_inf=True)

    def answer(self, state: State) -> Vector:
        """Return the point to answer with."""
        return best(state)


@dataclass(frozen=True)
class AuxMom(Auxiliary):
    """Inner steps on ``L̂ + ⟨m, ·⟩``, m a moving average of gradient differences.

    ``m ← (1 − a) m + a (g_k − ∇L̂(w_k))``.

    As published there is no proximal term (η = ∞): a fixed number of gradient steps
    ``y ← y − γ(∇L̂(y) + m)`` keeps the iterate near. Give γ and the number of steps as
    ``inner=GradientDescent(step_size=γ)`` and ``stop=Steps(20)``.

    Parameters
    ----------
    a : float
        Weight of the newest difference, in (0, 1].
    eta : float, callable or "auto"
        Step size of an added proximal term; infinite, as published, by default.

    References
    ----------
    Chayti and Karimireddy, "Optimization with access to auxiliary information".
    """

    estimator: ClassVar[type[EMA]] = EMA


@dataclass(frozen=True)
class AuxMVR(Auxiliary):
    """Inner steps on ``L̂ + ⟨m, ·⟩``, m a STORM estimate of the gradient difference.

    ``m ← d_k + (1 − a)(m − d_{k−1})`` with both differences on one batch.

    As published there is no proximal term (η = ∞): a fixed number of gradient steps
    ``y ← y − γ(∇L̂(y) + m)`` keeps the iterate near. Give γ and the number of steps as
    ``inner=GradientDescent(step_size=γ)`` and ``stop=Steps(20)``. A step costs two target
    gradients.

    Parameters
    ----------
    a : float
        Weight of the newest difference, in (0, 1].
    eta : float, callable or "auto"
        Step size of an added proximal term; infinite, as published, by default.

    References
    ----------
    Chayti and Karimireddy, "Optimization with access to auxiliary information".
    """

    estimator: ClassVar[type[Storm]] = Storm


@dataclass(frozen=True)
class DANE:
    r"""Full-gradient use of the proxy, as between one machine and the average of all.

    .. math:: w_{k+1} = \arg\min_w\; \hat L(w)
              + \langle s\nabla L(w_k) - \nabla\hat L(w_k), w\rangle
              + \frac{1}{2\eta}\|w - w_k\|^2

    Parameters
    ----------
    eta : float, callable or "auto"
        Step size; DANE's regularisation is 1/η. Infinite, DANE's default, means none.
    gradient_weight : float
        The factor s on the target's gradient (DANE's own η).

    References
    ----------
    Shamir, Srebro and Zhang, "Communication-efficient distributed optimization using an
    approximate Newton-type method".
    """

    eta: Eta = math.inf
    gradient_weight: float = 1.0

    uses_proxy: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    two_points: ClassVar[bool] = False
    default_inner: ClassVar[None] = None

    def __post_init__(self) -> None:
        """Check both numbers."""
        checked_eta(self.eta, allow_inf=True)
        positive("gradient_weight", self.gradient_weight)

    def init(self, w0: Vector, problem: Any = None) -> State:
        """Start at w0."""
        return start(w0, self.eta, problem)

    def ask(self, state: State) -> tuple[Vector, ...]:
        """Ask at w_k."""
        return (state.w,)

    def tell(self, state: State, gradients: Sequence[Vector], proxy: Any, solve: Solve) -> State:
        """Minimise the corrected proxy."""
        weighted = Answers([self.gradient_weight * gradients[0]])
        weighted.noise = 0.0
        return corrected_step(
            state, weighted, proxy, solve, correction=Plain(), eta=self.step_size(state.k)
        )

    def step_size(self, k: int) -> float:
        """Return η of outer step k."""
        return eta_at(self.eta, k, allow_inf=True)

    def answer(self, state: State) -> Vector:
        """Return the point to answer with."""
        return best(state)
