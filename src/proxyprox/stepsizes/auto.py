r"""The rule behind ``eta="auto"``.

The convex corollary of the paper wants ``η = min{1/(4δ), B/(σ√K)}``. Here everything in it is
measured during the run, and the noise may grow with the distance:

.. math:: \eta_k = \min\Big\{2\eta_{k-1},\; \frac{1}{\delta_k},\; \frac{0.8}{r_k \ell_k},\;
          \frac{1.2\,B_k}{\sqrt{k\,r_k v_k}}\Big\}

**Noise.** At batches of one row the noise ``ξ = g − ∇L`` is not bounded: it grows with the distance
from the optimum, ``E‖ξ(u) − ξ(w)‖² ≤ ℓ ⟨∇L(u) − ∇L(w), u − w⟩``. For convex losses of single
rows that are H_i-smooth, ``ℓ ≤ max H_i / batch`` (co-coercivity). ℓ is measured on the way
(:func:`add_growth`), over several batches and never by one: each is evaluated at two points, and
the change of its noise is compared with the curvature between them. The last term's v is the
noise where the iterate is (:func:`add_noise`), r the share of it that reaches the iterate, from a
few subproblems solved again with a sample of the noise added (:func:`add_damping`).

**Similarity.** δ comes from secants of h on one batch (:func:`add_curvature`); what noise alone
could have shown does not count.

**The first steps.** The first is a probe of length 1e-4. What one batch then shows of curvature and
noise allows a leap (:func:`_leap`), of at most 32 times the way so far, and the batch at its end
the next, until ℓ limits them. A batch whose rows share no column with the last step shows nothing:
then η only doubles. No noisy step is more than twice as long as the way so far.

**Distance.** B is the distance travelled, as in DoG, less what the noise of the steps explains
(:func:`_noise_limit`): a random walk is no sign that the optimum is far. It limits from the tenth
step after the leaps on; before, ℓ does. K is the steps so far, which makes the rule anytime. The
denominator holds noise only, not the gradients themselves, so that it never slows a deterministic
run.

Where the correction is plain, past differences are weighed in by their expected error
(:func:`update_gain`), and one that is farther from their mean than all before, and more than
four times as far as noise and drift explain, is cut to that: rows with few moments. The answer is
the average of the iterates with weights ``k³``, or ``k¹⁵`` where the first is shown to lag
(:func:`_add_lag`), or the last one if nothing is noisy.

A step is taken back when its own secant shows that it overshot (``δ > 2/η`` along it): the newest
batch's gradient at the point before is known already, so the step that replaces it costs nothing.
It is also taken back, and repeated with an eighth of η, when the next difference is far
beyond even that. With noise, all that was measured at the point that is left is forgotten, and η
falls to an eighth at most.

What is proven, for exact inner solves:

* Where L is convex and its gradients exact, a step s whose secant shows ``q ≤ 1/η`` never raises L:
  ``∇L(w⁺) = ∇h(w⁺) − ∇h(w) − s/η`` at the subproblem's solution, hence by convexity
  ``L(w⁺) − L(w) ≤ ⟨∇L(w⁺), s⟩ = −(1/η − q)‖s‖²``. For quadratic L̂ and h, ``q ≤ 2/η`` is enough.
* Every step that is taken back for its secant at least halves η (``q > 2/η`` and then ``η ≤ 1/q``).
  Where the gradients are exact and h is δ-smooth, the similarity term alone never pushes η below
  ``1/(√2 δ)`` (√2: powers of two). With sampled gradients it may: a batch's secants exceed δ.
* For L and L̂ convex, h δ-smooth, a constant ``η ≤ 1/δ``, the newest difference alone, and noise
  with ``E‖ξ(w)‖² ≤ 2σ*² + 2ℓ⟨∇L(w), w − w*⟩``, which the growth above implies with σ*² the noise at
  the optimum: if ``2ηrℓ < 1``, the mean of the iterates satisfies
  ``E L(w̄) − L* ≤ [(1 + ηδ)B²/(2η) + 2ηrℓ A_0 + 2Kηrσ*²] / ((1 − 2ηrℓ) K)`` with
  ``A_0 = ⟨∇L(w_0), w_0 − w*⟩``. It follows from the sharper theorem of docs/theory.md: its
  left side is ``Σ ⟨∇L(w_k), w_k − w*⟩``, its noise ``ηr Σ E‖ξ_k‖²``, and the growing part of that
  goes to the left. So noise that grows costs a factor only, as long as ``ηrℓ`` is bounded. (Where
  the noise at w* and its growth are uncorrelated, both 2s in front of ℓ are 1: hence 0.8.)

Not proven: that the estimates are good enough, that a mean of differences and a changing η keep
these bounds, and that they hold with r measured for a longer step, the :func:`horizon`. That is
tested, in ``benchmarks/auto_eta.py``.

**Where a batch may not be evaluated twice** neither δ nor ℓ can be measured: the first η is an
eighth of what the proxy's curvature suggests, and v and the distance do the rest.

**Without a proxy**, in :class:`~proxyprox.SGD` with noisy gradients, the distance travelled over
the gradients takes the place of δ and v; ℓ limits the second step only:

.. math:: \eta_k = \min\Big\{2\eta_{k-1},\; \frac{1.2\,D_k}{\sqrt{k\,G_k}}\Big\},\qquad
          D_k = \min\Big\{\|\bar w_k - w_0\|,\; 6 \max_{j \le k}
          \frac{\|w_j - w_0\|^2 - \sum_{i<j}\|w_{i+1} - w_i\|^2}{2\|w_j - w_0\|}\Big\}

G is the mean of ``‖g_i‖²`` with weights i³; twice the last term is allowed while the average lags,
and a gradient that is longer than all before and than four times the usual is cut to that.
This is DoG, with a numerator that a single long step cannot raise and a denominator that forgets a
steep start. Curvature, which limits the step of a proxy, says too little here: where noise is small
and the curvature falls as the loss does (logistic regression on nearly separable data), steps far
beyond 1/H that bounce at first are by far the best; where noise is large, 1/H is too long. Both
show in ``‖g‖``. Steps stay bounded because ``k G_k ≥ 4k/(k + 4) ‖g_k‖²``: beyond the first few, no
step is much longer than 0.6 of the distance travelled (1.2 while the average lags), and gradients
that grow shorten the next ones. Batches that may not be evaluated twice leave DoG itself, with
``max_j ‖w_j − w_0‖`` in the numerator and a first step of 0.03 max(1, ‖w_0‖).

Distance travelled does not prove distance to go: where the loss is nearly linear (a hinge, absolute
deviations) steps double unopposed, and bounded gradients never stop them. The second term of D
does. For convex L, ``0 ≤ Σ η_i ⟨g_i, w_i − w*⟩`` in expectation if the step sizes do not depend on
the gradients they multiply; with ``η_i g_i = w_i − w_{i+1}`` this telescopes to
``(‖w_j − w_0‖² − Σ ‖w_{i+1} − w_i‖²)/2 ≤ ‖w_j − w_0‖ ‖w_0 − w*‖``, a lower bound on the distance to
go (D-adaptation's, without its vectors). Here η_i does depend on g_i, so that the bound is a
heuristic.

References
----------
Ivgi, Hinder and Carmon, "DoG is SGD's best friend: a parameter-free dynamic step size schedule",
ICML 2023, for the distance over gradients; Defazio and Mishchenko, "Learning-rate-free learning by
D-adaptation", ICML 2023; Shamir and Zhang, "Stochastic gradient descent for non-smooth
optimization", ICML 2013, for the polynomial-decay average; Gower, Loizou, Qian, Sailanbayev,
Shulgin and Richtárik, "SGD: general analysis and improved rates", ICML 2019, for noise that grows.
"""

