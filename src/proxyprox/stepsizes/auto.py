r"""The rule behind ``eta="auto"`` with a proxy, and for exact gradients without one.

The convex corollary of the paper wants ``η = min{1/(4δ), B/(σ√K)}``. Here everything in it is
measured during the run, and the noise may grow with the distance:

.. math:: \eta_k = \min\Big\{2\eta_{k-1},\; \frac{1}{\delta_k},\; \frac{0.8}{r_k \ell_k},\;
          \frac{B_k}{\sqrt{k\,r_k v_k}}\Big\}

**Noise.** At batches of one row the noise ``ξ = g − ∇L`` is not bounded: it grows with the distance
from the optimum, ``E‖ξ(u) − ξ(w)‖² ≤ ℓ ⟨∇L(u) − ∇L(w), u − w⟩``. For convex losses of single rows
that are H_i-smooth, ``ℓ ≤ max H_i / batch`` (co-coercivity). :class:`Growth` measures ℓ over
several batches: each is evaluated at two points, and the change of its noise is compared with the
curvature between them. v is the noise at the iterate and r the share of it that reaches the
iterate, from a few subproblems that are solved again with a sample of the noise added
(:class:`Noise`).

**Similarity.** δ comes from secants of h on one batch (:class:`Similarity`).

**The first steps.** The first is a probe of length 1e-4. What one batch then shows of curvature and
noise allows a leap of at most 32 times the way so far, and the batch at its end the next, until ℓ
limits them. No noisy step is more than twice as long as the way so far.

**Distance.** B is the distance travelled, as in DoG. It limits from the tenth step after the leaps
on; before, ℓ does. K is the steps so far, so that the rule needs no end. The denominator holds
noise only, not the gradients themselves, so that it never slows a run with exact gradients.

**Taken back.** If the secant along the last step shows that it overshot (``q > 2/η``), the step is
replaced: the newest batch's gradient at the point before is known already. With noise, η falls to
an eighth at most, and all that was measured at the point that is left is forgotten. A difference
that is more than four times as far from the mean of all as noise and drift explain is cut to that.

If a batch may not be evaluated twice, neither δ nor ℓ can be measured: the first η is an eighth of
what the proxy's curvature suggests, and v and the distance do the rest.

What is proven, for exact inner solves:

* If L is convex and its gradients exact, a step s whose secant shows ``q ≤ 1/η`` never raises L:
  ``∇L(w⁺) = ∇h(w⁺) − ∇h(w) − s/η`` at the subproblem's solution, hence by convexity
  ``L(w⁺) − L(w) ≤ ⟨∇L(w⁺), s⟩ = −(1/η − q)‖s‖²``. For quadratic L̂ and h, ``q ≤ 2/η`` is enough.
* A step that is taken back with exact gradients at least halves η (``q > 2/η``, then ``η ≤ 1/q``).
  If h is δ-smooth, the similarity term never pushes η below ``1/(√2 δ)`` (√2: powers of two). With
  sampled gradients it may: a batch's secants exceed δ.
* For L and L̂ convex, h δ-smooth, a constant ``η ≤ 1/δ``, the newest difference alone, and noise
  with ``E‖ξ(w)‖² ≤ 2σ*² + 2ℓ⟨∇L(w), w − w*⟩``, which the growth above implies with σ*² the noise at
  the optimum: if ``2ηrℓ < 1``, the mean of the iterates satisfies
  ``E L(w̄) − L* ≤ [(1 + ηδ)B²/(2η) + 2ηrℓ A_0 + 2Kηrσ*²] / ((1 − 2ηrℓ) K)`` with
  ``A_0 = ⟨∇L(w_0), w_0 − w*⟩``. It follows from the sharper theorem of docs/theory.md: its left
  side is ``Σ ⟨∇L(w_k), w_k − w*⟩``, its noise ``ηr Σ E‖ξ_k‖²``, and the growing part of that goes
  to the left. (If the noise at w* and its growth are uncorrelated, both 2s in front of ℓ are 1:
  hence 0.8.)

Not proven: that the estimates are good enough, that a mean of differences and a changing η keep
these bounds, and that they hold with r measured for a longer step, the :func:`horizon`.

References
----------
Ivgi, Hinder and Carmon, "DoG is SGD's best friend: a parameter-free dynamic step size schedule",
ICML 2023; Gower, Loizou, Qian, Sailanbayev, Shulgin and Richtárik, "SGD: general analysis and
improved rates", ICML 2019, for noise that grows; Shamir and Zhang, "Stochastic gradient descent for
non-smooth optimization", ICML 2013, for the averages.
"""

from __future__ import annotations

