"""Will this proxy pay? The answer before anything is spent on a run."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from proxyprox._util.arrays import Vector, from_numpy, norm, to_numpy
from proxyprox._util.validation import generator, has, listed, message, one_of, positive, whole
from proxyprox.diagnostics.curvature import (
    LEAST_STEPS,
    Evidence,
    Survey,
    TargetProducts,
    Visit,
    lanczos,
    mean_product,
    proxy_product,
    random_direction,
    similarity,
    smoothness,
    spectrum_of_matrix,
    strong_convexity,
    survey,
    weighted_sum,
)
from proxyprox.diagnostics.rehearsal import (
    ErrorCurve,
    Prediction,
    QuadraticModel,
    best_weights,
    ratio,
    rehearse,
    theory_counts,
)
from proxyprox.diagnostics.report import (
    Audit,
    BatchPrice,
    CostRatio,
    PointAudit,
    Segment,
    Suggestion,
    Verdict,
)
from proxyprox.diagnostics.sampling import (
    Interval,
    Matrix,
    MeteredTarget,
    largest,
    noise_level,
    proxy_noise,
    smallest,
    stacked,
)
from proxyprox.diagnostics.verdict import (
    GAIN,
    decide,
    find_doubts,
    find_reasons,
    proxy_alarm,
    share_to_judge_by,
    surely_useless,
    target_alarm,
    worth_offering,
)
from proxyprox.oracles import MeteredProxy, Query, price
from proxyprox.problems import Problem, Zero
from proxyprox.result import Ledger
from proxyprox.setup import require_problem, starting_point
from proxyprox.subproblem import NonFiniteError

__all__ = ["audit"]

# Target gradients kept back for each step of the path: it may have to be shortened.
TRIES = 3

# Further ones where the budget allows: steps made with noisy secants need a closer look.
MORE = 21

# Share of H added to the model's curvature: a step that flat, noisy directions cannot run off.
DAMPING = 1e-2

# Share of the first slope that is still steep: short of a minimum, to go farther; past it, to go
# back. A step made with secants goes back as soon as it is past: convex losses are lower wherever
# they still fall, but where they rise they may be anything.
STEEP = 0.5

# Share of it that is as good as none past a minimum, where no noise blurs the slopes.
LEVEL = 0.1

# Standard errors by which the first slope must differ from zero on the batches of a probe.
CERTAIN = 3.0

# Points that a search can probe at least: with fewer probes than batches, fewer batches are asked.
LEAST_POINTS = 5

# Most times a step is lengthened at once, and the width of a bracket that is halved in logs.
FARTHER = 4.0


def audit(
    problem: Problem,
    w0: Vector | None = None,
    *,
    epsilon: float | None = None,
    B: float | None = None,
    budget: int = 400,
    others: Sequence[Any] = (),
    points: int = 3,
    batches: int = 16,
    curvature: str = "auto",
    cost_ratio: float | None = None,
    confidence: float = 0.95,
    rng: np.random.Generator | int | None = None,
) -> Audit:
    """Measure how good a proxy is, with a small and stated number of target gradients.

    Parameters
    ----------
    problem : Problem
        The target and the proxy to judge. Any penalty is shared by both and cancels in δ.
    w0 : array, optional
        Where the run would begin; zeros if the problem knows its size.
    epsilon : float, optional
        Suboptimality that the run is meant to reach; by default one hundredth of the start's,
        as estimated (of ``σ²/2H``, where the start is at the minimum already).
    B : float, optional
        Distance of w0 to the minimiser, for the theorems; by default estimated.
    budget : int
        Most target gradients the audit may use. A Hessian-vector product counts as one.
    others : sequence of proxies
        Further proxies: the best non-negative mixture with the problem's own is looked for.
    points : int
        Points to visit: w0 and a short path from it towards the minimum.
    batches : int
        Batches drawn, once, and evaluated at every point: the noise is measured on them.
    curvature : {"auto", "hvp", "secants"}
        Where products with the target's Hessian come from: its own ``hvp``, or differences of
        gradients of the same batches at two points. ``"auto"`` prefers the first.
    cost_ratio : float, optional
        Cost of a target gradient in proxy gradients; by default their seconds are compared.
    confidence : float
        Confidence of the intervals.
    rng : int or numpy.random.Generator, optional
        Randomness of batches and directions.

    Returns
    -------
    Audit
        Estimates with intervals, predictions, a verdict, and the ledger of the audit itself.

    Raises
    ------
    ValueError, TypeError
        For arguments that cannot work, before anything is spent.
    NonFiniteError
        If the target or the proxy answers with NaN or infinity at the start. A proxy that does so
        on the path is not to be used: the audit ends there, and says so.

    Notes
    -----
    δ, H and σ² are the largest, μ the smallest, over the points visited: no sample of points can
    certify a supremum over all of them. ``Audit.points`` has the values point by point.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, Quadratic
    >>> target = Quadratic(np.diag([1.0, 10.0, 100.0]), b=np.ones(3), noise=0.01)
    >>> found = audit(Problem(target, proxy=Quadratic(np.diag([1.1, 10.5, 99.0]))), rng=0)
    >>> found.verdict.name, round(found.delta.estimate, 6), found.ledger.target_gradients
    ('USE', 1.0, 62)
    """
    begun = time.perf_counter()
    require_problem(problem)
    if isinstance(problem.proxy, Zero):
        remedy = "Pass the proxy to judge: Problem(objective, proxy)."
        raise ValueError(message("problem.proxy", problem.proxy, "a proxy other than zero", remedy))
    for name, value in (("epsilon", epsilon), ("B", B), ("cost_ratio", cost_ratio)):
        if value is not None:
            positive(name, value)
    if not 0.5 <= positive("confidence", confidence) < 1:
        raise ValueError(message("confidence", confidence, "in [0.5, 1)"))
    rng, start, points = generator(rng), starting_point(problem, w0), whole("points", points)
    ledger, given = Ledger(), listed("others", others, "a list of further proxies")
    others = tuple(Problem(problem.objective, other).proxy for other in given)
    proxies = [MeteredProxy(proxy, ledger) for proxy in (problem.proxy, *others)]
    target = MeteredTarget(problem.objective, ledger, whole("batches", batches, least=4), rng)
    size, budget = int(start.shape[0]), whole("budget", budget)
    products = target_products(curvature, target, size, budget, points)
    shares = share_out(products, target, size, budget, points)
    evidence = visit_points(problem, products, proxies, start, shares, confidence, rng)

    visits, alarm = evidence.visits, evidence.alarm
    end, model = visits[-1], quadratic_model(visits)
    measured = _points(problem, visits, confidence)
    delta, H = largest(p.delta for p in measured), largest(p.H for p in measured)
    mu, sigma2 = smallest(p.mu for p in measured), largest(p.sigma2 for p in measured)
    curve = ErrorCurve.of(model)
    # At the minimum already, a run only scatters: ε is then taken from what the noise scatters.
    scatter = sigma2.estimate / (2 * max(H.estimate, 1e-300))
    excess = curve.start_excess if curve.start_excess > 1e-6 * scatter else scatter
    accuracy = epsilon or max(excess, 1e-300) / 100
    distance = B or max(curve.start_distance, 1e-300)

    sgd = rehearse(model, None, accuracy)
    plain = best = rehearse(model, evidence.proxy_matrices([1.0]), accuracy)
    weights, _ = best_weights(end.survey.A, end.survey.P[:1])
    scaled_delta = delta_at(end, weights, products, proxies, shares.verify, confidence, rng)
    scaled = None
    if worth_offering(weights[0]):
        scaled = rehearse(model, evidence.proxy_matrices(weights), accuracy)
    last_H = max(measured[-1].H.estimate, 1e-300)
    verdict = decide(
        sgd,
        plain,
        scaled,
        similarity=share_to_judge_by(
            [p.delta.estimate / max(p.H.estimate, 1e-300) for p in measured]
        ),
        scaled_similarity=share_to_judge_by(
            [*evidence.shares(weights)[:-1], scaled_delta.estimate / last_H]
        ),
    )
    scale = Suggestion(weights, scaled_delta, helps=verdict is Verdict.USE_SCALED)
    offered: Sequence[float] = [1.0]
    if scale.helps and scaled is not None:
        best, offered = scaled, weights
    mixture = None
    if others:
        weights, _ = best_weights(end.survey.A, end.survey.P)
        mixed_delta = delta_at(end, weights, products, proxies, 0, confidence, rng)
        helps = False
        if any(weights):
            mixed = rehearse(model, evidence.proxy_matrices(weights), accuracy)
            helps = ratio(sgd if verdict is Verdict.DO_NOT_USE else best, mixed) >= GAIN
        mixture = Suggestion(weights, mixed_delta, helps=helps)
        if helps:
            best, offered, verdict = mixed, weights, Verdict.USE_MIXED
    verdict = Verdict.DO_NOT_USE if alarm else verdict
    doubts = () if alarm else find_doubts(verdict, measured, evidence, products)
    counts = theory_counts(
        epsilon=accuracy,
        H=max(H.estimate, 1e-300),
        mu=mu.low if mu.low > 0 else max(mu.estimate, 0.0),
        delta=delta.estimate,
        sigma=math.sqrt(sigma2.estimate),
        B=distance,
    )
    prediction = Prediction(accuracy, *counts, sgd, plain, best)
    batch = _batch_price(target, start)
    cost = _cost_ratio(cost_ratio, batch, proxies[0], start)
    reasons = []
    if not alarm:
        reasons = find_reasons(
            verdict, prediction, measured, evidence, scale, mixture, cost, sure=not doubts
        )
        if problem.penalty is not None:
            reasons.append("The penalty cancels in δ; the rehearsal is of the smooth part alone.")
        if _all_rows_at_hand(problem.objective):
            reasons.append(
                "All rows of the target are at hand here: they can also be fitted directly (ERM). "
                "The audit is about gradients that are still to be paid."
            )
    found = Audit(
        verdict=Verdict.UNSURE if doubts and not surely_useless(verdict, evidence) else verdict,
        leaning=verdict,
        reasons=(*doubts, *reasons),
        delta=delta,
        H=H,
        mu=mu,
        sigma2=sigma2,
        rho2=proxy_noise(proxies[0], start, max(8, len(target.batches)), confidence, rng),
        points=measured,
        path=_segments(visits, proxies[0], confidence),
        scale=scale,
        mixture=mixture,
        prediction=prediction,
        cost=cost,
        epsilon=accuracy,
        epsilon_source="estimated" if epsilon is None else "given",
        B=distance,
        B_source="estimated" if B is None else "given",
        confidence=confidence,
        batch=batch,
        ledger=ledger,
        problem=problem,
        others=others,
        model=model,
        proxy_matrices=evidence.proxy_matrices(offered),
        start_gradient=from_numpy(visits[0].gradient, like=start),
        alarm=alarm,
        doubts=doubts,
    )
    ledger.seconds = time.perf_counter() - begun
    return found


class Shares(NamedTuple):
    """Target gradients for the curvature at each point, for that of the best scale, for a step."""

    points: tuple[int, ...]
    verify: int
    probes: int = TRIES


def target_products(
    kind: str, target: MeteredTarget, size: int, budget: int, points: int
) -> TargetProducts:
    """Return where the target's Hessian products come from."""
    one_of("curvature", kind, ("auto", "hvp", "secants"))
    objective = target.objective
    # Products with private data would escape the privacy account, gradients do not.
    if kind != "secants" and has(objective, "hvp") and not has(objective, "epsilon"):
        return TargetProducts(target)
    if kind == "hvp":
        raise TypeError(
            f"curvature='hvp' needs Hessian-vector products, hvp(w, v), from the objective, but "
            f"{type(objective).__name__} does not offer them. Use curvature='auto'."
        )
    if target.exact:
        return TargetProducts(target, target.batches)
    if not getattr(objective, "repeatable", True):
        raise TypeError(
            "audit compares gradients of one batch at two points, but the objective says that its "
            "batches are not repeatable. Give it hvp(w, v), or a repeatable simulation of it."
        )
    # As many batches as leave room for the whole Hessian everywhere, in two equal halves.
    rest = budget - points * (len(target.batches) + 1) - (points - 1) * (TRIES + MORE)
    most = rest // (points * (size + 1))
    return TargetProducts(
        target, target.batches[: max(2, min(most - most % 2, len(target.batches)))]
    )


