"""Rounds of exact gradients: the default against L-BFGS, Newton, CG and DANE.

Run ``python benchmarks/rounds.py [--quick] [--only TEXT] [--output docs/results/rounds]``. A round
is one value and gradient of L at one point, the reported one included. Medians over the seeds,
which draw the proxies. Writes ``rounds.csv``, ``report.md`` and the figure.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import proxyprox as pp
import rounds_rivals as rivals
from experiments.figures import draw_panels
from experiments.records import write_record
from proxyprox._util.files import atomic_output, atomic_write_text
from proxyprox.inner.exact import find_minimum, minimise_exactly
from rounds_cases import Case, Target, cases, quadratic, text

SEEDS = 5
SEEDS_OF_TEXT = 3
LIMIT, LIMIT_OF_DANE = 600, 100
"""Rounds after which a run is given up."""

LEVELS = ("1e-2", "1e-4", "1e-6", "1e-8")
DAMPING = (1e-3, 1e-2, 1e-1, 1.0)
"""Shares of δ, the norm of ∇²h at ŵ, that are added to the metric by hand."""

MEASURES = [
    "src/proxyprox/methods/quasi_newton.py", "src/proxyprox/inner/newton.py",
    "src/proxyprox/run.py", "src/proxyprox/problems/glm.py",
]  # fmt: skip
SHARES = ("1 %", "5 %", "20 %")
OURS, DANE, NEWTON = "ours, default", 'DANE("auto")', "Newton from ŵ"


@dataclass
class Record:
    """The rounds of one method on one problem, a list for each seed."""

    table: str
    proxy: str
    method: str
    runs: list[rivals.Rounds]

    @property
    def medians(self) -> list[float]:
        return [
            statistics.median(run) for run in zip(*(r.to_levels() for r in self.runs), strict=True)
        ]


def library(target: Target, proxy: Any, settings: dict[str, Any], limit: int) -> rivals.Rounds:
    """Return the rounds of ``minimize``; nothing says where to begin."""
    rounds = rivals.Rounds(target, limit)
    problem = pp.Problem(rounds.counted_loss(), proxy)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        pp.minimize(problem, steps=limit, callback=lambda step: rounds.done, rng=0, **settings)
    return rounds


def measure(case: Case, seeds: int) -> list[Record]:
    """Return the records of every method that uses the proxy."""
    target = case.target()
    found: dict[str, list[rivals.Rounds]] = {}
    for seed in range(seeds):
        proxy = case.make(target.loss, seed)
        solvers = {NEWTON: _newton(target, proxy)} | (
            {} if case.useless else _solvers(target, proxy)
        )
        for name, solver in solvers.items():
            found.setdefault(name, []).append(rivals.rounds_of(target, LIMIT, solver))
        if not case.useless or seed == 0:
            run = library(target, proxy, {"method": pp.DANE(eta="auto")}, LIMIT_OF_DANE)
            found.setdefault(DANE, []).append(run)
        found.setdefault(OURS, []).append(library(target, proxy, {}, LIMIT))
    return [Record(case.table, case.proxy, name, runs) for name, runs in found.items()]


def best_damping(target: Target, proxy: Any, start: Any) -> Callable[[rivals.Rounds], Any]:
    """Return L-BFGS in the metric ∇²L̂(ŵ) + λI with the λ that is best in hindsight.

    Best is the least number of rounds to 1e-6 on this very draw; λ = 0 is one of the candidates.
    """
    H = proxy.hessian(start)
    delta = np.abs(np.linalg.eigvalsh(target.loss.hessian(start) - H)).max()
    solvers, unit = [], np.eye(len(H))
    for share in (0.0, *DAMPING):
        damped = SimpleNamespace(hessian=lambda w, share=share: H + share * delta * unit)
        metric = rivals.Metric(damped, start)
        solvers.append(metric.changed(start, lambda u: rivals.lbfgs(u, 50)))
    runs = [rivals.rounds_of(target, LIMIT, solver).to_levels()[2] for solver in solvers]
    return solvers[int(np.argmin(runs))]


def _newton(target: Target, proxy: Any) -> Callable[[rivals.Rounds], Any]:
    """Return Newton's method from the proxy's minimum; from 0 if the proxy has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = find_minimum(proxy, target.start)
    return rivals.newton(target.start if start is None else start)