import contextlib
import math
import sys
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from proxyprox._util.arrays import Vector, changed, dot, norm, same_point, square
from proxyprox._util.validation import message, positive
from proxyprox.inner.base import NonFiniteError
from proxyprox.problems.quadratic import NotConvexError
from proxyprox.stepsizes.base import (
    TRIES,
    Constant,
    Observation,
    Restart,
    Schedule,
    Solve,
    StepSize,
)


@dataclass(frozen=True)
class AutoStepPolicy:
    """The numbers of the rule, fixed with ``benchmarks/auto_eta.py`` (``docs/results/auto_eta``).

    Attributes
    ----------
    grow : float
        How many times as long as the last η, or as the way so far if there is noise, a step may be.
    bold : float
        The first η of exact gradients in units of 1/H: a proxy worth having has δ far below H.
    probe : float
        Length of the first step in units of max(1, ‖w_0‖), if nothing is known about scales.
    leap : float
        How many times as long as the way so far a leap, or a step without noise, may be.
    growth : float
        η r ℓ stays below this.
    caution : float
        A leap in units of what one batch allows, and the least η, in units of the last, after a
        noisy step that was taken back.
    patience : int
        Steps after a leap during which ℓ limits η in place of the distance travelled.
    surprise : float
        How many times what is explained is believed of a difference; how many times ℓ may grow by
        one measurement after the leaps, and how many times the way so far noise may move the
        iterate meanwhile.
    every : int
        Batches are evaluated at the point before in each of the first steps, this many, and then in
        every step whose number it divides.
    fade : float
        Weight of the past in the means and peaks of curvatures and in the recent noise.
    accuracy : float
        Subproblems for r are solved to this share of the noise that is expected to reach the
        iterate, and the least share that is expected.
    power : int
        That of k in the weights of means: of noise, of squared gradients, of differences, and of
        the long average. The short average has ``(1 + power)² − 1``.
    trust : float
        Distances beyond this many times the lower bound are not believed, without a proxy.
    blind_probe : float
        Length of the first step without a proxy if the second batch may not be evaluated twice:
        then no scale is shown after it.
    """

    grow: float = 2.0
    bold: float = 100.0
    probe: float = 1e-4
    leap: float = 32.0
    growth: float = 0.8
    caution: float = 0.125
    patience: int = 10
    surprise: float = 4.0
    every: int = 20
    fade: float = 0.9
    accuracy: float = 0.1
    power: int = 3
    trust: float = 6.0
    blind_probe: float = 0.03


POLICY = AutoStepPolicy()


def share(k: int, power: int = POLICY.power) -> float:
    """Return the newest one's share in a mean with weights of about ``k**power``."""
    return min(1.0, (1 + power) / (k + 1 + power))


@dataclass(frozen=True)
class Averages:
    r"""The long and the short average, and the evidence λ that the long one lags.

    The long average has weights ``k³``, the polynomial decay of Shamir and Zhang. It is the answer
    unless it is shown to lag behind the iterates: then a short one, with weights ``k¹⁵``, is, the
    mean of about the last sixteenth of the run. The evidence is

    .. math:: \lambda_k = \sum_i a_i \langle g_i, \bar w_i - w_i\rangle,\qquad
              \sum_i a_i\,(L(\bar w_i) - L(w_i)) \;\ge\; \mathbb{E}\,\lambda_k

    for convex L, with the weights a of the short average: each batch is independent of both points.
    So λ > 0 is evidence that the iterates are on average better than the long averages beside them;
    by Jensen so is then their mean with the weights a. If noise dominates, ``E⟨∇L(w), w − w̄⟩`` is
    about ``η E‖g‖²/2``, hence λ < 0 and the answer stays the long average.
    """

    long: Vector
    short: Vector
    lag: float = 0.0

    def with_gradient(self, k: int, gradient: Vector, w: Vector) -> Averages:
        """Enter a gradient at w into λ."""
        newest = dot(gradient, self.long - w)
        return changed(self, lag=self.lag + self._late(k) * (newest - self.lag))

    def with_iterate(self, k: int, w: Vector) -> Averages:
        """Enter the iterate to which step k has led."""
        long = self.long + share(k) * (w - self.long)
        return changed(self, long=long, short=self.short + self._late(k) * (w - self.short))

    @staticmethod
    def _late(k: int) -> float:
        return share(k, (1 + POLICY.power) ** 2 - 1)

    @property
    def answer(self) -> Vector:
        """The short average if the long one lags."""
        return self.short if self.lag > 0 else self.long


