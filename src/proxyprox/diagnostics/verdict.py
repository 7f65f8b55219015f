"""The verdict: the rule that gives it, its reasons, and when the rehearsal is not to be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from proxyprox._util.arrays import Vector, from_numpy, norm, to_numpy
from proxyprox.diagnostics.curvature import (
    TOO_LARGE,
    Evidence,
    Survey,
    TargetProducts,
    Visit,
    proxy_product,
)
from proxyprox.diagnostics.rehearsal import Prediction, Rehearsal, best_weights, ratio, step_words
from proxyprox.diagnostics.report import NO_VERDICT, CostRatio, PointAudit, Suggestion, Verdict
from proxyprox.diagnostics.sampling import Matrix
from proxyprox.oracles import MeteredProxy, reported_value
from proxyprox.problems import Problem
from proxyprox.subproblem import NonFiniteError

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

# A loss that grows by twice its size along a path that leads down has run away.
FAR = 2.0

_REMEDY = (
    "Take larger batches and a larger budget, or a start nearer to the minimum, and audit again; "
    "or run with minimize(..., safeguard=True), which compares with SGD on the same samples."
)
_CHECK = "Check the sign of its gradient, with scipy.optimize.check_grad."


def worth_offering(scale: float) -> bool:
    """Tell whether a scale is positive and not 1 for all practical purposes.

    Examples
    --------
    >>> worth_offering(1.004), worth_offering(0.0), worth_offering(0.1)
    (False, False, True)
    """
    return scale > 0 and abs(scale - 1) > NEAR_ONE


def decide(
    sgd: Rehearsal,
    plain: Rehearsal,
    scaled: Rehearsal | None = None,
    *,
    similarity: float = 1.0,
    scaled_similarity: float = 1.0,
) -> Verdict:
    """Return the verdict from the rehearsed numbers of steps.

    A proxy pays when it saves ``GAIN`` times the target gradients of SGD; a similar one (δ ≤ H/4)
    pays already when it needs no more, since SGD's only advantage there is that noise hides the
    difference at this ε. A scale must save something against SGD. To be preferred to a proxy that
    pays as it is, it must save ``GAIN`` times as much, or halve δ and save anything.

    Parameters
    ----------
    sgd, plain : Rehearsal
        Tuned SGD, and tuned ProxyProx with the proxy as it is.
    scaled : Rehearsal, optional
        Tuned ProxyProx with the scaled proxy.
    similarity, scaled_similarity : float
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

    def gain(one: Rehearsal, other: Rehearsal) -> float:
        return ratio(replace(one, steps=one.steps + FEW), replace(other, steps=other.steps + FEW))

    def pays(found: Rehearsal, share: float) -> bool:
        return gain(sgd, found) >= (TIE if share <= SIMILAR else GAIN)

    if scaled is not None and gain(sgd, scaled) > 1 and pays(scaled, scaled_similarity):
        closer = scaled_similarity <= similarity / 2 and scaled.steps < plain.steps
        if not pays(plain, similarity) or closer or gain(plain, scaled) >= GAIN:
            return Verdict.USE_SCALED
    return Verdict.USE if pays(plain, similarity) else Verdict.DO_NOT_USE


def share_to_judge_by(shares: Sequence[float]) -> float:
    """Return the δ/H of the end of the path, or the largest where one exceeds 1."""
    return shares[-1] if max(shares) <= TOO_LARGE else max(shares)


def proxy_alarm(proxies: Sequence[MeteredProxy], w: Vector, start: Vector) -> str:
    """Return what is wrong with a first proxy that is not finite at w, or nothing.

    Raises
    ------
    NonFiniteError
        If any is not finite at the start, or a further one anywhere.
    """
    away = norm(w - start)
    for j, proxy in enumerate(proxies):
        proxy.fault = None
        with np.errstate(all="ignore"):
            proxy.gradient(w)
            proxy.value(w)
        if proxy.fault is not None:
            name = f"others[{j - 1}]" if j else "the proxy"
            where = f"at a distance of {away:.3g} from w0" if away > 0 else "at w0"
            fault = f"{name}'s {proxy.fault[0]} is NaN or infinite {where}"
            if j or away == 0:
                raise NonFiniteError(fault)
            return f"Do not use it: {fault}, on the path towards the minimum."
    return ""


