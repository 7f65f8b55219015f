"""X."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector, changed, dot, norm, same_point, square
from proxyprox.inner.base import NonFiniteError
from proxyprox.problems.quadratic import NotConvexError
from proxyprox.stepsizes.averages import Averages, share
from proxyprox.stepsizes.base import TRIES, Observation, Restart, Solve, StepSize


@dataclass(frozen=True)
class ProxyStepPolicy:
    """POLICY."""

    grow: float = 2.0
    reach: float = 1.2
    blind_reach: float = 2.0
    largest: float = 2.0**40
    farthest: float = 10.0
    bold: float = 100.0
    probe: float = 1e-4
    leap: float = 32.0
    growth: float = 0.8
    caution: float = 0.25
    blind_caution: float = 0.125
    patience: int = 10
    stride: float = 4.0
    growth_power: int = 2
    surge: float = 4.0
    least_curvature: float = 0.1
    rounding: float = 1e-7
    every_step: int = 20
    then_every: int = 10
    first_growths: int = 6
    growths_per_octave: int = 2
    walk: float = 0.5
    least_trust: float = 0.4
    clip: float = 4.0
    exploded: float = 2.5
    retreat: float = 0.125
    recent_noise: float = 0.1
    forget: float = 0.8
    fade: float = 0.9
    recent_damping: float = 0.25
    least_damping: float = 1e-12
    same_horizon: float = 1.5
    damping_accuracy: float = 0.1
    least_share: float = 0.01
    least_gain: int = 6


@dataclass(frozen=True)
class Noise:
    """v in two means, the gain, the error N of the mean difference, and the share r.

    ``longest`` is the longest distance of a difference from the mean that was believed.
    """

    recent: float = 0.0
    spread: float = 0.0
    error: float = 0.0
    gain: float = 1.0
    longest: float = 0.0
    damping: float = 1.0
    damping_count: int = 0

    def with_batch(self, policy: ProxyStepPolicy, k: int, newest: float, known: bool) -> Noise:
        """Update both noise levels with this batch's."""
        part, recent = share(k), newest
        if k > 0:
            recent = self.recent + policy.recent_noise * (newest - self.recent)
        if k == 1 and not known:
            # The first batch alone says nothing about its noise: take the second's for both.
            part, recent = 1.0, newest
        return changed(self, recent=recent, spread=self.spread + part * (newest - self.spread))

    def with_gain(self, policy: ProxyStepPolicy, k: int, drift: float) -> Noise:
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
        has no positive fixed point. The least gain forgets a start that was noisier, or an N that
        was too small.
        """
        noise = self.recent
        if k == 0:
            return changed(self, gain=1.0, error=noise)
        before = square(self.error**0.5 + drift)
        least = policy.least_gain / (k + policy.least_gain)
        gain = max(before / (before + noise) if before > 0 else 0.0, least)
        if noise == 0:
            gain = 1.0
        return changed(self, gain=gain, error=(1 - gain) ** 2 * before + gain**2 * noise)

    def with_damping(
        self, policy: ProxyStepPolicy, shift: Vector, gap: Vector, eta: float
    ) -> Noise:
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
        newest = min(1.0, max(policy.least_damping, -dot(gap, shift) / size))
        weight = max(policy.recent_damping, 1 / count)
        damping = self.damping + weight * (newest - self.damping)
        return changed(self, damping=damping, damping_count=count)


@dataclass(frozen=True)
class Growth:
    """ℓ: sums of the noise's changes and of curvatures; the step and the noise at the last."""

    value: float = 0.0
    noise_change: float = 0.0
    curvature: float = 0.0
    compares: float = 0.0
    compared: int = 0
    level: float = 0.0
    halved: bool = False
    shown: bool = False

    @property
    def doubt(self) -> float:
        """How large a curvature noise alone may show, if halves do not tell them apart."""
        if not self.compares or self.halved:
            return 0.0
        return math.sqrt(self.noise_change / self.compares)

    def with_batch(self, policy: ProxyStepPolicy, signals: Signals, noise: float) -> Growth:
        r"""Update ℓ with a batch that was evaluated at both ends of the last step s.

        .. math:: \ell = \frac{\sum \|\xi(w_k) - \xi(w_{k-1})\|^2 / \|s\|^2}
                             {\sum \langle g(w_k) - g(w_{k-1}), s\rangle / \|s\|^2}

        Both sums run over batches, with weights k², less if the noise has fallen since. Half the
        gap of two half batches is a sample of ξ; one row has no halves, and all of the change of
        ``g − ∇L̂`` counts: for one row of a generalised linear model without a proxy the quotient
        is ``H_i``, whatever s. The batch is independent of s.
        """
        seen, step, change = signals.seen, signals.step, signals.change
        if step is None or change is None or seen.noise == 0:
            return changed(self, shown=False)
        whole, squared = signals.anchor_change + change, dot(step, step)
        if not 0 < squared < math.inf or norm(whole) <= policy.rounding * norm(seen.gradient):
            return changed(self, shown=False)
        halved = seen.half_gap is not None and signals.gap_before is not None
        if halved:
            change = seen.half_gap - signals.gap_before
        past = ((self.compared + 1) / (seen.k + 1)) ** policy.growth_power
        if 0 < noise < self.level:
            # Both sums shrink with the curvature: what was measured in noisier times would rule.
            past *= square(noise / self.level)
        least = policy.least_curvature * dot(signals.anchor_change, step)
        curvature = past * self.curvature + max(0.0, dot(whole, step), least) / squared
        noise_change = past * self.noise_change + dot(change, change) / squared
        value = noise_change / curvature if curvature > 0 else self.value
        if self.value > 0:
            value = min(value, policy.surge * self.value)
        shown = norm(change) > policy.rounding * norm(whole)
        compares = past * self.compares + 1
        return Growth(value, noise_change, curvature, compares, seen.k, noise, halved, shown)