@dataclass(frozen=True)
class Noise:
    """v in two means, the error N of the mean difference, the gain, and the share r."""

    recent: float = 0.0
    spread: float = 0.0
    error: float = 0.0
    gain: float = 1.0
    damping: float = 1.0
    damping_count: int = 0

    def with_batch(self, k: int, newest: float, known: bool) -> Noise:
        """Update both noise levels with this batch's."""
        if k == 0 or (k == 1 and not known):
            # The first batch alone may say nothing about its noise: take the second's for both.
            return changed(self, recent=newest, spread=newest)
        recent = newest + POLICY.fade * (self.recent - newest)
        return changed(self, recent=recent, spread=self.spread + share(k) * (newest - self.spread))

    def with_gain(self, k: int, drift: float, excess: float = 1.0) -> Noise:
        r"""Update the weight a of the newest difference and the error N of the weighted mean.

        .. math:: m \leftarrow m + a\,(d_k - m),\qquad
                  N^- = (\sqrt N + \delta\|w_k - w_{k-1}\|)^2,\qquad
                  a = \frac{N^-}{N^- + v},\qquad N = (1-a)^2 N^- + a^2 v

        A scalar Kalman filter for ∇h. ``d_k = g_k − ∇L̂(w_k)`` has the mean ∇h(w_k) and the noise
        v; since the last step ∇h has moved by at most δ times its length, the ``drift``. With these
        a is the weight of least mean squared error: 1 while the iterate moves fast (``N⁻ ≫ v``: the
        paper's plain correction), 1/k if ∇h does not move (δ = 0: the mean of all differences). In
        between it decays whenever ``η < 1/δ``: noise moves the iterate by at most ``η a √v``, hence
        ∇h by ``c a √v`` with ``c = δη < 1``, and ``a = N⁻/(N⁻ + v)`` with ``N⁻ = c²a v/(1 − …)``
        has no positive fixed point. The least gain, that of weights k³, forgets a start that was
        noisier, or an N that was too small. An answer that is in ``excess`` is cut.
        """
        noise, before = self.recent, square(self.error**0.5 + drift)
        gain = max(before / (before + noise), share(k)) if noise > 0 else 1.0
        error = (1 - gain) ** 2 * before + gain**2 * noise
        return changed(self, gain=gain / excess, error=error)

    def with_damping(self, shift: Vector, gap: Vector, eta: float) -> Noise:
        r"""Update the share r of the noise that counts, from a perturbed step.

        .. math:: r = \frac{\langle u, w^+(0) - w^+(u)\rangle}{\eta\,\|u\|^2} \in [0, 1]

        ``w⁺(u)`` solves the subproblem with u, a sample of the noise, added to its linear term;
        here ``shift = w⁺(u) − w⁺(0)``. Since the subproblem is 1/η-strongly convex, r is at most 1
        (and is 1 without a proxy); for a quadratic proxy ``r = uᵀ(I + ηP)⁻¹u/‖u‖²``: noise in
        directions in which the proxy is steep hardly moves the iterate.

        This is the term by which noise enters the paper's proof. With ``g = ∇L(w) + ξ``, a
        minimiser w* and the noiseless step w̃, ``E⟨ξ, w* − w⁺⟩ = E⟨ξ, w̃ − w⁺⟩ = η E[r‖ξ‖²]``,
        which the proof bounds by ησ². Its bound therefore holds with ``r σ²`` in the place of σ²
        for the η of the step. The rule measures r for a longer step, the :func:`horizon`: k steps
        of size η regularise like one of size kη. That part is a heuristic.
        """
        size, count = eta * dot(gap, gap), self.damping_count + 1
        if not size > 0:
            return self
        newest = min(1.0, max(sys.float_info.epsilon, -dot(gap, shift) / size))
        damping = self.damping + (newest - self.damping) / count
        return changed(self, damping=damping, damping_count=count)


