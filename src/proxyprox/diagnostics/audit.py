"""Will this proxy pay? The answer before anything is spent on a run, and a plan for the run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.arrays import Vector, from_numpy, norm, to_numpy
from proxyprox.advice.defaults import choose_method, note_full_gradient
from proxyprox.advice.outcome import value_for_report
from proxyprox.averaging import Averaging, Last, Uniform
from proxyprox.diagnostics import curvature
from proxyprox.diagnostics.curvature import (
    Evidence,
    HessianProbe,
    MeteredTarget,
    Visit,
    noise_level,
    stack_rows,
)
from proxyprox.diagnostics.rehearsal import POLICY, STEPS, rehearse
from proxyprox.diagnostics.report import (
    Audit,
    Bill,
    PointAudit,
    Prediction,
    Verdict,
    decide,
)
from proxyprox.inner.base import NonFiniteError
from proxyprox.methods import SGD, ProxyProx
from proxyprox.minimization import minimize
from proxyprox.oracle import MeteredProxy, charge
from proxyprox.problems import Problem, Zero
from proxyprox.problems.problem import (
    check_signatures,
    facts_of,
    is_exact,
    require_allowed,
    require_problem,
    starting_point,
)
from proxyprox.result import Budget, Interval, Ledger, as_budget
from proxyprox.stopping import Convex, Criterion, StronglyConvex

# What the steps before an audit are charged as.
COUNTS = ("target_gradients", "target_samples", "target_values", "target_calls", "cost")


@check.explain_names
def audit(
    problem: Problem,
    w0: Vector | None = None,
    *,
    epsilon: float | None = None,
    budget: int = 400,
    points: int = 3,
    batches: int = 16,
    rng: np.random.Generator | int | None = None,
) -> Audit:
    """Measure how good a proxy is, with a small and stated number of target gradients.

    Products with the target's Hessian are its own ``hvp``, or else differences of gradients of the
    same batches at two points.

    Parameters
    ----------
    problem : Problem
        The target and the proxy to judge. Any penalty is shared by both and cancels in δ.
    w0 : array, optional
        Where the run would begin; zeros if the problem knows its size.
    epsilon : float, optional
        Suboptimality that the run is meant to reach; by default one hundredth of the start's,
        as estimated (of ``σ²/2H``, if the start is at the minimum already).
    budget : int
        Most target gradients the audit may use. A Hessian-vector product counts as one.
    points : int
        Points to visit: w0 and a short path from it towards the minimum.
    batches : int
        Batches drawn, once, and evaluated at every point: the noise is measured on them.
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
    require_allowed(problem.objective, "audit")
    check_signatures(problem)
    if isinstance(problem.proxy, Zero):
        raise ValueError(check.message("problem.proxy", problem.proxy, "a proxy other than zero"))
    if epsilon is not None:
        check.positive("epsilon", epsilon)
    points, batches = check.whole("points", points), check.whole("batches", batches, least=4)
    budget = check.whole("budget", budget)
    if facts_of(problem.proxy).learns:
        options = {"points": points, "batches": batches, "epsilon": epsilon, "rng": rng}
        return audit_learnt(problem, w0, budget, options)
    rng, start = check.generator(rng), starting_point(problem, w0)
    ledger = Ledger()
    proxy = MeteredProxy(problem.proxy, ledger)
    target = MeteredTarget(problem.objective, ledger, batches, rng)
    used = secant_batches(target, int(start.shape[0]), budget, points)
    probe = HessianProbe(target, used, proxy, points, rng)
    found = conclude(problem, visit_points(problem, probe, start, budget), epsilon)
    ledger.seconds = time.perf_counter() - begun
    return found


def audit_learnt(
    problem: Problem, w0: Vector | None, budget: int, options: dict[str, Any]
) -> Audit:
    """Return the audit of a proxy with the numbers that a few steps find, and what they are."""
    learnt: list[Any] = []
    result = minimize(
        problem, w0, steps=options["points"], rng=options["rng"],
        callback=lambda step: learnt.append(step.state.learning),
    )  # fmt: skip
    proxy, spent = problem.proxy, result.ledger
    state, left = learnt[-1], max(budget - spent.target_gradients, 1)
    words, settled = proxy.words(state), proxy.using(state, lambda part, name: part)
    if useless := isinstance(settled, Zero):
        # What is measured then is the proxies' mean, each in units of its own curvature.
        settled = proxy.using(replace(state, numbers=state.units), lambda part, name: part)
    found = audit(problem.with_proxy(settled), w0, budget=left, **options)
    charge(found.ledger, {name: getattr(spent, name) for name in COUNTS})
    found, no = replace(found, reasons=(words, *found.reasons)), Verdict.DO_NOT_USE
    return replace(found, verdict=no, leaning=no) if useless else found


