"""How many rounds an audit of exact gradients predicts, and how many it then takes.

    PROXYPROX_DATA=... python benchmarks/audit_rounds.py --output docs/results/audit/rounds.json

Mushrooms and a9a, logistic loss, l2 = 1e-5, to L − L* ≤ 1e-6; medians of five proxies of a kind.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize

from experiments import datasets
from experiments.records import write_record
from proxyprox import FunctionProxy, Problem, ProxyBFGS, audit, logistic_regression, minimize
from proxyprox.diagnostics.report import RoundAudit, Verdict
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


def lbfgs(loss: Any, goal: float) -> float:
    """Return the gradients that SciPy's L-BFGS, with ten pairs, takes."""
    found = scipy.optimize.minimize(
        lambda w: (loss.value(w), loss.gradient(w)), loss.zeros(), jac=True, method="L-BFGS-B",
        callback=lambda intermediate_result: stop_at(intermediate_result.fun, goal),
        options={"maxcor": 10, "maxfun": 1000, "maxiter": 1000, "ftol": 0.0, "gtol": 0.0},
    )  # fmt: skip
    return float(found.nfev)


def stop_at(value: float, goal: float) -> None:
    if value <= goal:
        raise StopIteration


def within(ratios: list[float], limit: float) -> float:
    off = np.exp(np.abs(np.log(ratios)))
    return float(np.mean(off <= limit))


def rounds_table(file: Path) -> str:
    """Return the table of the documentation."""
    record = json.loads(file.read_text(encoding="utf-8"))
    lines = [
        "| table | proxy | rounds taken | predicted | without, predicted | advised |",
        "|---|---|---|---|---|---|",
    ]
    for table, cases in record["tables"].items():
        for kind, case in cases["proxies"].items():
            counts = (f"{case[name]:.0f}" for name in ("took", "predicted", "without"))
            lines.append(
                f"| {table} | {kind} | {' | '.join(counts)} | {case['advised']} of {SEEDS} |"
            )
    return "\n".join(lines)


def rounds_words(file: Path) -> str:
    """Return how far predictions were off, and what following the audit costs."""
    record = json.loads(file.read_text(encoding="utf-8"))
    own, without = record["within"]["with"], record["within"]["without"]
    audits, always = (record["choices"][name]["1.3"] for name in CHOICES[:2])
    return (
        f"Predictions with the proxy are right within a factor of 1.5 in {own['1.5']:.0%}, within "
        f"2 in {own['2']:.0%}, the worst is off by {own['worst']:.1f}; without it within 2 in "
        f"{without['2']:.0%}, the worst by {without['worst']:.1f}. The audit's advice was within "
        f"1.3 of the best choice in {audits:.0%} of the cases, *always use the proxy* in "
        f"{always:.0%}"
    )


def main() -> None:
    """Write a row for each table and kind of proxy, the errors of all and the choices made."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, help="Where to keep the record.")
    output = parser.parse_args().output
    errors: dict[str, list[float]] = {name: [] for name in ("with", "without")}
    costs: dict[str, list[float]] = {name: [] for name in CHOICES}
    tables: dict[str, Any] = {}
    for table in ("mushrooms", "a9a"):
        data = datasets.load(table)
        loss = logistic_regression(data.X, data.y, l2=L2)
        goal = loss.value(minimise_exactly(loss, loss.zeros())) + EPSILON
        without, rival = rounds(Problem(loss, Zero()), goal), lbfgs(loss, goal)
        tables[table] = {"without": without, "SciPy": rival, "proxies": {}}
        for kind, make in KINDS.items():
            lines, used = [], 0
            for seed in range(SEEDS):
                problem = Problem(loss, make(loss, seed))
                found = audit(problem, epsilon=EPSILON)
                assert isinstance(found, RoundAudit)
                took = rounds(problem, goal)
                errors["with"].append(found.rounds / took)
                errors["without"].append(found.rounds_without / without)
                use = found.verdict is Verdict.USE
                for name, paid in zip(
                    CHOICES, (took if use else without, took, without, rival), strict=True
                ):
                    costs[name].append(paid / min(took, without, rival))
                lines.append([took, found.rounds, found.rounds_without])
                used += use
            middle = [float(x) for x in np.median(lines, axis=0)]
            names = ("took", "predicted", "without")
            tables[table]["proxies"][kind] = dict(zip(names, middle, strict=True), advised=used)
            print(table, kind, middle, used, flush=True)
    record = {
        "tables": tables,
        "within": {
            name: {
                "1.5": within(ratios, 1.5), "2": within(ratios, 2.0),
                "worst": float(np.exp(np.abs(np.log(ratios))).max()),
            }
            for name, ratios in errors.items()
        },
        "choices": {
            name: {str(limit): float(np.mean(np.array(r) <= limit)) for limit in (1.0, 1.3, 1.5)}
            for name, r in costs.items()
        },
    }  # fmt: skip
    print(record["within"], record["choices"], sep="\n")
    if output is not None:
        write_record(output, record, measures=["src/proxyprox/diagnostics"])


if __name__ == "__main__":
    main()
