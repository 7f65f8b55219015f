"""From evidence to estimates and a verdict, with its reasons and its doubts."""

from __future__ import annotations

import math
import statistics
import timeit
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from proxyprox._util.arrays import from_numpy, norm, to_numpy
from proxyprox._util.validation import has
from proxyprox.advice import curvature, rehearsal
from proxyprox.advice.curvature import TOO_LARGE, Evidence, HessianProbe, Visit
from proxyprox.advice.rehearsal import Prediction, Rehearsal
from proxyprox.advice.report import Audit, CostRatio, PointAudit, Suggestion, Verdict
from proxyprox.advice.sampling import Matrix, largest, noise_of, proxy_noise, smallest
from proxyprox.oracle import MeteredProxy
from proxyprox.problems import Problem
from proxyprox.theory import lower_bound, proxyprox_steps, sgd_steps

Numbers = Sequence[float]

# How many times fewer target gradients a proxy must save before it is worth its trouble.
GAIN = 1.3

# What is asked of a similar proxy instead: where noise decides, it must only not be worse.
TIE = 0.95

# Added to every number of steps: one step of three is no gain of a half.
FEW = 2.0

# δ/H up to which a proxy counts as similar: the theorems then speak for it at every ε.
SIMILAR = 0.25

# How far from 1 a scale must be to be worth offering.
NEAR_ONE = 0.1

# Share of a gradient's change along the path beyond which curvature has not explained it. The mean
# of the Hessians at both ends explains it to third order: smooth losses whose curvature halves on
# the way stay below 0.3. It is a half and more where curvature sits in kinks between.
UNEXPLAINED = 0.5

# Share of H by which a target may curve downwards and still be rehearsed as a convex one.
DOWNWARDS = 0.05

# Factor in curvature, two in the columns, beyond which other units are suspected.
UNITS = 4.0

# What δ/H says if it is below 1 everywhere, and if not.
NEAR = "the proxy leaves that share of the target's curvature to the target's gradients."
FAR = "above 1, the proxy's curvature is further from the target's than no curvature at all."
_LEFT_OUT = "The rehearsal leaves such directions out: compare short runs with and without proxy."
_REMEDY = "Audit again with larger batches and budget, or run minimize(..., safeguard=True)."


def decide(
    sgd: Rehearsal, plain: Rehearsal, scaled: Rehearsal | None = None, shares: Numbers = (1.0, 1.0)
) -> Verdict:
    """Return the verdict from the rehearsed numbers of steps.

    A proxy pays when it saves ``GAIN`` times the target gradients of SGD; a similar one (δ ≤ H/4)
    pays already when it needs no more, since SGD's only advantage there is that noise hides the
    difference at this ε. Two steps are added to every number. A scale must save something against
    SGD. To be preferred to a proxy that pays as it is, it must save ``GAIN`` times as much, or
    halve δ and save anything.

    Parameters
    ----------
    sgd, plain : Rehearsal
        Tuned SGD, and tuned ProxyProx with the proxy as it is.
    scaled : Rehearsal, optional
        Tuned ProxyProx with the scaled proxy.
    shares : pair of float
        δ/H of the proxy as it is, and scaled: at the end of the path, or the largest on the way
        where that exceeds 1.

    Examples
    --------
    >>> steps = lambda n: Rehearsal(1.0, n, 0.0)
    >>> decide(steps(1000.0), steps(10.0)).name
    'USE'
    >>> decide(steps(1000.0), steps(900.0), steps(10.0)).name
    'USE_SCALED'
    >>> decide(steps(1000.0), steps(950.0), steps(950.0)).name
    'DO_NOT_USE'
    """

    def pays(found: Rehearsal, share: float) -> bool:
        return sgd.ratio(found, FEW) >= (TIE if share <= SIMILAR else GAIN)

    if scaled is not None and sgd.ratio(scaled, FEW) > 1 and pays(scaled, shares[1]):
        closer = shares[1] <= shares[0] / 2 and scaled.steps < plain.steps
        if not pays(plain, shares[0]) or closer or plain.ratio(scaled, FEW) >= GAIN:
            return Verdict.USE_SCALED
    return Verdict.USE if pays(plain, shares[0]) else Verdict.DO_NOT_USE


