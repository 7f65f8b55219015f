"""A plan for a run: method, step size, steps and their cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from proxyprox import theory
from proxyprox._util.validation import flag, instance, listed, message, positive
from proxyprox.averaging import Averaging, Geometric, Last, Uniform
from proxyprox.diagnostics.evidence import NO_VERDICT
from proxyprox.diagnostics.rehearsal import Rehearsal, counted, rehearse
from proxyprox.diagnostics.report import Audit
from proxyprox.diagnostics.verdict import Verdict
from proxyprox.methods import SGD, ProxyProx
from proxyprox.problems import Problem
from proxyprox.result import Budget, as_budget
from proxyprox.run import Run
from proxyprox.stopping import Convex, Criterion, StronglyConvex


@dataclass(frozen=True)
class Bill:
    """What a run is expected to cost.

    Attributes
    ----------
    target_gradients, target_samples : float
        Accesses to the target, and samples in their batches.
    cost : float or None
        In the objective's own unit, where it names one.
    proxy_gradients : float
        Passes over the proxy, Hessian products counted as one each.
    seconds : float
        Time, at the speed seen in the audit.
    """

    target_gradients: float
    target_samples: float
    cost: float | None
    proxy_gradients: float
    seconds: float

    def times(self, steps: int) -> Bill:
        """Return the bill of so many such steps."""
        return Bill(
            self.target_gradients * steps,
            self.target_samples * steps,
            None if self.cost is None else self.cost * steps,
            self.proxy_gradients * steps,
            self.seconds * steps,
        )


def step_bill(audit: Audit, problem: Problem, eta: float, stop: Criterion | None) -> Bill:
    """Return what one outer step costs.

    The subproblem is solved once, here, with the gradient that the audit has paid for: no guess
    at the inner solver's work comes near its own count.
    """
    passes, seconds = 0.0, audit.batch.seconds
    if stop is not None:
        run = Run(problem, audit.points[0].w, method=ProxyProx(eta), stop=stop, rng=0)
        run.ask()
        run.tell(audit.start_gradient)
        used = run.ledger
        passes = float(
            used.proxy_gradients + used.proxy_hvps + used.proxy_hessians + used.proxy_solves
        )
        seconds += used.seconds
    return Bill(1.0, audit.batch.samples, audit.batch.cost, passes, seconds)


def affordable_steps(limits: Budget | None, per_step: Bill) -> float:
    """Return the steps that every limit allows; infinitely many without limits."""
    most = math.inf
    for name in ("target_gradients", "target_samples", "cost", "proxy_gradients", "seconds"):
        limit, each = getattr(limits, name, None), getattr(per_step, name)
        if limit is not None and each:
            most = min(most, float(math.floor(limit / each)))
    return most


BENT = 0.4
"""Share by which H may change between start and end before the plan is said to be rough."""


def why_rough(audit: Audit, *, guaranteed: bool) -> list[str]:
    """Return the notes that say so; none where the plan is as good as plans are.

    Parameters
    ----------
    audit : Audit
        What the plan is made of.
    guaranteed : bool
        Whether it is the corollary's, which does without the quadratic model.
    """
    notes = []
    if audit.doubts:
        held = "its constants hold at the points visited only" if guaranteed else "this is rough"
        notes.append(
            f"The audit has its doubts (audit.doubts), and {held}: the run may need several times "
            "these steps, or few of them. minimize(..., safeguard=True) has SGD run along."
        )
    if audit.model.bend > BENT and not guaranteed:
        notes.append(
            f"H changes by {audit.model.bend:.0%} on the way: the quadratic model is rough, and "
            'the run may need several times these steps. eta="auto" finds its own way.'
        )
    return notes


FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Batch sizes of the what-if table, in units of the batch that was audited."""


@dataclass(frozen=True)
class WhatIf:
    """One line of the table over batch sizes; the noise is σ² divided by ``factor``."""

    factor: float
    batch_samples: float
    sigma2: float
    eta: float
    steps: float
    target_samples: float