def share_out(
    products: TargetProducts, target: MeteredTarget, size: int, budget: int, points: int
) -> Shares:
    """Divide what the gradients leave over: whole Hessians where possible, else equal parts."""
    # At every point the batches and an exact gradient; on the way to it, probes of the step.
    needed = points * (len(target.batches) + 1) + (points - 1) * TRIES
    rest, full, least = budget - needed, products.price(size), products.least_price(size)
    if points * full <= rest:
        left = (rest - points * full) // max(points - 1, 1)
        return Shares((full,) * points, 0, TRIES + min(left, MORE))
    if rest < points * least:
        allowed = f"{needed + points * least} or more for {points} points"
        remedy = "Or visit fewer points, or draw fewer batches."
        raise ValueError(message("budget", budget, allowed, remedy))
    if full + (points - 1) * least <= rest:
        # One whole Hessian goes to the end of the path, where the prediction is made.
        return Shares(((rest - full) // max(points - 1, 1),) * (points - 1) + (full,), 0)
    verify = products.price(LEAST_STEPS) if rest >= (points + 1) * least else 0
    return Shares(((rest - verify) // points,) * points, verify)


def visit_points(
    problem: Problem,
    products: TargetProducts,
    proxies: Sequence[MeteredProxy],
    start: Vector,
    shares: Shares,
    confidence: float,
    rng: np.random.Generator,
) -> Evidence:
    """Measure at the start and along a path of damped Newton steps."""
    target, visits = products.target, []

    def visit(w: Vector, share: int) -> Visit:
        gradients = stacked(target.gradients(w))
        full = None if target.exact else target.full_gradient(w)
        averaged = 0 if target.exact or full is not None else len(gradients)
        gradient = gradients.mean(axis=0) if full is None else full
        # What a run has to undo: the gradient here, and the way back to the start.
        back = to_numpy(start - w).astype(np.float64)
        found = survey(
            products,
            proxies,
            w,
            share=share,
            failure=(1 - confidence) / 2,
            looks=len(shares.points),
            rng=rng,
            direction=from_numpy(_unit(gradient) + _unit(back), like=w),
        )
        return Visit(w, gradients, gradient, averaged, found)

    w, alarm = start, ""
    for share in shares.points:
        if visits:
            # The start's curvature serves the whole path: its points only have to lie nearby.
            trial = newton_step(visits[0].survey, visits[-1])
            found = line_search(
                target, visits[-1], trial, probes=shares.probes, exact=products.exact
            )
            if found is None or not np.any(to_numpy(found - w)):
                break
            w = found
        alarm = proxy_alarm(proxies, w, start)
        if alarm:
            break
        visits.append(visit(w, share))
        alarm = target_alarm(visits[-1].survey, problem, w, start)
        if alarm:
            break
    return Evidence(tuple(visits), len(shares.points), alarm, proxies)


def _unit(vector: Matrix) -> Matrix:
    length = norm(vector)
    return vector / length if length > 0 else vector


def newton_step(curvature: Survey, here: Visit) -> Vector:
    """Return the end of a damped Newton step, negative curvature left out."""
    values, vectors = np.linalg.eigh(curvature.A)
    # Curvature that was seen through noise may be larger by the error than it looks.
    damping = DAMPING * max(float(values[-1]), 1e-300) + curvature.target.error
    pull = curvature.project(here.gradient[None, :])[0]
    step = curvature.lift(vectors @ ((vectors.T @ pull) / (np.maximum(values, 0.0) + damping)))
    return here.w - from_numpy(step, like=here.w)


def line_search(
    target: MeteredTarget, here: Visit, trial: Vector, *, probes: int, exact: bool
) -> Vector | None:
    """Return the trial point, or one nearer or farther along the step, where the slope is small.

    A curvature that was measured where the loss is nearly linear, or through noise, says nothing of
    how far its minimum is: the step may be a thousand times too long, or as much too short. The
    slopes decide, on as many batches as it takes to be sure of the first one, with at most
    ``probes`` target gradients. A step made with the loss's own, exact curvature is only shortened.
    None where no point was met at which the loss had fallen.
    """
    ahead = to_numpy(trial - here.w).astype(np.float64)
    fall = -float(here.gradient @ ahead)
    if not fall > 0:
        return None
    count = 1
    if len(here.gradients) > 1:
        wanted = (CERTAIN * float((here.gradients @ ahead).std(ddof=1)) / fall) ** 2
        count = max(math.ceil(min(wanted, len(here.gradients))), 1)
    count = min(count, max(probes // LEAST_POINTS, 1))
    before = here.gradients[:count]
    least, most = (-math.inf, STEEP) if exact else (-STEEP, LEVEL if target.exact else 0.0)
    at, low, high, cuts = 1.0, 0.0, math.inf, 1
    for _ in range(probes // count):
        point = here.w + at * (trial - here.w)
        slope, exploded = math.inf, True
        try:
            there = stacked(target.gradients(point, target.batches[:count]))
        except NonFiniteError:
            pass
        else:
            slope = float((there - before).mean(axis=0) @ ahead) / fall - 1
            exploded = norm(there.mean(axis=0)) > 2 * norm(before.mean(axis=0)) > 0
        if not exploded and least <= slope <= most:
            return point
        if slope < 0 and not exploded:
            low = at
        else:
            high = at
        if math.isinf(high):
            # What is left of the fall, drawn out in a line.
            at = low * min(FARTHER, 1 / (1 + slope) if slope > -1 else math.inf)
        elif low == 0:
            # A parabola's minimum; where the curvature is in doubt, cuts that do not help grow.
            share = 1 / (1 + slope) if 0 < slope < math.inf else 0.5
            at = high * share**cuts
            cuts += not exact
        else:
            at = math.sqrt(low * high) if high > FARTHER * low else (low + high) / 2
    return here.w + low * (trial - here.w) if low > 0 else None


def quadratic_model(visits: Sequence[Visit]) -> QuadraticModel:
    """Return the target's quadratic model around the end of the path, as the start sees it.

    Near the minimum is where a run spends most of its steps, and there the noise is not what it is
    at the start. The start's error is the path walked and what is left to walk.
    """
    start, end = visits[0], visits[-1]
    A, project = end.survey.A, end.survey.project
    walked = to_numpy(start.w - end.w).astype(np.float64)
    back, left = project(np.stack([walked, end.gradient]))
    # κ of E‖(A_b − A)e‖² ≈ κ eᵀAe tr A, from the batches seen at both ends.
    growth, size = 0.0, float(back @ A @ back) * float(np.trace(A))
    if len(start.gradients) > 1 and size > 0:
        apart = project(start.residuals - end.residuals)
        growth = float(np.sum(apart**2)) / (len(apart) - 1) / size
    H = start.survey.largest, end.survey.largest
    bend = (max(H) - min(H)) / max(H)
    return QuadraticModel(A, left, back, project(end.residuals), end.averaged, growth, bend)


def delta_at(
    visit: Visit,
    weights: Sequence[float],
    products: TargetProducts,
    proxies: Sequence[MeteredProxy],
    verify: int,
    confidence: float,
    rng: np.random.Generator,
) -> Interval:
    """Return δ at given weights: from the matrices in full, or by a Lanczos run of its own."""
    found = visit.survey
    error = found.difference.error
    projected = similarity(spectrum_of_matrix(found.A - weighted_sum(weights, found.P), error))
    if found.basis is None:
        return projected
    steps = products.affordable(verify)
    if steps < 2:
        # Not affordable: the projection is a lower limit, the triangle inequality an upper one.
        return Interval(projected.estimate, projected.low, math.inf)
    product = mean_product(products.halves(visit.w))
    shadows = [proxy_product(proxy, visit.w) for proxy in proxies[: len(weights)]]

    def difference(v: Vector) -> Vector:
        image = product(v)
        for weight, shadow in zip(weights, shadows, strict=True):
            image = image - weight * shadow(v)
        return image

    space = lanczos(difference, random_direction(visit.w, rng), steps)
    own = similarity(space.spectrum((1 - confidence) / 2, error))
    # The projection's own upper limit is none: it saw a part of the space.
    return largest([own, projected._replace(high=projected.estimate)])


def _points(problem: Problem, visits: Sequence[Visit], confidence: float) -> tuple[PointAudit, ...]:
    known = getattr(problem.objective, "strong_convexity", None)
    # The lower limit of a maximum over points errs when any one does: each gets its part.
    each = 1 - (1 - confidence) / len(visits)
    return tuple(
        PointAudit(
            w=visit.w,
            delta=similarity(visit.survey.difference),
            H=smoothness(visit.survey.target),
            mu=strong_convexity(visit.survey.target, known),
            sigma2=_noise(visit.gradients, each),
            target_spectrum=visit.survey.target.values,
            difference_spectrum=visit.survey.difference.values,
            in_full=visit.survey.basis is None,
        )
        for visit in visits
    )


def _noise(gradients: Matrix, confidence: float) -> Interval:
    if len(gradients) == 1:
        return Interval(0.0, 0.0, 0.0)
    return noise_level(gradients, confidence)


def _segments(
    visits: Sequence[Visit], proxy: MeteredProxy, confidence: float
) -> tuple[Segment, ...]:
    """Return the secants between the points."""
    segments = []
    for here, there in itertools.pairwise(visits):
        length = norm(to_numpy(there.w - here.w).astype(np.float64))
        each = there.gradients - here.gradients
        mean = each.mean(axis=0)
        proxied = to_numpy(proxy.gradient(there.w) - proxy.gradient(here.w)).astype(np.float64)
        # ‖error of the mean‖ is about its root mean square; twice that is seldom exceeded.
        blur = 2 * math.sqrt(_noise(each, confidence).high / len(each))
        delta, H = (
            Interval(size / length, max(size - blur, 0.0) / length, (size + blur) / length)
            for size in (norm(mean - proxied), norm(mean))
        )
        segments.append(Segment(length, delta, H))
    return tuple(segments)


def _all_rows_at_hand(objective: Any) -> bool:
    """Tell whether the target is a table of samples that can be passed over at will."""
    if not (has(objective, "everything") and has(objective, "samples")):
        return False
    return bool(objective.samples(objective.everything()) > 1)


def _batch_price(target: MeteredTarget, w: Vector) -> BatchPrice:
    paid = price(target.objective, Query(target.batches[0], (w,)), Ledger())
    seconds = statistics.median(target.seconds[: len(target.batches)])
    return BatchPrice(float(paid["target_samples"]), paid.get("cost"), seconds)


def _cost_ratio(
    given: float | None, batch: BatchPrice, proxy: MeteredProxy, w: Vector
) -> CostRatio:
    if given is not None:
        return CostRatio(given, 1.0, "given")
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        # A fresh array each time: the meter remembers gradients by identity.
        proxy.gradient(w + 0.0)
        seconds.append(time.perf_counter() - begun)
    return CostRatio(batch.seconds, statistics.median(seconds), "seconds")