def conclude(
    problem: Problem, others: Sequence[Any], evidence: Evidence, asked: dict[str, Any], verify: int
) -> Audit:
    """Return the audit, spending at most ``verify`` more target gradients."""
    probe, visits, alarm = evidence.probe, evidence.visits, evidence.alarm
    target, proxy, start, end = probe.target, probe.proxies[0], visits[0], visits[-1]
    points, model = point_estimates(problem, evidence), evidence.model()
    delta, H = largest(p.delta for p in points), largest(p.H for p in points)
    mu, sigma2 = smallest(p.mu for p in points), largest(p.sigma2 for p in points)
    # At the minimum already, a run only scatters: ε is then taken from what the noise scatters.
    size, excess = max(H.estimate, 1e-300), model.start_excess
    scatter = sigma2.estimate / (2 * size)
    epsilon = asked["epsilon"] or max(excess if excess > 1e-6 * scatter else scatter, 1e-300) / 100
    B = asked["B"] or max(model.start_distance, 1e-300)

    def rehearse(weights: Sequence[float]) -> Rehearsal:
        return rehearsal.rehearse(model, evidence.proxy_matrices(weights), epsilon)

    sgd, plain, scaled = rehearsal.rehearse(model, None, epsilon), rehearse([1.0]), None
    weights, _ = curvature.best_weights(end.A, end.P[:1])
    scaled_delta = probe.delta_at(end, weights, verify)
    if weights[0] > 0 and abs(weights[0] - 1) > NEAR_ONE:
        scaled = rehearse(weights)
    last = scaled_delta.estimate / max(points[-1].H.estimate, 1e-300)
    # At the end of the path, or the largest where one exceeds 1.
    each = _shares(points), [*evidence.shares(weights)[:-1], last]
    compared = [shares[-1] if max(shares) <= TOO_LARGE else max(shares) for shares in each]
    leaning = decide(sgd, plain, scaled, compared)
    scale, mixture = Suggestion(weights, scaled_delta, leaning is Verdict.USE_SCALED), None
    best, offered = (scaled, weights) if scaled is not None and scale.helps else (plain, (1.0,))
    if others:
        weights, _ = curvature.best_weights(end.A, end.P)
        mixed = rehearse(weights) if any(weights) else sgd
        helps = (sgd if leaning is Verdict.DO_NOT_USE else best).ratio(mixed) >= GAIN
        mixture = Suggestion(weights, probe.delta_at(end, weights, 0), helps)
        if helps:
            best, offered, leaning = mixed, weights, Verdict.USE_MIXED
    leaning = Verdict.DO_NOT_USE if alarm else leaning
    doubts = () if alarm else tuple(find_doubts(leaning, points, evidence))
    # However wrong the rehearsal, no proxy that curves downwards everywhere is better than none.
    downwards = all(np.linalg.eigvalsh(visit.P[0])[-1] <= 0 for visit in visits)
    sure = not doubts or (leaning is Verdict.DO_NOT_USE and downwards)
    convexity = mu.low if mu.low > 0 else max(mu.estimate, 0.0)
    known = {"epsilon": epsilon, "B": B, "sigma": math.sqrt(sigma2.estimate), "mu": convexity}
    smooth = max(size, convexity)
    orders = sgd_steps(H=smooth, **known), lower_bound(H=smooth, **known)
    own_order = proxyprox_steps(delta=delta.estimate, **known)
    regime = "strongly convex" if convexity > 0 else "convex"
    batch, cost = target.batch_price(start.w), CostRatio(asked["cost_ratio"] or 0.0, 1.0, "given")
    if asked["cost_ratio"] is None:
        # A fresh array each time: the meter remembers gradients by identity.
        seconds = timeit.repeat(lambda: proxy.gradient(start.w + 0.0), number=1, repeat=3)
        cost = CostRatio(batch.seconds, statistics.median(seconds), "seconds")
    noise_batches = max(8, len(target.batches))
    found = Audit(
        verdict=leaning if sure else Verdict.UNSURE,
        leaning=leaning,
        reasons=(),
        delta=delta,
        H=H,
        mu=mu,
        sigma2=sigma2,
        rho2=proxy_noise(proxy, start.w, noise_batches, probe.confidence, probe.rng),
        points=points,
        path=tuple(evidence.path),
        scale=scale,
        mixture=mixture,
        prediction=Prediction(epsilon, regime, *orders, own_order, sgd, plain, best),
        cost=cost,
        epsilon=epsilon,
        epsilon_source="estimated" if asked["epsilon"] is None else "given",
        B=B,
        B_source="estimated" if asked["B"] is None else "given",
        confidence=probe.confidence,
        batch=batch,
        ledger=target.ledger,
        problem=problem,
        others=tuple(others),
        model=model,
        proxy_matrices=evidence.proxy_matrices(offered),
        start_gradient=from_numpy(start.gradient, like=start.w),
        alarm=alarm,
        doubts=doubts,
    )
    return found if alarm else replace(found, reasons=(*doubts, *find_reasons(found, visits)))