def _solvers(target: Target, proxy: Any) -> dict[str, Callable[[rivals.Rounds], Any]]:
    """Return the rivals that begin at the proxy's minimum."""
    start = minimise_exactly(proxy, target.start, tol=1e-9)
    found = {}
    if case_is_quadratic := target is quadratic():
        start = target.start
    else:
        for memory in (10, 50):
            found[f"L-BFGS ({memory}) from ŵ"] = rivals.lbfgs(start, memory)
    if target is text() and proxy.design.rows > 2000:
        return found
    metric = rivals.Metric(proxy, start)
    found["L-BFGS (50) in the proxy's metric from ŵ"] = metric.changed(
        start, lambda u: rivals.lbfgs(u, 50)
    )
    if len(target.start) <= rivals.DENSE:
        found["L-BFGS (50) in the proxy's metric, best λ, from ŵ"] = best_damping(
            target, proxy, start
        )
    if case_is_quadratic:
        found["CG, proxy's Hessian"] = rivals.linear_pcg(start, metric)
    else:
        found["nonlinear CG, proxy's Hessian, from ŵ"] = metric.changed(start, rivals.nonlinear_cg)
        found["Newton-CG, proxy's Hessian, from ŵ"] = rivals.newton_pcg(start, metric)
    return found


def measure_alone(target: Target, table: str) -> list[Record]:
    """Return the records of the rivals without a proxy, from 0."""
    solvers = {
        "L-BFGS (10) from 0": rivals.lbfgs(target.start, 10),
        "L-BFGS (50) from 0": rivals.lbfgs(target.start, 50),
        "Newton from 0": rivals.newton(target.start),
    }
    return [
        Record(table, "none", name, [rivals.rounds_of(target, LIMIT, solver)])
        for name, solver in solvers.items()
    ]


def shown(count: float) -> str:
    return f"{count:.0f}" if math.isfinite(count) else "–"


def slashed(counts: Iterable[float]) -> str:
    return "/".join(shown(count) for count in counts)


