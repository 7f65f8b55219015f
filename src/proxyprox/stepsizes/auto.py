r"""The rule behind ``eta="auto"``.

The convex corollary of the paper wants ``η = min{1/(4δ), B/(σ√K)}``. Here everything in it is
measured during the run:

.. math:: \eta_k = \min\Big\{2\eta_{k-1},\; \frac{1}{\delta_k},\;
          \frac{1.2\,\|\bar w_k - w_0\|}{\sqrt{k\,r_k v_k}}\Big\}

δ comes from secants of h on one batch (:func:`add_curvature`), the noise v from half batches
(:func:`add_noise`), the share r of it that reaches the iterate from a few subproblems solved again
with a sample of the noise added (:func:`add_damping`), B from the distance travelled, as in DoG,
and K from the steps so far, which makes the rule anytime. The last term's denominator holds noise
only, not the gradients themselves, so that it never slows a deterministic run. Where the correction
is plain, past differences are weighed in by their expected error (:func:`update_gain`). The answer
is the average of the iterates with weights ``k³``, or the last one if nothing is noisy.

A step is taken back when its own secant shows that it overshot (``δ > 2/η`` along it): the newest
batch's gradient at the point before is known already, so the step that replaces it costs nothing.

What is proven, for exact inner solves:

* Where L is convex and its gradients exact, a step s whose secant shows ``q ≤ 1/η`` never raises L:
  ``∇L(w⁺) = ∇h(w⁺) − ∇h(w) − s/η`` at the subproblem's solution, hence by convexity
  ``L(w⁺) − L(w) ≤ ⟨∇L(w⁺), s⟩ = −(1/η − q)‖s‖²``. For quadratic L̂ and h, ``q ≤ 2/η`` is enough.
* Every step that is taken back at least halves η (``q > 2/η`` and then ``η ≤ 1/q``), and where the
  gradients are exact and h is δ-smooth the similarity term alone never pushes η below
  ``1/(√2 δ)`` (√2: powers of two). A sampled batch's secants may exceed δ, and push it lower.
* With δ, B and σ known in place of their estimates, and the newest difference alone: the
  corollary's bound, with ``r σ²`` in the place of σ².

That the estimates are good enough is not proven. It is tested, in ``benchmarks/auto_eta.py``.

**Without a proxy**, in :class:`~proxyprox.SGD` with noisy gradients, the distance travelled over
the gradients takes the place of δ and v:

.. math:: \eta_k = \min\Big\{2\eta_{k-1},\; \frac{1.2\,D_k}{\sqrt{k\,G_k}}\Big\},\qquad
          D_k = \min\Big\{\|\bar w_k - w_0\|,\; 6 \max_{j \le k}
          \frac{\|w_j - w_0\|^2 - \sum_{i<j}\|w_{i+1} - w_i\|^2}{2\|w_j - w_0\|}\Big\}

G is the mean of ``‖g_i‖²`` with weights i³; twice the last term is allowed while the average lags.
This is DoG, with a numerator that a single long step cannot raise and a denominator that forgets a
steep start. Curvature, which limits the step of a proxy, says too little here: where noise is small
and the curvature falls as the loss does (logistic regression on nearly separable data), steps far
beyond 1/H that bounce at first are by far the best; where noise is large, 1/H is too long. Both
show in ``‖g‖``. Steps stay bounded because ``k G_k ≥ 4k/(k + 4) ‖g_k‖²``: beyond the first few, no
step is much longer than 0.6 of the distance travelled (1.2 while the average lags), and gradients
that grow shorten the next ones.

Distance travelled does not prove distance to go: where the loss is nearly linear (a hinge, absolute
deviations) steps double unopposed, and bounded gradients never stop them. The second term of D
does. For convex L, ``0 ≤ Σ η_i ⟨g_i, w_i − w*⟩`` in expectation if the step sizes do not depend on
the gradients they multiply; with ``η_i g_i = w_i − w_{i+1}`` this telescopes to
``(‖w_j − w_0‖² − Σ ‖w_{i+1} − w_i‖²)/2 ≤ ‖w_j − w_0‖ ‖w_0 − w*‖``, a lower bound on the distance to
go (D-adaptation's, without its vectors). Here η_i does depend on g_i, so that the bound is a
heuristic.

Whether the average lags is measured with gradients of batches that are independent of both points:

.. math:: \lambda_k = \sum_i a_i \langle g_i, \bar w_i - w_i\rangle,\qquad
          \sum_i a_i\,(L(\bar w_i) - L(w_i)) \;\ge\; \mathbb{E}\,\lambda_k

for convex L, with the weights ``a_i ∝ i¹⁵``. So λ > 0 is evidence that the iterates are on average
better than the averages beside them; by Jensen so is then their mean with the weights a, which
becomes the answer. Where noise dominates, ``E⟨∇L(w), w − w̄⟩`` is about ``η E‖g‖²/2``, hence λ < 0
and the answer stays the long average. With a penalty, g is replaced in λ by a subgradient of the
whole: the proximal step to ``w_i`` has shown one of the penalty there,
``(w_{i−1} − w_i)/η_{i−1} − g_{i−1}``.

References
----------
Ivgi, Hinder and Carmon, "DoG is SGD's best friend: a parameter-free dynamic step size schedule",
ICML 2023, for the distance over gradients; Defazio and Mishchenko, "Learning-rate-free learning by
D-adaptation", ICML 2023; Shamir and Zhang, "Stochastic gradient descent for non-smooth
optimization", ICML 2013, for the polynomial-decay average.
"""