def point_estimates(problem: Problem, evidence: Evidence) -> tuple[PointAudit, ...]:
    """Return the estimates at every point."""
    known, points = getattr(problem.objective, "strong_convexity", None), []
    # The lower limit of a maximum over points errs when any one does: each gets its part.
    confidence = 1 - (1 - evidence.probe.confidence) / len(evidence.visits)
    for visit in evidence.visits:
        target, apart = visit.target, visit.difference
        delta, H = curvature.similarity(apart), curvature.smoothness(target)
        mu, spectra = curvature.strong_convexity(target, known), (target.values, apart.values)
        sigma2 = noise_of(visit.gradients, confidence)
        points.append(PointAudit(visit.w, delta, H, mu, sigma2, *spectra, visit.basis is None))
    return tuple(points)


def _shares(points: Sequence[PointAudit]) -> list[float]:
    return [point.delta.estimate / max(point.H.estimate, 1e-300) for point in points]


def find_doubts(leaning: Verdict, points: Sequence[PointAudit], evidence: Evidence) -> list[str]:
    """Return why the rehearsal is not to be trusted; nothing where it is."""
    visits, probe, proxy = evidence.visits, evidence.probe, evidence.probe.proxies[0]
    worst = min(points, key=lambda point: point.mu.high / max(point.H.estimate, 1e-300))
    depth = f"it curves downwards by {-worst.mu.high:.3g} where H = {worst.H.estimate:.3g}"
    curved = worst.mu.high < -DOWNWARDS * worst.H.estimate
    doubts = {f"The target is not convex: {depth}. {_LEFT_OUT}": curved}
    alone = "Only one point could be visited, the start: the first step led to no lower one."
    doubts[f"{alone} {_REMEDY}"] = len(visits) == 1 < probe.looks and bool(visits[0].gradient.any())
    unexplained = {"target": [_target_mismatch(a, b, probe) for a, b in pairwise(visits)]}
    # A proxy further from the target than none, in other units mostly, need not be understood.
    if leaning is not Verdict.DO_NOT_USE or max(evidence.shares([1.0])) <= TOO_LARGE:
        unexplained["proxy"] = [_proxy_mismatch(a, b, proxy) for a, b in pairwise(visits)]
    for name, shares in unexplained.items():
        share = max(shares, default=0.0)
        doubt = (
            f"The curvature measured does not explain {min(share, 1.0):.0%} of the change of the "
            f"{name}'s gradient between two points: the loss has kinks in between, or its "
            f"curvature depends on a few rows of a batch. {_REMEDY}"
        )
        doubts[doubt] = share > UNEXPLAINED
    return [doubt for doubt, holds in doubts.items() if holds]


def _target_mismatch(a: Visit, b: Visit, probe: HessianProbe) -> float:
    """Return the share of the target's change that the Hessians at both ends do not explain."""
    if a.basis is not None or b.basis is not None:
        return 0.0
    each, blur = b.gradients - a.gradients, 0.0
    # Secants and gradients of the same batches: no noise between them.
    change = each[: len(probe.batches) or None].mean(axis=0)
    if not probe.batches and a.averaged == b.averaged == 0:
        change = b.gradient - a.gradient
    elif not probe.batches:
        blur = 2 * math.sqrt(float(each.var(axis=0, ddof=1).sum()) / len(each))
    step = to_numpy(b.w - a.w).astype(np.float64)
    return _mismatch(change, (a.A + b.A) / 2 @ step, (a.gradient, b.gradient), blur)


