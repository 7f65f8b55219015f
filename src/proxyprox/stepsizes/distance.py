r"""The rule behind ``SGD("auto")``: the distance travelled over the gradients, without a proxy.

.. math:: \eta_k = \min\Big\{2\eta_{k-1},\; \frac{D_k}{\sqrt{k\,G_k}}\Big\},\qquad
          D_k = \min\Big\{\|\bar w_k - w_0\|,\; 6 \max_{j \le k}
          \frac{\|w_j - w_0\|^2 - \sum_{i<j}\|w_{i+1} - w_i\|^2}{2\|w_j - w_0\|}\Big\}

G is the mean of ``‖g_i‖²`` with weights i³; twice the last term is allowed while the average lags
(:class:`~proxyprox.stepsizes.auto.Averages`). This is DoG, with a numerator that a single long step
cannot raise and a denominator that forgets a steep start. Curvature, which limits the step of a
proxy, says too little here: if noise is small and the curvature falls as the loss does (logistic
regression on nearly separable data), steps far beyond 1/H that bounce at first are by far the best;
if noise is large, 1/H is too long. Both show in ``‖g‖``. Steps stay bounded because ``k G_k ≥ 4k/(k
+ 4) ‖g_k‖²``: beyond the first few, no step is much longer than half the distance
travelled (all of it while the average lags), and gradients that grow shorten the next ones.

The first step is a probe of length 1e-4. The batch of the second is evaluated at the start as well,
and its change y along the probe s sets the scale: ``η = ⟨y, s⟩/‖y‖²``, which for one row of a
generalised linear model is 1/H_i. If batches may not be evaluated twice, the rule is DoG itself,
with ``max_j ‖w_j − w_0‖`` in the numerator and a first step of 0.03 max(1, ‖w_0‖).

Distance travelled does not prove distance to go: if the loss is nearly linear (a hinge, absolute
deviations), steps double unopposed, and bounded gradients never stop them. The second term of D
does. For convex L, ``0 ≤ Σ η_i ⟨g_i, w_i − w*⟩`` in expectation if the step sizes do not depend on
the gradients they multiply; with ``η_i g_i = w_i − w_{i+1}`` this telescopes to
``(‖w_j − w_0‖² − Σ ‖w_{i+1} − w_i‖²)/2 ≤ ‖w_j − w_0‖ ‖w_0 − w*‖``, a lower bound on the distance to
go (D-adaptation's, without its vectors). Here η_i does depend on g_i, so that the bound is a
heuristic.

References
----------
Ivgi, Hinder and Carmon, "DoG is SGD's best friend: a parameter-free dynamic step size schedule",
ICML 2023, for the distance over gradients; Defazio and Mishchenko, "Learning-rate-free learning by
D-adaptation", ICML 2023, for the lower bound.
"""

from __future__ import annotations

import contextlib
import functools
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector, changed, dot, norm, same_point, square
from proxyprox.inner.base import NonFiniteError
from proxyprox.stepsizes.auto import AutoState, AutoStep, AutoStepPolicy, Averages, share
from proxyprox.stepsizes.base import TRIES, Observation, Solve, StepSize


@dataclass(frozen=True)
class DistanceStepPolicy:
    """The numbers of the rule, fixed with ``benchmarks/auto_eta.py`` (``docs/results/auto_eta``).

    Attributes
    ----------
    trust : float
        Distances beyond this many times the lower bound are not believed.
    blind_probe : float
        Length of the first step in units of max(1, ‖w_0‖) if the second batch may not be evaluated
        twice. The other rule's ``probe`` is that of a step after which it will show a scale.
    """

    trust: float = 6.0
    blind_probe: float = 0.03


# What both rules share: the probe, and how fast steps may grow.
SHARED = AutoStepPolicy()


@dataclass(frozen=True)
class DistanceState:
    """What has been measured, and the step in progress.

    ``square`` is G, ``path`` the sum of squared steps, ``proven`` the lower bound on the distance,
    ``reach`` the length of the second step.
    """

    start: Vector
    repeatable: bool
    averages: Averages
    eta: float = 0.0
    square: float = 0.0
    path: float = 0.0
    proven: float = 0.0
    reach: float = 0.0
    moved: float = 0.0
    farthest: float = 0.0
    previous: Vector | None = None
    asked: Vector | None = None
    linear: Vector | None = None


