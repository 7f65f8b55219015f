"""Rounds and fine calls: the default for exact gradients against L-BFGS, Newton, CG and DANE.

Run ``python benchmarks/rounds.py [--quick] [--only TEXT] [--output docs/results/rounds]``. A round
is one value and gradient of L at one point, the reported one included; a fine call is one
evaluation of a fine model, those of finite differences included. Medians over the seeds, which
draw the proxies. Writes ``rounds.csv``, ``simulators.csv``, ``report.md`` and the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize
from threadpoolctl import threadpool_limits

import proxyprox as pp
import rounds_rivals as rivals
from experiments.figures import draw_panels
from experiments.simulators import SIMULATORS, Simulator
from proxyprox._util.files import atomic_output, atomic_write_text
from proxyprox.inner.exact import minimise_exactly
from rounds_cases import Case, Target, cases, quadratic, text

SEEDS = 5
SEEDS_OF_TEXT = 3
LIMIT, LIMIT_OF_DANE = 600, 100
"""Rounds after which a run is given up."""

CALLS = 600
CLOSER = 1e-4
"""Share of the least loss above it to which simulators' calls are counted, too."""

SHARES = ("1 %", "5 %", "20 %")
OURS, DANE = "ours, default", 'DANE("auto")'


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
        for name, solver in {} if case.useless else _solvers(target, proxy).items():
            found.setdefault(name, []).append(rivals.rounds_of(target, LIMIT, solver))
        if not case.useless or seed == 0:
            run = library(target, proxy, {"method": pp.DANE(eta="auto")}, LIMIT_OF_DANE)
            found.setdefault(DANE, []).append(run)
        found.setdefault(OURS, []).append(library(target, proxy, {}, LIMIT))
    return [Record(case.table, case.proxy, name, runs) for name, runs in found.items()]


