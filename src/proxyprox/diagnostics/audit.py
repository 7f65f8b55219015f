"""Will this proxy pay? The answer before anything is spent on a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from proxyprox._util.arrays import Vector
from proxyprox._util.validation import generator, listed, message, positive, whole
from proxyprox.diagnostics.conclusion import Question, conclude
from proxyprox.diagnostics.evidence import gather, share_out, source_for
from proxyprox.diagnostics.report import Audit
from proxyprox.diagnostics.sampling import MeteredTarget, Sampler
from proxyprox.oracles import MeteredProxy
from proxyprox.problems import Problem, Zero
from proxyprox.result import Ledger
from proxyprox.setup import starting_point

__all__ = ["audit"]


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
    _check(problem, epsilon, B, cost_ratio, confidence)
    rng = generator(rng)
    start = starting_point(problem, w0)
    size, points = int(start.shape[0]), whole("points", points)
    ledger = Ledger()
    given = listed("others", others, "a list of further proxies")
    others = tuple(Problem(problem.objective, other).proxy for other in given)
    proxies = [MeteredProxy(proxy, ledger) for proxy in (problem.proxy, *others)]
    sampler = Sampler(
        MeteredTarget(problem.objective, ledger), whole("batches", batches, least=4), rng
    )
    source = source_for(curvature, sampler, size, whole("budget", budget), points)
    shares = share_out(source, sampler, size=size, budget=budget, points=points)
    evidence = gather(
        problem, sampler, source, proxies, start, shares, confidence=confidence, rng=rng
    )
    question = Question(problem, others, epsilon, B, cost_ratio, confidence)
    found = conclude(question, evidence, sampler, source, proxies, verify=shares.verify, rng=rng)
    ledger.seconds = time.perf_counter() - begun
    return found


def _check(
    problem: Problem,
    epsilon: float | None,
    B: float | None,
    cost_ratio: float | None,
    confidence: float,
) -> None:
    if not isinstance(problem, Problem):
        remedy = "Wrap it: Problem(objective, proxy)."
        raise TypeError(message("problem", problem, "a Problem", remedy))
    if isinstance(problem.proxy, Zero):
        remedy = "Pass the proxy to judge: Problem(objective, proxy)."
        raise ValueError(message("problem.proxy", problem.proxy, "a proxy other than zero", remedy))
    for name, value in (("epsilon", epsilon), ("B", B), ("cost_ratio", cost_ratio)):
        if value is not None:
            positive(name, value)
    if not 0.5 <= positive("confidence", confidence) < 1:
        raise ValueError(message("confidence", confidence, "in [0.5, 1)"))
