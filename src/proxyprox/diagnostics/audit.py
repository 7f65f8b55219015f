"""Will this proxy pay? The answer before anything is spent on a run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from proxyprox._util.arrays import Vector, from_numpy, norm, to_numpy
from proxyprox._util.names import explain_names
from proxyprox._util.validation import as_list, generator, has, message, one_of, positive, whole
from proxyprox.diagnostics.curvature import LEAST_STEPS, Evidence, HessianProbe, Segment, Visit
from proxyprox.diagnostics.report import NO_VERDICT, Audit
from proxyprox.diagnostics.rounds import RoundAudit, audit_rounds
from proxyprox.diagnostics.sampling import MeteredTarget, noise_of, stack_rows
from proxyprox.diagnostics.verdict import conclude
from proxyprox.inner.base import NonFiniteError
from proxyprox.intervals import Interval
from proxyprox.oracle import MeteredProxy, value_for_report
from proxyprox.penalties import Box
from proxyprox.problems import Problem, Zero
from proxyprox.problems.checks import (
    check_signatures,
    is_exact,
    require_allowed,
    require_problem,
    starting_point,
)
from proxyprox.result import Ledger

# Where products with the target's Hessian come from, if that is named.
KINDS = ("hvp", "secants")

# Target gradients kept back for each step of the path: it may have to be shortened.
TRIES = 3

# Further ones where the budget allows: steps made with noisy secants need a closer look.
MORE = 21

# Lanczos steps that verify δ at the best scale, where the budget allows.
VERIFYING = 8

# A loss that grows by twice its size along a path that leads down has run away.
FAR = 2.0

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


@explain_names
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
) -> Audit | RoundAudit:
    """Measure how good a proxy is, with a small and stated number of target gradients.

    Where every gradient of the target is exact, rounds are what counts: three of them are taken,
    and rounds of ProxyBFGS are compared with those of L-BFGS
    (:mod:`proxyprox.diagnostics.rounds`). ``epsilon`` and ``budget`` alone matter then. Other
    proxies, a penalty other than bounds, or a ``curvature`` that is named, ask for the long audit
    all the same.

    Parameters
    ----------
    problem : Problem
        The target and the proxy to judge. Any penalty is shared by both and cancels in δ.
    w0 : array, optional
        Where the run would begin; zeros if the problem knows its size.
    epsilon : float, optional
        Suboptimality that the run is meant to reach; by default one hundredth of the start's,
        as estimated (of ``σ²/2H``, where the start is at the minimum already), and with exact
        gradients a millionth.
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
    Audit or RoundAudit
        Estimates with intervals, predictions, a verdict, and the ledger of the audit itself; the
        second where every gradient is exact.

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
        raise ValueError(message("problem.proxy", problem.proxy, "a proxy other than zero"))
    asked = {"epsilon": epsilon, "B": B, "cost_ratio": cost_ratio}
    for name, value in asked.items():
        if value is not None:
            positive(name, value)
    if not 0.5 <= positive("confidence", confidence) < 1:
        raise ValueError(message("confidence", confidence, "in [0.5, 1)"))
    one_of("curvature", curvature, ("auto", *KINDS))
    points, batches = whole("points", points), whole("batches", batches, least=4)
    rng, start = generator(rng), starting_point(problem, w0)
    ledger, given = Ledger(), as_list("others", others, "a list of further proxies")
    try:
        others = tuple(Problem(problem.objective, other).proxy for other in given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"others: {error}") from error
    smooth = problem.penalty is None or isinstance(problem.penalty, Box)
    if is_exact(problem.objective) and smooth and not others and curvature not in KINDS:
        proxy_alarm([MeteredProxy(problem.proxy, ledger)], start, start)
        return audit_rounds(problem, start, epsilon, whole("budget", budget))
    proxies = [MeteredProxy(proxy, ledger) for proxy in (problem.proxy, *others)]
    target = MeteredTarget(problem.objective, ledger, batches, rng)
    size, budget = int(start.shape[0]), whole("budget", budget)
    used = secant_batches(curvature, target, size, budget, points)
    probe = HessianProbe(target, used, proxies, confidence, points, rng)
    shares, verify, tries = share_out(probe, size, budget, points)
    evidence = visit_points(problem, probe, start, shares, tries)
    found = conclude(problem, others, evidence, asked, verify)
    ledger.seconds = time.perf_counter() - begun
    return found


def secant_batches(
    kind: str, target: MeteredTarget, size: int, budget: int, points: int
) -> list[Any]:
    """Return the batches to take secants on; none where the target's own products are used."""
    objective, batches = target.objective, target.batches
    # Products with private data would escape the privacy account, gradients do not.
    own = has(objective, "hvp") and getattr(objective, "exact_curvature", True)
    if kind != "secants" and own and not has(objective, "epsilon"):
        return []
    if kind == "hvp":
        allowed = "'auto' or 'secants' where the objective has no exact hvp or accounts for privacy"
        raise TypeError(message("curvature", kind, allowed))
    if not target.exact and not getattr(objective, "repeatable", True):
        remedy = "Its batches are not repeatable: give it hvp(w, v)."
        raise TypeError(message("objective", objective, "one to ask twice about a batch", remedy))
    # As many batches as leave room for the whole Hessian everywhere, in two equal halves.
    rest = budget - points * (len(batches) + 1) - (points - 1) * (TRIES + MORE)
    most = rest // (points * (size + 1))
    return batches[: max(2, min(most - most % 2, len(batches)))]