from __future__ import annotations

import contextlib
import copy
import math
import sys
from dataclasses import dataclass, replace
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
POWER = 3

# Weights ``k¹⁵``: the mean of about the last sixteenth of the run.
SHORT = 15

# η beyond which the quadratic term is lost in rounding.
LARGEST = 2.0**40

# A step that leads so many times beyond all that was seen has a nearly singular subproblem. (A
# noisy one leads at most GROW times as far as any before: rows that were not seen may be steep.)
FARTHEST = 10.0

# The first η of exact gradients, in units of 1/H: a proxy worth having has δ far below H.
BOLD = 100.0

# Length of the first step, in units of max(1, ‖w_0‖), where nothing is known about scales; and
# where nothing will be: no proxy, and no batch can be evaluated twice.
PROBE, BLIND_PROBE = 1e-4, 0.03

# How much longer than the probe the second step without a proxy may be: where the loss is nearly
# linear, its curvature says nothing. And how many times as long as the way so far a step may be
# that relies on what one batch has shown.
JUMP, LEAP = 1024.0, 32.0

# η r ℓ stays below this.
GROWTH = 0.8
# The next step is so much shorter than one batch's ℓ allows; or one proxy's curvature.
CAUTION, BLIND_CAUTION = 0.25, 0.125
# Steps during which ℓ limits η in place of the distance travelled; what noise alone moves the
# iterate is then at most so many times the way so far.
PATIENCE, STRIDE = 10, 4.0
# Measurements of ℓ weigh k²: it changes with the iterate.
GROWTH_POWER = 2
# ℓ grows at most so much by one measurement, and the curvature in it counts at least a tenth of
# the proxy's: a few rows may show none.
SURGE, LEAST_CURVATURE = 4.0, 0.1
# Gradients that change by less than this share between two points differ by rounding.
ROUNDING = 1e-7