from __future__ import annotations

import contextlib
import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector, dot, norm, same_point, square
from proxyprox._util.validation import message, positive
from proxyprox.inner.base import NonFiniteError
from proxyprox.problems.quadratic import NotConvexError
from proxyprox.stepsizes.base import Constant, Observation, Restart, Schedule, Solve, StepSize

GROW = 2.0
REACH = 1.2
# The factor of the noise limit where r could not be measured and 1 stands for it.
BLIND_REACH = 2.0

# Averages of iterates, noise and gradients have weights ``k³``: recent ones count most.
POWERS = (1, 3, 15)
POWER = 3
SHORT = 15

# η beyond which the quadratic term is lost in rounding.
LARGEST = 2.0**40

# A step that leads so many times beyond all that was seen has a nearly singular subproblem.
FARTHEST = 10.0

# The first η of exact gradients, in units of 1/H: a proxy worth having has δ far below H.
BOLD = 100.0

# Length of the first step, in units of max(1, ‖w_0‖), where nothing is known about scales.
PROBE = 1e-4

# How much longer than the probe the second step without a proxy may be: where the loss is nearly
# linear, its curvature says nothing.
JUMP = 1024.0

EVERY_STEP = 20
# Secants are taken at the first twenty steps and at every tenth after: 10 % more gradients.
THEN_EVERY = 10

# η r ℓ stays below this: noise that grows with the distance is outweighed by the decrease.
GROWTH = 0.8
# The first step after the probe is so much shorter than what one batch has shown.
CAUTION = 0.25
BLIND_CAUTION = 0.125
BLIND_PROBE = 0.03
# Steps before the distance travelled limits η, where the growth of the noise does.
PATIENCE = 10
SGD_PATIENCE = 5
# Weight of the past in the running means of the noise's growth.
REMEMBER = 2.0
ROUNDING = 1e-7
LEAST_CURVATURE = 0.1
SURGE = 4.0
# Share of the distance travelled that noise explains.
WALK = 0.5
LEAST_TRUST = 0.4
# Steps that compare two points where δ = 0 is known: the first few, then so often per octave.
FIRST_GROWTHS = 6
FIRST_SGD = 3
GROWTHS_PER_OCTAVE = 2

# A difference farther from the mean of all than so many times what noise and drift explain is cut.
CLIP = 4.0

LONGEST = 1
DOUBT = 1.0
EXPLODED = 10.0
RETREAT = 0.125

# Shorter steps tried where a subproblem has no finite solution.
TRIES = 20

# Weight of the newest batch in the noise level used for weighing gradients.
RECENT_NOISE = 0.1

# Weight of the past in the running mean of curvatures.
FORGET = 0.8

# How fast the largest curvature seen is forgotten.
FADE = 0.9

# Weight of the newest measurement of r, once there are four.
RECENT_DAMPING = 0.25

LEAST_DAMPING = 1e-12

# r is measured four times while the number of steps doubles: it changes slowly.
PER_OCTAVE = 4

# The newest of k differences weighs at least 3/(k + 3).
LEAST_GAIN = 6