def secant_batches(target: MeteredTarget, size: int, budget: int, points: int) -> list[Any]:
    """Return the batches to take secants on; none if the target's own products are used."""
    objective, batches = target.objective, target.batches
    # Products with private data would escape the privacy account, gradients do not.
    own = check.has(objective, "hvp") and facts_of(objective).exact_curvature
    if own and not check.has(objective, "epsilon"):
        return []
    if not target.exact and not getattr(objective, "repeatable", True):
        remedy = "Its batches are not repeatable: give it hvp(w, v)."
        raise TypeError(
            check.message("objective", objective, "one to ask twice about a batch", remedy)
        )
    # As many batches as leave room for the whole Hessian everywhere, in two equal halves.
    rest = budget - points * (len(batches) + 1) - (points - 1) * POLICY.probes
    most = rest // (points * (size + 1))
    return batches[: max(2, min(most - most % 2, len(batches)))]


def share_out(probe: HessianProbe, size: int, budget: int) -> tuple[list[int], int]:
    """Return the target gradients for the curvature at each point, and for each step of the path.

    Whole Hessians if possible; else one at the end of the path, where the prediction is made; else
    equal parts.
    """
    points, steps = probe.looks, probe.looks - 1
    # At every point the batches and an exact gradient; on the way to it, probes of the step.
    needed = points * (len(probe.target.batches) + 1) + steps * points
    rest, full = budget - needed, probe.price(size)
    least = min(full, probe.price(POLICY.least_steps * (4 + probe.noisy)))
    if rest < points * least:
        allowed = f"{needed + points * least} or more for {points} points"
        remedy = "Or visit fewer points, or draw fewer batches."
        raise ValueError(check.message("budget", budget, allowed, remedy))
    end = full if full + steps * least <= rest else rest // points
    before = min(full, (rest - end) // max(steps, 1))
    left = (rest - end) // max(steps, 1) - before
    return [before] * steps + [end], min(points + left, POLICY.probes)


def visit_points(problem: Problem, probe: HessianProbe, start: Vector, budget: int) -> Evidence:
    """Measure at the start and along a path of damped Newton steps."""
    visits: list[Visit] = []
    w, alarm = start, ""
    shares, tries = share_out(probe, int(start.shape[0]), budget)
    for share in shares:
        if visits:
            # The start's curvature serves the whole path: its points only have to lie nearby.
            w = line_search(probe, visits[-1], newton_step(visits[0], visits[-1]), tries)
            if w is None or not np.any(to_numpy(w - visits[-1].w)):
                break
        if alarm := proxy_alarm(probe.proxy, w, start):
            break
        visits.append(probe.visit(w, start, share))
        if alarm := target_alarm(problem, visits[-1], start):
            break
    return Evidence(probe, visits, alarm)


def proxy_alarm(proxy: MeteredProxy, w: Vector, start: Vector) -> str:
    """Return what is wrong with a proxy that is not finite at w, or nothing.

    Raises
    ------
    NonFiniteError
        If it is not finite at the start.
    """
    away, proxy.fault = norm(w - start), None
    with np.errstate(all="ignore"):
        proxy.gradient(w)
        proxy.value(w)
    if proxy.fault is None:
        return ""
    fault = f"the proxy's {proxy.fault[0]} is NaN or infinite at a distance of {away:.3g} from w0"
    if away == 0:
        raise NonFiniteError(fault)
    return f"Do not use it: {fault}, on the path towards the minimum."


def target_alarm(problem: Problem, visit: Visit, start: Vector) -> str:
    """Return what is wrong with a target that curves downwards or runs away, or nothing."""
    fault, first, last = "", value_for_report(problem, start), value_for_report(problem, visit.w)
    if not visit.target.values[-1] > 0:
        fault = "curves downwards, or not at all, in every direction: it has no minimum"
    elif first and last and not last - first <= abs(first):
        fault = f"runs away, from {first:.3g} to {last:.3g}, where its gradient falls"
    check = "Check the sign of its gradient, with scipy.optimize.check_grad."
    return fault and f"No verdict: the target {fault}. {check}"


def newton_step(curved: Visit, here: Visit) -> Vector:
    """Return the end of a damped Newton step with another point's curvature, if positive."""
    values, vectors = np.linalg.eigh(curved.A)
    # Curvature that was seen through noise may be larger by the error than it looks.
    damping = POLICY.accuracy * curved.largest + curved.target.error
    pull = curved.project(here.gradient[None, :])[0]
    step = vectors @ ((vectors.T @ pull) / (np.maximum(values, 0.0) + damping))
    return here.w - from_numpy(step if curved.basis is None else curved.basis @ step, like=here.w)


def line_search(probe: HessianProbe, here: Visit, trial: Vector, probes: int) -> Vector | None:
    """Return the trial point, or one nearer or farther along the step, where the slope is small.

    A curvature that was measured where the loss is nearly linear, or through noise, says nothing of
    how far its minimum is: the step may be a thousand times too long, or as much too short. The
    slopes decide, on as many batches as it takes to be sure of the first one, with at most
    ``probes`` target gradients. A step made with the loss's own, exact curvature is only shortened.
    None if no point was met at which the loss had fallen.
    """
    target, exact = probe.target, not probe.batches
    ahead = to_numpy(trial - here.w).astype(np.float64)
    fall = -float(here.gradient @ ahead)
    if not fall > 0:
        return None
    count = max(min(len(here.gradients), probes // 5), 1)
    if count > 1:
        # The first slope is to differ from zero by three standard errors.
        error = float((here.gradients @ ahead).std(ddof=1)) / fall
        count = max(math.ceil(min((3 * error) ** 2, count)), 1)
    before = here.gradients[:count]
    # A step made with secants goes back as soon as it is past the minimum: convex losses are lower
    # wherever they still fall, but where they rise they may be anything.
    least, most = (-math.inf, POLICY.half) if exact else (-POLICY.half, 0.0)
    at, low, high, cuts = 1.0, 0.0, math.inf, 1
    for _ in range(probes // count):
        point = here.w + at * (trial - here.w)
        try:
            there = stack_rows(target.gradients(point, target.batches[:count]))
            slope = float((there - before).mean(axis=0) @ ahead) / fall - 1
            exploded = norm(there.mean(axis=0)) > 2 * norm(before.mean(axis=0)) > 0
        except NonFiniteError:
            slope, exploded = math.inf, True
        if not exploded and least <= slope <= most:
            return point
        low, high = (at, high) if slope < 0 and not exploded else (low, at)
        if math.isinf(high):
            # What is left of the fall, drawn out in a line.
            at = low * min(4.0, 1 / (1 + slope) if slope > -1 else math.inf)
        elif low == 0:
            # A parabola's minimum; if the curvature is in doubt, cuts that do not help grow.
            at = high * (1 / (1 + slope) if 0 < slope < math.inf else 0.5) ** cuts
            cuts += not exact
        else:
            at = math.sqrt(low * high) if high > 4 * low else (low + high) / 2
    return here.w + low * (trial - here.w) if low > 0 else None


def conclude(problem: Problem, evidence: Evidence, asked: float | None) -> Audit:
    """Return the audit: estimates, rehearsals, the verdict and its reasons."""
    probe, visits, alarm, model = evidence.probe, evidence.visits, evidence.alarm, evidence.model()
    target, start, end = probe.target, visits[0], visits[-1]
    points = point_estimates(problem, evidence)
    picks = {"delta": max, "H": max, "mu": min, "sigma2": max}
    limits: dict[str, Any] = {name: over(points, name, pick) for name, pick in picks.items()}
    excess = model.start_excess
    # At the minimum already, a run only scatters: ε is then taken from what the noise scatters.
    scatter = limits["sigma2"].estimate / (2 * max(limits["H"].estimate, 1e-300))
    excess = max(excess if excess > 1e-6 * scatter else scatter, 1e-300)
    epsilon = asked or POLICY.accuracy * excess

    # The proxy as it is, and at its best scale.
    scales = (1.0, curvature.best_scale(end.A, end.P))
    matrices = [evidence.proxy_matrices(scale) for scale in scales]
    sgd, *runs = (rehearse(model, P, epsilon) for P in (None, *matrices))
    # δ/H at the end of the path, or the largest if one exceeds 1.
    shares = [evidence.shares(scale) for scale in scales]
    plain, scaled = (each[-1] if max(each) <= 1 else max(each) for each in shares)
    leaning = decide(sgd.steps, runs[0].steps, runs[1].steps, (plain, scaled))
    chosen = int(leaning is Verdict.USE_SCALED)
    leaning = Verdict.DO_NOT_USE if alarm else leaning
    doubts = () if alarm else tuple(find_doubts(points, evidence))
    # However wrong the rehearsal, no proxy that curves downwards everywhere is better than none.
    downwards = all(np.linalg.eigvalsh(visit.P)[-1] <= 0 for visit in visits)
    unsure = doubts and not (leaning is Verdict.DO_NOT_USE and downwards)
    unsure = unsure or alarm.startswith("No verdict")
    found = Audit(
        verdict=Verdict.UNSURE if unsure else leaning, leaning=leaning, **limits, points=points,
        scale=scales[1],
        prediction=Prediction(sgd, runs[0], runs[chosen]), epsilon=epsilon,
        batch=target.batch_price(start.w), ledger=target.ledger,
        problem=problem, w0=start.w, factor=scales[chosen], model=model, alarm=alarm,
        proxy_matrices=matrices[chosen], doubts=doubts,
    )  # fmt: skip
    return found if alarm else replace(found, reasons=(*doubts, *find_reasons(found, visits)))


def over(points: Sequence[PointAudit], name: str, pick: Any) -> Interval:
    """Return the interval of the largest, or smallest, of a quantity over the points.

    The outer limit needs no correction for many looks: the quantity picked is one of them, and its
    own limit lies within the outermost.
    """
    return Interval(*(pick(each) for each in zip(*(getattr(p, name) for p in points), strict=True)))


def point_estimates(problem: Problem, evidence: Evidence) -> tuple[PointAudit, ...]:
    """Return the estimates at every point."""
    known, points = getattr(problem.objective, "strong_convexity", None), []
    # The lower limit of a maximum over points errs when any one does: each gets its part.
    confidence = 1 - (1 - evidence.probe.confidence) / len(evidence.visits)
    for visit in evidence.visits:
        target, apart = visit.target, visit.difference
        sizes = (
            curvature.similarity(apart), curvature.smoothness(target),
            curvature.strong_convexity(target, known), noise_level(visit.gradients, confidence),
        )  # fmt: skip
        points.append(PointAudit(visit.w, *sizes, visit.basis is None))
    return tuple(points)


def find_doubts(points: Sequence[PointAudit], evidence: Evidence) -> list[str]:
    """Return why the rehearsal is not to be trusted; nothing if it is."""
    visits, doubts = evidence.visits, []
    worst = min(points, key=lambda point: point.mu.high / max(point.H.estimate, 1e-300))
    if worst.mu.high < -POLICY.little * worst.H.estimate:
        doubts.append(
            f"The target is not convex: it curves downwards by {-worst.mu.high:.3g}, and H = "
            f"{worst.H.estimate:.3g}. The rehearsal leaves such directions out: compare short runs "
            "with and without proxy."
        )
    share = max((unexplained(a, b, evidence.probe) for a, b in pairwise(visits)), default=0.0)
    if share > POLICY.half:
        doubts.append(
            f"The curvature measured does not explain {min(share, 1.0):.0%} of the change of the "
            "target's gradient between two points: the loss has kinks in between, or its curvature "
            "depends on a few rows of a batch. Audit again with larger batches and budget, or run "
            "minimize(..., safeguard=True)."
        )
    return doubts


def unexplained(a: Visit, b: Visit, probe: HessianProbe) -> float:
    """Return the share of the target's change, beyond its blur, that both Hessians leave open."""
    if a.basis is not None or b.basis is not None:
        return 0.0
    each, change, blur = b.gradients - a.gradients, b.gradient - a.gradient, 0.0
    if probe.batches:
        # Secants and gradients of the same batches: no noise between them.
        change = each[: len(probe.batches)].mean(axis=0)
    elif a.averaged:
        blur = 2 * math.sqrt(float(each.var(axis=0, ddof=1).sum()) / len(each))
    predicted = (a.A + b.A) / 2 @ to_numpy(b.w - a.w).astype(np.float64)
    size = max(norm(change), norm(predicted))
    # A change lost in the rounding of the gradients says nothing.
    lost = size <= 1e-4 * max(norm(a.gradient), norm(b.gradient))
    return 0.0 if lost else max(norm(change - predicted) - blur, 0.0) / size


def find_reasons(found: Audit, visits: Sequence[Visit]) -> list[str]:
    """Return the sentences that go with a verdict; no guess at the units if it is unsure."""
    points, end, problem = found.points, visits[-1], found.problem
    places = ["at the start", *["on the way"] * (len(points) - 2), "at the end of the path"]
    worst = max(range(len(points)), key=lambda j: points[j].share)
    seen = [f"{p.share:.2g} {at}" for p, at in zip(points, places, strict=False)]
    meaning = "the proxy leaves that share of the target's curvature to the target's gradients."
    if points[worst].share > 1:
        meaning = "above 1, its curvature is further from the target's than no curvature at all."
    reasons = [f"δ/H is {', '.join(seen)}: {meaning}"]
    if found.factor != 1.0:
        left = curvature.spectral_norm(end.A - found.scale * end.P)
        falls = f"δ falls from {points[-1].delta.estimate:.3g} to {left:.3g}"
        reasons.append(f"The scale is {found.scale:.4g}: at the last point {falls}.")
    if found.refused and found.scale == 0.0 and curvature.best_scale(end.A, -end.P) > 0:
        reasons.append("Its negative would be closer: check the sign.")
    own, proxied = (np.linalg.eigvalsh(M)[-1] for M in (visits[worst].A, visits[worst].P))
    factor, limit = proxied / max(own, 1e-300), POLICY.other_units
    if found.refused and not found.doubts and (factor > limit or 0 < factor < 1 / limit):
        reasons.append(
            f"It curves {factor:.2g} times as much as the target {places[worst]}: its columns seem "
            "to be in other units. Scale them as the target's."
        )
    if problem.penalty is not None:
        reasons.append("The penalty cancels in δ; the rehearsal is of the smooth part alone.")
    if is_exact(problem.objective):
        method, why = choose_method(problem)
        reasons.append(f"Leave the method out: minimize takes {method}{why}, which needs fewer.")
    return [*reasons, *filter(None, [note_full_gradient(problem)])]


@dataclass(frozen=True)
class RunPlan:
    """How to run, and what to expect.

    Attributes
    ----------
    method : ProxyProx or SGD
        With its step size; SGD if the audit advises against the proxy.
    steps : int
        Outer steps K.
    averaging : Averaging
        Which point is the answer.
    stop : Criterion or None
        How exactly each subproblem is solved; None for SGD.
    expected : float
        Suboptimality expected at the end.
    reaches : bool
        Whether that is ε; if not, a note says what is in the way.
    bill : Bill
        What the run asks of the target. The proxy's part is seen when it runs.
    notes : tuple of str
        What to bear in mind.
    problem : Problem
        The problem to run: with the scaled proxy, if one is offered.
    w0 : array
        The point at which the audit began, and the run should begin.
    rough : bool
        Whether steps and suboptimality may be far off; a note then says why.
    """

    method: Any
    steps: int
    averaging: Averaging
    stop: Criterion | None
    epsilon: float
    expected: float
    reaches: bool
    bill: Bill
    notes: tuple[str, ...]
    problem: Problem = field(repr=False)
    w0: Any = field(repr=False)
    rough: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``minimize(plan.problem, **plan.arguments)``."""
        given = {name: getattr(self, name) for name in ("w0", "method", "steps", "averaging")}
        return given if self.stop is None else {**given, "stop": self.stop}

    def __str__(self) -> str:
        bill = self.bill
        solved = "" if self.stop is None else f", subproblems to {self.stop}"
        rough = " (rough: see the notes)" if self.rough else ""
        cost = "" if bill.cost is None else f", cost {bill.cost:,.4g}"
        return "\n  ".join([
            f"{self.method}, {self.steps:,} steps, {self.averaging}{solved}",
            f"expected suboptimality {self.expected:.3g}, wanted {self.epsilon:.3g}{rough}",
            f"bill: {bill.target_gradients:,.0f} target gradients on {bill.target_samples:,.0f} "
            f"samples{cost}",
            *self.notes,
        ])  # fmt: skip


def plan(
    audit: Audit,
    epsilon: float | None = None,
    budget: Budget | int | None = None,
) -> RunPlan:
    """Plan the run that an audit recommends.

    Parameters
    ----------
    audit : Audit
        What is known of target and proxy.
    epsilon : float, optional
        Wanted suboptimality; by default the audit's.
    budget : Budget or int, optional
        Limits on target gradients, samples or cost. If they do not allow ε, the plan is the best
        they buy, and says so.

    Returns
    -------
    RunPlan
        The settings and the expected bill.

    Raises
    ------
    ValueError, TypeError
        For arguments that cannot work.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, Quadratic, audit, minimize
    >>> target = Quadratic(np.diag([1.0, 10.0, 100.0]), b=np.ones(3), noise=0.01)
    >>> found = audit(Problem(target, proxy=Quadratic(np.diag([1.1, 10.5, 99.0]))), rng=0)
    >>> planned = plan(found, epsilon=1e-4)
    >>> result = minimize(planned.problem, **planned.arguments, rng=1)
    >>> best = target.value(target.minimiser())
    >>> planned.reaches, bool(target.value(result.w) - best < 3e-4)
    (True, True)
    """
    check.instance("audit", audit, Audit, "an Audit, as audit(problem) returns it")
    if audit.alarm and audit.verdict is Verdict.UNSURE:
        raise ValueError(f"audit must be one that came to a verdict. {audit.alarm}")
    epsilon = audit.epsilon if epsilon is None else check.positive("epsilon", epsilon)
    limits = as_budget(budget)
    notes, settings = [audit.sentence] if audit.refused else [], _rehearsed(audit, epsilon)
    affordable = audit.batch.affordable(limits)
    if short := settings["steps"] > affordable:
        settings = _rehearsed(audit, audit.epsilon, int(max(affordable, 1)))
        ends = f"The budget ends after {affordable:,.0f} steps, short of ε = {epsilon:.3g}; the "
        notes.append(f"{ends}suboptimality expected then is {settings['expected']:.3g}.")
    elif settings["expected"] > epsilon:
        missed = f"No constant step size reaches ε = {epsilon:.3g} in {settings['steps']:,} steps"
        notes.append(f"{missed} on the model: take larger batches, or a larger ε.")
    rough = _rough(audit)
    return RunPlan(
        **settings, epsilon=epsilon, problem=audit.recommended, w0=audit.w0, rough=bool(rough),
        reaches=not short and settings["expected"] <= epsilon * (1 + 1e-9),
        bill=audit.batch.times(settings["steps"]), notes=(*notes, *rough),
    )  # fmt: skip


def _rough(audit: Audit) -> list[str]:
    """Say why steps and suboptimality may be far off."""
    tail = audit.model.tail
    notes = {
        "The audit has its doubts (audit.doubts): the run may need several times these steps, or "
        "fewer. Use safeguard=True.": bool(audit.doubts),
        f"A few rows carry a batch (its noise varies {tail:.0f} times as much as Gaussian): the "
        "run may diverge. Take larger batches, or use safeguard=True.": tail > POLICY.heavy,
    }
    return [note for note, holds in notes.items() if holds]


def _rehearsed(audit: Audit, epsilon: float, steps: int | None = None) -> dict[str, Any]:
    """Return what does best on the model: to reach ε, or within a number of steps."""
    P, mu = None if audit.refused else audit.proxy_matrices, audit.mu.low
    found = rehearse(audit.model, P, epsilon, steps)
    if math.isinf(found.steps):
        found = rehearse(audit.model, P, audit.epsilon, int(STEPS[-1]))
    # More digits than four would only look exact.
    eta, steps = float(f"{found.eta:.4g}"), max(1, int(found.steps))
    method: Any = SGD(eta) if audit.refused else ProxyProx(eta)
    stop = StronglyConvex(float(f"{mu:.4g}")) if mu > 0 else Convex(steps)
    averaging = Uniform() if found.averaged else Last()
    settings = {"method": method, "steps": steps, "averaging": averaging, "expected": found.excess}
    return settings | {"stop": None if audit.refused else stop}