# Batches are evaluated at the point before in the first twenty steps and in every tenth after: 10 %
# more gradients. Where δ = 0 is known, in the first six and twice while the steps double; without a
# proxy in the second, for the scale of the steps.
EVERY_STEP, THEN_EVERY = 20, 10
FIRST_GROWTHS, GROWTHS_PER_OCTAVE = 6, 2

# The share of the noise of the steps that the squared distance of the average contains, and the
# least share of the distance travelled that is believed.
WALK, LEAST_TRUST = 0.5, 0.4

# Differences that are longer than so many times what noise and drift explain, and than all before,
# are cut to that.
CLIP = 4.0
# One so many times longer still makes the last step be repeated with a shorter η.
EXPLODED, RETREAT = 2.5, 0.125

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

# r is measured once while the number of steps doubles: it changes slowly.
PER_OCTAVE = 1

# Horizons up to so many times η count as η.
SAME_HORIZON = 1.5
# Subproblems for r are solved to this share of the noise that is expected to reach the iterate.
DAMPING_ACCURACY, LEAST_SHARE = 0.1, 0.01

# The newest of k differences weighs at least 6/(k + 6).
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
    average: Vector
    recent: Vector
    secants: bool
    same_curvature: bool
    perturbs: bool
    distance: DistanceState | None
    eta: float = 0.0
    exact: bool = False
    probing: bool = False
    patience: int = PATIENCE
    lag: float = 0.0
    # Noise: v in two averages, the error of the mean difference and the weight of the newest.
    noise: float = 0.0
    spread: float = 0.0
    error: float = 0.0
    gain: float = 1.0
    # The share r, and how often it was measured.
    damping: float = 1.0
    damping_count: int = 0
    # ℓ: sums of the noise's changes and of curvatures, with weights k²; the noise at the last.
    growth: float = 0.0
    noise_change: float = 0.0
    curvature: float = 0.0
    compares: float = 0.0
    compared: int = 0
    level: float = 0.0
    halved: bool = False
    shown: bool = False
    # The longest gradient, or distance of a difference from the mean, that was believed.
    longest: float = 0.0
    # The path: the last step's length, the sum of η, η²rv, the first step, the farthest point.
    moved: float = 0.0
    time: float = 0.0
    walk: float = 0.0
    reach: float = 0.0
    farthest: float = 0.0
    # δ and how fast ∇h changes.
    delta: float = 0.0
    rate: float = 0.0
    mean: float = 0.0
    weight: float = 0.0
    peak: float = 0.0
    trough: float = 0.0
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
    # All of this before the last step, if that is taken back.
    before: AutoState | None = None


