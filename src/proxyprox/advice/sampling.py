"""A loss without a proxy: how many of its rows take a proxy's place, by a model of the seconds.

A round of ProxyBFGS in the metric of m sampled rows leaves about ``1.5 d / m`` of the gap, so that
``R = log(1e9) / log(m / 1.5 d)`` rounds reach the default end; each is a pass over all rows. The
sample's minimum takes a few Hessians of m rows. If that is dear, L-BFGS begins alone, and the
Hessian is formed if more rounds than it takes seem to be left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from proxyprox.methods import ProxyBFGS
from proxyprox.problems import Problem, Zero
from proxyprox.problems.problem import facts_of
from proxyprox.problems.protocols import Work


@dataclass(frozen=True)
class SamplingPolicy:
    """The model of the seconds, in passes; set by docs/results/seconds/report.md.

    Attributes
    ----------
    hessian : float
        Passes of a Hessian of all rows, in units of what the loss's ``work`` says.
    factor : float
        Nanoseconds for each of the d³ operations of a factor, in the same units.
    hessians, gradients : float
        What the sample's minimum takes of each.
    rate : float
        A round leaves this many times d/m of the gap.
    dear : float
        Passes from which on a sample's minimum is not searched for before L-BFGS was tried.
    least : int
        Rows of a sample, at least.
    widest : int
        Parameters up to which a Hessian is formed.
    narrow : int
        Rows for each parameter from which on a small table is its own proxy: a few Newton steps. No
        record: a judgement of time.
    memory : int
        Pairs that are kept.
    """

    hessian: float = 2.0
    factor: float = 0.03
    hessians: float = 3.0
    gradients: float = 10.0
    rate: float = 1.5
    dear: float = 12.0
    least: int = 500
    widest: int = 3000
    narrow: int = 10
    memory: int = 20


POLICY = SamplingPolicy()


def sampling_method(problem: Problem, digits: float) -> tuple[ProxyBFGS, str] | None:
    """Return the method for an exact loss that has no proxy but its own rows, and why; or None.

    ``digits`` is the natural logarithm of the gap at the start over that at the end.
    """
    facts, size = facts_of(problem.objective), problem.dim
    known = facts.subsample is not None and facts.work is not None and size
    if not known or problem.penalty is not None or not isinstance(problem.proxy, Zero):
        return None
    work: Work = facts.work  # type: ignore[assignment]
    assert size is not None
    rows, few = work.rows, work.rows < 2 * POLICY.least
    width, (form, factor) = work.width or size, costs(work, size)
    whole = few and POLICY.narrow * size <= rows
    if not whole and (few or size > POLICY.widest):
        why = "it is small" if few else "there are too many parameters for a Hessian"
        return ProxyBFGS(memory=POLICY.memory), f"it can be sampled, but {why}: L-BFGS"
    counts = np.unique(np.geomspace(POLICY.least, rows / 2, 40).astype(int))
    # Overhead counts in small tables, and L-BFGS sees no column that is small beside others.
    counts = np.array([rows]) if whole else counts
    rounds = digits / np.log(np.maximum(counts / (POLICY.rate * width), 1.01))
    shares = counts / rows
    search = shares * (POLICY.hessians * form + POLICY.gradients) + 2 * factor
    again = shares * form + 2 * factor + rounds / 2
    best = int(np.argmin(search + rounds))
    at_once = whole or bool(search[best] <= POLICY.dear)
    best = best if at_once else int(np.argmin(again))
    method = ProxyBFGS(
        memory=POLICY.memory, start_at_proxy=at_once, sample=int(counts[best]),
        worth=float(math.ceil(again[best])),
    )  # fmt: skip
    if whole:
        return method, "it is small, all of its rows are the proxy"
    if at_once:
        what = f"{counts[best]:,} of its rows are the proxy, about {rounds[best]:.0f} passes"
        return method, what
    return method, (
        f"L-BFGS until more than {again[best]:.0f} passes seem to be left, "
        f"then in the metric of {counts[best]:,} of its rows"
    )


def costs(work: Work, size: int) -> tuple[float, float]:
    """Return what a Hessian of all rows takes, and a factor, in passes."""
    return POLICY.hessian * work.hessian / work.gradient, POLICY.factor * size**3 / work.gradient
