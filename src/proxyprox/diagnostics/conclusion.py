"""From evidence to estimates, reasons, doubts and a verdict."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from proxyprox._util.arrays import Vector, from_numpy, norm, to_numpy
from proxyprox._util.isolation import copied_tree
from proxyprox._util.validation import has
from proxyprox.diagnostics.curvature import (
    Source,
    lanczos,
    proxy_product,
    random_direction,
    similarity,
    smoothness,
    spectrum_of_matrix,
    spectrum_of_space,
    strong_convexity,
)
from proxyprox.diagnostics.evidence import TOO_LARGE, Along, Evidence, Stop
from proxyprox.diagnostics.rehearsal import (
    Prediction,
    QuadraticModel,
    Rehearsal,
    best_weights,
    counted,
    ratio,
    rehearse,
    start_distance,
    start_excess,
    theory_counts,
)
from proxyprox.diagnostics.report import Audit, BatchPrice, CostRatio, PointAudit, Suggestion
from proxyprox.diagnostics.sampling import Interval, Sampler, largest, proxy_noise, smallest
from proxyprox.diagnostics.verdict import GAIN, Verdict, decide, worth_saying
from proxyprox.oracles import MeteredProxy
from proxyprox.problems import Problem

Matrix = np.ndarray[Any, Any]

UNEXPLAINED = 0.5
"""Share of a gradient's change along the path beyond which curvature has not explained it.

The mean of the Hessians at both ends explains it to third order: smooth losses whose curvature
halves on the way stay below 0.3. It is a half and more where curvature sits in kinks between.
"""

DOWNWARDS = 0.05
"""Share of H by which a target may curve downwards and still be rehearsed as a convex one."""

_REMEDY = (
    "Take larger batches and a larger budget, or a start nearer to the minimum, and audit again; "
    "or run with minimize(..., safeguard=True), which has SGD run along on the same samples."
)


def doubts(
    leaning: Verdict,
    evidence: Evidence,
    source: Source,
    proxies: Sequence[MeteredProxy],
    shares: Sequence[float],
) -> tuple[str, ...]:
    """Return why the rehearsal is not to be trusted; nothing where it is.

    Parameters
    ----------
    leaning : Verdict
        What the rehearsal says.
    evidence : Evidence
        The points visited.
    source : Source
        Where the target's curvature came from.
    proxies : sequence
        The proxy in question first.
    shares : sequence of float
        δ/H at every point, for the proxy as it is.
    """
    if len(evidence.stops) == 1:
        if evidence.asked == 1 or not np.any(evidence.stops[0].gradient):
            return ()
        return (
            "Only one point could be visited, the start: along the step from there no lower one "
            f"was found that the batches tell from noise. {_REMEDY}",
        )
    said = []
    pairs = list(pairwise(evidence.stops))
    target = max(_of_target(a, b, source) for a, b in pairs)
    if target > UNEXPLAINED:
        said.append(_words("target's", target))
    # A proxy further from the target than none, in other units mostly, need not be understood.
    refused = leaning is Verdict.DO_NOT_USE and max(shares) > TOO_LARGE
    proxied = max(_of_proxy(a, b, proxies[0]) for a, b in pairs)
    if proxied > UNEXPLAINED and not refused:
        said.append(_words("proxy's", proxied))
    return (*said, f"The rehearsal takes both for quadratic. {_REMEDY}") if said else ()


def not_convex(points: Sequence[PointAudit]) -> tuple[str, ...]:
    """Return the doubt that goes with a target that clearly curves downwards, as networks do."""
    worst = min(points, key=lambda point: point.mu.high / max(point.H.estimate, 1e-300))
    if worst.mu.high >= -DOWNWARDS * worst.H.estimate:
        return ()
    return (
        "The target is not convex, as those of networks are not: it curves downwards at a point "
        f"visited, by {-worst.mu.high:.3g} where H = {worst.H.estimate:.3g}. The rehearsal leaves "
        "such directions out. Compare short runs with and without the proxy instead.",
    )


def beyond_doubt(leaning: Verdict, evidence: Evidence) -> bool:
    """Tell whether a proxy is refused because it curves downwards at every point visited.

    However wrong the rehearsal, no such proxy is better than none.
    """
    return leaning is Verdict.DO_NOT_USE and all(
        bool(np.linalg.eigvalsh(stop.survey.P[0])[-1] <= 0) for stop in evidence.stops
    )


def _words(whose: str, share: float) -> str:
    return (
        f"The curvature measured does not explain the path: {min(share, 1.0):.0%} of the change of "
        f"the {whose} gradient between two points is not what the Hessians there make of it. They "
        "change in between, as those of losses with kinks do, or hang on a few rows of a batch."
    )


def _of_target(a: Stop, b: Stop, source: Source) -> float:
    """Return the share of the target's change that the Hessians at both ends do not explain."""
    if a.survey.basis is not None or b.survey.basis is not None:
        return 0.0
    step = to_numpy(b.w - a.w).astype(np.float64)
    each, blur = b.samples.gradients - a.samples.gradients, 0.0
    if not source.exact_products:
        # Secants and gradients of the same batches: no noise between them.
        change = each[: source.count].mean(axis=0)
    elif a.averaged == 0 and b.averaged == 0:
        change = b.gradient - a.gradient
    else:
        change = each.mean(axis=0)
        blur = 2 * math.sqrt(float(each.var(axis=0, ddof=1).sum()) / len(each))
    sizes = [norm(stop.gradient) for stop in (a, b)]
    return _unexplained(change, (a.survey.A + b.survey.A) / 2 @ step, max(sizes), blur)