@dataclass(frozen=True)
class AutoStep(StepSize):
    """Measure δ, the noise and its growth during the run; what ``eta="auto"`` stands for."""

    measures: ClassVar[bool] = True

    def init(self, w0: Vector, problem: Any, *, uses_proxy: bool) -> AutoState:
        """Return what is known before the first step; without a proxy, h is L itself."""
        objective = None if problem is None else problem.objective
        same = uses_proxy and problem is not None and problem.same_curvature
        secants = bool(getattr(objective, "repeatable", True))
        distance = None if uses_proxy else DistanceState()
        return AutoState(w0, w0, w0, secants, same, uses_proxy, distance)

    def eta(self, state: AutoState, k: int) -> float:
        """Return η of the step in progress; NaN before anything was observed."""
        return state.eta if state.eta > 0 else math.nan

    def comparison_point(self, state: AutoState, k: int) -> Vector | None:
        """Return the point before at the steps that compare the two."""
        # Exact gradients are all of one batch: the point before has been answered already.
        if not state.secants or state.exact or k == 0:
            return None
        if state.distance is not None:
            compares = k == 1
        elif state.same_curvature:
            compares = k <= FIRST_GROWTHS or is_due(k, GROWTHS_PER_OCTAVE)
        else:
            compares = k <= EVERY_STEP or k % THEN_EVERY == 0
        return state.previous if compares or state.probing else None

    def observe(self, state: AutoState, seen: Observation) -> AutoState:
        """Measure with a batch's gradients; ``eta`` and the gain are for this step."""
        signals, before, state, k = _signals(state, seen), state.before, copy.copy(state), seen.k
        alone, leaping = state.distance is not None and seen.noise != 0, state.probing
        excess = 1.0 if seen.noise == 0 else _outlier(state, signals)
        add_noise(state, signals, excess)
        add_growth(state, signals)
        _add_lag(state, signals)
        overshot = _overshot(state, signals)
        if not alone:
            _add_similarity(state, signals)
        if alone:
            add_gradient(state, signals, excess)
        else:
            update_gain(state, k)
            state.gain = state.gain / excess
        if k == 0:
            eta = _first(state, signals)
        elif leaping:
            eta = _leap(state, signals)
        else:
            eta = GROW * state.eta / (excess if alone else 1.0)
        if alone:
            limit = distance_limit(state, k)
        else:
            similarity = 1 / state.delta if state.delta > 0 else math.inf
            if not leaping and state.growth > 0:
                # The first step's length says little once ℓ has limited the next ones.
                state.reach = 0.0
            noise = math.inf if leaping else _noise_limit(state, k)
            limit = min(similarity, _growth_limit(state), noise)
        eta = min(eta, limit, LARGEST)
        if overshot or (excess > EXPLODED and state.previous is not None):
            known = signals.before if seen.noise == 0 else state.estimate
            undo = Restart(state.previous, state.previous_anchor, known)
            if seen.noise != 0:
                # What was measured at a point too far says nothing about the way there.
                eta = max(RETREAT * state.eta, eta) if overshot else RETREAT * state.eta
                state = replace(before or state, probing=False)
                if overshot:
                    state.peak = max(state.peak, 1 / eta)
                    state.delta = max(state.delta, state.peak)
            state.undo = undo
        if not eta > 0:
            eta = state.eta
        elif not alone:
            # Powers of two: solvers that keep a factor of ∇²L̂ + I/η rarely need a new one.
            eta = 2.0 ** round(math.log2(eta))
        if seen.noise == 0 or (not seen.noise and state.undo is None):
            # Kept only where the next batch's noise will be read off it.
            state.last = signals.difference
        state.eta, state.exact = eta, seen.noise == 0
        state.asked, state.anchor, state.gap = seen.w, seen.anchor, signals.gap
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
        perturbed, residual = None, None
        if state.gap is not None and state.perturbs and not state.probing and is_due(k, PER_OCTAVE):
            perturbed = measure_damping(state, linear, centre, solve)
        if perturbed is not None:
            residual = _damping_residual(state)
        seen = max(norm(centre - state.start), state.moved, state.reach)
        farthest = (GROW if state.spread > 0 else FARTHEST) * seen if seen > 0 else math.inf
        for _ in range(TRIES):
            noisy = False
            with contextlib.suppress(NonFiniteError, NotConvexError):
                w = solve(linear, centre, state.eta, residual=residual)
                if not norm(w - centre) > farthest:
                    if perturbed is not None:
                        add_damping(state, perturbed - w, state.gap, state.eta)
                    return w, state
                noisy = state.spread > 0
            perturbed = residual = None
            if noisy:
                # Too long for what is known, which says nothing about the proxy.
                state.eta = state.eta / GROW
                continue
            # The proxy curves downwards by 1/η or more: a quarter of η for a while.
            state.eta = state.eta / 4
            state.peak = max(state.peak, 1 / state.eta)
            state.delta = max(state.delta, state.peak)
        return solve(linear, centre, state.eta), state

    def end_step(self, state: AutoState, k: int, w: Vector) -> AutoState:
        """Enter the step to w."""
        before, state = replace(state, before=None), copy.copy(state)
        # A method that does not know of restarts has stepped from the point it asked about.
        centre = state.asked if state.centre is None else state.centre
        if state.undo is not None and same_point(centre, state.undo.centre):
            state.previous, state.previous_anchor = state.undo.centre, state.undo.anchor
            if state.exact:
                state.last = state.undo.difference
        else:
            state.previous, state.previous_anchor = state.asked, state.anchor
        state.average = state.average + _share(k, POWER) * (w - state.average)
        state.recent = state.recent + _share(k, SHORT) * (w - state.recent)
        if state.distance is not None:
            state.distance = _moved_distance(state, centre, w)
        state.moved = norm(w - centre)
        newest = square(state.eta) * state.damping * state.noise
        state.walk = state.walk + _share(k, POWER) * (newest - state.walk)
        state.farthest = max(state.farthest, norm(w - state.start))
        state.time = min(LARGEST, state.time + state.eta)
        state.asked = state.anchor = state.gap = state.undo = state.centre = None
        state.before = before
        return state

    def answer(self, state: AutoState, w: Vector) -> Vector:
        """Return the average, a shorter one where it lags, or w if there is no noise."""
        if not state.spread > 0:
            return w
        return state.recent if state.lag > 0 else state.average


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
    elif state.exact and seen.noise == 0:
        # One batch for both steps: its gradient at the point before was the last answer.
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