@dataclass(frozen=True)
class DistanceStep(StepSize):
    """The distance travelled over the gradients, for noisy gradients without a proxy."""

    policy: DistanceStepPolicy = field(default_factory=DistanceStepPolicy)

    measures: ClassVar[bool] = True

    def init(self, w0: Vector, problem: Any, *, uses_proxy: bool = False) -> DistanceState:
        """Return what is known before the first step."""
        repeatable = bool(getattr(getattr(problem, "objective", None), "repeatable", True))
        return DistanceState(w0, repeatable, Averages(w0, w0))

    def eta(self, state: DistanceState, k: int) -> float:
        """Return η of the step in progress; NaN before anything was observed."""
        return state.eta if state.eta > 0 else math.nan

    def comparison_point(self, state: DistanceState, k: int) -> Vector | None:
        """Return the start at the second step, for the scale of the steps."""
        return state.previous if k == 1 and state.repeatable else None

    def observe(self, state: DistanceState, seen: Observation) -> DistanceState:
        """Enter a batch's gradient into G; η is for this step."""
        k, size, averages, reach = seen.k, norm(seen.gradient), state.averages, state.reach
        if state.previous is not None and state.linear is not None:
            # With a penalty, the step to w has shown a subgradient of it; else this is rounding.
            pull = state.linear + (seen.w - state.previous) / state.eta
            averages = averages.with_gradient(k, seen.gradient - pull, seen.w)
        if k == 0:
            probe = SHARED.probe if state.repeatable else self.policy.blind_probe
            length = probe * max(1.0, norm(seen.w))
            eta = length / size if size > 0 else length
        else:
            scale = self._scale(state, seen)
            eta = scale or SHARED.grow * state.eta
            reach = max(reach, scale * max(state.square**0.5, size))
        mean = state.square + share(k) * (square(size) - state.square)
        state = changed(state, averages=averages, square=mean, reach=reach, asked=seen.w)
        eta = min(eta, self.limit(state, k))
        return changed(state, eta=eta if eta > 0 else state.eta)

    def _scale(self, state: DistanceState, seen: Observation) -> float:
        """Return the η that a batch's change since the probe allows; 0 if it shows nothing."""
        # If the loss is nearly linear, its curvature says nothing: two leaps at most.
        again = [g for w, g, _ in seen.elsewhere if seen.k == 1 and same_point(w, state.previous)]
        if not again:
            return 0.0
        change = seen.gradient - again[0]
        slope, size = dot(change, seen.w - state.previous), square(norm(change))
        allowed = slope / size if size > 0 else 0.0
        return max(0.0, min(allowed, SHARED.leap**2 * state.eta))

    def limit(self, state: DistanceState, k: int) -> float:
        """Return the largest η that the distance and the gradients allow."""
        distance = state.farthest
        if state.repeatable:
            travelled = max(norm(state.averages.long - state.start), state.reach)
            distance = min(travelled, max(self.policy.trust * state.proven, state.reach))
            distance *= SHARED.grow if state.averages.lag > 0 else 1.0
        if state.square == 0 or distance == 0:
            return math.inf
        return distance / math.sqrt((k + 1) * state.square)

    def solve(
        self, state: DistanceState, k: int, linear: Vector, centre: Vector, solve: Solve
    ) -> tuple[Vector, DistanceState]:
        """Take the step, which is at most twice as long as the way so far."""
        known, eta = max(norm(centre - state.start), state.moved, state.reach), state.eta
        for _ in range(TRIES):
            with contextlib.suppress(NonFiniteError):
                w = solve(linear, centre, eta)
                if known == 0 or norm(w - centre) <= SHARED.grow * known:
                    return w, changed(state, eta=eta, linear=linear)
            eta /= SHARED.grow
        return solve(linear, centre, eta), changed(state, eta=eta, linear=linear)

    def end_step(self, state: DistanceState, k: int, w: Vector) -> DistanceState:
        """Enter the step to w."""
        away, moved = norm(w - state.start), norm(w - state.asked)
        path = state.path + square(moved)
        return changed(
            state, averages=state.averages.with_iterate(k, w), path=path, moved=moved,
            proven=max(state.proven, (away - path / away) / 2 if away > 0 else 0.0),
            farthest=max(state.farthest, away), previous=state.asked,
        )  # fmt: skip

    def answer(self, state: DistanceState, w: Vector) -> Vector:
        """Return the average, or a shorter one if it lags."""
        return state.averages.answer


def _of_rule(name: str) -> Any:
    """Return a method of :class:`WithoutProxy` that calls that of the rule a state belongs to."""

    @functools.wraps(getattr(StepSize, name))
    def call(self: WithoutProxy, state: Any, *arguments: Any) -> Any:
        return getattr(self.rule(state), name)(state, *arguments)

    return call


@dataclass(frozen=True)
class WithoutProxy(StepSize):
    """Measure the step size of a method without a proxy; what its ``eta="auto"`` stands for.

    Parameters
    ----------
    exact : AutoStep
        The rule for exact gradients.
    distance : DistanceStep
        The rule for noisy ones.
    """

    exact: AutoStep
    distance: DistanceStep = field(default_factory=DistanceStep, repr=False)

    measures: ClassVar[bool] = True
    states: ClassVar[tuple[type, ...]] = (AutoState,)

    def rule(self, state: Any) -> StepSize:
        """Return the rule that a state belongs to."""
        return self.distance if isinstance(state, DistanceState) else self.exact

    def init(self, w0: Vector, problem: Any, *, uses_proxy: bool = False) -> Any:
        """Return the state for noisy gradients: the first answer tells whether they are exact."""
        return self.distance.init(w0, problem)

    def observe(self, state: Any, seen: Observation) -> Any:
        """Measure with a batch's gradients; the first ones show whether they are exact."""
        if seen.k == 0 and seen.noise == 0 and isinstance(state, DistanceState):
            # Exact gradients: curvature limits the steps, and without a proxy h is L itself.
            state = self.exact.init(state.start, None, uses_proxy=False)
        return self.rule(state).observe(state, seen)

    # The rest is the business of the rule that is chosen.
    eta = _of_rule("eta")
    comparison_point = _of_rule("comparison_point")
    gain = _of_rule("gain")
    restart = _of_rule("restart")
    solve = _of_rule("solve")
    end_step = _of_rule("end_step")
    answer = _of_rule("answer")