# How much longer steps may be while the average is shown to lag behind the iterates.
LAGGING = 2.0

# Distances beyond so many times the lower bound are not believed.
TRUST = 6.0


@dataclass
class DistanceState:
    """What the rule without a proxy keeps: G, the path's squared steps, the lower bound."""

    square: float = 0.0
    path: float = 0.0
    proven: float = 0.0


@dataclass
class AutoState:
    """What has been measured, and the step in progress."""

    start: Vector
    averages: tuple[Vector, ...]
    secants: bool
    same_curvature: bool
    perturbs: bool
    distance: DistanceState | None
    lags: tuple[float, ...] = (0.0, 0.0)
    eta: float = 0.0
    exact: bool = False
    probed: bool = False
    noise: float = 0.0
    spread: float = 0.0
    error: float = 0.0
    gain: float = 1.0
    damping: float = 1.0
    damping_count: int = 0
    moved: float = 0.0
    time: float = 0.0
    reach: float = 0.0
    delta: float = 0.0
    rate: float = 0.0
    mean: float = 0.0
    weight: float = 0.0
    peak: float = 0.0
    trough: float = 0.0
    noise_change: float = 0.0
    curvature: float = 0.0
    growth: float = 0.0
    compared: int = 0
    compares: float = 0.0
    halved: bool = False
    walk: float = 0.0
    farthest: float = 0.0
    last: Vector | None = None
    estimate: Vector | None = None
    previous: Vector | None = None
    previous_anchor: Vector | None = None
    # Set by observe, used by solve and end_step of the same step.
    asked: Vector | None = None
    anchor: Vector | None = None
    gap: Vector | None = None
    undo: Restart | None = None
    centre: Vector | None = None