@dataclass(frozen=True)
class Similarity:
    """δ and how fast ∇h changes: a fading mean of curvatures of h, and fading extremes."""

    delta: float = 0.0
    rate: float = 0.0
    mean: float = 0.0
    weight: float = 0.0
    peak: float = 0.0
    trough: float = 0.0

    def with_curvature(self, policy: ProxyStepPolicy, q: float, doubt: float = 0.0) -> Similarity:
        r"""Update δ with the curvature of h along the last step.

        .. math:: q = \frac{\langle \nabla h(w_k) - \nabla h(w_{k-1}), w_k - w_{k-1}\rangle}
                           {\|w_k - w_{k-1}\|^2},\qquad
                  \delta = \max\{0, \bar q, \text{peak}\}

        Both gradients are of the newest batch, which is independent of the step: q is unbiased for
        the curvature of h between the two points. (On the batch that made the step it would not
        be.) Only its positive part can make a step overshoot, since h lies below its tangent plane
        plus ``q/2 ‖s‖²``; a proxy that is too curved only makes it short. The mean alone is too
        slow if the path turns into a direction in which the proxy is flat: the fading peak is kept
        too. How fast ∇h changes along the path, the ``rate``, counts both signs.
        """
        mean, weight = policy.forget * self.mean + q, policy.forget * self.weight + 1
        peak = max(q - doubt, policy.fade * self.peak)
        trough = min(q + doubt, policy.fade * self.trough)
        delta, rate = max(0.0, mean / weight, peak), max(abs(mean) / weight, peak / 2, -trough / 2)
        return Similarity(delta, rate, mean, weight, peak, trough)

    def at_least(self, peak: float) -> Similarity:
        """Return it with a peak that is no lower."""
        peak = max(self.peak, peak)
        return changed(self, peak=peak, delta=max(self.delta, peak))

    def faded(self, policy: ProxyStepPolicy) -> Similarity:
        """Return what is left if h has no curvature: what unsolvable subproblems have shown."""
        return changed(self, peak=policy.fade * self.peak, delta=policy.fade * self.peak)


@dataclass(frozen=True)
class Path:
    """The averages, the last step's length, the sum of η, the mean of η²rv, the farthest point.

    This is all that a step enters by its end, and that is left out if it is taken back.
    """

    averages: Averages
    moved: float = 0.0
    time: float = 0.0
    walk: float = 0.0
    farthest: float = 0.0


@dataclass(frozen=True)
class Leaps:
    """Whether the next step is a leap, until when ℓ alone limits, how long the last leap was."""

    going: bool = False
    patience: int = 10
    reach: float = 0.0


@dataclass(frozen=True)
class Point:
    """The point before: ``∇L̂`` there and, if noise will be read off it, ``g − ∇L̂``."""

    w: Vector
    anchor: Vector
    difference: Vector | None