def rounds_tables(records: list[Record]) -> str:
    """Return a table for each target: methods down, proxies across."""
    parts = []
    for table in dict.fromkeys(record.table for record in records):
        here = [record for record in records if record.table == table]
        proxies = list(dict.fromkeys(r.proxy for r in here))
        cells = {(r.method, r.proxy): slashed(r.medians) for r in here}
        head = ["method", *proxies]
        lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
        for method in dict.fromkeys(r.method for r in here):
            row = [cells.get((method, proxy), "") for proxy in proxies]
            lines.append(f"| {method} | {' | '.join(row)} |")
        parts.append(f"### {table}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def small_table(record: Path) -> str:
    """Return the median rounds to 1e-6 on two tables, for the page."""
    with record.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    problems = [(table, share) for table in ("mushrooms", "a9a") for share in SHARES]
    head = [f"{table}, {share}" for table, share in problems]
    rows = [["", *head], ["---"] * (len(head) + 1)]
    for method in dict.fromkeys(line["method"] for line in lines if line["table"] == "a9a"):
        row = [method]
        for table, share in problems:
            counts = [
                float(line["1e-6"]) if line["1e-6"] != "–" else math.inf
                for line in lines
                if (line["table"], line["method"]) == (table, method)
                and line["proxy"] in ("none", share)
            ]
            middle = statistics.median(counts)
            row.append(f"{middle:g}" if math.isfinite(middle) else "–")
        rows.append(row)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_all(output: Path, records: list[Record], command: str) -> None:
    """Write the counts of every seed, the tables and the figures."""
    output.mkdir(parents=True, exist_ok=True)
    lines = [
        {"table": r.table, "proxy": r.proxy, "method": r.method, "seed": seed}
        | dict(zip(LEVELS, map(shown, run.to_levels()), strict=True))
        for r in records
        for seed, run in enumerate(r.runs)
    ]
    write_record(output / "rounds.csv", lines, measures=MEASURES)
    page = PAGE.format(command=command, rounds=rounds_tables(records))
    atomic_write_text(output / "report.md", page)
    labels = {"rounds": "rounds"}
    figure = draw_panels(list(rounds_curves(records)), x="rounds", log_x=True, labels=labels)
    with atomic_output(output / "figure_rounds.png") as file:
        figure.savefig(file, format="png", dpi=160)


PAGE = """# Rounds: a recorded run

`{command}`. Medians over the seeds.

## Rounds until L − L* ≤ 1e-2/1e-4/1e-6/1e-8

A round is one value and gradient of L at one point, or one product with its Hessian. ŵ is the
proxy's minimum; what finding it costs on the proxy is not counted. "–" was not reached within 600
rounds (DANE: 100). Quadratics: relative to the start, w = 0.

![Suboptimality against rounds](figure_rounds.png)

{rounds}"""

DRAWN = (
    "L-BFGS (10) from 0", "L-BFGS (50) from 0", "L-BFGS (50) from ŵ",
    "nonlinear CG, proxy's Hessian, from ŵ", DANE, OURS,
)  # fmt: skip
"""The methods of the figure of rounds, with proxies of 5 %."""


def rounds_curves(records: list[Record]) -> Iterable[dict[str, Any]]:
    """Yield the medians and quartiles of the least suboptimality so far."""
    tables = {record.table for record in records if record.proxy == "5 %"}
    for name in DRAWN:
        for record in records:
            drawn = record.table in tables and record.proxy in ("none", "5 %")
            if record.method != name or not drawn:
                continue
            length = max(len(run.gaps) for run in record.runs)
            lowest = np.array([_padded(run.gaps, length) for run in record.runs])
            low, middle, high = np.quantile(lowest, (0.25, 0.5, 0.75), axis=0)
            for k in range(length):
                yield {
                    "panel": f"{record.table}, proxy of 5 %", "method": name, "rounds": k + 1,
                    "suboptimality_median": middle[k], "suboptimality_q25": low[k],
                    "suboptimality_q75": high[k],
                }  # fmt: skip


def _padded(gaps: list[float], length: int) -> Any:
    lowest = np.minimum.accumulate(np.maximum(gaps, 3e-9))
    return np.concatenate([lowest, np.full(length - len(lowest), lowest[-1])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, two tables")
    parser.add_argument("--only", default="", help="targets whose name contains this")
    parser.add_argument("--output", type=Path, help="folder of the record")
    given = parser.parse_args()
    seeds = 1 if given.quick else SEEDS
    begun = time.perf_counter()
    records: list[Record] = []
    with threadpool_limits(1):
        seen = set()
        for case in cases():
            target = case.target()
            if given.only not in target.name or (given.quick and target.name not in QUICK):
                continue
            if case.table not in seen:
                records += measure_alone(target, case.table)
                seen.add(case.table)
            print(
                f"{time.perf_counter() - begun:4.0f} s  {case.table}, {case.proxy}", file=sys.stderr
            )
            records += measure(case, min(seeds, SEEDS_OF_TEXT) if target is text() else seeds)
    print(rounds_tables(records))
    print(f"{time.perf_counter() - begun:.0f} s")
    if given.output is not None:
        quick = " --quick" if given.quick else ""
        command = f"python benchmarks/rounds.py{quick} --output docs/results/rounds"
        write_all(given.output, records, command)


QUICK = ("mushrooms", "quadratic")

if __name__ == "__main__":
    main()
