"""What an audit gathers along the first steps, within its budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxyprox._util.arrays import Vector, from_numpy, norm, to_numpy
from proxyprox._util.validation import has, message, one_of
from proxyprox.diagnostics.curvature import (
    LEAST_STEPS,
    Hvps,
    Secants,
    Source,
    Survey,
    least_price,
    proxy_seen_from,
    survey,
)
from proxyprox.diagnostics.rehearsal import QuadraticModel
from proxyprox.diagnostics.sampling import Interval, Sampler, Samples, noise_level, stacked
from proxyprox.oracles import MeteredProxy, reported_value
from proxyprox.problems import Problem
from proxyprox.subproblem import NonFiniteError

DAMPING = 1e-2
"""Share of H added to the model's curvature: a step that flat, noisy directions cannot run off."""


@dataclass(frozen=True)
class Segment:
    """One step of the path.

    Attributes
    ----------
    length : float
        ``‖w_{j+1} − w_j‖``.
    delta : Interval
        ``‖∇h(w_{j+1}) − ∇h(w_j)‖ / length``: how much the losses' difference curves this way.
    H : Interval
        The same secant of the target alone.
    """

    length: float
    delta: Interval
    H: Interval


def step_along(survey: Survey, gradient: np.ndarray[Any, Any], w: Vector) -> Vector:
    """Return a damped Newton step on the model, negative curvature left out."""
    values, vectors = np.linalg.eigh(survey.A)
    # Curvature that was seen through noise may be larger by the error than it looks.
    damping = DAMPING * max(float(values[-1]), 1e-300) + survey.target.error
    damped = np.maximum(values, 0.0) + damping
    pull = survey.project(gradient[None, :])[0]
    step = survey.lift(vectors @ ((vectors.T @ pull) / damped))
    return w - from_numpy(step, like=w)


def segment(
    proxy: MeteredProxy, w: Vector, here: Samples, onward: Vector, there: Samples, confidence: float
) -> Segment:
    """Measure the secants between two points whose gradients are known."""
    step = to_numpy(onward - w).astype(np.float64)
    length = norm(step)
    each = there.gradients - here.gradients
    mean = each.mean(axis=0)
    proxied = to_numpy(proxy.gradient(onward) - proxy.gradient(w)).astype(np.float64)
    blur = 0.0
    if not here.exact:
        # ‖error of the mean‖ is about its root mean square; twice that is seldom exceeded.
        blur = 2 * math.sqrt(noise_level(each, confidence).high / len(each))
    return Segment(length, _norm(mean - proxied, blur, length), _norm(mean, blur, length))


def _norm(vector: np.ndarray[Any, Any], blur: float, length: float) -> Interval:
    met = norm(vector)
    return Interval(met / length, max(met - blur, 0.0) / length, (met + blur) / length)


STEEP = 0.5
"""Share of the first slope that is still steep: ahead of a minimum, to go on; past it, to go back.

A step made with secants goes back as soon as it is past: convex losses are lower wherever they
still fall, but where they rise they may be anything.
"""

LEVEL = 0.1
"""Share of it that is as good as none past a minimum, where no noise blurs the slopes."""

CERTAIN = 3.0
"""Standard errors by which the first slope must differ from zero on the batches of a probe."""

LEAST = 5
"""Points to be able to look at: with fewer probes than batches, fewer batches are asked."""

FARTHER = 4.0
"""Most times a step is lengthened at once, and the width of a bracket that is halved in logs."""