def _proxy_mismatch(a: Visit, b: Visit, proxy: MeteredProxy) -> float:
    """Return the same share of the proxy's change; its products cost the target nothing."""
    before, after = (to_numpy(proxy.gradient(end.w)).astype(np.float64) for end in (a, b))
    step = to_numpy(b.w - a.w).astype(np.float64)
    length = norm(step)

    def image(end: Visit) -> Matrix:
        if end.basis is None:
            return np.asarray(end.P[0] @ step)
        product = curvature.proxy_product(proxy, end.w)(from_numpy(step / length, like=end.w))
        return np.asarray(length * to_numpy(product).astype(np.float64))

    return _mismatch(after - before, (image(a) + image(b)) / 2, (before, after))


def _mismatch(change: Matrix, predicted: Matrix, ends: Sequence[Any], blur: float = 0.0) -> float:
    size = max(norm(change), norm(predicted))
    # A change lost in the rounding of the gradients says nothing.
    lost = size <= 1e-4 * max(map(norm, ends))
    return 0.0 if lost else max(norm(change - predicted) - blur, 0.0) / size


def find_reasons(found: Audit, visits: Sequence[Visit]) -> list[str]:
    """Return the sentences that go with a verdict; no guess at the units where it is unsure."""
    points, end, objective = found.points, visits[-1], found.problem.objective
    refused, shares = found.leaning is Verdict.DO_NOT_USE, _shares(points)
    between = ["on the way"] * (len(points) - 2)
    places = ["at the start", *between, "at the end of the path"][: len(points)]
    # Scale and mixture are measured at the end of the path: so is what they are compared with.
    delta, H = points[-1].delta.estimate, max(points[-1].H.estimate, 1e-300)
    last, worst = shares[-1], int(np.argmax(shares))
    other = worst if worst < len(shares) - 1 else 0
    # What differs by less than a tenth reads the same.
    differs = max(last, shares[other]) > max(1.1 * min(last, shares[other]), 1e-6)
    also = f" ({_digits(shares[other])} {places[other]})" if differs else ""
    share = f"δ is {_digits(last)} of H {places[-1]}{also}"
    reasons = [f"{share}: {FAR if shares[worst] > 1 else NEAR}"]
    offer = {Verdict.USE_SCALED: found.scale, Verdict.USE_MIXED: found.mixture}.get(found.leaning)
    if offer is not None:
        weights, reached = ", ".join(f"{s:.4g}" for s in offer.weights), offer.delta.estimate
        name = "The scale is" if len(offer.weights) == 1 else "The weights are"
        falls = f"δ falls from {delta:.3g} to {reached:.3g}, {reached / H:.2g} of H"
        reasons.append(f"{name} {weights}: {places[-1]} {falls}.")
    if refused and found.scale.weights[0] == 0.0:
        (turned,), least = curvature.best_weights(end.A, [-end.P[0]])
        if turned > 0 and least < 0.8 * H:
            reasons.append(f"Its negative would be closer, δ = {least:.3g}: check the sign.")
    own, proxied = (np.linalg.eigvalsh(M)[-1] for M in (visits[worst].A, visits[worst].P[0]))
    factor = proxied / max(own, 1e-300)
    other_units = 0 < factor < 1 / UNITS or (factor > UNITS and shares[worst] > 1)
    if refused and not found.doubts and other_units:
        curves = f"the proxy curves {_digits(factor)} times as much as the target"
        units = "its columns seem to be in other units. Scale them as the target's."
        reasons.append(f"{places[worst].capitalize()} {curves}: {units}")
    if found.problem.penalty is not None:
        reasons.append("The penalty cancels in δ; the rehearsal is of the smooth part alone.")
    countable = has(objective, "everything") and has(objective, "samples")
    if countable and objective.samples(objective.everything()) > 1:
        reasons.append("All rows of the target are at hand: they can also be fitted (ERM).")
    return reasons


def _digits(value: float) -> str:
    """Return two digits to read: no powers of ten where a number will do."""
    return f"{float(f'{value:.2g}'):,.0f}" if 100 <= value < 1e7 else f"{value:.2g}"