def _solvers(target: Target, proxy: Any) -> dict[str, Callable[[rivals.Rounds], Any]]:
    """Return the rivals that begin at the proxy's minimum."""
    start = minimise_exactly(proxy, target.start, tol=1e-9)
    found = {}
    if case_is_quadratic := target is quadratic():
        start = target.start
    else:
        for memory in (10, 50):
            found[f"L-BFGS ({memory}) from ŵ"] = rivals.lbfgs(start, memory)
        found["Newton from ŵ"] = rivals.newton(start)
    if target is text() and proxy.design.rows > 2000:
        return found
    metric = rivals.Metric(proxy, start)
    found["L-BFGS (50) in the proxy's metric from ŵ"] = metric.changed(
        start, lambda u: rivals.lbfgs(u, 50)
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


@dataclass
class Fit:
    """The fine calls of one solver on one simulator."""

    simulator: str
    method: str
    calls: rivals.Calls
    optimum: float
    enough: float
    closer: float


def fit_values(fit: Simulator, calls: rivals.Calls) -> pp.Problem:
    """Return the problem of two plain functions."""
    return pp.Problem(calls.loss, fit.coarse)


def fit_residuals(fit: Simulator, calls: rivals.Calls) -> pp.Problem:
    """Return the problem of both models' residuals; gradients mostly by secants."""
    return pp.Problem(pp.LeastSquares(calls.residuals), pp.LeastSquares(fit.coarse_residuals))


def fit_by_differences(fit: Simulator, calls: rivals.Calls) -> pp.Problem:
    """Return the problem of both models' residuals, every Jacobian by differences."""
    fine = pp.LeastSquares(calls.residuals, jacobian="2-point")
    return pp.Problem(fine, pp.LeastSquares(fit.coarse_residuals))


FITS: dict[str, Callable[[Simulator, rivals.Calls], pp.Problem]] = {
    "ours, values": fit_values,
    "ours, residuals": fit_residuals,
    "ours, residuals by differences": fit_by_differences,
}


def library_fit(
    fit: Simulator, make: Callable[[Simulator, rivals.Calls], pp.Problem]
) -> Callable[[rivals.Calls], Any]:
    """Return ``minimize`` from the user's start."""
    return lambda calls: pp.minimize(
        make(fit, calls), fit.w0, steps=CALLS, callback=lambda step: calls.done, rng=0
    )


def measure_simulator(fit: Simulator) -> list[Fit]:
    """Return the fine calls of SciPy's solvers from both starts, and of ours from the user's."""
    tight = {"xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-14}
    best = scipy.optimize.least_squares(fit.fine_residuals, fit.w0, **tight)
    hat = scipy.optimize.least_squares(fit.coarse_residuals, fit.w0, **tight).x
    solvers = {name: library_fit(fit, make) for name, make in FITS.items()}
    for name, start in (("user's start", fit.w0), ("coarse minimum", hat)):
        for method, solver in rivals.simulator_rivals(start).items():
            solvers[f"{method}, {name}"] = solver
    closer = best.cost * (1 + CLOSER)
    found = []
    for name, solver in solvers.items():
        calls = rivals.Calls(fit.fine_residuals, closer, CALLS, ends=name not in FITS)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(rivals.Reached, pp.OracleError):
                solver(calls)
        found.append(Fit(fit.name, name, calls, best.cost, fit.enough, closer))
    return found


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


def simulators_table(fits: list[Fit]) -> str:
    """Return the calls to one per cent of the least loss, and to 1e-4 of it."""
    names = list(dict.fromkeys(fit.simulator for fit in fits))
    cells = {
        (fit.method, fit.simulator): slashed(map(fit.calls.until, (fit.enough, fit.closer)))
        for fit in fits
    }
    lines = [f"| method | {' | '.join(names)} |", "|" + "---|" * (len(names) + 1)]
    for method in dict.fromkeys(fit.method for fit in fits):
        row = [cells.get((method, name), "") for name in names]
        lines.append(f"| {method} | {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


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


def write_csv(path: Path, head: list[str], rows: Iterable[list[Any]]) -> None:
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([head, *rows])
    atomic_write_text(path, table.getvalue())


def save_png(path: Path, figure: Any) -> None:
    with atomic_output(path) as file:
        figure.savefig(file, format="png", dpi=160)


def write_record(output: Path, records: list[Record], fits: list[Fit], command: str) -> None:
    """Write the counts of every seed, the tables and the figures."""
    output.mkdir(parents=True, exist_ok=True)
    levels = ["1e-2", "1e-4", "1e-6", "1e-8"]
    write_csv(
        output / "rounds.csv",
        ["table", "proxy", "method", "seed", *levels],
        (
            [r.table, r.proxy, r.method, seed, *map(shown, run.to_levels())]
            for r in records
            for seed, run in enumerate(r.runs)
        ),
    )
    write_csv(
        output / "simulators.csv",
        ["simulator", "method", "least_loss", "enough", "calls", "closer", "calls_closer"],
        (
            [
                f.simulator, f.method, f"{f.optimum:.6g}", f"{f.enough:.6g}",
                shown(f.calls.until(f.enough)), f"{f.closer:.6g}", shown(f.calls.until(f.closer)),
            ]
            for f in fits
        ),
    )  # fmt: skip
    page = PAGE.format(command=command, rounds=rounds_tables(records), fits=simulators_table(fits))
    atomic_write_text(output / "report.md", page)
    if records:
        labels = {"rounds": "rounds"}
        figure = draw_panels(list(rounds_curves(records)), x="rounds", log_x=True, labels=labels)
        save_png(output / "figure_rounds.png", figure)
    if fits:
        labels = {"calls": "fine calls", "excess": "loss over the least loss − 1"}
        figure = draw_panels(
            list(calls_curves(fits)), metric="excess", x="calls", log_x=True, labels=labels
        )
        save_png(output / "figure_fine_calls.png", figure)


PAGE = """# Rounds and fine calls: a recorded run

`{command}`. Medians over the seeds.

## Rounds until L − L* ≤ 1e-2/1e-4/1e-6/1e-8

A round is one value and gradient of L at one point, or one product with its Hessian. ŵ is the
proxy's minimum; what finding it costs on the proxy is not counted. "–" was not reached within 600
rounds (DANE: 100). Quadratics: relative to the start, w = 0.

![Suboptimality against rounds](figure_rounds.png)

{rounds}
## Fine calls of simulators, until one per cent above the least loss / 1e-4 above it

Evaluations of the fine model, those of finite differences included.

![Loss against fine calls](figure_fine_calls.png)

{fits}"""

DRAWN = (
    "L-BFGS (10) from 0", "L-BFGS (50) from 0", "L-BFGS (50) from ŵ",
    "nonlinear CG, proxy's Hessian, from ŵ", DANE, OURS,
)  # fmt: skip
"""The methods of the figure of rounds, with proxies of 5 %."""

DRAWN_FITS = (
    "BFGS, user's start", "BFGS, coarse minimum", "least_squares trf, user's start",
    "least_squares trf, coarse minimum", *FITS,
)  # fmt: skip


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


def calls_curves(fits: list[Fit]) -> Iterable[dict[str, Any]]:
    for fit in (fit for name in DRAWN_FITS for fit in fits if fit.method == name):
        for k, loss in enumerate(np.minimum.accumulate(fit.calls.losses)):
            excess = max(float(loss) / fit.optimum - 1, CLOSER / 10)
            found = dict.fromkeys(("excess_median", "excess_q25", "excess_q75"), excess)
            yield {"panel": fit.simulator, "method": fit.method, "calls": k + 1, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, two tables, one simulator")
    parser.add_argument(
        "--only", default="", help="targets and simulators whose name contains this"
    )
    parser.add_argument("--output", type=Path, help="folder of the record")
    given = parser.parse_args()
    seeds = 1 if given.quick else SEEDS
    begun = time.perf_counter()
    records: list[Record] = []
    fits: list[Fit] = []
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
        for make in SIMULATORS[: 1 if given.quick else None]:
            if given.only in make().name:
                fits += measure_simulator(make())
    print(rounds_tables(records))
    print(simulators_table(fits))
    print(f"{time.perf_counter() - begun:.0f} s")
    if given.output is not None:
        quick = " --quick" if given.quick else ""
        command = f"python benchmarks/rounds.py{quick} --output docs/results/rounds"
        write_record(given.output, records, fits, command)


QUICK = ("mushrooms", "quadratic")

if __name__ == "__main__":
    main()