@dataclass(frozen=True)
class OpenStep:
    """What :meth:`ProxyStep.observe` leaves to the end of the same step."""

    asked: Point
    gap: Vector | None = None
    undo: Restart | None = None
    centre: Vector | None = None


@dataclass(frozen=True)
class ProxyState:
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


@dataclass(frozen=True)
class Signals:
    """An observation together with what the step before left to compare it with.

    ``change`` is that of ``g − ∇L̂`` on the newest batch along the last step.
    """

    seen: Observation
    difference: Vector
    before: Vector | None = None
    gap: Vector | None = None
    step: Vector | None = None
    anchor_change: Vector | None = None
    gap_before: Vector | None = None

    @property
    def change(self) -> Vector | None:
        """The change of ``g − ∇L̂`` along the last step, on the newest batch."""
        return None if self.before is None else self.difference - self.before


def compare(state: ProxyState, seen: Observation) -> Signals:
    """Return an observation with what the step before left."""
    difference, last, before = seen.gradient - seen.anchor, state.previous, None
    if last is None:
        return Signals(seen, difference, None, seen.half_gap)
    found = (rest for point, *rest in seen.elsewhere if same_point(point, last.w))
    again, gap_before = next(found, (None, None))
    gap = seen.half_gap
    if again is not None:
        before = again - last.anchor
        if gap is None and last.difference is not None:
            # Two batches at one point: what they differ by is noise.
            gap = before - last.difference
    elif state.exact and seen.noise == 0:
        # One batch for both steps: its gradient at the point before was the last answer.
        before = last.difference
    step, anchor_change = seen.w - last.w, seen.anchor - last.anchor
    return Signals(seen, difference, before, gap, step, anchor_change, gap_before)


def curvature_along(change: Vector, step: Vector | None) -> float:
    """Return ``⟨change, step⟩ / ‖step‖²``; 0 if nothing moved."""
    if step is None:
        return 0.0
    squared = dot(step, step)
    if 0 < squared < math.inf:
        return dot(change, step) / squared
    length = norm(step)
    return dot(change, step / length) / length if length > 0 else 0.0


def is_due(k: int, per_octave: int) -> bool:
    """Tell whether step k is one of some number of steps while k doubles."""
    return k > 0 and math.floor(per_octave * math.log2(k + 1)) > per_octave * math.log2(k)


def horizon(eta: float, time: float, rate: float) -> float:
    """Return over how much time (the sum of step sizes) noise adds up in one direction.

    That is all the time so far, unless ∇h has drifted since: then it is about 1/δ.
    """
    return max(eta, min(time, 1 / rate if rate > 0 else math.inf))