@dataclass(frozen=True)
class Growth:
    """ℓ, its two sums, the step and the noise when it was measured, and if this batch shows it."""

    value: float = 0.0
    noise_change: float = 0.0
    curvature: float = 0.0
    compared: int = 0
    level: float = 0.0
    shown: bool = False

    def with_batch(self, signals: Signals, noise: float, leaping: bool) -> Growth:
        r"""Update ℓ with a batch that was evaluated at both ends of the last step s.

        .. math:: \ell = \frac{\sum \|\xi(w_k) - \xi(w_{k-1})\|^2 / \|s\|^2}
                             {\sum \langle g(w_k) - g(w_{k-1}), s\rangle / \|s\|^2}

        Both sums run over batches, with weights k³, less if the noise has fallen since. Half the
        gap of two half batches is a sample of ξ; one row has no halves, and all of the change of
        ``g − ∇L̂`` counts: for one row of a generalised linear model without a proxy the quotient
        is ``H_i``, whatever s. The batch is independent of s.
        """
        seen, step, change = signals.seen, signals.step, signals.change
        if change is None or seen.noise == 0:
            return changed(self, shown=False) if self.shown else self
        # Changes by less than this share are rounding.
        rounding = math.sqrt(sys.float_info.epsilon)
        whole, squared = signals.whole, dot(step, step)
        if not 0 < squared < math.inf or norm(whole) <= rounding * norm(seen.gradient):
            return changed(self, shown=False)
        if signals.half_gap_change is not None:
            change = signals.half_gap_change
        past = ((self.compared + 1) / (seen.k + 1)) ** POLICY.power
        if 0 < noise < self.level:
            # Both sums shrink with the curvature: what was measured in noisier times would rule.
            past *= square(noise / self.level)
        curvature = past * self.curvature + max(0.0, dot(whole, step) / squared)
        noise_change = past * self.noise_change + dot(change, change) / squared
        value = noise_change / curvature if curvature > 0 else self.value
        if not leaping:
            # Before, ℓ may be of rows that share no column with the probe, and bounds nothing.
            value = min(value, POLICY.surprise * self.value or math.inf)
        apart = norm(change) > rounding * norm(whole)
        return Growth(value, noise_change, curvature, seen.k, noise, apart)


@dataclass(frozen=True)
class Similarity:
    """δ, from a fading mean of curvatures of h and their fading peak."""

    delta: float = 0.0
    mean: float = 0.0
    weight: float = 0.0
    peak: float = 0.0

    @property
    def rate(self) -> float:
        """How fast ∇h changes along the path, in either direction."""
        return max(self.delta, -self.mean / self.weight if self.weight else 0.0)

    def with_curvature(self, q: float | None) -> Similarity:
        r"""Update δ with the curvature of h along the last step, if it is known.

        .. math:: q = \frac{\langle \nabla h(w_k) - \nabla h(w_{k-1}), w_k - w_{k-1}\rangle}
                           {\|w_k - w_{k-1}\|^2},\qquad
                  \delta = \max\{0, \bar q, \text{peak}\}

        Both gradients are of the newest batch, which is independent of the step: q is unbiased for
        the curvature of h between the two points. (On the batch that made the step it would not
        be.) Only its positive part can make a step overshoot, since h lies below its tangent plane
        plus ``q/2 ‖s‖²``; a proxy that is too curved only makes it short. The mean alone is too
        slow if the path turns into a direction in which the proxy is flat: the fading peak is kept
        too.
        """
        if q is None:
            return self
        mean, weight = POLICY.fade * self.mean + q, POLICY.fade * self.weight + 1
        peak = max(q, POLICY.fade * self.peak)
        return Similarity(max(0.0, mean / weight, peak), mean, weight, peak)

    def at_least(self, peak: float) -> Similarity:
        """Return it with a peak that is no lower."""
        peak = max(self.peak, peak)
        return changed(self, peak=peak, delta=max(self.delta, peak))


@dataclass(frozen=True)
class Path:
    """The averages, the last step's length, the sum of η, the farthest point.

    This is all that a step enters by its end, and that is left out if it is taken back.
    """

    averages: Averages
    moved: float = 0.0
    time: float = 0.0
    farthest: float = 0.0


@dataclass(frozen=True)
class Leaps:
    """Whether the next step is a leap, until when ℓ alone limits, how long the last leap was."""

    going: bool = False
    patience: int = 0
    reach: float = 0.0


@dataclass(frozen=True)
class Point:
    """The point before: ``∇L̂`` there and, if noise will be read off it, ``g − ∇L̂``."""

    w: Vector
    anchor: Vector
    difference: Vector | None


@dataclass(frozen=True)
class OpenStep:
    """What :meth:`AutoStep.observe` leaves to the end of the same step."""

    asked: Point
    gap: Vector | None = None
    undo: Restart | None = None
    centre: Vector | None = None


@dataclass(frozen=True)
class AutoState:
    """What has been measured, and the step in progress."""

    start: Vector
    repeatable: bool
    same_curvature: bool
    proxied: bool
    path: Path
    before: Path | None = None
    eta: float = 0.0
    exact: bool = False
    leaps: Leaps = Leaps()
    noise: Noise = Noise()
    growth: Growth = Growth()
    similarity: Similarity = Similarity()
    linear: Vector | None = None
    previous: Point | None = None
    step: OpenStep | None = None


class Signals(NamedTuple):
    """An observation together with what the step before left to compare it with.

    Along the last ``step``, the newest batch's ``g − ∇L̂`` has changed from ``before`` by
    ``change``, ``∇L̂`` together with it by ``whole``; q is the curvature of h. ``gap`` is a sample
    of the noise of g.
    """

    seen: Observation
    difference: Vector
    gap: Vector | None = None
    step: Vector | None = None
    whole: Vector | None = None
    before: Vector | None = None
    change: Vector | None = None
    half_gap_change: Vector | None = None
    q: float | None = None