def _of_proxy(a: Stop, b: Stop, proxy: MeteredProxy) -> float:
    """Return the same share of the proxy's change; its products cost the target nothing."""
    step = b.w - a.w
    ends = [to_numpy(proxy.gradient(stop.w)).astype(np.float64) for stop in (a, b)]
    images = [_image(proxy, stop, step) for stop in (a, b)]
    size = max(norm(gradient) for gradient in ends)
    return _unexplained(ends[1] - ends[0], (images[0] + images[1]) / 2, size, 0.0)


def _image(proxy: MeteredProxy, stop: Stop, step: Any) -> Matrix:
    if stop.survey.basis is None:
        return np.asarray(stop.survey.P[0] @ to_numpy(step).astype(np.float64))
    length = norm(to_numpy(step))
    unit = from_numpy(to_numpy(step).astype(np.float64) / length, like=stop.w)
    return np.asarray(length * to_numpy(proxy_product(proxy, stop.w)(unit)).astype(np.float64))


def _unexplained(change: Matrix, told: Matrix, gradients: float, blur: float) -> float:
    size = max(norm(change), norm(told))
    # A change lost in the rounding of the gradients tells nothing.
    if size <= 1e-4 * gradients:
        return 0.0
    return max(norm(change - told) - blur, 0.0) / size


UNITS = 4.0
"""Factor in curvature, two in the columns, beyond which other units are suspected."""

PENALIZED = "The penalty cancels in δ; the rehearsal is of the smooth part alone."
IN_HAND = (
    "All rows of the target are in hand here: they can also be fitted directly (ERM). The audit "
    "is about gradients that are still to be paid."
)
_NOT_CONVEX = (
    "The target is not convex at a point visited: the rehearsal leaves out the directions that "
    "curve downwards."
)
_SLOW_PROXY = (
    "A target gradient takes less time than a proxy gradient here: the proxy pays only if target "
    "gradients cost something besides time."
)


def reasons(
    verdict: Verdict,
    told: Prediction,
    points: Sequence[PointAudit],
    stops: Sequence[Stop],
    scale: Suggestion,
    mixture: Suggestion | None,
    cost: CostRatio,
    *,
    sure: bool = True,
) -> tuple[str, ...]:
    """Return the sentences that go with a verdict; no guess at the units where it is unsure."""
    # Scale and mixture are measured at the end of the path: so is what they are compared with.
    delta, H = points[-1].delta.estimate, max(points[-1].H.estimate, 1e-300)
    said = [_similar(points)]
    at_end = "" if len(points) == 1 else "at the end of the path "
    if verdict is Verdict.USE_SCALED:
        said.append(
            "The proxy has the right shape but the wrong size. "
            f"The scale is {scale.weights[0]:.4g}; {at_end}it brings δ from {delta:.3g} to "
            f"{scale.delta.estimate:.3g}, {scale.delta.estimate / H:.2g} of H."
        )
    if verdict is Verdict.USE_MIXED and mixture is not None:
        shown = ", ".join(f"{weight:.3g}" for weight in mixture.weights)
        said.append(
            f"The weights are {shown}; {at_end}they bring δ from {delta:.3g} to "
            f"{mixture.delta.estimate:.3g}. This proxy alone would take "
            f"{counted(told.rehearsed_proxyprox.steps)} target gradients."
        )
    if verdict is Verdict.DO_NOT_USE and scale.weights[0] == 0.0:
        end = stops[-1].survey
        turned, least = best_weights(end.A, [-end.P[0]])
        if turned[0] > 0 and least < 0.8 * H:
            said.append(
                f"Its negative would be closer (δ = {least:.3g} at scale {turned[0]:.3g}): check "
                "the proxy's sign."
            )
    if verdict is Verdict.DO_NOT_USE and sure:
        said.extend(_units(points, stops))
    if sure and min(point.mu.high for point in points) < 0:
        said.append(_NOT_CONVEX)  # where it is more than a trace, the doubts say so
    if cost.unit == "seconds" and cost.ratio < 1:
        said.append(_SLOW_PROXY)
    return tuple(said)