@dataclass(frozen=True)
class AutoStep(StepSize):
    """Measure δ and the noise during the run; what ``eta="auto"`` stands for."""

    measures: ClassVar[bool] = True

    def init(self, w0: Vector, problem: Any, *, uses_proxy: bool) -> AutoState:
        """Return what is known before the first step; without a proxy, h is L itself."""
        objective = None if problem is None else problem.objective
        same = uses_proxy and problem is not None and problem.same_curvature
        secants = bool(getattr(objective, "repeatable", True))
        distance = None if uses_proxy else DistanceState()
        return AutoState(w0, (w0,) * len(POWERS), secants, same, uses_proxy, distance)

    def eta(self, state: AutoState, k: int) -> float:
        """Return η of the step in progress; NaN before anything was observed."""
        return state.eta if state.eta > 0 else math.nan

    def comparison_point(self, state: AutoState, k: int) -> Vector | None:
        """Return the point before at the steps that measure a secant."""
        # Exact gradients are all of one batch: the point before has been answered already.
        if not state.secants or state.exact or k == 0:
            return None
        # Without a proxy one secant is enough, for the scale of the steps.
        if state.distance is not None:
            every = k <= FIRST_SGD
        elif state.same_curvature:
            every = k <= FIRST_GROWTHS or is_due(k, GROWTHS_PER_OCTAVE)
        else:
            every = k <= EVERY_STEP or k % THEN_EVERY == 0
        return state.previous if every else None

    def may_compare(self, state: AutoState) -> bool:
        """Tell whether secants are measured."""
        return state.secants

    def observe(self, state: AutoState, seen: Observation) -> AutoState:
        """Measure with a batch's gradients; ``eta`` and the gain are for this step."""
        signals = _signals(state, seen)
        state = copy.copy(state)
        k, without_proxy = seen.k, state.distance is not None and seen.noise != 0
        before_noise = state.noise
        add_noise(state, signals)
        add_growth(state, signals)
        _add_lags(state, signals)
        overshot = (
            signals.before is not None
            and _curvature(signals.difference - signals.before, signals.step)
            > 2 / state.eta + _doubt(state)
        )
        shortened = 1.0
        if without_proxy:
            assert state.distance is not None
            usual, size = math.sqrt(state.distance.square), norm(seen.gradient)
            surprise = size / usual if usual > 0 and k > 2 else 0.0
            shortened = min(1.0, CLIP / surprise) if surprise > 0 else 1.0
            add_gradient(state, signals, shortened)
        else:
            _add_similarity(state, signals)
            surprise = _surprise(before_noise, state, signals)
            update_gain(state, k)
            state.gain = state.gain * min(1.0, CLIP / surprise) if surprise > 0 else state.gain
        if k == 0:
            eta = _first(state, signals)
        elif k == 1 and state.probed:
            eta = _second(state, signals)
        else:
            eta = GROW * state.eta
        if without_proxy:
            limit = min(distance_limit(state, k), GROW * state.eta * shortened if k > 2 else math.inf)
        else:
            limit = min(1 / state.delta if state.delta > 0 else math.inf, _noise_limit(state, k))
            limit = min(limit, _growth_limit(state))
        eta = min(eta, limit, LARGEST)
        exploded = surprise > EXPLODED and not overshot and state.previous is not None
        if exploded:
            eta = min(eta, RETREAT * state.eta)
        if not eta > 0:
            eta = state.eta
        elif not without_proxy:
            # Powers of two: solvers that keep a factor of ∇²L̂ + I/η rarely need a new one.
            eta = 2.0 ** round(math.log2(eta))
        if not seen.noise:
            # Kept only where the next batch's noise will be read off it.
            state.last = signals.difference
        state.eta, state.exact = eta, seen.noise == 0
        state.asked, state.anchor, state.gap = seen.w, seen.anchor, signals.gap
        if exploded:
            state.undo = Restart(state.previous, state.previous_anchor, state.estimate)
        if overshot:
            state.undo = Restart(state.previous, state.previous_anchor, signals.before)
        return state

    def gain(self, state: AutoState) -> float | None:
        """Return the weight of the newest difference in the mean of all."""
        return state.gain

    def restart(self, state: AutoState) -> Restart | None:
        """Return the centre before if the last step overshot."""
        return state.undo

    def solve(
        self, state: AutoState, k: int, linear: Vector, centre: Vector, solve: Solve
    ) -> tuple[Vector, AutoState]:
        """Solve the subproblem, with a smaller η where it is not convex or nearly singular."""
        state = copy.copy(state)
        state.estimate, state.centre = linear, centre
        if state.gap is not None and state.perturbs and is_due(k, PER_OCTAVE):
            measure_damping(state, linear, centre, solve)
        seen = max(norm(centre - state.start), state.moved, state.reach)
        farthest = FARTHEST * seen if seen > 0 else math.inf
        for _ in range(TRIES):
            with contextlib.suppress(NonFiniteError, NotConvexError):
                w = solve(linear, centre, state.eta)
                if not norm(w - centre) > farthest:
                    return w, state
            # The proxy curves downwards by 1/η or more: a quarter of η for a while.
            state.eta = state.eta / 4
            state.peak = max(state.peak, 1 / state.eta)
            state.delta = max(state.delta, state.peak)
        return solve(linear, centre, state.eta), state

    def end_step(self, state: AutoState, k: int, w: Vector) -> AutoState:
        """Enter the step to w."""
        state = copy.copy(state)
        # A method that does not know of restarts has stepped from the point it asked about.
        centre = state.asked if state.centre is None else state.centre
        if state.undo is not None and same_point(centre, state.undo.centre):
            state.previous, state.previous_anchor = state.undo.centre, state.undo.anchor
        else:
            state.previous, state.previous_anchor = state.asked, state.anchor
        state.averages = tuple(
            mean + _share(k, power) * (w - mean)
            for mean, power in zip(state.averages, POWERS, strict=True)
        )
        if state.distance is not None:
            state.distance = _moved_distance(state, centre, w, k)
        state.moved = norm(w - centre)
        newest = square(state.eta) * state.damping * state.noise
        state.walk = state.walk + _share(k, POWER) * (newest - state.walk)
        state.farthest = max(state.farthest, norm(w - state.start))
        state.time = min(LARGEST, state.time + state.eta)
        state.asked = state.anchor = state.gap = state.undo = state.centre = None
        return state

    def answer(self, state: AutoState, w: Vector) -> Vector:
        """Return the average, or the last iterate if there is no noise to average away.

        Without a proxy, a shorter average where the longer one is shown to lag behind the iterates.
        """
        if not state.spread > 0:
            return w
        for mean, lag in zip(state.averages[LONGEST:], state.lags[LONGEST:], strict=False):
            if not lag > 0:
                return mean
        return state.averages[-1]