def compare(state: AutoState, seen: Observation) -> Signals:
    """Return an observation with what the step before left."""
    difference, last, gap, before = seen.gradient - seen.anchor, state.previous, seen.half_gap, None
    if last is None:
        return Signals(seen, difference, gap)
    found = (rest for point, *rest in seen.elsewhere if same_point(point, last.w))
    again, gap_before = next(found, (None, None))
    if again is not None:
        before = again - last.anchor
        if gap is None and last.difference is not None:
            # Two batches at one point: what they differ by is noise.
            gap = before - last.difference
    elif state.exact and seen.noise == 0:
        # One batch for both steps: its gradient at the point before was the last answer.
        before = last.difference
    step, whole = seen.w - last.w, seen.anchor - last.anchor
    if before is None:
        return Signals(seen, difference, gap, step, whole)
    change = difference - before
    halves = None if seen.half_gap is None or gap_before is None else seen.half_gap - gap_before
    q = curvature_along(change, step)
    return Signals(seen, difference, gap, step, whole + change, before, change, halves, q)


def curvature_along(change: Vector, step: Vector) -> float:
    """Return ``⟨change, step⟩ / ‖step‖²``; 0 if nothing moved."""
    squared, length = dot(step, step), norm(step)
    if 0 < squared < math.inf:
        return dot(change, step) / squared
    return dot(change, step / length) / length if length > 0 else 0.0


def is_due(k: int, per_octave: int = 1) -> bool:
    """Tell whether step k is one of some number of steps while k doubles."""
    return k > 0 and math.floor(per_octave * math.log2(k + 1)) > per_octave * math.log2(k)


def horizon(eta: float, time: float, rate: float) -> float:
    """Return over how much time (the sum of step sizes) noise adds up in one direction.

    That is all the time so far, unless ∇h has drifted since: then it is about 1/δ.
    """
    return max(eta, min(time, 1 / rate if rate > 0 else math.inf))