def _similar(points: Sequence[PointAudit]) -> str:
    """Say how large δ is: at the end of the path, and where it was largest, or at the start."""
    shares = _shares(points)
    last, worst = shares[-1], int(np.argmax(shares))
    where = f" {_place(len(points) - 1, len(points))}"
    other = worst if worst < len(points) - 1 else 0
    also = f"{_times(shares[other])} {_place(other, len(points))}"
    if last <= 1 < shares[worst]:
        return (
            f"δ is {_times(last)} of H{where}, but {also}: there the proxy's curvature is "
            "further from the target's than no curvature at all."
        )
    # What differs by less than a tenth reads the same.
    alike = max(last, shares[other]) <= max(1.1 * min(last, shares[other]), 1e-6)
    where += "" if alike else f" ({also})"
    if last > 1:
        return (
            f"δ is {_times(last)} of H{where}: as it is, the proxy's curvature is "
            "further from the target's than no curvature at all."
        )
    rest = "next to nothing" if last < 1e-6 else "that share"
    return (
        f"δ is {_times(last)} of H{where}: the proxy leaves {rest} of the target's "
        "curvature to the target's gradients."
    )


def _shares(points: Sequence[PointAudit]) -> list[float]:
    return [point.delta.estimate / max(point.H.estimate, 1e-300) for point in points]


def _times(value: float) -> str:
    """Return two digits to read: no powers of ten where a number will do."""
    return f"{float(f'{value:.2g}'):,.0f}" if 100 <= value < 1e7 else f"{value:.2g}"


def _place(j: int, count: int) -> str:
    if j == 0:
        return "at the start"
    return "at the end of the path" if j == count - 1 else "on the way"


def _units(points: Sequence[PointAudit], stops: Sequence[Stop]) -> list[str]:
    """Say so when the sizes of the proxy's curvature look like other units, column by column."""
    shares = _shares(points)
    worst = int(np.argmax(shares))
    found = stops[worst].survey
    own, other = np.diag(found.A), np.diag(found.P[0])
    if found.basis is not None:
        own, other = (np.linalg.eigvalsh(M)[-1:] for M in (found.A, found.P[0]))
    known = own > 1e-12 * max(float(own.max()), 1e-300)
    if not known.any() or np.any(other <= 0):
        return []
    ratios = np.where(known, other / np.where(known, own, 1.0), 1.0)
    large, median = int(np.argmax(ratios)), float(np.median(ratios[known]))
    if shares[worst] > 1 and ratios[large] > UNITS:
        along = f" along parameter {large} (counted from 0)" if found.basis is None else ""
        much = f"{_times(ratios[large])} times as much as the target{along}"
    elif median < 1 / UNITS:
        much = f"{_times(median)} times as much as the target along the median parameter"
    else:
        return []
    return [
        f"{_place(worst, len(points)).capitalize()} the proxy curves {much}: its columns, or the "
        "loss as a whole, seem to be in other units. Scale and centre them as the target's, and "
        "audit again."
    ]


@dataclass(frozen=True)
class Question:
    """What the user asked about."""

    problem: Problem
    others: tuple[Any, ...]
    epsilon: float | None
    B: float | None
    cost_ratio: float | None
    confidence: float


