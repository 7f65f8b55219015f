"""How many rounds an audit of exact gradients predicts, and how many it then takes.

    PROXYPROX_DATA=... python benchmarks/audit_rounds.py

Mushrooms and a9a, logistic loss, l2 = 1e-5, to L − L* ≤ 1e-6; medians of five proxies of a kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments import datasets
from proxyprox import FunctionProxy, Problem, ProxyBFGS, audit, logistic_regression, minimize
from proxyprox.advice.report import Verdict
from proxyprox.advice.rounds import RoundAudit, count_lbfgs
from proxyprox.inner.exact import minimise_exactly
from proxyprox.problems import ScaledProxy, Zero

L2, EPSILON, SEEDS = 1e-5, 1e-6, 5
CHOICES = ("the audit's", "always this proxy", "never a proxy", "L-BFGS")


def rows(loss: Any, seed: int, share: float = 0.05) -> Any:
    return loss.subsample(round(share * loss.design.rows), rng=np.random.default_rng([seed, 14]))


def permuted(loss: Any, seed: int) -> Any:
    part, order = rows(loss, seed), np.random.default_rng([seed, 15]).permutation(loss.dim)
    return logistic_regression(part.design.X[:, order], part.targets, l2=L2)


def flipped(loss: Any, seed: int) -> Any:
    part = rows(loss, seed)
    return logistic_regression(part.design.X, 1 - part.targets, l2=L2)


def negated(loss: Any, seed: int) -> Any:
    part = rows(loss, seed)
    return FunctionProxy(
        lambda w: -part.value(w), lambda w: -part.gradient(w), hessian=lambda w: -part.hessian(w)
    )


KINDS: dict[str, Callable[[Any, int], Any]] = {
    "1 % of the rows": lambda loss, seed: rows(loss, seed, 0.01),
    "5 %": rows,
    "20 %": lambda loss, seed: rows(loss, seed, 0.2),
    "5 %, columns permuted": permuted,
    "5 %, labels flipped": flipped,
    "5 %, negated": negated,
    "5 % × 1000": lambda loss, seed: ScaledProxy(rows(loss, seed), 1e3),
    "5 % × 0.001": lambda loss, seed: ScaledProxy(rows(loss, seed), 1e-3),
}


def rounds(problem: Problem, goal: float) -> int:
    found = minimize(
        problem, method=ProxyBFGS(), steps=500, callback=lambda step: step.value <= goal
    )
    return found.ledger.target_gradients


def main() -> None:
    """Print a row for each table and kind of proxy, then the errors of all and the choices made."""
    errors: dict[str, list[float]] = {name: [] for name in ("with", "without", "L-BFGS")}
    costs: dict[str, list[float]] = {name: [] for name in CHOICES}
    for table in ("mushrooms", "a9a"):
        data = datasets.load(table)
        loss = logistic_regression(data.X, data.y, l2=L2)
        goal = loss.value(minimise_exactly(loss, loss.zeros())) + EPSILON
        true = [0.0, rounds(Problem(loss, Zero()), goal), count_lbfgs(loss, loss.zeros(), goal)]
        print(f"{table}: without a proxy {true[1]}, L-BFGS {true[2]:.0f}")
        for kind, make in KINDS.items():
            lines, used = [], 0
            for seed in range(SEEDS):
                problem = Problem(loss, make(loss, seed))
                found = audit(problem, epsilon=EPSILON)
                assert isinstance(found, RoundAudit)
                true[0] = rounds(problem, goal)
                told = (found.rounds, found.rounds_without, found.rounds_lbfgs)
                for name, guess, truth in zip(errors, told, true, strict=True):
                    errors[name].append(guess / truth)
                use = found.verdict is Verdict.USE
                picked = true[0] if use else true[1 if told[1] <= told[2] else 2]
                for name, paid in zip(CHOICES, (picked, *true), strict=True):
                    costs[name].append(paid / min(true))
                lines.append([true[0], *told])
                used += use
            middle = np.median(lines, axis=0)
            print(f"| {kind} |", " | ".join(f"{x:.0f}" for x in middle), f"| {used} of {SEEDS} |")
    for name, ratios in errors.items():
        off = np.exp(np.abs(np.log(ratios)))
        print(f"{name}: within 1.5 {np.mean(off <= 1.5):.0%}, 2 {np.mean(off <= 2):.0%}, "
              f"largest factor {off.max():.1f}")  # fmt: skip
    for name, ratios in costs.items():
        within = [f"{np.mean(np.array(ratios) <= limit):.0%}" for limit in (1.0, 1.3, 1.5)]
        print(f"{name}: within 1, 1.3 and 1.5 of the best choice {', '.join(within)}")


if __name__ == "__main__":
    main()