@dataclass(frozen=True)
class AutoStep(StepSize):
    """Measure δ, the noise and its growth during the run: what ``eta="auto"`` stands for.

    A method without a proxy leaves noisy gradients to :class:`DistanceStep`.
    """

    measures: ClassVar[bool] = True

    def suited(self, problem: Any, *, uses_proxy: bool) -> StepSize:
        """Return this rule, or without a proxy the one for noisy gradients."""
        exact = bool(getattr(problem.objective, "exact", False))
        return self if uses_proxy or exact else DistanceStep()

    def init(self, w0: Vector, problem: Any, *, uses_proxy: bool = True) -> AutoState:
        """Return what is known before the first step; without a proxy, h is L itself."""
        same = uses_proxy and bool(getattr(problem, "same_curvature", False))
        repeatable = bool(getattr(getattr(problem, "objective", None), "repeatable", True))
        return AutoState(w0, repeatable, same, uses_proxy, Path(Averages(w0, w0)))

    def eta(self, state: AutoState, k: int) -> float:
        """Return η of the step in progress; NaN before anything was observed."""
        return state.eta if state.eta > 0 else math.nan

    def comparison_point(self, state: AutoState, k: int) -> Vector | None:
        """Return the point before at the steps that compare the two."""
        # Exact gradients are all of one batch: the point before has been answered already.
        if not state.repeatable or state.exact or state.previous is None:
            return None
        due = k <= POLICY.every or k % POLICY.every == 0
        return state.previous.w if due or state.leaps.going else None

    def observe(self, state: AutoState, seen: Observation) -> AutoState:
        """Measure with a batch's gradients; ``eta`` and the gain are for this step."""
        old, k, signals = state, seen.k, compare(state, seen)
        exact, undo, last, path = seen.noise == 0, None, None, state.path
        excess = 1.0 if exact else self._excess(state, signals)
        newest = noise_of(state, signals) / square(excess)
        noise = state.noise.with_batch(k, newest, seen.noise is not None)
        growth = state.growth.with_batch(signals, noise.recent, old.leaps.going)
        if signals.step is not None and state.linear is not None:
            # With a penalty, the step to w has shown a subgradient of it; else this is rounding.
            gradient = signals.difference - state.linear - signals.step / state.eta
            path = changed(path, averages=path.averages.with_gradient(k, gradient, seen.w))
        # If δ = 0 is known, what subproblems without a solution have shown fades.
        q = 0.0 if state.same_curvature else signals.q
        similarity = state.similarity.with_curvature(q)
        noise = noise.with_gain(k, similarity.rate * path.moved, excess)
        state = changed(state, noise=noise, growth=growth, similarity=similarity, path=path)
        if k == 0:
            eta, leaps = self._first(state, seen)
        elif old.leaps.going:
            eta, leaps = self._leap(state, signals)
        else:
            eta, leaps = POLICY.grow * state.eta, state.leaps
        if leaps is not state.leaps:
            state = changed(state, leaps=leaps)
        eta = min(eta, self._limit(state, k, old.leaps.going))
        if old.previous is not None and signals.q is not None and signals.q > 2 / old.eta:
            # The last step overshot.
            known = signals.before if exact else state.linear
            undo = Restart(old.previous.w, old.previous.anchor, known)
            if not exact:
                # What was measured at a point too far says nothing about the way there.
                eta = max(POLICY.caution * old.eta, eta)
                similarity = old.similarity.at_least(1 / eta)
                leaps = changed(old.leaps, going=False)
                state = changed(old, leaps=leaps, path=old.before, similarity=similarity)
        # Powers of two: solvers that keep a factor of ∇²L̂ + I/η rarely need a new one.
        eta = 2.0 ** round(math.log2(eta)) if eta > 0 else old.eta
        if exact or (seen.noise is None and undo is None):
            # Kept only if the next batch's noise will be read off it.
            last = signals.difference
        step = OpenStep(Point(seen.w, seen.anchor, last), signals.gap, undo)
        return changed(state, eta=eta, exact=exact, step=step)

    def _excess(self, state: AutoState, signals: Signals) -> float:
        """Return how many times farther from the mean a difference is than is believed.

        Believed is four times what noise and drift explain.
        """
        if state.linear is None or signals.seen.k < 3:
            return 1.0
        noise, drift = state.noise, state.similarity.rate * state.path.moved
        explained = math.sqrt(square(noise.error**0.5 + drift) + noise.recent)
        believed = POLICY.surprise * explained
        size = norm(signals.difference - state.linear)
        return max(1.0, size / believed) if believed > 0 else 1.0

    def _first(self, state: AutoState, seen: Observation) -> tuple[float, Leaps]:
        """Return a bold multiple of 1/H without noise, else a step that is only a probe.

        An exact gradient is followed by a bold step: one that overshot is taken back.
        """
        H = seen.smoothness if seen.noise == 0 and state.proxied else None
        if H is not None and 0 < H < math.inf:
            return POLICY.bold / H, state.leaps
        length, steepness = POLICY.probe * max(1.0, norm(seen.w)), norm(seen.gradient)
        return length / steepness if steepness > 0 else length, Leaps(going=True)

    def _leap(self, state: AutoState, signals: Signals) -> tuple[float, Leaps]:
        """Return a fraction of what one batch's curvature and noise allow, over a short way.

        Both were measured on a short step, so that the length of a leap is limited by the way so
        far; what it shows decides on the next. A batch that shows nothing, since its rows share no
        column with the last step, is no reason for one.
        """
        seen, growth, whole = signals.seen, state.growth, signals.whole
        exact, curvature = seen.noise == 0, curvature_along(whole, signals.step)
        if not curvature > 0 or not (exact or growth.shown or not state.repeatable):
            return POLICY.grow * state.eta, changed(state.leaps, going=not exact)
        steepness = max(norm(seen.gradient), math.sqrt(state.noise.spread))
        if exact:
            eta = (POLICY.bold if state.proxied else 1.0) / curvature
            return eta, Leaps(reach=eta * steepness)
        allowed = POLICY.growth / growth.value if growth.shown else 1 / curvature
        eta = POLICY.caution * allowed
        longest = max(POLICY.leap * state.path.farthest / steepness, POLICY.grow * state.eta)
        reach, until = min(eta, longest) * steepness, seen.k + POLICY.patience - 1
        return min(eta, longest), Leaps(eta > longest, until, reach)

    def _limit(self, state: AutoState, k: int, leaping: bool) -> float:
        """Return the largest η that δ, ℓ and, except for a leap, noise and distance allow."""
        path, delta, growth = state.path, state.similarity.delta, state.growth
        # Beyond it, the quadratic term is lost in rounding.
        limit, level = 1 / sys.float_info.epsilon, state.noise.damping * state.noise.spread
        if delta > 0:
            limit = min(limit, 1 / delta)
        if growth.value > 0:
            limit = min(limit, POLICY.growth / (state.noise.damping * growth.value))
        if leaping or level == 0:
            return limit
        if growth.value > 0 and k < state.leaps.patience:
            return min(limit, POLICY.surprise * path.farthest / math.sqrt(level))
        distance = max(norm(path.averages.long - state.start), state.leaps.reach)
        return min(limit, distance / math.sqrt((k + 1) * level) or math.inf)

    def adapt(self, state: AutoState, before: Any, after: Any, leap: bool) -> AutoState:
        """Return the state with what was left to compare with moved; of other proxies δ is new."""
        last = state.previous
        if last is None:
            return state
        anchor = after.gradient(last.w)
        gap = before.gradient(last.w) - anchor
        difference = None if last.difference is None else last.difference + gap
        linear = None if state.linear is None else state.linear + gap
        similarity = Similarity() if leap else state.similarity
        previous = Point(last.w, anchor, difference)
        return changed(state, previous=previous, linear=linear, similarity=similarity)

    def gain(self, state: AutoState) -> float | None:
        """Return the weight of the newest difference in the mean of all."""
        return state.noise.gain

    def restart(self, state: AutoState) -> Restart | None:
        """Return the centre before if the last step overshot."""
        return None if state.step is None else state.step.undo

    def solve(
        self, state: AutoState, k: int, linear: Vector, centre: Vector, solve: Solve
    ) -> tuple[Vector, AutoState]:
        """Solve the subproblem, with a smaller η if it is not convex or nearly singular."""
        step, same = state.step, state.eta
        assert step is not None
        state = changed(state, linear=linear, step=changed(step, centre=centre))
        if step.gap is not None and state.proxied and not state.leaps.going and is_due(k):
            state = changed(state, noise=self._perturb(state, step.gap, linear, centre, solve))
        noisy, eta = state.noise.spread > 0, state.eta
        known = max(norm(centre - state.start), state.path.moved, state.leaps.reach)
        longest = (POLICY.grow if noisy else POLICY.leap) * known if known > 0 else math.inf
        for _ in range(TRIES):
            with contextlib.suppress(NonFiniteError, NotConvexError):
                w = solve(linear, centre, eta)
                if not norm(w - centre) > longest:
                    return w, state if eta == same else changed(state, eta=eta)
                if noisy:
                    # Too long for what is known, which says nothing about the proxy.
                    eta = eta / POLICY.grow
                    continue
            # The proxy curves downwards by 1/η or more: a quarter of η for a while.
            eta = eta / 4
            state = changed(state, similarity=state.similarity.at_least(1 / eta))
        return solve(linear, centre, eta), changed(state, eta=eta)

    def _perturb(
        self, state: AutoState, gap: Vector, linear: Vector, centre: Vector, solve: Solve
    ) -> Noise:
        """Find out how far a sample of the noise moves the solution of a subproblem."""
        eta = horizon(state.eta, state.path.time, state.similarity.rate)
        # Enough to see the shift that is expected.
        accuracy = POLICY.accuracy * max(state.noise.damping, POLICY.accuracy)
        residual = max(accuracy * norm(gap), sys.float_info.min)
        try:
            moved = solve(linear + gap, centre, eta, residual=residual)
            still = solve(linear, centre, eta, residual=residual)
        except (NonFiniteError, NotConvexError):
            return state.noise
        return state.noise.with_damping(moved - still, gap, eta)

    def end_step(self, state: AutoState, k: int, w: Vector) -> AutoState:
        """Enter the step to w."""
        step, path = state.step, state.path
        assert step is not None
        # A method that does not know of restarts has stepped from the point it asked about.
        centre = step.asked.w if step.centre is None else step.centre
        previous, undo = step.asked, step.undo
        if undo is not None and state.previous and same_point(centre, undo.centre):
            last = undo.difference if state.exact else state.previous.difference
            previous = Point(undo.centre, undo.anchor, last)
        after = changed(
            path, averages=path.averages.with_iterate(k, w), moved=norm(w - centre),
            time=path.time + state.eta, farthest=max(path.farthest, norm(w - state.start)),
        )  # fmt: skip
        return changed(state, path=after, before=path, previous=previous, step=None)

    def answer(self, state: AutoState, w: Vector) -> Vector:
        """Return the average, a shorter one if it lags, or w if there is no noise."""
        return state.path.averages.answer if state.noise.spread > 0 else w


