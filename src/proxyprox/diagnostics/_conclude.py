"""From what was measured to what it means: estimates, suggestions, predictions, the verdict."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxyprox._arrays import Vector, from_numpy
from proxyprox._checks import has
from proxyprox._isolation import copied_tree
from proxyprox._oracles import MeteredProxy
from proxyprox.diagnostics._along import TOO_LARGE, Along
from proxyprox.diagnostics._curvature import Source, proxy_product
from proxyprox.diagnostics._doubts import beyond_doubt, doubts, not_convex
from proxyprox.diagnostics._gather import Evidence, Stop
from proxyprox.diagnostics._lanczos import lanczos, random_direction
from proxyprox.diagnostics._reasons import IN_HAND, PENALIZED, reasons
from proxyprox.diagnostics._report import Audit, BatchPrice, CostRatio, PointAudit, Suggestion
from proxyprox.diagnostics._samples import Sampler, proxy_noise
from proxyprox.diagnostics._spectrum import spectrum_of_matrix, spectrum_of_space
from proxyprox.diagnostics.interval import Interval, largest, smallest
from proxyprox.diagnostics.prediction import Prediction, ratio, theory_counts
from proxyprox.diagnostics.rehearsal import (
    QuadraticModel,
    Rehearsal,
    rehearse,
    start_distance,
    start_excess,
)
from proxyprox.diagnostics.scaling import best_weights
from proxyprox.diagnostics.similarity import similarity
from proxyprox.diagnostics.smoothness import smoothness, strong_convexity
from proxyprox.diagnostics.verdict import GAIN, Verdict, decide, worth_saying
from proxyprox.problems import Problem

Matrix = np.ndarray[Any, Any]


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