@dataclass(frozen=True)
class ProxyStep(StepSize):
    """Measure δ, the noise and its growth during the run."""

    policy: ProxyStepPolicy = field(default_factory=ProxyStepPolicy)

    measures: ClassVar[bool] = True

    def init(self, w0: Vector, problem: Any, *, uses_proxy: bool = True) -> ProxyState:
        """Return what is known before the first step; without a proxy, h is L itself."""
        objective = None if problem is None else problem.objective
        same = uses_proxy and problem is not None and problem.same_curvature
        repeatable = bool(getattr(objective, "repeatable", True))
        return ProxyState(w0, repeatable, same, uses_proxy, Path(Averages(w0, w0)))

    def eta(self, state: ProxyState, k: int) -> float:
        """Return η of the step in progress; NaN before anything was observed."""
        return state.eta if state.eta > 0 else math.nan

    def comparison_point(self, state: ProxyState, k: int) -> Vector | None:
        """Return the point before at the steps that compare the two."""
        # Exact gradients are all of one batch: the point before has been answered already.
        if not state.repeatable or state.exact or state.previous is None:
            return None
        if state.same_curvature:
            first, due = self.policy.first_growths, is_due(k, self.policy.growths_per_octave)
        else:
            first, due = self.policy.every_step, k % self.policy.then_every == 0
        return state.previous.w if k <= first or due or state.leaps.going else None

    def observe(self, state: ProxyState, seen: Observation) -> ProxyState:
        """Measure with a batch's gradients; ``eta`` and the gain are for this step."""
        policy, old, k, signals = self.policy, state, seen.k, compare(state, seen)
        exact, leaping, undo, last = seen.noise == 0, state.leaps.going, None, None
        excess, longest = (1.0, 0.0) if exact else self._excess(state, signals)
        newest = noise_of(state, signals) / square(excess)
        noise = state.noise.with_batch(policy, k, newest, seen.noise is not None)
        growth = state.growth.with_batch(policy, signals, noise.recent)
        path = state.path
        if signals.step is not None and state.linear is not None:
            # With a penalty, the step to w has shown a subgradient of it; else this is rounding.
            gradient = signals.difference - state.linear - signals.step / state.eta
            path = changed(path, averages=path.averages.with_gradient(k, gradient, seen.w))
        noise = changed(noise, longest=max(noise.longest, longest))
        overshot = signals.change is not None and (
            curvature_along(signals.change, signals.step) > 2 / state.eta + growth.doubt
        )
        similarity = self._similarity(state, signals, noise, growth)
        noise = noise.with_gain(policy, k, similarity.rate * path.moved)
        noise = changed(noise, gain=noise.gain / excess)
        state = changed(state, noise=noise, growth=growth, similarity=similarity, path=path)
        if k == 0:
            eta, leaps = self._first(state, signals)
        elif leaping:
            eta, leaps = self._leap(state, signals)
        else:
            eta, leaps = policy.grow * state.eta, state.leaps
            if growth.value > 0:
                # The first step's length says little once ℓ has limited the next ones.
                leaps = changed(leaps, reach=0.0)
        state = changed(state, leaps=leaps)
        eta = min(eta, self._limit(state, k, leaping), policy.largest)
        if overshot or (excess > policy.exploded and state.previous is not None):
            known = signals.before if exact else state.linear
            undo = Restart(state.previous.w, state.previous.anchor, known)
            if not exact:
                # What was measured at a point too far says nothing about the way there.
                eta = max(policy.retreat * old.eta, eta if overshot else 0.0)
                leaps = changed(old.leaps, going=False)
                state = changed(old, leaps=leaps, path=old.before or old.path)
                if overshot:
                    state = changed(state, similarity=state.similarity.at_least(1 / eta))
        # Powers of two: solvers that keep a factor of ∇²L̂ + I/η rarely need a new one.
        eta = 2.0 ** round(math.log2(eta)) if eta > 0 else old.eta
        if exact or (seen.noise is None and undo is None):
            # Kept only if the next batch's noise will be read off it.
            last = signals.difference
        step = OpenStep(Point(seen.w, seen.anchor, last), signals.gap, undo)
        return changed(state, eta=eta, exact=exact, step=step)

    def _excess(self, state: ProxyState, signals: Signals) -> tuple[float, float]:
        """Return how many times longer the newest answer is than is believed, and what is.

        What is measured is the distance of the difference from the mean of all. Believed is four
        times what noise and drift explain, and what was seen before.
        """
        if state.linear is None:
            return 1.0, 0.0
        noise, drift = state.noise, state.similarity.rate * state.path.moved
        size = norm(signals.difference - state.linear)
        explained = square(noise.error**0.5 + drift) + noise.recent
        believed = max(self.policy.clip * math.sqrt(explained), noise.longest)
        if signals.seen.k < 3 or not explained > 0:
            believed = size
        return max(1.0, size / believed) if believed > 0 else 1.0, min(size, believed)

    def _similarity(
        self, state: ProxyState, signals: Signals, noise: Noise, growth: Growth
    ) -> Similarity:
        """Measure the curvature of h along the last step, as well as the oracle allows."""
        known, step = state.similarity, signals.step
        if state.same_curvature:
            return known.faded(self.policy)
        if step is None:
            return known
        if signals.change is not None:
            q = curvature_along(signals.change, step)
            return known.with_curvature(self.policy, q, growth.doubt)
        if state.linear is None:
            return known
        # Another batch made the estimate, and the estimate made the step: only what neither its
        # noise nor that bias can explain counts.
        gap, length = signals.difference - state.linear, norm(step)
        doubt = math.sqrt(noise.recent + noise.error) * length + state.eta * noise.recent
        q = max(0.0, dot(gap, step) - doubt) / square(length) if length > 0 else 0.0
        if state.repeatable and q * state.eta <= 2:
            # Secants are better; between them this is an alarm.
            return known
        return known.with_curvature(self.policy, q, growth.doubt)

    def _first(self, state: ProxyState, signals: Signals) -> tuple[float, Leaps]:
        """Return a bold multiple of 1/H without noise, else a step that is only a probe.

        An exact gradient is followed by a bold step: one that overshot is taken back.
        """
        seen = signals.seen
        if seen.noise == 0 and state.proxied:
            H = seen.smoothness
            if H is not None and 0 < H < math.inf:
                return self.policy.bold / H, state.leaps
        length, steepness = self.policy.probe * max(1.0, norm(seen.w)), norm(seen.gradient)
        return length / steepness if steepness > 0 else length, changed(state.leaps, going=True)

    def _leap(self, state: ProxyState, signals: Signals) -> tuple[float, Leaps]:
        """Return a fraction of what one batch's curvature and noise allow, over a short way.

        Both were measured on a short step, so that a leap is at most so many times as long as the
        way so far; what it shows decides on the next. A batch that shows nothing, since its rows
        share no column with the last step, is no reason for one.
        """
        policy, seen, growth = self.policy, signals.seen, state.growth
        exact, change = seen.noise == 0, signals.anchor_change
        blind = not state.repeatable and not exact
        if change is not None and signals.change is not None:
            change = change + signals.difference - signals.before
        curvature = 0.0 if change is None else curvature_along(change, signals.step)
        leaps = changed(state.leaps, going=not exact)
        if not curvature > 0 or not (exact or blind or growth.shown):
            return policy.grow * state.eta, leaps
        bold = exact and state.proxied
        eta = (policy.bold if bold else policy.blind_caution if blind else 1.0) / curvature
        if growth.value > 0 and change is not None:
            # The halves of one batch may agree by chance: all of its change limits as well.
            whole = square(norm(change)) / dot(change, signals.step)
            eta = min(eta, policy.caution * policy.growth / growth.value, policy.growth / whole)
        steepness = max(norm(seen.gradient), math.sqrt(state.noise.spread))
        if not exact:
            longest = max(policy.leap * state.path.farthest / steepness, policy.grow * state.eta)
            leaps = Leaps(eta > longest, seen.k + policy.patience - 1)
            eta = min(eta, longest)
        return eta, changed(leaps, reach=eta * steepness)

    def _limit(self, state: ProxyState, k: int, leaping: bool) -> float:
        """Return the largest η that δ, ℓ and the noise allow."""
        delta, growth = state.similarity.delta, state.growth.value
        limit = 1 / delta if delta > 0 else math.inf
        if growth > 0:
            limit = min(limit, self.policy.growth / (state.noise.damping * growth))
        return limit if leaping else min(limit, self._noise_limit(state, k))

    def _noise_limit(self, state: ProxyState, k: int) -> float:
        """Return the largest η that the noise and the distance travelled allow.

        The squared distance of the average from the start contains about half of the noise of all
        steps, ``k η² r v``; what is left was travelled on purpose.
        """
        policy, path, noise = self.policy, state.path, state.noise
        if noise.spread == 0:
            return math.inf
        if state.growth.value > 0 and k < state.leaps.patience:
            return policy.stride * path.farthest / math.sqrt(noise.damping * noise.spread)
        travelled = norm(path.averages.long - state.start)
        on_purpose = math.sqrt(max(square(travelled) - policy.walk * (k + 1) * path.walk, 0.0))
        distance = max(on_purpose, policy.least_trust * travelled, state.leaps.reach)
        if distance == 0:
            return math.inf
        reach = policy.reach if noise.damping_count else policy.blind_reach
        return reach * distance / math.sqrt((k + 1) * (noise.damping * noise.spread))

    def gain(self, state: ProxyState) -> float | None:
        """Return the weight of the newest difference in the mean of all."""
        return state.noise.gain

    def restart(self, state: ProxyState) -> Restart | None:
        """Return the centre before if the last step overshot."""
        return None if state.step is None else state.step.undo

    def solve(
        self, state: ProxyState, k: int, linear: Vector, centre: Vector, solve: Solve
    ) -> tuple[Vector, ProxyState]:
        """Solve the subproblem, with a smaller η if it is not convex or nearly singular."""
        policy, step = self.policy, state.step
        assert step is not None
        state = changed(state, linear=linear, step=changed(step, centre=centre))
        perturbed, residual = None, None
        if step.gap is not None and state.proxied and not state.leaps.going and is_due(k, 1):
            perturbed, noise = self._perturb(state, step.gap, linear, centre, solve)
            state = changed(state, noise=noise)
        if perturbed is not None:
            residual = self._damping_residual(state.noise, step.gap)
        noisy, eta = state.noise.spread > 0, state.eta
        known = max(norm(centre - state.start), state.path.moved, state.leaps.reach)
        longest = (policy.grow if noisy else policy.farthest) * known if known > 0 else math.inf
        for _ in range(TRIES):
            too_long = False
            try:
                w = solve(linear, centre, eta, residual=residual)
                if not norm(w - centre) > longest:
                    if perturbed is not None:
                        noise = state.noise.with_damping(policy, perturbed - w, step.gap, eta)
                        state = changed(state, noise=noise)
                    return w, changed(state, eta=eta)
                too_long = noisy
            except (NonFiniteError, NotConvexError):
                pass
            perturbed = residual = None
            if too_long:
                # Too long for what is known, which says nothing about the proxy.
                eta = eta / policy.grow
                continue
            # The proxy curves downwards by 1/η or more: a quarter of η for a while.
            eta = eta / 4
            state = changed(state, similarity=state.similarity.at_least(1 / eta))
        return solve(linear, centre, eta), changed(state, eta=eta)

    def _perturb(
        self, state: ProxyState, gap: Vector, linear: Vector, centre: Vector, solve: Solve
    ) -> tuple[Vector | None, Noise]:
        """Find out how far a sample of the noise moves the solution of a subproblem.

        If the step in progress is about as long as the horizon, only the perturbed solution is
        found, and returned: the step itself is what to compare it with.
        """
        eta, noise = horizon(state.eta, state.path.time, state.similarity.rate), state.noise
        own = eta <= self.policy.same_horizon * state.eta
        residual = self._damping_residual(noise, gap)
        try:
            moved = solve(linear + gap, centre, state.eta if own else eta, residual=residual)
            if own:
                return moved, noise
            still = solve(linear, centre, eta, residual=residual)
        except (NonFiniteError, NotConvexError):
            return None, noise
        return None, noise.with_damping(self.policy, moved - still, gap, eta)

    def _damping_residual(self, noise: Noise, gap: Vector) -> float:
        """Return how accurately subproblems must be solved for r."""
        share = max(noise.damping, self.policy.least_share)
        return max(self.policy.damping_accuracy * share * norm(gap), sys.float_info.min)

    def end_step(self, state: ProxyState, k: int, w: Vector) -> ProxyState:
        """Enter the step to w."""
        step, path = state.step, state.path
        assert step is not None
        # A method that does not know of restarts has stepped from the point it asked about.
        centre = step.asked.w if step.centre is None else step.centre
        previous, undo = step.asked, step.undo
        if undo is not None and same_point(centre, undo.centre):
            last = undo.difference if state.exact else state.previous.difference
            previous = Point(undo.centre, undo.anchor, last)
        newest = square(state.eta) * state.noise.damping * state.noise.recent
        after = Path(
            path.averages.with_iterate(k, w),
            norm(w - centre),
            min(self.policy.largest, path.time + state.eta),
            path.walk + share(k) * (newest - path.walk),
            max(path.farthest, norm(w - state.start)),
        )
        return changed(state, path=after, before=path, previous=previous, step=None)

    def answer(self, state: ProxyState, w: Vector) -> Vector:
        """Return the average, a shorter one if it lags, or w if there is no noise."""
        return state.path.averages.answer if state.noise.spread > 0 else w


def noise_of(state: ProxyState, signals: Signals) -> float:
    """Return an estimate of ``E‖g − ∇L‖²``.

    Best is what the objective says: two half batches give ``‖g₁ − g₂‖²/4`` without bias. Next,
    two batches at one point: a secant re-evaluates the newest at ``w_{k−1}``, at which the
    difference of the batch before is remembered. Otherwise the surprise ``‖d_k − m‖²``, of which
    the share that the error of m explains is left out.
    """
    if signals.seen.noise is not None:
        return signals.seen.noise
    if signals.before is not None and state.previous.difference is not None:
        gap = signals.before - state.previous.difference
        return dot(gap, gap) / 2
    if state.linear is None:
        return 0.0
    gap = signals.difference - state.linear
    level, error = state.noise.recent, state.noise.error
    explained = max(level / (level + error), 0.5) if level + error > 0 else 0.5
    return dot(gap, gap) * explained