def noise_of(state: AutoState, signals: Signals) -> float:
    """Return an estimate of ``E‖g − ∇L‖²``.

    Best is what the objective says: two half batches give ``‖g₁ − g₂‖²/4`` without bias. Next,
    two batches at one point: a secant re-evaluates the newest at ``w_{k−1}``, at which the
    difference of the batch before is remembered. Otherwise the surprise ``‖d_k − m‖²``, of which
    the share that the error of m explains is left out.
    """
    if signals.seen.noise is not None:
        return signals.seen.noise
    if signals.gap is not None:
        return dot(signals.gap, signals.gap) / 2
    if state.linear is None:
        return 0.0
    gap = signals.difference - state.linear
    level, error = state.noise.recent, state.noise.error
    explained = max(level / (level + error), 0.5) if level + error > 0 else 0.5
    return dot(gap, gap) * explained


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
    r"""The distance travelled over the gradients: the rule behind ``SGD("auto")``.

    .. math:: \eta_k = \min\Big\{2\eta_{k-1},\; \frac{D_k}{\sqrt{k\,G_k}}\Big\},\qquad
              D_k = \min\Big\{\|\bar w_k - w_0\|,\; 6 \max_{j \le k}
              \frac{\|w_j - w_0\|^2 - \sum_{i<j}\|w_{i+1} - w_i\|^2}{2\|w_j - w_0\|}\Big\}

    G is the mean of ``‖g_i‖²`` with weights i³; twice the last term is allowed while the average
    lags (:class:`Averages`). This is DoG, with a numerator that a single long step cannot raise and
    a denominator that forgets a steep start. Curvature, which limits the step of a proxy, says too
    little here: if noise is small and the curvature falls as the loss does (logistic regression on
    nearly separable data), steps far beyond 1/H that bounce at first are by far the best; if noise
    is large, 1/H is too long. Both show in ``‖g‖``. Steps stay bounded because ``k G_k ≥ 4k/(k + 4)
    ‖g_k‖²``: beyond the first few, no step is much longer than half the distance travelled (all of
    it while the average lags), and gradients that grow shorten the next ones.

    The first step is a probe of length 1e-4. The batch of the second is evaluated at the start as
    well, and its change y along the probe s sets the scale: ``η = ⟨y, s⟩/‖y‖²``, which for one row
    of a generalised linear model is 1/H_i. If batches may not be evaluated twice, the rule is DoG
    itself, with ``max_j ‖w_j − w_0‖`` in the numerator and a first step of 0.03 max(1, ‖w_0‖).

    Distance travelled does not prove distance to go: if the loss is nearly linear (a hinge,
    absolute deviations), steps double unopposed, and bounded gradients never stop them. The second
    term of D does. For convex L, ``0 ≤ Σ η_i ⟨g_i, w_i − w*⟩`` in expectation if the step sizes do
    not depend on the gradients they multiply; with ``η_i g_i = w_i − w_{i+1}`` this telescopes to
    ``(‖w_j − w_0‖² − Σ ‖w_{i+1} − w_i‖²)/2 ≤ ‖w_j − w_0‖ ‖w_0 − w*‖``, a lower bound on the
    distance to go (D-adaptation's, without its vectors). Here η_i does depend on g_i, so that the
    bound is a heuristic.

    References
    ----------
    Ivgi, Hinder and Carmon, "DoG is SGD's best friend: a parameter-free dynamic step size
    schedule", ICML 2023, for the distance over gradients; Defazio and Mishchenko,
    "Learning-rate-free learning by D-adaptation", ICML 2023, for the lower bound.
    """

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
            probe = POLICY.probe if state.repeatable else POLICY.blind_probe
            length = probe * max(1.0, norm(seen.w))
            eta = length / size if size > 0 else length
        else:
            scale = self._scale(state, seen)
            eta = scale or POLICY.grow * state.eta
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
        return max(0.0, min(allowed, POLICY.leap**2 * state.eta))

    def limit(self, state: DistanceState, k: int) -> float:
        """Return the largest η that the distance and the gradients allow."""
        distance = state.farthest
        if state.repeatable:
            travelled = max(norm(state.averages.long - state.start), state.reach)
            distance = min(travelled, max(POLICY.trust * state.proven, state.reach))
            distance *= POLICY.grow if state.averages.lag > 0 else 1.0
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
                if known == 0 or norm(w - centre) <= POLICY.grow * known:
                    return w, changed(state, eta=eta, linear=linear)
            eta /= POLICY.grow
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


def as_step_size(
    eta: Any,
    *,
    allow_inf: bool = False,
    remedy: str = "The theory allows eta up to 1/(4δ); with δ = 0 any positive eta converges.",
) -> StepSize:
    """Return the rule that a method's ``eta`` stands for.

    Parameters
    ----------
    eta : float, callable, StepSize or "auto"
        A positive number, a function of the outer step k = 0, 1, …, a rule, or "auto" for
        :class:`AutoStep`.
    allow_inf : bool
        Whether η may be infinite, which drops the proximal term.
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
        return AutoStep()
    if isinstance(eta, (str, type)):
        allowed = "a positive number, a function of the step, a StepSize or 'auto'"
        make = f"Make one: {eta.__name__}(...)." if isinstance(eta, type) else ""
        raise TypeError(message("eta", eta, allowed, make))
    if callable(eta):
        return Schedule(eta, allow_inf)
    return Constant(positive("eta", eta, remedy, allow_inf=allow_inf))