@dataclass(frozen=True)
class Signals:
    """An observation together with what the step before left to compare it with."""

    seen: Observation
    difference: Vector
    before: Vector | None
    gap: Vector | None
    step: Vector | None = None
    anchor_change: Vector | None = None
    gap_before: Vector | None = None


def _signals(state: AutoState, seen: Observation) -> Signals:
    difference, before, gap_before = seen.gradient - seen.anchor, None, None
    found = (rest for point, *rest in seen.elsewhere if same_point(point, state.previous))
    again, gap_before = next(found, (None, None))
    if again is not None:
        before = again - state.previous_anchor
    elif state.exact:
        # One batch for all steps: its gradient at the point before was the last answer.
        before = state.last
    gap = seen.half_gap
    if gap is None and again is not None and state.last is not None:
        # Two batches at one point: what they differ by is noise.
        gap = before - state.last
    if state.previous is None:
        return Signals(seen, difference, before, gap)
    step, change = seen.w - state.previous, seen.anchor - state.previous_anchor
    return Signals(seen, difference, before, gap, step, change, gap_before)


def _curvature(change: Vector, step: Vector | None) -> float:
    """Return ``⟨change, step⟩ / ‖step‖²``; 0 where nothing moved."""
    if step is None:
        return 0.0
    squared = dot(step, step)
    if 0 < squared < math.inf:
        return dot(change, step) / squared
    length = norm(step)
    return dot(change, step / length) / length if length > 0 else 0.0


def _share(k: int, power: int) -> float:
    """Return the newest one's share in a mean with weights of about ``k**power``."""
    return min(1.0, (1 + power) / (k + 1 + power))


# -- noise ------------------------------------------------------------------------------------


def add_noise(state: AutoState, signals: Signals) -> None:
    """Update both noise levels with this batch's."""
    newest, k = _noise_of(state, signals), signals.seen.k
    recent = newest if k == 0 else state.noise + RECENT_NOISE * (newest - state.noise)
    share = _share(k, POWER)
    if k == 1 and signals.seen.noise is None:
        # The first batch alone says nothing about its noise: take the second's for both.
        recent, share = newest, 1.0
    state.spread = state.spread + share * (newest - state.spread)
    state.noise = recent


def _noise_of(state: AutoState, signals: Signals) -> float:
    """Return an estimate of ``E‖g − ∇L‖²``.

    Best is what the objective says: two half batches give ``‖g₁ − g₂‖²/4`` without bias. Next,
    two batches at one point: a secant re-evaluates the newest at ``w_{k−1}``, where the difference
    of the batch before is remembered. Otherwise the surprise ``‖d_k − m‖²``, of which the share
    that the error of m explains is left out.
    """
    if signals.seen.noise is not None:
        return signals.seen.noise
    if signals.before is not None and state.last is not None:
        gap = signals.before - state.last
        return dot(gap, gap) / 2
    if state.estimate is None:
        return 0.0
    gap = signals.difference - state.estimate
    level, error = state.noise, state.error
    explained = max(level / (level + error), 0.5) if level + error > 0 else 0.5
    return dot(gap, gap) * explained


# -- similarity -------------------------------------------------------------------------------


def _add_similarity(state: AutoState, signals: Signals) -> None:
    """Measure the curvature of h along the last step, as well as the oracle allows."""
    if state.same_curvature:
        # All that is left is what subproblems without a solution have shown.
        state.peak = FADE * state.peak
        state.delta = state.peak
        return
    if signals.step is None:
        return
    if signals.before is not None:
        add_curvature(state, _curvature(signals.difference - signals.before, signals.step))
        return
    if state.estimate is None:
        return
    # Another batch made the estimate, and the estimate made the step: only what neither its noise
    # nor that bias can explain counts.
    gap, length, noise = signals.difference - state.estimate, norm(signals.step), state.noise
    doubt = math.sqrt(noise + state.error) * length + state.eta * noise
    curvature = max(0.0, dot(gap, signals.step) - doubt) / square(length) if length > 0 else 0.0
    if state.secants and curvature * state.eta <= 2:
        # Secants are better; between them this is an alarm.
        return
    add_curvature(state, curvature)