def conclude(
    question: Question,
    evidence: Evidence,
    sampler: Sampler,
    source: Source,
    proxies: Sequence[MeteredProxy],
    *,
    verify: int,
    rng: np.random.Generator,
) -> Audit:
    """Return the audit."""
    problem, first = question.problem, evidence.stops[0]
    points = _points(question, evidence)
    delta, H = largest(p.delta for p in points), largest(p.H for p in points)
    mu, sigma2 = smallest(p.mu for p in points), largest(p.sigma2 for p in points)
    model, end = evidence.model(), evidence.stops[-1]
    along = Along(evidence, proxies)
    excess, distance = start_excess(model), start_distance(model)
    # At the minimum already, a run can only shake: ε is then taken from what the noise shakes.
    shaken = sigma2.estimate / (2 * max(H.estimate, 1e-300))
    epsilon = question.epsilon or max(excess if excess > 1e-6 * shaken else shaken, 1e-300) / 100
    B = question.B or max(distance, 1e-300)

    sgd, plain = rehearse(model, None, epsilon), rehearse(model, along.matrices([1.0]), epsilon)
    weights, _ = best_weights(end.survey.A, end.survey.P[:1])
    measured = _delta_at(end, weights, source, proxies[:1], verify, question.confidence, rng)
    scaled = rehearse(model, along.matrices(weights), epsilon) if worth_saying(weights) else None
    verdict = decide(
        sgd, plain, scaled,
        similarity=_share([p.delta.estimate / max(p.H.estimate, 1e-300) for p in points]),
        scaled_similarity=_share(
            [*along.shares(weights)[:-1], measured.estimate / max(points[-1].H.estimate, 1e-300)]
        ),
    )  # fmt: skip
    scale = Suggestion(weights, measured, helps=verdict is Verdict.USE_SCALED)
    best = scaled if scale.helps and scaled is not None else plain
    offered: Sequence[float] = weights if scale.helps else [1.0]

    mixture, mixed = _mixture(question, end, model, epsilon, source, along, proxies, rng)
    if mixture is not None and mixed is not None:
        alone = best if verdict is not Verdict.DO_NOT_USE else sgd
        helps = ratio(alone, mixed) >= GAIN
        mixture = Suggestion(mixture.weights, mixture.delta, helps=helps)
        if helps:
            best, verdict = mixed, Verdict.USE_MIXED
            offered = mixture.weights
    if evidence.alarm:
        verdict = Verdict.DO_NOT_USE
    why_not: tuple[str, ...] = ()
    if not evidence.alarm:
        why_not = not_convex(points) + doubts(
            verdict, evidence, source, proxies, along.shares([1.0])
        )
    counts = theory_counts(
        epsilon=epsilon, H=max(H.estimate, 1e-300), mu=_usable(mu), delta=delta.estimate,
        sigma=math.sqrt(sigma2.estimate), B=B,
    )  # fmt: skip
    prediction = Prediction(epsilon, *counts, sgd, plain, best)
    cost = _cost(question, sampler, proxies[0], first.w)
    return Audit(
        verdict=Verdict.UNSURE if why_not and not beyond_doubt(verdict, evidence) else verdict,
        leaning=verdict,
        reasons=()
        if evidence.alarm
        else why_not
        + reasons(
            verdict, prediction, points, evidence.stops, scale, mixture, cost, sure=not why_not
        )
        + (() if problem.penalty is None else (PENALIZED,))
        + ((IN_HAND,) if _in_hand(problem.objective) else ()),
        delta=delta, H=H, mu=mu, sigma2=sigma2,
        rho2=proxy_noise(
            problem.proxy, proxies[0], first.w, max(8, len(sampler.batches)), rng,
            question.confidence,
        ),
        points=points, path=evidence.segments, scale=scale, mixture=mixture,
        prediction=prediction, cost=cost,
        epsilon=epsilon, epsilon_source="estimated" if question.epsilon is None else "given",
        B=B, B_source="estimated" if question.B is None else "given",
        confidence=question.confidence, batch=_batch_price(sampler),
        ledger=sampler.target.ledger, problem=problem, others=question.others,
        model=model, proxy_matrices=along.matrices(offered),
        start_gradient=from_numpy(first.gradient, like=first.w),
        alarm=evidence.alarm, doubts=why_not,
    )  # fmt: skip