def stride(
    sampler: Sampler,
    here: Samples,
    gradient: np.ndarray[Any, Any],
    w: Vector,
    trial: Vector,
    *,
    probes: int,
    exact: bool,
) -> Vector | None:
    """Return the trial point, or one nearer or farther along the step, where the slope is small.

    A curvature that was measured where the loss is all but linear, or through noise, tells
    nothing of how far its minimum is: the step may be a thousand times too long, or as much too
    short. The slopes tell, on as many batches as it takes to be sure of the first one.

    Parameters
    ----------
    sampler : Sampler
        The batches.
    here : Samples
        Their gradients at w.
    gradient : array
        The target's gradient there, as good as it is known.
    w, trial : array
        Where the step begins, and where it would end.
    probes : int
        Target gradients that may be used.
    exact : bool
        Whether the step was made with the loss's own curvature: it is then only shortened.

    Returns
    -------
    point : array or None
        None where no point was met at which the loss had fallen.
    """
    ahead = to_numpy(trial - w).astype(np.float64)
    fall = -float(gradient @ ahead)
    if not fall > 0:
        return None
    count = min(_batches(here.gradients @ ahead, fall), max(probes // LEAST, 1))
    least, most = (-math.inf, STEEP) if exact else (-STEEP, LEVEL if here.exact else 0.0)
    search = _Search(growing=not exact)
    for _ in range(probes // count):
        point = w + search.at * (trial - w)
        change, exploded = _change(sampler, here, point, ahead, count)
        slope = change / fall - 1
        if not exploded and least <= slope <= most:
            return point
        search.move(slope, exploded=exploded)
    return w + search.low * (trial - w) if search.low > 0 else None


class _Search:
    """A share of the step whose slope is small, looked for between one that falls and one not."""

    def __init__(self, *, growing: bool) -> None:
        self.at, self.low, self.high = 1.0, 0.0, math.inf
        self._growing, self._cuts = growing, 1

    def move(self, slope: float, *, exploded: bool) -> None:
        """Go on from a slope, in units of the first fall."""
        if slope < 0 and not exploded:
            self.low = self.at
        else:
            self.high = self.at
        if math.isinf(self.high):
            # What is left of the fall, drawn out in a line.
            self.at = self.low * min(FARTHER, 1 / (1 + slope) if slope > -1 else math.inf)
        elif self.low == 0:
            # A parabola's minimum; where the curvature is in doubt, cuts that do not help grow.
            share = 1 / (1 + slope) if 0 < slope < math.inf else 0.5
            self.at = self.high * share**self._cuts
            self._cuts += self._growing
        elif self.high > FARTHER * self.low:
            self.at = math.sqrt(self.low * self.high)
        else:
            self.at = (self.low + self.high) / 2


def _batches(slopes: np.ndarray[Any, Any], fall: float) -> int:
    """Return how many batches tell the slope from zero."""
    if len(slopes) < 2:
        return 1
    wanted = (CERTAIN * float(slopes.std(ddof=1)) / fall) ** 2
    return max(math.ceil(min(wanted, len(slopes))), 1)


def _change(
    sampler: Sampler, here: Samples, point: Vector, ahead: np.ndarray[Any, Any], count: int
) -> tuple[float, bool]:
    """Return how the slope has changed at a point, and whether the gradient exploded."""
    try:
        there = stacked(
            [sampler.target.gradient(point, b, again=True) for b in sampler.batches[:count]]
        )
    except NonFiniteError:
        return math.inf, True
    before = here.gradients[:count]
    now, then = (norm(rows.mean(axis=0)) for rows in (there, before))
    return float((there - before).mean(axis=0) @ ahead), now > 2 * then > 0


FAR = 2.0
"""A loss that grows by twice its size along a path that leads down has run away."""

NO_VERDICT = "No verdict:"
"""How an alarm begins that is about the target: there is nothing to plan then."""

_CHECK = "Check the sign of its gradient, with scipy.optimize.check_grad."


def proxy_alarm(proxies: Sequence[MeteredProxy], w: Vector, start: Vector) -> str:
    """Return what to say of a first proxy that is not finite at a point of the path, or nothing.

    Raises
    ------
    NonFiniteError
        If any is not finite at the start, or a further one anywhere.
    """
    away = norm(w - start)
    where = f"at a distance of {away:.3g} from w0" if away > 0 else "at w0"
    for j, proxy in enumerate(proxies):
        proxy.fault = None
        with np.errstate(all="ignore"):
            proxy.gradient(w)
            proxy.value(w)
        if proxy.fault is None:
            continue
        whose = f"others[{j - 1}]" if j else "the proxy"
        what = f"{whose}'s {proxy.fault[0]} is NaN or infinite {where}"
        if j or away == 0:
            raise NonFiniteError(what)
        return f"Do not use it: {what}, on the path towards the minimum."
    return ""


def target_alarm(found: Survey, problem: Problem, w: Vector, start: Vector) -> str:
    """Return what to say of a target that curves downwards or runs away, or nothing."""
    if not found.target.values[-1] > 0:
        return (
            f"{NO_VERDICT} the target curves downwards, or not at all, in every direction looked "
            f"at, so that there is no minimum to predict the way to. {_CHECK}"
        )
    first, last = reported_value(problem, start), reported_value(problem, w)
    if first is None or last is None or not math.isfinite(first) or first == 0:
        return ""
    if math.isfinite(last) and last - first <= FAR * abs(first):
        return ""
    return (
        f"{NO_VERDICT} the target's loss runs away, from {first:.3g} to {last:.3g}, on a path "
        f"along which its gradient says that it falls. {_CHECK}"
    )


TRIES = 3
"""Target gradients kept back for each step of the path: it may have to be shortened."""

MORE = 21
"""Further ones where the budget allows: steps made with noisy secants need a closer look."""

KINDS = ("auto", "hvp", "secants")


@dataclass(frozen=True)
class Shares:
    """Target gradients: for the curvature at each point, for that of the best scale, for a step."""

    points: tuple[int, ...]
    verify: int
    probes: int = TRIES


def source_for(kind: str, sampler: Sampler, size: int, budget: int, points: int) -> Source:
    """Return where the target's Hessian products come from.

    Parameters
    ----------
    kind : str
        One of ``"auto"``, ``"hvp"``, ``"secants"``.
    sampler : Sampler
        The batches drawn; secants are taken on some of them.
    size, budget, points : int
        Number of parameters, target gradients to spend, points to visit.
    """
    one_of("curvature", kind, KINDS)
    target, objective = sampler.target, sampler.target.objective
    # Products with private data would escape the privacy account, gradients do not.
    if kind != "secants" and has(objective, "hvp") and not has(objective, "epsilon"):
        return Hvps(target)
    if kind == "hvp":
        raise TypeError(
            f"curvature='hvp' needs Hessian-vector products, hvp(w, v), from the objective, but "
            f"{type(objective).__name__} does not offer them. Use curvature='auto'."
        )
    if sampler.exact:
        return Secants(target, sampler.batches)
    if not getattr(objective, "repeatable", True):
        raise TypeError(
            "audit compares gradients of one batch at two points, but the objective says that its "
            "batches are not repeatable. Give it hvp(w, v), or a repeatable simulation of it."
        )
    # As many batches as leave room for the whole Hessian everywhere, in two equal halves.
    rest = budget - points * (sampler.price + 1) - (points - 1) * (TRIES + MORE)
    most = rest // (points * (size + 1))
    return Secants(target, sampler.batches[: max(2, min(most - most % 2, len(sampler.batches)))])


def share_out(source: Source, sampler: Sampler, *, size: int, budget: int, points: int) -> Shares:
    """Divide what the gradients leave over: whole Hessians where possible, else equal parts.

    Raises
    ------
    ValueError
        If the budget does not allow the coarsest look at every point.
    """
    # At every point the batches and an exact gradient; on the way to it, probes of the step.
    spoken_for = points * (sampler.price + 1) + (points - 1) * TRIES
    rest, whole = budget - spoken_for, source.price(size)
    if points * whole <= rest:
        left = (rest - points * whole) // max(points - 1, 1)
        return Shares((whole,) * points, 0, TRIES + min(left, MORE))
    least = least_price(source, size)
    if rest < points * least:
        allowed = f"{spoken_for + points * least} or more for {points} points"
        remedy = "Or visit fewer points, or draw fewer batches."
        raise ValueError(message("budget", budget, allowed, remedy))
    if whole + (points - 1) * least <= rest:
        # One whole Hessian goes to the end of the path, where the prediction is made.
        return Shares((((rest - whole) // max(points - 1, 1)),) * (points - 1) + (whole,), 0)
    verify = source.price(LEAST_STEPS) if rest >= (points + 1) * least else 0
    return Shares(((rest - verify) // points,) * points, verify)


@dataclass(frozen=True)
class Stop:
    """One point of the walk and what was seen there.

    Attributes
    ----------
    w : array
        The point.
    samples : Samples
        Gradients of the audit's batches.
    gradient : array
        The target's gradient, as good as it is known.
    averaged : int
        Batches in that gradient; 0 when it is exact.
    survey : Survey
        The curvature.
    """

    w: Vector
    samples: Samples
    gradient: np.ndarray[Any, Any]
    averaged: int
    survey: Survey


@dataclass(frozen=True)
class Evidence:
    """All that was measured: the start and the path, and the secants between neighbours."""

    stops: tuple[Stop, ...]
    segments: tuple[Segment, ...]
    asked: int
    """Points that were to be visited; there are fewer stops where the path ended early."""
    alarm: str = ""
    """Why the walk ended early, where that leaves nothing to predict."""

    def model(self) -> QuadraticModel:
        """Return the target's quadratic model around the end of the path, as the start sees it.

        Near the minimum is where a run spends most of its steps, and there the noise is not what
        it is at the start. The start's error is the path walked and what is left to walk.
        """
        end = self.stops[-1]
        walked = to_numpy(self.stops[0].w - end.w).astype(np.float64)
        back, left = end.survey.project(np.stack([walked, end.gradient]))
        H = [max(float(stop.survey.target.values[-1]), 0.0) for stop in (self.stops[0], end)]
        return QuadraticModel(
            A=end.survey.A,
            walked=back,
            gradient=left,
            residuals=end.survey.project(end.samples.residuals),
            averaged=end.averaged,
            growth=self._growth(back),
            bend=(max(H) - min(H)) / max(*H, 1e-300),
        )

    def _growth(self, back: np.ndarray[Any, Any]) -> float:
        """Return κ of ``E‖(A_b − A)e‖² ≈ κ eᵀAe tr A``, from the batches seen at both ends."""
        start, end = self.stops[0], self.stops[-1]
        A = end.survey.A
        walked = float(back @ A @ back) * float(np.trace(A))
        if len(start.samples.gradients) < 2 or walked <= 0:
            return 0.0
        apart = end.survey.project(start.samples.residuals - end.samples.residuals)
        return float(np.sum(apart**2)) / (len(apart) - 1) / walked


def gather(
    problem: Problem,
    sampler: Sampler,
    source: Source,
    proxies: Sequence[MeteredProxy],
    start: Vector,
    shares: Shares,
    *,
    confidence: float,
    rng: np.random.Generator,
) -> Evidence:
    """Visit the points and measure at each."""
    failure = (1 - confidence) / 2

    def visit(w: Vector, share: int) -> Stop:
        samples = sampler.at(w)
        gradient, averaged = _gradient(sampler, samples, w)
        # What a run has to undo: the gradient here, and the way back to the start.
        back = to_numpy(start - w).astype(np.float64)
        pull = from_numpy(_unit(gradient) + _unit(back), like=w)
        found = survey(
            source, proxies, w, share=share, failure=failure, looks=len(shares.points), rng=rng,
            direction=pull,
        )  # fmt: skip
        return Stop(w, samples, gradient, averaged, found)

    proxy_alarm(proxies, start, start)
    stops, segments = [visit(start, shares.points[0])], []
    alarm = target_alarm(stops[0].survey, problem, start, start)
    for share in shares.points[1:]:
        here = stops[-1]
        if alarm:
            break
        # The start's curvature serves the whole path: its points only have to lie nearby.
        wanted = step_along(stops[0].survey, here.gradient, here.w)
        trial = stride(
            sampler, here.samples, here.gradient, here.w, wanted,
            probes=shares.probes, exact=source.exact_products,
        )  # fmt: skip
        if trial is None or not np.any(to_numpy(trial - here.w)):
            break
        alarm = proxy_alarm(proxies, trial, start)
        if alarm:
            break
        there = visit(trial, share)
        alarm = target_alarm(there.survey, problem, trial, start)
        segments.append(segment(proxies[0], here.w, here.samples, trial, there.samples, confidence))
        stops.append(there)
    return Evidence(tuple(stops), tuple(segments), len(shares.points), alarm)


def _unit(vector: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    length = norm(vector)
    return vector / length if length > 0 else vector


def _gradient(sampler: Sampler, samples: Samples, w: Vector) -> tuple[np.ndarray[Any, Any], int]:
    """Return the gradient at a point: exact for one more access, where that is on offer."""
    objective = sampler.target.objective
    if samples.exact:
        return samples.mean, 0
    if has(objective, "everything") and not has(objective, "epsilon"):
        full = sampler.target.gradient(w, objective.everything(), whole=True)
        return to_numpy(full).astype(np.float64), 0
    return samples.mean, len(samples.gradients)


Matrix = np.ndarray[Any, Any]

TOO_LARGE = 1.0
"""δ/H at a point beyond which the rehearsal also takes the proxy as it is there."""


class Along:
    """The weighted proxies at every point visited.

    The rehearsal is made on the target around the end of the path. Inputs in the wrong unit give
    a proxy that is steep at the start and saturated at the end, where it looks harmless: a run
    starts at the start, and stays there.
    """

    def __init__(self, evidence: Evidence, proxies: Sequence[MeteredProxy]) -> None:
        self._stops = evidence.stops
        self._proxies = proxies
        self._seen: dict[tuple[int, int], Matrix] = {}

    def shares(self, weights: Sequence[float]) -> tuple[float, ...]:
        """Return δ/H at every point, for the proxies with these weights."""
        found = []
        for stop, H in zip(self._stops, self._sizes(), strict=True):
            mixed = sum(s * P for s, P in zip(weights, stop.survey.P, strict=False))
            found.append(float(np.linalg.norm(stop.survey.A - mixed, 2)) / H)
        return tuple(found)

    def matrices(self, weights: Sequence[float]) -> tuple[Matrix, ...]:
        """Return the Hessians to rehearse with: at the end, and where δ exceeds H before it.

        The latter are taken relative to the target's H there, which may have changed as well.
        """
        sizes, last = self._sizes(), len(self._stops) - 1
        chosen = [self._mixed(last, weights)]
        for j, share in enumerate(self.shares(weights)[:-1]):
            if share > TOO_LARGE:
                chosen.append(self._mixed(j, weights) * (sizes[last] / sizes[j]))
        return tuple(chosen)

    def _sizes(self) -> list[float]:
        return [max(float(stop.survey.target.values[-1]), 1e-300) for stop in self._stops]

    def _mixed(self, j: int, weights: Sequence[float]) -> Matrix:
        return np.asarray(sum(s * self._matrix(j, i) for i, s in enumerate(weights)))

    def _matrix(self, j: int, i: int) -> Matrix:
        """Return the i-th proxy's Hessian at the j-th point, in the coordinates of the end."""
        end, stop = self._stops[-1].survey, self._stops[j]
        if (stop.survey.basis is None and end.basis is None) or stop.survey is end:
            return stop.survey.P[i]
        if (j, i) not in self._seen:
            self._seen[j, i] = proxy_seen_from(end, self._proxies[i], stop.w)
        return self._seen[j, i]