def add_curvature(state: AutoState, curvature: float) -> None:
    r"""Update δ with the curvature of h along the last step.

    .. math:: q = \frac{\langle \nabla h(w_k) - \nabla h(w_{k-1}), w_k - w_{k-1}\rangle}
                       {\|w_k - w_{k-1}\|^2},\qquad
              \delta = \max\{0, \bar q, \text{peak}\}

    Both gradients are of the newest batch, which is independent of the step: q is unbiased for
    the curvature of h between the two points. (On the batch that made the step it would not be.)
    Only its positive part can make a step overshoot, since h lies below its tangent plane plus
    ``q/2 ‖s‖²``; a proxy that is too curved only makes it short. The mean alone is too slow where
    the path turns into a direction in which the proxy is flat: the fading peak is kept too.

    How fast ∇h changes along the path, the ``rate``, counts both signs.
    """
    state.mean = FORGET * state.mean + curvature
    state.weight = FORGET * state.weight + 1
    state.peak = max(curvature - _doubt(state), FADE * state.peak)
    state.trough = min(curvature + _doubt(state), FADE * state.trough)
    state.delta = max(0.0, state.mean / state.weight, state.peak)
    state.rate = max(abs(state.mean) / state.weight, state.peak / 2, -state.trough / 2)


def add_growth(state: AutoState, signals: Signals) -> None:
    """Update ℓ."""
    if signals.step is None or signals.before is None or signals.seen.noise == 0:
        return
    squared = dot(signals.step, signals.step)
    if not 0 < squared < math.inf:
        return
    state.halved = signals.gap_before is not None and signals.seen.half_gap is not None
    if state.halved:
        change = signals.seen.half_gap - signals.gap_before
    else:
        change = signals.difference - signals.before
    whole = signals.anchor_change + signals.difference - signals.before
    if norm(whole) <= ROUNDING * norm(signals.seen.gradient):
        return
    k = signals.seen.k
    past = ((state.compared + 1) / (k + 1)) ** REMEMBER if state.compared else 0.0
    state.noise_change = past * state.noise_change + dot(change, change) / squared
    least = LEAST_CURVATURE * dot(signals.anchor_change, signals.step) / squared
    state.curvature = past * state.curvature + max(
        0.0, least, dot(whole, signals.step) / squared
    )
    state.compares = past * state.compares + 1
    state.compared = k
    if state.curvature > 0:
        growth = state.noise_change / state.curvature
        state.growth = min(growth, SURGE * state.growth) if state.growth > 0 else growth


def _surprise(noise: float, state: AutoState, signals: Signals) -> float:
    if signals.seen.k < 3 or state.estimate is None or not noise > 0:
        return 0.0
    expected = square(state.error**0.5 + state.rate * state.moved) + noise
    return norm(signals.difference - state.estimate) / math.sqrt(expected)


def _doubt(state: AutoState) -> float:
    """Return how large a curvature noise alone may show."""
    if not state.compares or state.halved:
        return 0.0
    return DOUBT * math.sqrt(state.noise_change / state.compares)


def _add_lags(state: AutoState, signals: Signals) -> None:
    if signals.step is None or state.estimate is None:
        return
    gradient = signals.difference - state.estimate - signals.step / state.eta
    share = _share(signals.seen.k, SHORT)
    state.lags = tuple(
        lag + share * (dot(gradient, mean - signals.seen.w) - lag)
        for lag, mean in zip(state.lags, state.averages, strict=False)
    )


def _growth_limit(state: AutoState) -> float:
    return GROWTH / (state.damping * state.growth) if state.growth > 0 else math.inf


def update_gain(state: AutoState, k: int) -> None:
    r"""Update the weight a of the newest difference and the error N of the weighted mean.

    .. math:: m \leftarrow m + a\,(d_k - m),\qquad
              N^- = (\sqrt N + \delta\|w_k - w_{k-1}\|)^2,\qquad
              a = \frac{N^-}{N^- + v},\qquad N = (1-a)^2 N^- + a^2 v

    A scalar Kalman filter for ∇h. ``d_k = g_k − ∇L̂(w_k)`` has the mean ∇h(w_k) and the noise v;
    since the last step ∇h has moved by at most δ times its length. With these a is the weight of
    least mean squared error: 1 while the iterate moves fast (``N⁻ ≫ v``: the paper's plain
    correction), 1/k where ∇h does not move (δ = 0: the mean of all differences). In between it
    decays whenever ``η < 1/δ``: noise moves the iterate by at most ``η a √v``, hence ∇h by
    ``c a √v`` with ``c = δη < 1``, and ``a = N⁻/(N⁻ + v)`` with ``N⁻ = c²a v/(1 − …)`` has no
    positive fixed point. The floor forgets a start that was noisier, or an N that was too small.
    """
    noise = state.noise
    if k == 0:
        state.gain, state.error = 1.0, noise
        return
    before = square(state.error**0.5 + state.rate * state.moved)
    gain = max(before / (before + noise) if before > 0 else 0.0, LEAST_GAIN / (k + LEAST_GAIN))
    if noise == 0:
        gain = 1.0
    state.gain = gain
    state.error = (1 - gain) ** 2 * before + gain**2 * noise