def add_noise(state: AutoState, signals: Signals, excess: float = 1.0) -> None:
    """Update both noise levels with this batch's, which is cut as its gradient is."""
    newest, k = _noise_of(state, signals) / square(excess), signals.seen.k
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


# -- how the noise grows ------------------------------------------------------------------------


def add_growth(state: AutoState, signals: Signals) -> None:
    r"""Update ℓ with a batch that was evaluated at both ends of the last step s.

    .. math:: \ell = \frac{\sum \|\xi(w_k) - \xi(w_{k-1})\|^2 / \|s\|^2}
                         {\sum \langle g(w_k) - g(w_{k-1}), s\rangle / \|s\|^2}

    Both sums run over batches, with weights k², less where the noise has fallen since. Half the gap
    of two half batches is a sample of ξ; one row has no halves, and all of the change of ``g − ∇L̂``
    counts: for one row of a generalised linear model without a proxy the quotient is ``H_i``,
    whatever s. The batch is independent of s.
    """
    state.shown = False
    if signals.step is None or signals.before is None or signals.seen.noise == 0:
        return
    step, change = signals.step, signals.difference - signals.before
    whole, squared = signals.anchor_change + change, dot(step, step)
    if not 0 < squared < math.inf or norm(whole) <= ROUNDING * norm(signals.seen.gradient):
        return
    gap, gap_before = signals.seen.half_gap, signals.gap_before
    state.halved = False
    if gap is not None and gap_before is not None:
        change, state.halved = gap - gap_before, True
    state.shown = norm(change) > ROUNDING * norm(whole)
    k, before = signals.seen.k, state.growth
    past = ((state.compared + 1) / (k + 1)) ** GROWTH_POWER
    if 0 < state.noise < state.level:
        # Both sums shrink with the curvature: what was measured in noisier times would rule them.
        past *= square(state.noise / state.level)
    state.level = state.noise
    curvature = max(0.0, dot(whole, step), LEAST_CURVATURE * dot(signals.anchor_change, step))
    state.noise_change = past * state.noise_change + dot(change, change) / squared
    state.curvature = past * state.curvature + curvature / squared
    state.compares, state.compared = past * state.compares + 1, k
    if state.curvature > 0:
        state.growth = state.noise_change / state.curvature
        if before > 0:
            state.growth = min(state.growth, SURGE * before)


def _growth_limit(state: AutoState) -> float:
    return GROWTH / (state.damping * state.growth) if state.growth > 0 else math.inf


def _doubt(state: AutoState) -> float:
    """Return how large a curvature noise alone may show, where halves do not tell them apart."""
    if not state.compares or state.halved:
        return 0.0
    return math.sqrt(state.noise_change / state.compares)


def _overshot(state: AutoState, signals: Signals) -> bool:
    """Tell whether the last step was more than twice as long as the curvature of h allows."""
    if signals.before is None:
        return False
    curvature = _curvature(signals.difference - signals.before, signals.step)
    return curvature > 2 / state.eta + _doubt(state)


