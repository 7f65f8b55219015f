"""Audits of targets given as plain functions, noisy and kinked, against tuned runs.

    python benchmarks/audit_functions.py [--part made] [--again]

For every target, batch size and proxy: SGD and ProxyProx (subproblems solved) with each step size
of a grid, four seeds; the fewest target gradients until the mean suboptimality is ε for the last
iterate or for the mean of all. Right: the choice that the verdict makes needs at most 1.5 times
those of the best choice. Unsure counts as neither; of the plans it is told how far above what they
expect their runs end. What tuned runs need is taken from the record if that has it: no code of the
library takes part in it. With it two minutes are enough on one core, without it six.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import proxyprox as pp
from audit_function_cases import BATCHES, MADE_ON, NOT_USED, Rows, proxies, target
from audit_verdicts import OPTIONS, SLACK, beside_trivial_rules, lines_of
from experiments.records import write_record
from proxyprox.diagnostics.audit import audit, plan
from proxyprox.diagnostics.report import Verdict

RECORD = Path(__file__).parents[1] / "docs/results/audit/functions.json"
SHARES, CAP = (0.05, 0.01), 1000
RUNS, AUDITS = 4, 2
MARKS = set(np.round(np.geomspace(1, CAP, 110)).astype(int).tolist())


def solved(loss: Rows, M: Any, C: Any, etas: Any, most: int = 5) -> Any:
    """Minimise loss + ⟨m, ·⟩ + ‖· − c‖²/(2η) by damped Newton steps, column by column."""

    def phi(W: Any) -> Any:
        return loss.value(W) + (M * W).sum(axis=0) + ((W - C) ** 2).sum(axis=0) / (2 * etas)

    W, F = C.copy(), phi(C)
    for _ in range(most):
        G = loss.gradient(W) + M + (W - C) / etas
        share = np.where(np.linalg.norm(G, axis=0) > 1e-8, 1.0, 0.0)
        if not share.any():
            break
        curved = loss.hessians(W) + np.eye(len(W)) / etas[:, None, None]
        S = -np.linalg.solve(curved, G.T[:, :, None])[:, :, 0].T
        for _ in range(25):
            V = W + share * S
            bad = (share > 0) & ~(phi(V) <= F + 1e-4 * share * (S * G).sum(axis=0) + 1e-14)
            if not bad.any():
                break
            share = np.where(bad, share / 2, share)
        V = W + np.where(bad, 0.0, share) * S
        W, F = V, phi(V)
    return W


def needed(goal: Rows, proxy: Rows | None, batch: int, best: float, gap: float) -> dict[str, float]:
    """Return the target gradients to each ε with the best step size (None proxy: SGD)."""
    bent = float(goal.shape(np.linspace(-3, 3, 6001), np.ones(6001))[2].max())
    H = bent * float(np.linalg.eigvalsh(goal.X.T @ goal.X / len(goal.X))[-1])
    grid = 2.0 ** np.arange(-5, 9) if proxy is None else 0.05 * 4.0 ** np.arange(10)
    if proxy is not None and proxy.scale < 0:
        # Beyond 1/H the subproblem has no minimiser.
        grid = np.geomspace(0.03, 0.9, 4)
    etas = np.repeat(grid / H, RUNS)
    draws = [np.random.default_rng([seed, 77]) for seed in range(RUNS)]
    W = mean = np.zeros((goal.X.shape[1], len(etas)))
    record = {f"{share:g}": math.inf for share in SHARES}
    for k in range(1, CAP + 1):
        G = np.empty_like(W)
        for run, rng in enumerate(draws):
            G[:, run::RUNS] = goal.gradient(W[:, run::RUNS], rng.integers(len(goal.X), size=batch))
        W = W - etas * G if proxy is None else solved(proxy, G - proxy.gradient(W), W, etas)
        W = np.clip(np.nan_to_num(W), -1e6, 1e6)
        mean = mean + (W - mean) / k
        if k not in MARKS:
            continue
        left = min((goal.value(M) - best).reshape(-1, RUNS).mean(axis=1).min() for M in (W, mean))
        for key in record:
            if left <= float(key) * gap:
                record[key] = min(record[key], k)
        if max(record.values()) <= CAP:
            break
    return record


def judged(found: Any, truth: dict[str, float]) -> str:
    """Return "right", "wrong", "unsure", "alarm", or "unresolved" if nothing arrives."""
    if found.alarm:
        return "alarm"
    if found.verdict is Verdict.UNSURE:
        return "unsure"
    least = min(truth.values())
    if math.isinf(least):
        return "unresolved"
    return "right" if truth[OPTIONS[found.verdict.name]] <= SLACK * least else "wrong"


def ended(found: Any, goal: Rows, best: float) -> tuple[bool, float]:
    """Return whether the plan is rough, and its runs' suboptimality in units of that expected."""
    planned = plan(found, budget=2 * CAP)
    ends = [pp.minimize(planned.problem, **planned.arguments, rng=90 + s).w for s in range(2)]
    return planned.rough, float(np.mean([goal.value(w) - best for w in ends]) / planned.expected)


def truths(goal: Rows, batch: int, best: float, gap: float) -> dict[Any, dict[str, float]]:
    """Return the target gradients that each choice needs, by proxy and accuracy."""
    offers = proxies(goal)
    runs = {key: needed(goal, proxy, batch, best, gap) for key, proxy in offers.items()}
    sgd = needed(goal, None, batch, best, gap)
    size = {key: "10 % of the rows" if "×" in key else key for key in offers}
    return {
        (key, share): {"sgd": sgd[share], "plain": runs[key][share],
                       "scaled": runs[size[key]][share]}
        for key in offers for share in sgd
    }  # fmt: skip