def target_alarm(found: Survey, problem: Problem, w: Vector, start: Vector) -> str:
    """Return what is wrong with a target that curves downwards or runs away, or nothing."""
    if not found.target.values[-1] > 0:
        return (
            f"{NO_VERDICT} the target curves downwards, or not at all, in every direction tried, "
            f"so that there is no minimum to predict the way to. {_CHECK}"
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


def find_doubts(
    leaning: Verdict, points: Sequence[PointAudit], evidence: Evidence, products: TargetProducts
) -> tuple[str, ...]:
    """Return why the rehearsal is not to be trusted; nothing where it is."""
    doubts = []
    worst = min(points, key=lambda point: point.mu.high / max(point.H.estimate, 1e-300))
    if worst.mu.high < -DOWNWARDS * worst.H.estimate:
        doubts.append(
            "The target is not convex, as those of networks are not: it curves downwards at a point "
            f"visited, by {-worst.mu.high:.3g} where H = {worst.H.estimate:.3g}. The rehearsal "
            "leaves such directions out. Compare short runs with and without the proxy instead."
        )
    if len(evidence.visits) == 1:
        if evidence.asked > 1 and np.any(evidence.visits[0].gradient):
            doubts.append(
                "Only one point could be visited, the start: no lower point was found along the "
                f"step from there that the batches can tell from noise. {_REMEDY}"
            )
        return tuple(doubts)
    pairs, proxy = list(pairwise(evidence.visits)), evidence.proxies[0]
    unexplained = {
        "target": max(_unexplained_of_target(a, b, products) for a, b in pairs),
        "proxy": max(_unexplained_of_proxy(a, b, proxy) for a, b in pairs),
    }
    # A proxy further from the target than none, in other units mostly, need not be understood.
    if leaning is Verdict.DO_NOT_USE and max(evidence.shares([1.0])) > TOO_LARGE:
        del unexplained["proxy"]
    kinks = [
        f"The curvature measured does not explain the path: {min(share, 1.0):.0%} of the change of "
        f"the {name}'s gradient between two points is not what the Hessians there predict. They "
        "change in between, as those of losses with kinks do, or depend on a few rows of a batch."
        for name, share in unexplained.items()
        if share > UNEXPLAINED
    ]
    if kinks:
        doubts += [*kinks, f"The rehearsal takes both losses for quadratic. {_REMEDY}"]
    return tuple(doubts)


def surely_useless(leaning: Verdict, evidence: Evidence) -> bool:
    """Tell whether a proxy is refused because it curves downwards at every point visited.

    However wrong the rehearsal, no such proxy is better than none.
    """
    return leaning is Verdict.DO_NOT_USE and all(
        bool(np.linalg.eigvalsh(visit.survey.P[0])[-1] <= 0) for visit in evidence.visits
    )


def _unexplained_of_target(a: Visit, b: Visit, products: TargetProducts) -> float:
    """Return the share of the target's change that the Hessians at both ends do not explain."""
    if a.survey.basis is not None or b.survey.basis is not None:
        return 0.0
    step = to_numpy(b.w - a.w).astype(np.float64)
    each, blur = b.gradients - a.gradients, 0.0
    if not products.exact:
        # Secants and gradients of the same batches: no noise between them.
        change = each[: len(products.batches)].mean(axis=0)
    elif a.averaged == 0 and b.averaged == 0:
        change = b.gradient - a.gradient
    else:
        change = each.mean(axis=0)
        blur = 2 * math.sqrt(float(each.var(axis=0, ddof=1).sum()) / len(each))
    size = max(norm(a.gradient), norm(b.gradient))
    return _unexplained(change, (a.survey.A + b.survey.A) / 2 @ step, size, blur)


def _unexplained_of_proxy(a: Visit, b: Visit, proxy: MeteredProxy) -> float:
    """Return the same share of the proxy's change; its products cost the target nothing."""
    before, after = (to_numpy(proxy.gradient(end.w)).astype(np.float64) for end in (a, b))
    step = to_numpy(b.w - a.w).astype(np.float64)
    length = norm(step)

    def image(end: Visit) -> Matrix:
        if end.survey.basis is None:
            return np.asarray(end.survey.P[0] @ step)
        product = proxy_product(proxy, end.w)(from_numpy(step / length, like=end.w))
        return np.asarray(length * to_numpy(product).astype(np.float64))

    size = max(norm(before), norm(after))
    return _unexplained(after - before, (image(a) + image(b)) / 2, size, 0.0)


def _unexplained(change: Matrix, predicted: Matrix, gradients: float, blur: float) -> float:
    size = max(norm(change), norm(predicted))
    # A change lost in the rounding of the gradients says nothing.
    return max(norm(change - predicted) - blur, 0.0) / size if size > 1e-4 * gradients else 0.0


def find_reasons(
    verdict: Verdict,
    prediction: Prediction,
    points: Sequence[PointAudit],
    evidence: Evidence,
    scale: Suggestion,
    mixture: Suggestion | None,
    cost: CostRatio,
    *,
    sure: bool,
) -> list[str]:
    """Return the sentences that go with a verdict; no guess at the units where it is unsure."""
    # Scale and mixture are measured at the end of the path: so is what they are compared with.
    delta, H = points[-1].delta.estimate, max(points[-1].H.estimate, 1e-300)
    shares = [point.delta.estimate / max(point.H.estimate, 1e-300) for point in points]
    reasons = [_similarity_words(shares)]
    at_end = "" if len(points) == 1 else "at the end of the path "
    if verdict is Verdict.USE_SCALED:
        reasons.append(
            "The proxy has the right shape but the wrong size. "
            f"The scale is {scale.weights[0]:.4g}; {at_end}it brings δ from {delta:.3g} to "
            f"{scale.delta.estimate:.3g}, {scale.delta.estimate / H:.2g} of H."
        )
    if verdict is Verdict.USE_MIXED and mixture is not None:
        shown = ", ".join(f"{weight:.3g}" for weight in mixture.weights)
        reasons.append(
            f"The weights are {shown}; {at_end}they bring δ from {delta:.3g} to "
            f"{mixture.delta.estimate:.3g}. This proxy alone would take "
            f"{step_words(prediction.rehearsed_proxyprox.steps)} target gradients."
        )
    if verdict is Verdict.DO_NOT_USE and scale.weights[0] == 0.0:
        end = evidence.visits[-1].survey
        (turned,), least = best_weights(end.A, [-end.P[0]])
        if turned > 0 and least < 0.8 * H:
            reasons.append(
                f"Its negative would be closer (δ = {least:.3g} at scale {turned:.3g}): check "
                "the proxy's sign."
            )
    if verdict is Verdict.DO_NOT_USE and sure:
        reasons += _unit_words(shares, evidence)
    # Where it is more than a trace, the doubts say so.
    if sure and min(point.mu.high for point in points) < 0:
        reasons.append(
            "The target is not convex at a point visited: the rehearsal leaves out the directions "
            "that curve downwards."
        )
    if cost.unit == "seconds" and cost.target < cost.proxy:
        reasons.append(
            "A target gradient takes less time than a proxy gradient here: the proxy pays only if "
            "target gradients cost something besides time."
        )
    return reasons


def _similarity_words(shares: Sequence[float]) -> str:
    """Say how large δ is: at the end of the path, and where it was largest, or at the start."""
    count, last, worst = len(shares), shares[-1], int(np.argmax(shares))
    other = worst if worst < count - 1 else 0
    share = f"δ is {_digits(last)} of H {_place(count - 1, count)}"
    also = f"{_digits(shares[other])} {_place(other, count)}"
    further = "the proxy's curvature is further from the target's than no curvature at all."
    if last <= 1 < shares[worst]:
        return f"{share}, but {also}: there {further}"
    # What differs by less than a tenth reads the same.
    if max(last, shares[other]) > max(1.1 * min(last, shares[other]), 1e-6):
        share += f" ({also})"
    if last > 1:
        return f"{share}: as it is, {further}"
    rest = "next to nothing" if last < 1e-6 else "that share"
    return f"{share}: the proxy leaves {rest} of the target's curvature to the target's gradients."


def _digits(value: float) -> str:
    """Return two digits to read: no powers of ten where a number will do."""
    return f"{float(f'{value:.2g}'):,.0f}" if 100 <= value < 1e7 else f"{value:.2g}"


def _place(j: int, count: int) -> str:
    if j == 0:
        return "at the start"
    return "at the end of the path" if j == count - 1 else "on the way"


def _unit_words(shares: Sequence[float], evidence: Evidence) -> list[str]:
    """Say so when the sizes of the proxy's curvature look like other units, column by column."""
    worst = int(np.argmax(shares))
    found = evidence.visits[worst].survey
    own, other = np.diag(found.A), np.diag(found.P[0])
    if found.basis is not None:
        own, other = (np.linalg.eigvalsh(M)[-1:] for M in (found.A, found.P[0]))
    known = own > 1e-12 * max(float(own.max()), 1e-300)
    if not known.any() or np.any(other <= 0):
        return []
    ratios = np.where(known, other / np.where(known, own, 1.0), 1.0)
    large, median = int(np.argmax(ratios)), float(np.median(ratios[known]))
    if shares[worst] > 1 and ratios[large] > UNITS:
        where = f" along parameter {large} (counted from 0)" if found.basis is None else ""
        factor = ratios[large]
    elif median < 1 / UNITS:
        where, factor = " along the median parameter", median
    else:
        return []
    return [
        f"{_place(worst, len(shares)).capitalize()} the proxy curves {_digits(factor)} times as "
        f"much as the target{where}: its columns, or the loss as a whole, seem to be in other "
        "units. Scale and centre them as the target's, and audit again."
    ]
