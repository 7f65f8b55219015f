"""What a run is expected to cost, step by step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from proxyprox._ledger import Budget
from proxyprox._run import Run
from proxyprox.diagnostics._report import Audit
from proxyprox.methods import ProxyProx
from proxyprox.problems import Problem
from proxyprox.stopping import Criterion


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
