"""The truth behind the verdicts: how many target gradients tuned runs really need.

For every case, SGD and ProxyProx (subproblems solved) run with each step size of their grids
until the suboptimality, averaged over the seeds, is ε for the last iterate or for the mean of all
iterates, whichever is sooner; the fewest target gradients count. ``audit_verdicts.py`` runs it; all
targets with six seeds take about an hour and a half on one idle core.
"""

from __future__ import annotations

import math
import time
from functools import cache
from typing import Any

import numpy as np

from audit_cases import PROXIES, Case, target
from proxyprox import SGD, Problem, ProxyProx, minimize
from proxyprox.diagnostics.curvature import best_scale
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import MixedProxy
from proxyprox.stopping import Relative, Residual, Steps

SHARES = (0.05, 0.01)
"""ε as shares of the start's suboptimality."""

CAP = 500
"""Target gradients after which a run is given up."""

SEEDS = (0, 1, 2, 3, 4, 5)
MARKS = np.unique(np.round(np.geomspace(1, CAP, 90)).astype(int))
STOP = Residual(1e-7) | Relative(1e-3) | Steps(25)


def curve(goal: Any, problem: Problem, method: Any, best: float, seed: int, cap: int) -> Any:
    """Return the suboptimality of last and mean iterate at the marks, infinite if it diverged."""
    found = np.full((2, len(MARKS)), math.inf)
    at = dict(zip(MARKS.tolist(), range(len(MARKS)), strict=True))
    start = goal.value(goal.zeros()) - best
    mean = goal.zeros()

    def watch(step: Any) -> bool:
        nonlocal mean
        k = step.ledger.target_gradients
        mean = mean + (step.w - mean) / k
        if k not in at:
            return False
        for row, w in enumerate((step.w, mean)):
            value = goal.value(w) - best
            found[row, at[k]] = value if math.isfinite(value) else math.inf
        # Far above the start it will not come back within the cap.
        return not found[:, at[k]].min() <= 30 * start

    try:
        minimize(problem, method=method, steps=cap, rng=seed, callback=watch, stop=STOP)
    except Exception:
        # An inner solve on a hostile proxy may fail in any way: the run then never arrives.
        return found
    return found


def needed(
    goal: Any, proxy: Any, best: float, gap: float, seeds: tuple[int, ...] = SEEDS
) -> dict[str, float]:
    """Return the target gradients to each ε with the best step size (None proxy: SGD)."""
    H = float(np.linalg.eigvalsh(goal.hessian(goal.zeros()))[-1])
    # Both grids have one factor: the finer one would profit more from its least value.
    etas = 2.5 ** np.arange(-4, 6) if proxy is None else 2.5 ** np.arange(-2, 12)
    # From the middle outwards: a good step size early lets the others be given up early.
    order = sorted(range(len(etas)), key=lambda j: abs(j - len(etas) // 2))
    record = {f"{share:g}": math.inf for share in SHARES}
    for j in order:
        method = SGD(etas[j] / H) if proxy is None else ProxyProx(etas[j] / H)
        problem = Problem(goal) if proxy is None else Problem(goal, proxy)
        cap = int(min(CAP, max(record.values())))
        mean = np.mean([curve(goal, problem, method, best, s, cap) for s in seeds], axis=0)
        for key, share in zip(record, SHARES, strict=True):
            hit = np.flatnonzero(mean.min(axis=0) <= share * gap)
            if len(hit):
                record[key] = min(record[key], float(MARKS[hit[0]]))
    return record


@cache
def without_proxy(dataset: str, seeds: tuple[int, ...]) -> dict[str, float]:
    """Return what SGD needs: the same for every proxy."""
    goal = target(dataset)
    best = goal.value(minimise_exactly(goal, goal.zeros(), tol=1e-10))
    return needed(goal, None, best, goal.value(goal.zeros()) - best, seeds)


def truth(case: Case, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return what each choice needs in one case."""
    begun = time.perf_counter()
    goal = target(case.dataset)
    proxy, zero = PROXIES[case.proxy](goal), goal.zeros()
    best = goal.value(minimise_exactly(goal, zero, tol=1e-10))
    gap = goal.value(zero) - best
    scale = best_scale(goal.hessian(zero), proxy.hessian(zero))
    plain = needed(goal, proxy, best, gap, seeds)
    distinct = scale > 0 and not 0.8 <= scale <= 1.25
    return {
        "dataset": case.dataset,
        "proxy": case.proxy,
        "gap": gap,
        "scale": scale,
        "seeds": len(seeds),
        "sgd": without_proxy(case.dataset, seeds),
        "plain": plain,
        "scaled": needed(goal, MixedProxy([proxy], [scale]), best, gap, seeds)
        if distinct
        else plain,
        "seconds": time.perf_counter() - begun,
    }