def records(name: str, batch: int, known: dict[Any, dict[str, float]]) -> list[dict[str, Any]]:
    """Return what audits say and runs show, for one target and batch size."""
    goal, found = target(name), []
    zero = np.zeros((goal.X.shape[1], 1))
    best = float(goal.value(solved(goal, zero, zero, np.array([1e9]), 300))[0])
    gap = float(goal.value(zero)[0]) - best
    known = known or truths(goal, batch, best, gap)
    for key, proxy in proxies(goal).items():
        for share in (f"{share:g}" for share in SHARES):
            truth = known[key, share]
            for seed in range(AUDITS):
                problem = pp.Problem(goal.objective(batch), proxy.proxy())
                told = audit(problem, zero[:, 0], epsilon=float(share) * gap, rng=seed)
                line = {
                    "target": name, "batch": batch, "proxy": key, "share": share, "seed": seed,
                    "verdict": told.verdict.name, "leaning": told.leaning.name, "truth": truth,
                    "judged": judged(told, truth), "points": len(told.points),
                    "delta/H": told.delta.estimate / told.H.estimate,
                    "unsure": told.verdict is Verdict.UNSURE,
                }  # fmt: skip
                if not told.alarm and share == "0.01":
                    line["rough"], line["ended"] = ended(told, goal, best)
                found.append(line)
    return found


def report(lines: list[dict[str, Any]]) -> None:
    """Print the counts."""
    for batch in BATCHES:
        part = [line for line in lines if line["batch"] == batch]
        print(f"batches of {batch}: {dict(Counter(line['judged'] for line in part))}")
        for rough in (False, True):
            ends = [line["ended"] for line in part if line.get("rough") is rough]
            if ends:
                far = sum(end > 3 for end in ends)
                print(
                    f"  plans {'rough' if rough else 'not rough'}: {len(ends)}, ended at "
                    f"{np.median(ends):.2g} (median) of what they expected, {far} above 3"
                )


def unused_table(file: Path) -> str:
    """Return how audits of each batch size were judged, and plans by their mark."""
    lines = lines_of(file)
    rows = [
        "| batches | audits | right | wrong | unsure | of them leaning right |",
        "|" + "---|" * 6,
    ]
    for batch in BATCHES:
        part = [line for line in lines if line["batch"] == batch]
        counts = Counter(line["judged"] for line in part)
        leaning = sum(
            line["truth"][OPTIONS[line["leaning"]]] <= SLACK * min(line["truth"].values())
            for line in part
            if line["judged"] == "unsure"
        )
        names = ("right", "wrong", "unsure")
        cells = [batch, len(part), *(counts[name] for name in names), leaning]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    rows += ["", "| plans | number | ended above 3 |", "|---|---|---|"]
    for name, rough in {"not marked as rough": False, "marked as rough": True}.items():
        ends = [line["ended"] for line in lines if line.get("rough") is rough]
        # A run that left all numbers behind has no end.
        far = sum(end is None or end > 3 for end in ends)
        rows.append(f"| {name} | {len(ends)} | {far} |")
    return "\n".join(rows)


def verdict_words(file: Path) -> str:
    """Return how many of the audits were right, wrong and unsure."""
    counts = Counter(line["judged"] for line in json.loads(file.read_text(encoding="utf-8")))
    right, wrong, unsure = (counts[name] for name in ("right", "wrong", "unsure"))
    return f"{right} of {sum(counts.values())} audits were right, {wrong} wrong, {unsure} unsure"


def plan_words(file: Path) -> str:
    """Return how many plans that are not marked as rough ended far above what they expect."""
    lines = json.loads(file.read_text(encoding="utf-8"))
    ends = [line["ended"] for line in lines if line.get("rough") is False]
    return f"{sum(end is None or end > 3 for end in ends)} of {len(ends)}"


def rules_table(file: Path) -> str:
    """Return the audit beside trivial rules."""
    rows = ["| rule | right | wrong | unsure | steps against the best choice |", "|" + "---|" * 5]
    for rule, found in beside_trivial_rules(lines_of(file)).items():
        counts = f"{found['right']} | {found['wrong']} | {found['unsure']}"
        rows.append(f"| {rule} | {counts} | {found['steps']:.2f} |")
    return "\n".join(rows)


def main() -> None:
    """Judge one part of the targets."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=("made", "unused"), default="unused")
    parser.add_argument("--again", action="store_true", help="Run what tuned methods need, too.")
    chosen = parser.parse_args()
    lines, earlier = [], [] if chosen.again else lines_of(RECORD)
    for name in MADE_ON if chosen.part == "made" else NOT_USED:
        for batch in BATCHES:
            known = {
                (line["proxy"], line["share"]): line["truth"]
                for line in earlier
                if (line["target"], line["batch"]) == (name, batch)
            }
            lines += records(name, batch, known)
            last = [line for line in lines if (line["target"], line["batch"]) == (name, batch)]
            print(name, batch, dict(Counter(line["judged"] for line in last)), flush=True)
    report(lines)
    beside = beside_trivial_rules(lines)
    print(json.dumps(beside, indent=1, ensure_ascii=False))
    if chosen.part == "unused":
        write_record(RECORD, lines, measures=["src/proxyprox/diagnostics"])


if __name__ == "__main__":
    main()
