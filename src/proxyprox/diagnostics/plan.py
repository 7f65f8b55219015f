"""A plan for a run: method, step size, steps and their cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from proxyprox._util.validation import count_words, instance, positive
from proxyprox.advice.audit_policy import AuditPolicy, RoundPolicy
from proxyprox.averaging import Averaging, Last, Uniform
from proxyprox.diagnostics.rehearsal import STEPS, rehearse
from proxyprox.diagnostics.report import (
    Audit,
    Bill,
    Report,
    RoundAudit,
    Verdict,
)
from proxyprox.diagnostics.rounds import rehearse_rounds
from proxyprox.methods import DANE, SGD, ProxyBFGS, ProxyProx
from proxyprox.oracle import Query, price
from proxyprox.problems import Problem
from proxyprox.result import Budget, Ledger, as_budget
from proxyprox.run import Run
from proxyprox.stopping import Convex, Criterion, StronglyConvex

__all__ = ["RunPlan"]


@dataclass(frozen=True)
class RunPlan:
    """How to run, and what to expect.

    Attributes
    ----------
    method : ProxyProx, SGD, ProxyBFGS or DANE
        With its step size; SGD if the audit advises against the proxy. For exact gradients
        ProxyBFGS, or DANE if one gradient solves the problem.
    steps : int
        Outer steps K; of ProxyBFGS the rounds expected, which do not end the run unless the budget
        does.
    averaging : Averaging
        Which point is the answer.
    stop : Criterion or None
        How exactly each subproblem is solved; None for SGD and for exact gradients.
    expected : float
        Suboptimality expected at the end.
    reaches : bool
        Whether that is ε; if not, a note says what is in the way.
    bill : Bill
        What the run is expected to cost.
    notes : tuple of str
        What to bear in mind.
    problem : Problem
        The problem to run: with the scaled proxy, if one is offered.
    w0 : array
        The point at which the audit began, and the run should begin.
    rough : bool
        Whether steps and suboptimality may be far off; a note then says why.
    atol : float
        For exact gradients: the norm of the gradient that proves ε, if μ is known; else 0, and
        the run ends by the default of :func:`~proxyprox.minimize`.
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
    atol: float = 0.0

    @property
    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of ``minimize(plan.problem, **plan.arguments)``."""
        if isinstance(self.method, ProxyBFGS) and self.reaches:
            ends = {"atol": self.atol} if self.atol > 0 else {}
            return {"w0": self.w0, "method": self.method, **ends}
        given = {name: getattr(self, name) for name in ("w0", "method", "steps", "averaging")}
        return given if self.stop is None else {**given, "stop": self.stop}

    def __str__(self) -> str:
        bill = self.bill
        solved = "" if self.stop is None else f", subproblems to {self.stop}"
        rough = " (rough: see the notes)" if self.rough else ""
        cost = "" if bill.cost is None else f", cost {bill.cost:,.4g}"
        lines = [
            f"{self.method}, {self.steps:,} steps, {self.averaging}{solved}",
            f"  expected suboptimality {self.expected:.3g}, wanted {self.epsilon:.3g}{rough}",
        ]
        if self.method.exact:
            lines = [f"{self.method}, {count_words(self.steps, 'round')}{rough}"]
        lines.append(
            f"  bill: {bill.target_gradients:,.0f} target gradients on {bill.target_samples:,.0f} "
            f"samples, {bill.proxy_gradients:,.0f} proxy passes, {bill.seconds:.3g} s{cost}"
        )
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def plan(
    audit: Report,
    epsilon: float | None = None,
    budget: Budget | int | None = None,
) -> RunPlan:
    """Plan the run that an audit recommends.

    Parameters
    ----------
    audit : Audit or RoundAudit
        What is known of target and proxy.
    epsilon : float, optional
        Wanted suboptimality; by default the audit's.
    budget : Budget or int, optional
        Limits. If they do not allow ε, the plan is the best they buy, and says so.

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
    instance("audit", audit, Report, "an Audit, as audit(problem) returns it")
    if audit.alarm and audit.verdict is Verdict.UNSURE:
        raise ValueError(f"audit must be one that came to a verdict. {audit.alarm}")
    epsilon = audit.epsilon if epsilon is None else positive("epsilon", epsilon)
    limits = as_budget(budget)
    if isinstance(audit, RoundAudit):
        return _plan_rounds(audit, epsilon, limits)
    assert isinstance(audit, Audit)
    notes = [audit.sentence] if audit.refused else []
    settings = _rehearsed_settings(audit, epsilon)
    bill = _step_bill(audit, settings)
    affordable = bill.affordable(limits)
    short = settings["steps"] > affordable
    if short:
        settings = _rehearsed_settings(audit, audit.epsilon, int(max(affordable, 1)))
        ends = f"The budget ends after {affordable:,.0f} steps, short of ε = {epsilon:.3g}; the "
        notes.append(f"{ends}suboptimality expected then is {settings['expected']:.3g}.")
    elif settings["expected"] > epsilon:
        missed = f"No constant step size reaches ε = {epsilon:.3g} in {settings['steps']:,} steps"
        notes.append(f"{missed} on the model: take larger batches, or a larger ε.")
    rough = _rough(audit)
    return RunPlan(
        **settings,
        epsilon=epsilon,
        reaches=not short and settings["expected"] <= epsilon * (1 + 1e-9),
        bill=bill.times(settings["steps"]),
        notes=(*notes, *rough),
        w0=audit.w0,
        rough=bool(rough),
    )