# -- the share of the noise that reaches the iterate --------------------------------------------


def is_due(k: int, per_octave: int) -> bool:
    """Tell whether step k is one of so many while the number of steps doubles."""
    return k > 0 and math.floor(per_octave * math.log2(k + 1)) > per_octave * math.log2(k)


def horizon(state: AutoState) -> float:
    """Return over how much time (the sum of step sizes) noise adds up in one direction.

    That is all the time so far, unless ∇h has drifted since: then it is about 1/δ.
    """
    return max(state.eta, min(state.time, 1 / state.rate if state.rate > 0 else math.inf))


def measure_damping(state: AutoState, linear: Vector, centre: Vector, solve: Solve) -> None:
    """Find out how far a sample of the noise moves the solution of a subproblem."""
    eta = horizon(state)
    try:
        still = solve(linear, centre, eta)
        moved = solve(linear + state.gap, centre, eta)
    except (NonFiniteError, NotConvexError):
        return
    add_damping(state, moved - still, state.gap, eta)


def add_damping(state: AutoState, shift: Vector, gap: Vector, eta: float) -> None:
    r"""Update the share r of the noise that counts, from a perturbed step.

    .. math:: r = \frac{\langle u, w^+(0) - w^+(u)\rangle}{\eta\,\|u\|^2} \in [0, 1]

    ``w⁺(u)`` solves the subproblem with u, a sample of the noise, added to its linear term; here
    ``shift = w⁺(u) − w⁺(0)``. Since the subproblem is 1/η-strongly convex, r is at most 1 (and is
    1 without a proxy); for a quadratic proxy ``r = uᵀ(I + ηP)⁻¹u/‖u‖²``: the noise in directions
    where the proxy is steep hardly moves the iterate.

    This is the term by which noise enters the paper's proof. With ``g = ∇L(w) + ξ``, a minimiser
    w* and the noiseless step w̃, ``E⟨ξ, w* − w⁺⟩ = E⟨ξ, w̃ − w⁺⟩ = η E[r‖ξ‖²]``, which the proof
    bounds by ησ². Its bound therefore holds with ``r σ²`` in the place of σ² for the η of the step.
    The rule measures r for a longer step, the :func:`horizon`: k steps of size η regularise like
    one of size kη. That part is a heuristic.
    """
    size = eta * dot(gap, gap)
    if not size > 0:
        return
    share = min(1.0, max(LEAST_DAMPING, -dot(gap, shift) / size))
    weight = max(RECENT_DAMPING, 1 / (state.damping_count + 1))
    state.damping = state.damping + weight * (share - state.damping)
    state.damping_count += 1


# -- limits on the step -----------------------------------------------------------------------


def _first(state: AutoState, signals: Signals) -> float:
    """Return a multiple of 1/H where H is known, else a step that is only a probe.

    An exact gradient is followed by a bold step: one that overshot is taken back. Where there are
    no secants, the proxy's scale must be trusted.
    """
    H, bold = signals.seen.smoothness, _is_bold(state, signals)
    if bold and H is not None and 0 < H < math.inf:
        return BOLD / H
    blind = not state.secants and signals.seen.noise != 0 and state.distance is not None
    length = (BLIND_PROBE if blind else PROBE) * max(1.0, norm(signals.seen.w))
    steepness = norm(signals.seen.gradient)
    state.probed = True
    return length / steepness if steepness > 0 else length


def _is_bold(state: AutoState, signals: Signals) -> bool:
    """Tell whether an overshooting step would be seen at once: there is a proxy and no noise."""
    return signals.seen.noise == 0 and state.distance is None