def _outlier(state: AutoState, signals: Signals) -> float:
    """Return how many times longer the newest answer is than is believed; at least 1.

    What is measured is the distance of the difference from the mean of all, and without a proxy
    the gradient. Believed is four times what noise and drift explain, and what was seen before.
    """
    if state.distance is not None:
        size, explained = norm(signals.seen.gradient), state.distance.square
    elif state.estimate is not None:
        size = norm(signals.difference - state.estimate)
        explained = square(state.error**0.5 + state.rate * state.moved) + state.noise
    else:
        return 1.0
    believed = max(CLIP * math.sqrt(explained), state.longest)
    if signals.seen.k < 3 or not explained > 0:
        believed = size
    state.longest = max(state.longest, min(size, believed))
    return max(1.0, size / believed) if believed > 0 else 1.0


# -- the mean of all differences, and of iterates -------------------------------------------------


def _add_lag(state: AutoState, signals: Signals) -> None:
    r"""Update the evidence λ that the average lags behind the iterates.

    .. math:: \lambda_k = \sum_i a_i \langle g_i, \bar w_i - w_i\rangle,\qquad
              \sum_i a_i\,(L(\bar w_i) - L(w_i)) \;\ge\; \mathbb{E}\,\lambda_k

    for convex L, with the weights ``a_i ∝ i¹⁵``: each batch is independent of both points. So λ > 0
    is evidence that the iterates are on average better than the averages beside them; by Jensen so
    is then their mean with the weights a. Where noise dominates, ``E⟨∇L(w), w − w̄⟩`` is about
    ``η E‖g‖²/2``, hence λ < 0 and the answer stays the long average. With a penalty a subgradient
    of it is added, which the step to ``w_i`` has shown; only rounding without one.
    """
    if signals.step is None or state.estimate is None:
        return
    gradient = signals.difference - state.estimate - signals.step / state.eta
    newest = dot(gradient, state.average - signals.seen.w)
    state.lag = state.lag + _share(signals.seen.k, SHORT) * (newest - state.lag)


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


def measure_damping(
    state: AutoState, linear: Vector, centre: Vector, solve: Solve
) -> Vector | None:
    """Find out how far a sample of the noise moves the solution of a subproblem.

    Where the step in progress is about as long as the horizon, only the perturbed solution is
    found, and returned: the step itself is what to compare it with.
    """
    eta, gap = horizon(state), state.gap
    own = eta <= SAME_HORIZON * state.eta
    residual = _damping_residual(state)
    try:
        moved = solve(linear + gap, centre, state.eta if own else eta, residual=residual)
        if own:
            return moved
        still = solve(linear, centre, eta, residual=residual)
    except (NonFiniteError, NotConvexError):
        return None
    add_damping(state, moved - still, gap, eta)
    return None


def _damping_residual(state: AutoState) -> float:
    """Return how accurately subproblems must be solved for r."""
    accuracy = DAMPING_ACCURACY * max(state.damping, LEAST_SHARE) * norm(state.gap)
    return max(accuracy, sys.float_info.min)


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
    """Return a bold multiple of 1/H without noise, else a step that is only a probe.

    An exact gradient is followed by a bold step: one that overshot is taken back.
    """
    if _is_bold(state, signals):
        H = signals.seen.smoothness
        if H is not None and 0 < H < math.inf:
            return BOLD / H
    blind = _is_blind(state, signals) and state.distance is not None
    length = (BLIND_PROBE if blind else PROBE) * max(1.0, norm(signals.seen.w))
    steepness = norm(signals.seen.gradient)
    state.probing = True
    return length / steepness if steepness > 0 else length


def _is_bold(state: AutoState, signals: Signals) -> bool:
    """Tell whether an overshooting step would be seen at once: there is a proxy and no noise."""
    return signals.seen.noise == 0 and state.distance is None


def _is_blind(state: AutoState, signals: Signals) -> bool:
    """Tell whether there is noise and no batch can be evaluated twice."""
    return not state.secants and signals.seen.noise != 0