def _plan_rounds(audit: RoundAudit, epsilon: float, limits: Budget | None) -> RunPlan:
    """Return the plan for exact gradients: rounds, and where the run may end."""
    if audit.model is not None and epsilon != audit.epsilon:
        audit = rehearse_rounds(audit, epsilon)
    objective, used, notes = audit.problem.objective, audit.ledger, list(audit.reasons)
    rounds, work = audit.rounds, used.proxy_gradients + used.proxy_hvps + used.proxy_hessians
    if audit.refused:
        rounds, work, notes = audit.rounds_without, 0, [audit.sentence, *notes]
    elif audit.model is not None:
        notes.append("The audit's own rounds are among them: the run asks for them once more.")
    everything = Query(objective.everything(), (audit.w0,), exact=True)
    paid = price(objective, Ledger(), [everything.purchase])
    samples, taken = float(paid["target_samples"]), max(used.target_gradients, 1)
    bill = Bill(1.0, samples, paid.get("cost"), work / taken, used.target_seconds / taken)
    most, affordable = RoundPolicy.most, bill.affordable(limits)
    steps = int(min(rounds, most))
    if short := steps > affordable:
        steps = int(max(affordable, 1))
        notes.append(f"The budget ends after {count_words(steps, 'round')}, likely before ε.")
    mu = getattr(objective, "strong_convexity", None) or 0.0
    return RunPlan(
        method=DANE(eta=math.inf) if audit.verdict is Verdict.ONE_ROUND else ProxyBFGS(),
        steps=steps,
        averaging=Last(),
        stop=None,
        epsilon=epsilon,
        expected=math.nan if short else epsilon,
        reaches=not short and rounds <= most,
        bill=bill.times(steps),
        notes=tuple(notes),
        problem=audit.recommended,
        w0=audit.w0,
        rough=audit.model is not None,
        # L − L* ≤ ‖∇L‖²/2μ.
        atol=math.sqrt(2 * mu * epsilon) if epsilon > 0 else 0.0,
    )


def _rough(audit: Audit) -> list[str]:
    """Say why steps and suboptimality may be far off."""
    outcome, notes = "the run may need several times these steps, or fewer", []
    bend, tail = audit.model.bend, audit.model.tail
    if audit.doubts:
        notes.append(f"The audit has its doubts (audit.doubts): {outcome}. Use safeguard=True.")
    if bend > AuditPolicy.bent:
        notes.append(f"H changes by {bend:.0%}: the quadratic model is rough, and {outcome}.")
    if tail > AuditPolicy.heavy:
        heavy = f"A few rows carry a batch (its noise varies {tail:.0f} times as much as Gaussian)"
        notes.append(f"{heavy}: the run may diverge. Take larger batches, or use safeguard=True.")
    return notes


def _rehearsed_settings(audit: Audit, epsilon: float, steps: int | None = None) -> dict[str, Any]:
    """Return what does best on the model: to reach ε, or within a number of steps."""
    P, mu = None if audit.refused else audit.proxy_matrices, audit.mu.low
    found = rehearse(audit.model, P, epsilon, steps)
    if math.isinf(found.steps):
        found = rehearse(audit.model, P, audit.epsilon, int(STEPS[-1]))
    # More digits than four would only look exact.
    eta, steps = float(f"{found.eta:.4g}"), max(1, int(found.steps))
    stop = StronglyConvex(float(f"{mu:.4g}")) if mu > 0 else Convex(steps)
    return {
        "method": SGD(eta) if audit.refused else ProxyProx(eta),
        "steps": steps,
        "stop": None if audit.refused else stop,
        "averaging": Uniform() if found.averaged else Last(),
        "expected": found.excess,
        "problem": audit.recommended,
    }


def _step_bill(audit: Audit, settings: Mapping[str, Any]) -> Bill:
    """Return what one outer step costs.

    The subproblem is solved once, here, with the gradient that the audit has paid for: no guess at
    the inner solver's work comes near its own count.
    """
    used = Ledger()
    if settings["stop"] is not None:
        method, stop = settings["method"], settings["stop"]
        run = Run(settings["problem"], audit.w0, method=method, stop=stop, rng=0)
        run.ask()
        run.tell(audit.start_gradient)
        used = run.ledger
    work = used.proxy_gradients + used.proxy_hvps + used.proxy_hessians + used.proxy_solves
    seconds = audit.batch.seconds + used.seconds
    return replace(audit.batch, proxy_gradients=float(work), seconds=seconds)