@dataclass(frozen=True)
class RunPlan:
    """How to run, and what to expect.

    Attributes
    ----------
    method : ProxyProx or SGD
        With its step size; SGD where the audit advises against the proxy.
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
        What the run is expected to cost.
    what_if : tuple of WhatIf
        The same question for other batch sizes.
    notes : tuple of str
        What to bear in mind.
    problem : Problem
        The problem to run: with the scaled or mixed proxy, if one is offered.
    w0 : array
        Where the audit began, and the run should.
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
    what_if: tuple[WhatIf, ...]
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
        lines = [
            f"{self.method}, {self.steps:,} steps, {self.averaging}"
            + ("" if self.stop is None else f", subproblems to {self.stop}"),
            f"  expected suboptimality {self.expected:.3g}, wanted {self.epsilon:.3g}"
            + (" (rough: see the notes)" if self.rough else ""),
            f"  bill: {bill.target_gradients:,.0f} target gradients on {bill.target_samples:,.0f} "
            f"samples, {bill.proxy_gradients:,.0f} proxy passes, {bill.seconds:.3g} s"
            + ("" if bill.cost is None else f", cost {bill.cost:,.4g}"),
            "  samples in a batch → target gradients, samples in all:",
            *(
                f"    {line.batch_samples:,.0f} → {counted(line.steps)}, "
                f"{counted(line.target_samples)}"
                for line in self.what_if
            ),
            *(f"  {note}" for note in self.notes),
        ]
        return "\n".join(lines)


def plan(
    audit: Audit,
    epsilon: float | None = None,
    budget: Budget | int | None = None,
    *,
    guaranteed: bool = False,
    factors: Sequence[float] = FACTORS,
) -> RunPlan:
    """Plan the run that an audit recommends.

    Parameters
    ----------
    audit : Audit
        What is known of target and proxy.
    epsilon : float, optional
        Wanted suboptimality; by default the audit's.
    budget : Budget or int, optional
        Limits. Where they do not allow ε, the plan is the best they buy, and says so.
    guaranteed : bool
        Use the corollary's settings, with the upper limits of δ and σ², instead of those that
        did best in rehearsal: safe for every loss with these constants, and far more steps.
    factors : sequence of float
        Batch sizes for the what-if table, in units of the audited batch; those that would not
        hold one sample are left out.

    Returns
    -------
    RunPlan
        The settings, the expected bill and the what-if table.

    Raises
    ------
    ValueError, TypeError
        For arguments that cannot work.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, Quadratic, minimize
    >>> from proxyprox.diagnostics import audit
    >>> target = Quadratic(np.diag([1.0, 10.0, 100.0]), b=np.ones(3), noise=0.01)
    >>> found = audit(Problem(target, proxy=Quadratic(np.diag([1.1, 10.5, 99.0]))), rng=0)
    >>> planned = plan(found, epsilon=1e-4)
    >>> result = minimize(planned.problem, **planned.arguments, rng=1)
    >>> best = target.value(target.minimiser())
    >>> planned.reaches, bool(target.value(result.w) - best < 3e-4)
    (True, True)
    """
    instance("audit", audit, Audit, "an Audit, as audit(problem) returns it")
    if audit.alarm.startswith(NO_VERDICT):
        raise ValueError(f"audit must be one that came to a verdict. {audit.alarm}")
    epsilon = audit.epsilon if epsilon is None else positive("epsilon", epsilon)
    limits = as_budget(budget)
    guaranteed = flag("guaranteed", guaranteed)
    factors = [positive("factors", f) for f in listed("factors", factors, "a list of numbers")]
    problem = audit.recommended
    proxied = audit.leaning is not Verdict.DO_NOT_USE
    notes: list[str] = [] if proxied else [audit.sentence]
    if guaranteed:
        if not proxied:
            remedy = "The audit advises against this proxy, and the corollary is about proxies."
            raise ValueError(message("guaranteed", True, "False here", remedy))
        settings = _guaranteed(audit, epsilon, notes)
    else:
        settings = _rehearsed(audit, epsilon, proxied)
    per_step = step_bill(audit, problem, settings.eta, settings.stop if proxied else None)
    affordable = affordable_steps(limits, per_step)
    short = settings.steps > affordable
    if short and guaranteed:
        notes.append(
            f"The guarantee asks for {settings.steps:,.0f} steps and the budget allows "
            f"{affordable:,.0f}: nothing is guaranteed for them."
        )
    if short:
        settings = _best_within(audit, proxied, int(max(affordable, 1)))
        notes.append(
            f"The budget ends after {affordable:,.0f} steps, short of ε = {epsilon:.3g}; the "
            f"suboptimality expected then is {settings.expected:.3g}."
        )
    elif settings.expected > epsilon:
        notes.append(
            f"No constant step size reaches ε = {epsilon:.3g} within {settings.steps:,.0f} steps "
            "on the model: take larger batches, or a larger ε."
        )
    rough = why_rough(audit, guaranteed=guaranteed)
    notes.extend(rough)
    steps = int(min(settings.steps, 10**9))
    return RunPlan(
        method=(ProxyProx if proxied else SGD)(settings.eta),
        steps=steps,
        averaging=settings.averaging,
        stop=settings.stop if proxied else None,
        epsilon=epsilon,
        expected=settings.expected,
        reaches=not short and settings.expected <= epsilon * (1 + 1e-9),
        bill=per_step.times(steps),
        what_if=tuple(_what_if(audit, epsilon, proxied, f) for f in _whole(audit, factors)),
        notes=tuple(notes),
        problem=problem,
        w0=audit.points[0].w,
        rough=bool(rough),
    )


@dataclass(frozen=True)
class _Settings:
    eta: float
    steps: float
    averaging: Averaging
    stop: Criterion
    expected: float


def _rehearsed(audit: Audit, epsilon: float, proxied: bool) -> _Settings:
    found = rehearse(audit.model, audit.proxy_matrices if proxied else None, epsilon)
    if math.isinf(found.steps):
        # No constant step size gets there within ten million: the best of a long run instead.
        found = _rehearse_steps(audit, proxied, 10**7)
    return _settings(audit, found)


def _best_within(audit: Audit, proxied: bool, steps: int) -> _Settings:
    return _settings(audit, _rehearse_steps(audit, proxied, steps))


def _rehearse_steps(audit: Audit, proxied: bool, steps: int) -> Rehearsal:
    P = audit.proxy_matrices if proxied else None
    return rehearse(audit.model, P, audit.epsilon, steps=steps)


def _settings(audit: Audit, found: Rehearsal) -> _Settings:
    steps = max(1, int(found.steps))
    average: Averaging = Uniform() if found.averaged else Last()
    # More digits than four would only look exact.
    eta = float(f"{found.eta:.4g}")
    return _Settings(eta, steps, average, _rule(audit, steps), found.excess)


def _rule(audit: Audit, steps: int) -> Criterion:
    return StronglyConvex(float(f"{audit.mu.low:.4g}")) if audit.mu.low > 0 else Convex(steps)


def _guaranteed(audit: Audit, epsilon: float, notes: list[str]) -> _Settings:
    offered = {Verdict.USE_SCALED: audit.scale, Verdict.USE_MIXED: audit.mixture}.get(audit.leaning)
    known = {
        "epsilon": epsilon, "B": audit.B, "sigma": math.sqrt(audit.sigma2.high),
        "delta": (audit.delta if offered is None else offered.delta).high,
    }  # fmt: skip
    if audit.B_source == "estimated":
        notes.append("The guarantee rests on B, which was estimated: give B to audit if you can.")
    if audit.mu.low > 0:
        found = theory.plan_run(mu=audit.mu.low, **known)
        average: Averaging = Geometric(found.mu)
        stop: Criterion = StronglyConvex(found.mu, found.G)
    else:
        found = theory.plan_run(**known)
        average, stop = Uniform(), Convex(found.steps, found.G)
        notes.append(
            f"The convex theorem adds μ/2 ‖w − w_0‖² with μ = {found.mu:.3g} to both losses: use "
            "regularized(problem, mu, w0)."
        )
    return _Settings(found.eta, found.steps, average, stop, found.guarantee)


def _whole(audit: Audit, factors: Sequence[float]) -> list[float]:
    return [factor for factor in factors if audit.batch.samples * factor >= 1]


def _what_if(audit: Audit, epsilon: float, proxied: bool, factor: float) -> WhatIf:
    samples = audit.batch.samples
    found = rehearse(
        audit.model.with_noise_divided_by(factor),
        audit.proxy_matrices if proxied else None,
        epsilon,
    )
    return WhatIf(
        factor=factor, batch_samples=samples * factor, sigma2=audit.sigma2.estimate / factor,
        eta=found.eta, steps=found.steps, target_samples=found.steps * samples * factor,
    )  # fmt: skip