def _leap(state: AutoState, signals: Signals) -> float:
    """Return a fraction of what one batch's curvature and noise allow, over a short way.

    Both were measured on a short step, so that a leap is at most :data:`LEAP` times as long as the
    way so far; what it shows decides on the next. A batch that shows nothing, since its rows share
    no column with the last step, is no reason for one.
    """
    change, blind = signals.anchor_change, _is_blind(state, signals)
    if change is not None and signals.before is not None:
        change = change + signals.difference - signals.before
    curvature = 0.0 if change is None else _curvature(change, signals.step)
    exact, alone = signals.seen.noise == 0, state.distance is not None
    # Without a proxy the distance travelled limits the steps.
    shown = exact or blind or alone or state.shown
    state.probing = not exact and not alone
    if not curvature > 0 or not shown or (blind and alone):
        return GROW * state.eta
    eta = (BOLD if _is_bold(state, signals) else BLIND_CAUTION if blind else 1.0) / curvature
    if state.growth > 0 and change is not None:
        # The halves of one batch may agree by chance: all of its change limits as well.
        whole = square(norm(change)) / dot(change, signals.step)
        eta = min(eta, CAUTION * GROWTH / state.growth, GROWTH / whole)
    steepness = max(norm(signals.seen.gradient), math.sqrt(state.spread))
    if alone and not exact:
        eta = min(eta, JUMP * state.eta)
    elif not exact:
        farthest = max(LEAP * state.farthest / steepness, GROW * state.eta)
        state.probing, state.patience = eta > farthest, signals.seen.k + PATIENCE - 1
        eta = min(eta, farthest)
    state.reach = eta * steepness
    return eta


def _noise_limit(state: AutoState, k: int) -> float:
    """Return the largest η that the noise and the distance travelled allow.

    The squared distance of the average from the start contains about half of the noise of all
    steps, ``k η² r v``; what is left was travelled on purpose.
    """
    if state.spread == 0:
        return math.inf
    if state.growth > 0 and k < state.patience:
        return STRIDE * state.farthest / math.sqrt(state.damping * state.spread)
    travelled = norm(state.average - state.start)
    on_purpose = math.sqrt(max(square(travelled) - WALK * (k + 1) * state.walk, 0.0))
    distance = max(on_purpose, LEAST_TRUST * travelled, state.reach)
    if distance == 0:
        return math.inf
    reach = REACH if state.damping_count else BLIND_REACH
    return reach * distance / math.sqrt((k + 1) * (state.damping * state.spread))


# -- without a proxy ----------------------------------------------------------------------------


def add_gradient(state: AutoState, signals: Signals, excess: float) -> None:
    """Update G with the newest gradient."""
    assert state.distance is not None
    distance, k = copy.copy(state.distance), signals.seen.k
    squared = square(norm(signals.seen.gradient) / excess)
    distance.square = distance.square + _share(k, POWER) * (squared - distance.square)
    state.distance = distance


def distance_limit(state: AutoState, k: int) -> float:
    """Return the largest η that the distance and the gradients allow."""
    assert state.distance is not None
    if state.secants:
        travelled = max(norm(state.average - state.start), state.reach)
        distance = min(travelled, max(TRUST * state.distance.proven, state.reach))
        reach = REACH * (LAGGING if state.lag > 0 else 1.0)
    else:
        distance, reach = state.farthest, 1.0
    if state.distance.square == 0 or distance == 0:
        return math.inf
    return reach * distance / math.sqrt((k + 1) * state.distance.square)


def _moved_distance(state: AutoState, centre: Vector, w: Vector) -> DistanceState:
    """Update the lower bound with the step from ``centre`` to ``w``."""
    assert state.distance is not None
    distance, away = copy.copy(state.distance), norm(w - state.start)
    distance.path = distance.path + square(norm(w - centre))
    proven = (away - distance.path / away) / 2 if away > 0 else 0.0
    distance.proven = max(distance.proven, proven)
    return distance


# What ProxyProx may be given.
LIMIT = "The theory allows eta up to 1/(4δ); with δ = 0 any positive eta converges."


def as_step_size(
    eta: Any, *, allow_inf: bool = False, auto: StepSize | None = None, remedy: str = LIMIT
) -> StepSize:
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
    remedy : str
        What the error says of a number that is refused; by default ProxyProx's limit.

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
        make = f"Make one: {eta.__name__}(...)." if isinstance(eta, type) else ""
        raise TypeError(message("eta", eta, allowed, make))
    if callable(eta):
        return Schedule(eta, allow_inf)
    return Constant(positive("eta", eta, remedy, allow_inf=allow_inf))