def _second(state: AutoState, signals: Signals) -> float:
    """Return a gradient step's η, from the curvature of L that the first step has shown."""
    change = signals.anchor_change
    blind = not state.secants and signals.seen.noise != 0
    if blind and state.distance is not None:
        return GROW * state.eta
    if change is not None and signals.before is not None:
        change = change + signals.difference - signals.before
    curvature = 0.0 if change is None else _curvature(change, signals.step)
    if not curvature > 0:
        return GROW * state.eta
    eta = (BOLD if _is_bold(state, signals) else 1.0) / curvature
    if state.growth > 0:
        eta = min(eta, CAUTION * GROWTH / state.growth)
    if blind:
        eta = BLIND_CAUTION * eta
    if state.distance is not None and signals.seen.noise != 0:
        eta = min(eta, JUMP * state.eta)
    state.reach = eta * max(norm(signals.seen.gradient), math.sqrt(state.spread))
    return eta


def _noise_limit(state: AutoState, k: int) -> float:
    if state.spread == 0 or (state.growth > 0 and k < PATIENCE):
        return math.inf
    travelled = norm(state.averages[1] - state.start)
    trusted = math.sqrt(max(square(travelled) - WALK * (k + 1) * state.walk, 0.0))
    distance = max(trusted, LEAST_TRUST * travelled, state.reach)
    if distance == 0:
        return math.inf
    reach = REACH if state.damping_count else BLIND_REACH
    return reach * distance / math.sqrt((k + 1) * (state.damping * state.spread))


# -- without a proxy ----------------------------------------------------------------------------


def add_gradient(state: AutoState, signals: Signals, shortened: float) -> None:
    """Update G with the newest gradient."""
    assert state.distance is not None
    distance, k = copy.copy(state.distance), signals.seen.k
    squared = dot(signals.seen.gradient, signals.seen.gradient) * square(shortened)
    distance.square = distance.square + _share(k, POWER) * (squared - distance.square)
    state.distance = distance


def distance_limit(state: AutoState, k: int) -> float:
    """Return the largest η that the distance and the gradients allow."""
    assert state.distance is not None
    if state.growth > 0 and k < SGD_PATIENCE:
        return _growth_limit(state)
    if not state.secants:
        distance, reach = state.farthest, 1.0
    else:
        travelled = max(norm(state.averages[1] - state.start), state.reach)
        distance = min(travelled, max(TRUST * state.distance.proven, state.reach))
        reach = REACH * (LAGGING if state.lags[1] > 0 else 1.0)
    if state.distance.square == 0 or distance == 0:
        return math.inf
    return reach * distance / math.sqrt((k + 1) * state.distance.square)


def _moved_distance(state: AutoState, centre: Vector, w: Vector, k: int) -> DistanceState:
    """Update the short mean and the lower bound with step k, from ``centre`` to ``w``."""
    assert state.distance is not None
    distance, away = copy.copy(state.distance), norm(w - state.start)
    distance.path = distance.path + square(norm(w - centre))
    proven = (away - distance.path / away) / 2 if away > 0 else 0.0
    distance.proven = max(distance.proven, proven)
    return distance


def as_step_size(eta: Any, *, allow_inf: bool = False, auto: StepSize | None = None) -> StepSize:
    """Return the rule that a method's ``eta`` stands for.

    Parameters
    ----------
    eta : float, callable, StepSize or "auto"
        A positive number, a function of the outer step k = 0, 1, …, a rule, or "auto" for
        :class:`AutoStep`.
    allow_inf : bool
        Whether η may be infinite, which drops the proximal term.
    auto : StepSize, optional
        What "auto" stands for instead.

    Examples
    --------
    >>> from proxyprox.stepsizes import as_step_size
    >>> as_step_size(0.5), as_step_size("auto")
    (Constant(value=0.5), AutoStep())
    """
    if isinstance(eta, StepSize):
        return eta
    if isinstance(eta, str) and eta == "auto":
        return AutoStep() if auto is None else auto
    if isinstance(eta, (str, type)):
        allowed = "a positive number, a function of the step, a StepSize or 'auto'"
        remedy = f"Make one: {eta.__name__}(...)." if isinstance(eta, type) else ""
        raise TypeError(message("eta", eta, allowed, remedy))
    if callable(eta):
        return Schedule(eta, allow_inf)
    remedy = "The theory allows eta up to 1/(4δ); with δ = 0 any positive eta converges."
    return Constant(positive("eta", eta, remedy, allow_inf=allow_inf))