def _points(question: Question, evidence: Evidence) -> tuple[PointAudit, ...]:
    known = getattr(question.problem.objective, "strong_convexity", None)
    # The lower limit of a maximum over points errs when any one does: each gets its part.
    each = 1 - (1 - question.confidence) / len(evidence.stops)
    return tuple(
        PointAudit(
            w=stop.w,
            delta=similarity(stop.survey.difference),
            H=smoothness(stop.survey.target),
            mu=strong_convexity(stop.survey.target, known),
            sigma2=stop.samples.noise(each),
            target_spectrum=stop.survey.target.values,
            difference_spectrum=stop.survey.difference.values,
            in_full=stop.survey.basis is None,
        )
        for stop in evidence.stops
    )


def _delta_at(
    stop: Stop,
    weights: Sequence[float],
    source: Source,
    proxies: Sequence[MeteredProxy],
    verify: int,
    confidence: float,
    rng: np.random.Generator,
) -> Interval:
    """Return δ at given weights: from the matrices in full, or by a Lanczos run of its own."""
    survey, size = stop.survey, int(stop.w.shape[0])
    mixed = sum(s * Q for s, Q in zip(weights, survey.P, strict=False))
    projected = similarity(spectrum_of_matrix(survey.A - mixed, survey.difference.error))
    if survey.basis is None:
        return projected
    steps = (verify - source.price(0)) // (source.price(1) - source.price(0))
    if steps < 2:
        # Not affordable: the projection is a lower limit, the triangle inequality an upper one.
        return Interval(projected.estimate, projected.low, math.inf)
    one, two = source.halves(stop.w)
    shadows = [proxy_product(proxy, stop.w) for proxy in proxies]

    def difference(v: Vector) -> Vector:
        image = (one(v) + two(v)) / 2 if source.noisy else one(v)
        for weight, shadow in zip(weights, shadows, strict=True):
            image = image - weight * shadow(v)
        return image

    space = lanczos(difference, random_direction(stop.w, rng), steps)
    spectrum = spectrum_of_space(space, size, (1 - confidence) / 2, survey.difference.error)
    found = similarity(spectrum)
    return Interval(
        max(found.estimate, projected.estimate), max(found.low, projected.low),
        max(found.high, projected.estimate),
    )  # fmt: skip


def _mixture(
    question: Question,
    stop: Stop,
    model: QuadraticModel,
    epsilon: float,
    source: Source,
    along: Along,
    proxies: Sequence[MeteredProxy],
    rng: np.random.Generator,
) -> tuple[Suggestion | None, Rehearsal | None]:
    if not question.others:
        return None, None
    weights, _ = best_weights(stop.survey.A, stop.survey.P)
    delta = _delta_at(stop, weights, source, proxies, 0, question.confidence, rng)
    rehearsed = rehearse(model, along.matrices(weights), epsilon) if any(weights) else None
    return Suggestion(weights, delta, helps=False), rehearsed


def _share(shares: Sequence[float]) -> float:
    """Return the δ/H to judge by: that of the end, or the largest where one exceeds 1."""
    return shares[-1] if max(shares) <= TOO_LARGE else max(shares)


def _usable(mu: Interval) -> float:
    """Return the μ to predict with: what is certain, or the estimate where that is positive."""
    return mu.low if mu.low > 0 else max(mu.estimate, 0.0)


def _in_hand(objective: Any) -> bool:
    """Tell whether the target is a table of samples that can be passed over at will."""
    if not (has(objective, "everything") and has(objective, "samples")):
        return False
    return bool(objective.samples(objective.everything()) > 1)


def _cost(question: Question, sampler: Sampler, proxy: MeteredProxy, w: Vector) -> CostRatio:
    if question.cost_ratio is not None:
        return CostRatio(question.cost_ratio, 1.0, "given")
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        # A fresh array each time: the meter remembers gradients by identity.
        proxy.gradient(w + 0.0)
        seconds.append(time.perf_counter() - begun)
    return CostRatio(_batch_price(sampler).seconds, statistics.median(seconds), "seconds")


def _batch_price(sampler: Sampler) -> BatchPrice:
    objective, batch = sampler.target.objective, sampler.batches[0]
    count, cost = getattr(objective, "samples", None), getattr(objective, "cost", None)
    sized = len(batch) if hasattr(batch, "__len__") else 1
    return BatchPrice(
        samples=float(sized if count is None else count(copied_tree(batch))),
        cost=None if cost is None else float(cost(copied_tree(batch))),
        seconds=statistics.median(sampler.target.minibatch_seconds[: len(sampler.batches)]),
    )