def share_out(
    probe: HessianProbe, size: int, budget: int, points: int
) -> tuple[Sequence[int], int, int]:
    """Divide what the gradients leave over: whole Hessians where possible, else equal parts.

    Returns the target gradients for the curvature at each point, for that of the best scale, and
    for each step of the path.
    """
    # At every point the batches and an exact gradient; on the way to it, probes of the step.
    needed = points * (len(probe.target.batches) + 1) + (points - 1) * TRIES
    rest, full = budget - needed, probe.price(size)
    least = min(full, probe.price(LEAST_STEPS * (4 + probe.noisy)))
    if points * full <= rest:
        left = (rest - points * full) // max(points - 1, 1)
        return [full] * points, 0, TRIES + min(left, MORE)
    if rest < points * least:
        allowed = f"{needed + points * least} or more for {points} points"
        remedy = "Or visit fewer points, or draw fewer batches."
        raise ValueError(message("budget", budget, allowed, remedy))
    if full + (points - 1) * least <= rest:
        # One whole Hessian goes to the end of the path, where the prediction is made.
        return [(rest - full) // max(points - 1, 1)] * (points - 1) + [full], 0, TRIES
    verify = probe.price(VERIFYING) if rest >= (points + 1) * least else 0
    return [(rest - verify) // points] * points, verify, TRIES


def visit_points(
    problem: Problem, probe: HessianProbe, start: Vector, shares: Sequence[int], tries: int
) -> Evidence:
    """Measure at the start and along a path of damped Newton steps."""
    visits: list[Visit] = []
    path: list[Segment] = []
    w, alarm = start, ""
    for share in shares:
        if visits:
            # The start's curvature serves the whole path: its points only have to lie nearby.
            w = line_search(probe, visits[-1], newton_step(visits[0], visits[-1]), tries)
            if w is None or not np.any(to_numpy(w - visits[-1].w)):
                break
        alarm = proxy_alarm(probe.proxies, w, start)
        if not alarm:
            visits.append(probe.visit(w, start, share))
            path += [_segment(probe, a, b) for a, b in pairwise(visits[-2:])]
            alarm = target_alarm(problem, visits[-1], start)
        if alarm:
            break
    return Evidence(probe, visits, path, alarm)


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
            which = f"{f'others[{j - 1}]' if j else 'the proxy'}'s {proxy.fault[0]}"
            fault = f"{which} is NaN or infinite at a distance of {away:.3g} from w0"
            if j or away == 0:
                raise NonFiniteError(fault)
            return f"Do not use it: {fault}, on the path towards the minimum."
    return ""


def target_alarm(problem: Problem, visit: Visit, start: Vector) -> str:
    """Return what is wrong with a target that curves downwards or runs away, or nothing."""
    fault, first, last = "", value_for_report(problem, start), value_for_report(problem, visit.w)
    if not visit.target.values[-1] > 0:
        fault = "curves downwards, or not at all, in every direction: it has no minimum"
    elif first and math.isfinite(first) and last and not last - first <= FAR * abs(first):
        fault = f"runs away, from {first:.3g} to {last:.3g}, where its gradient falls"
    check = "Check the sign of its gradient, with scipy.optimize.check_grad."
    return fault and f"{NO_VERDICT} the target {fault}. {check}"


def _segment(probe: HessianProbe, here: Visit, there: Visit) -> Segment:
    """Return the secants between two points."""
    gradient, each = probe.proxies[0].gradient, there.gradients - here.gradients
    length, mean = norm(to_numpy(there.w - here.w).astype(np.float64)), each.mean(axis=0)
    proxied = to_numpy(gradient(there.w) - gradient(here.w)).astype(np.float64)
    # ‖error of the mean‖ is about its root mean square; twice that is seldom exceeded.
    blur = 2 * math.sqrt(noise_of(each, probe.confidence).high / len(each))
    delta, H = (
        Interval(size / length, max(size - blur, 0.0) / length, (size + blur) / length)
        for size in (norm(mean - proxied), norm(mean))
    )
    return Segment(length, delta, H)


def newton_step(curved: Visit, here: Visit) -> Vector:
    """Return the end of a damped Newton step with another point's curvature, if positive."""
    values, vectors = np.linalg.eigh(curved.A)
    # Curvature that was seen through noise may be larger by the error than it looks.
    damping = DAMPING * max(float(values[-1]), 1e-300) + curved.target.error
    pull = curved.project(here.gradient[None, :])[0]
    step = vectors @ ((vectors.T @ pull) / (np.maximum(values, 0.0) + damping))
    return here.w - from_numpy(step if curved.basis is None else curved.basis @ step, like=here.w)


def line_search(probe: HessianProbe, here: Visit, trial: Vector, probes: int) -> Vector | None:
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
    affordable, wanted = min(len(here.gradients), max(probes // LEAST_POINTS, 1)), 0.0
    if affordable > 1:
        wanted = (CERTAIN * float((here.gradients @ ahead).std(ddof=1)) / fall) ** 2
    count = max(math.ceil(min(wanted, affordable)), 1)
    before = here.gradients[:count]
    target, exact = probe.target, not probe.batches
    least, most = (-math.inf, STEEP) if exact else (-STEEP, LEVEL if target.exact else 0.0)
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
            at = low * min(FARTHER, 1 / (1 + slope) if slope > -1 else math.inf)
        elif low == 0:
            # A parabola's minimum; where the curvature is in doubt, cuts that do not help grow.
            share = 1 / (1 + slope) if 0 < slope < math.inf else 0.5
            at = high * share**cuts
            cuts += not exact
        else:
            at = math.sqrt(low * high) if high > FARTHER * low else (low + high) / 2
    return here.w + low * (trial - here.w) if low > 0 else None
