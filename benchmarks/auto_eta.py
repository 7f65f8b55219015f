"""``ProxyProx(eta="auto")`` and ``SGD("auto")`` against the best of a grid of constant step sizes.

Run ``python benchmarks/auto_eta.py [--processes N] [--only TEXT] [--half fixed] [--seeds 5]``. For
every problem of :mod:`auto_cases` and K = 100, 300, 1000, the automatic step size runs
once a seed, its re-evaluations counted as target gradients. Its suboptimality after K of them is
divided by that of the best constant η × {last iterate, uniform mean}, picked afterwards with the
true loss: twelve η with a proxy, seventeen for SGD, the median over the same seeds and batches.

The best constant steps are those of the record, in which no code of ours takes part; ``--grids``
runs them anew. Every run is kept in ``benchmarks/results/auto_eta.json`` for
``--resume``. A part of the problems is only printed.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import proxyprox as pp
from auto_cases import FIXED, REPORTED, Cell, cells, cells_without_proxy
from experiments.records import write_record
from grid_runs import EXACT, ROUGH, SMALL, Grid

KS = (100, 300, 1000)
RESULTS = Path(__file__).parent / "results" / "auto_eta.json"
RECORD = Path(__file__).parents[1] / "docs/results/auto_eta/auto_eta.json"

PROXY_GRID = 4.0 ** np.arange(-5, 7)
"""Step sizes of ProxyProx, in units of 1/H."""
SGD_GRID = 0.02 * 2.2 ** np.arange(-6, 11)
AVERAGES = ("last", "mean")
FAR = 4.0
"""A seed that ends above this many times the best constant step is listed as a failure."""

METHODS = {"auto": 'ProxyProx(eta="auto")', "sgd": 'SGD("auto")'}
PARTS: dict[str, Callable[[], list[Cell]]] = {
    "grid": lambda: cells() + cells_without_proxy(),
    "auto": cells,
    "sgd": cells_without_proxy,
}

Job = tuple[str, Cell, int]
"""A part, a cell and a seed."""

SAVE_EVERY = 5.0
"""Seconds between two writes of the results."""


# -- runs ---------------------------------------------------------------------------------------


def scaled_grid(cell: Cell) -> Any:
    """Return the constant step sizes that are tried on a cell, in units of 1/H."""
    table = cell.make()
    return SGD_GRID * table.sgd_scale if cell.kind is None else PROXY_GRID * table.eta_scale


def run_grid(cell: Cell, seed: int) -> dict[str, Any]:
    """Return the suboptimality of every average and constant η at every K."""
    runs = Grid(cell.loss(), cell.proxy(seed), scaled_grid(cell) / cell.smoothness(), seed)
    found = {}
    for k in range(1, max(KS) + 1):
        runs.step()
        if k % (20 if k <= 200 else 100) == 0:
            runs.drop_lost()
        if k in KS:
            found[str(k)] = (runs.values() - cell.optimum()).tolist()
    return found


def run_auto(cell: Cell, seed: int, ks: tuple[int, ...] = KS) -> dict[str, Any]:
    """Return the suboptimality of the automatic step size at every K, and that of the start."""
    loss, problem = cell.loss(), cell.problem(seed)
    answers = dict.fromkeys(ks, loss.zeros())

    def watch(step: Any) -> None:
        answers.update({K: step.answer for K in ks if step.ledger.target_gradients <= K})

    call = {
        "method": pp.SGD("auto") if cell.kind is None else pp.ProxyProx(eta="auto"),
        "stop": pp.stopping.Residual(EXACT if loss.dim <= SMALL else ROUGH),
        "steps": max(ks),
        "budget": max(ks),
    }
    found: dict[str, Any] = {"start": float(loss.value(loss.zeros())) - cell.optimum()}
    try:
        pp.minimize(problem, loss.zeros(), rng=seed, callback=watch, **call)
    except Exception as failure:  # A rule that fails on a problem is a result, too.
        found["failure"] = repr(failure)
    for K, w in answers.items():
        found[str(K)] = float(loss.value(w)) - cell.optimum()
    return found


def run(job: Job) -> tuple[Job, dict[str, Any]]:
    """Run one job; return it with what was found."""
    part, cell, seed = job
    begun = time.perf_counter()
    with np.errstate(all="ignore"):
        found = (run_grid if part == "grid" else run_auto)(cell, seed)
    return job, {**found, "seconds": round(time.perf_counter() - begun, 2)}


def run_all(jobs: list[Job], processes: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Yield the results as they come, those of large problems first."""
    jobs = sorted(jobs, key=lambda job: -job[1].loss().dim)
    if processes == 1:
        yield from map(run, jobs)
        return
    # Forked processes share the tables and optima that are made here.
    for _, cell, _ in jobs:
        cell.optimum()
        cell.smoothness()
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap_unordered(run, jobs)


# -- what is kept -------------------------------------------------------------------------------


def load() -> dict[str, Any]:
    """Return the results by part, cell and seed."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return {part: kept.get(part, {}) for part in PARTS}


def save(kept: dict[str, Any]) -> None:
    """Write the results, in one piece."""
    RESULTS.parent.mkdir(exist_ok=True)
    unfinished = RESULTS.with_suffix(".tmp")
    unfinished.write_text(json.dumps(kept))
    unfinished.replace(RESULTS)


def fill(kept: dict[str, Any], jobs: list[Job], processes: int) -> None:
    """Run the jobs and keep what they find."""
    saved = time.monotonic()
    try:
        for done, ((part, cell, seed), found) in enumerate(run_all(jobs, processes), 1):
            kept[part].setdefault(cell.name, {})[str(seed)] = found
            note = f"{found['seconds']:.1f} s {found.get('failure', '')}".rstrip()
            print(f"{done}/{len(jobs)} {part:4} {cell.name}, seed {seed}: {note}", flush=True)
            if time.monotonic() - saved > SAVE_EVERY:
                save(kept)
                saved = time.monotonic()
    finally:
        save(kept)


# -- tables -------------------------------------------------------------------------------------


def best_constant(cell: Cell, tried: list[Any], K: str) -> dict[str, Any]:
    """Return what the best constant step size reached at K, and which it was."""
    medians = np.median([grid[K] for grid in tried], axis=0)
    medians = np.where(np.isnan(medians), np.inf, medians)
    average, j = np.unravel_index(medians.argmin(), medians.shape)
    return {
        "best_of_grid": shorten(float(medians[average, j])),
        "eta_times_H": shorten(float(scaled_grid(cell)[j])),
        "average": AVERAGES[average],
        "edge_of_grid": bool(j in (0, medians.shape[1] - 1)),
    }


def compare(
    kept: dict[str, Any], part: str, cell: Cell, seeds: int, known: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return a cell's row of the record, ``known`` is that of an earlier one; None if runs lack."""
    names = [str(seed) for seed in range(seeds)]
    tried = [kept["grid"].get(cell.name, {}).get(name) for name in names]
    runs = [kept[part].get(cell.name, {}).get(name) for name in names]
    if None in runs or (None in tried and known is None):
        return None
    start = np.array([run["start"] for run in runs])
    row: dict[str, Any] = {"half": cell.half, "failures": sum("failure" in run for run in runs)}
    for K in map(str, KS):
        steps = known[K] if known else best_constant(cell, tried, K)
        steps = {n: steps[n] for n in ("best_of_grid", "eta_times_H", "average", "edge_of_grid")}
        best = steps["best_of_grid"]
        found = np.array([run[K] for run in runs])
        found = np.where(np.isfinite(found), found, np.inf)
        row[K] = {
            **steps,
            "auto": shorten(float(np.median(found))),
            "ratio": shorten(float(np.median(found)) / best),
            "worst_ratio": shorten(float(found.max()) / best),
            "above_start": int((found > start * (1 + 1e-12)).sum()),
        }
    return row


def shorten(number: float) -> float | None:
    """Return a number to three digits; None if it is infinite, which JSON cannot say."""
    return float(f"{number:.3g}") if math.isfinite(number) else None


def summarise(rows: Iterable[dict[str, Any]], half: str, K: str, seeds: int) -> dict[str, Any]:
    """Return the figures of all cells of a half at K."""
    picked = [row[K] for row in rows if row["half"] == half]
    ratios, worst = (
        np.array([np.inf if row[key] is None else row[key] for row in picked])
        for key in ("ratio", "worst_ratio")
    )
    return {
        "half": half,
        "K": int(K),
        "cells": len(picked),
        "median_ratio": shorten(float(np.median(ratios))),
        "share_up_to_2": shorten(float((ratios <= 2).mean())),
        "worst_ratio": shorten(float(worst.max())),
        "above_start": sum(row["above_start"] for row in picked),
        "runs": len(picked) * seeds,
    }


def make_record(
    kept: dict[str, Any], wanted: Callable[[Cell], bool], seeds: int, earlier: dict[str, Any]
) -> dict[str, Any]:
    """Return the short record: figures of each half, then every cell, for both methods."""
    record: dict[str, Any] = {
        "quantity": "suboptimality after K target gradients over that of the best constant step "
        "size: median and worst over the seeds; null: infinite",
        "seeds": seeds,
        "methods": {},
    }
    for part, method in METHODS.items():
        known = earlier.get(method, {}).get("cells", {})
        compared = {
            cell.name: compare(kept, part, cell, seeds, known.get(cell.name))
            for cell in PARTS[part]()
            if wanted(cell)
        }
        rows = {name: row for name, row in compared.items() if row is not None}
        halves = [
            half for half in (FIXED, REPORTED) if any(r["half"] == half for r in rows.values())
        ]
        record["methods"][method] = {
            "incomplete": len(compared) - len(rows),
            "summary": [
                summarise(rows.values(), half, K, seeds) for half in halves for K in map(str, KS)
            ],
            "cells": rows,
        }
    return record


def halves_table(file: Path) -> str:
    """Return the figures of each half as a table in Markdown."""
    record = json.loads(file.read_text(encoding="utf-8"))
    lines = ["| method | half | K | cells | median ratio | ratio ≤ 2 | worst seed | above start |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for method, found in record["methods"].items():
        lines += [
            f"| `{method}` | {row['half']} | {row['K']} | {row['cells']} "
            f"| {show(row['median_ratio'])} | {row['share_up_to_2']:.0%} "
            f"| {show(row['worst_ratio'])} | {row['above_start']} of {row['runs']} |"
            for row in found["summary"]
        ]
    return "\n".join(lines)


def cells_table(file: Path) -> str:
    """Return every cell in Markdown: the median ratio, the worst seed's, and the best."""
    lines = []
    for method, found in json.loads(file.read_text(encoding="utf-8"))["methods"].items():
        head = " | ".join(f"K = {K}" for K in KS)
        lines.append(f"`{method}`: median ratio / worst seed. *: at the edge of the grid.\n")
        lines.append(f"| problem | half | {head} | best η·H and average |")
        lines.append(f"|---|---|{'---|' * len(KS)}---|")
        for name, row in found["cells"].items():
            at = [row[str(K)] for K in KS]
            ratios = " | ".join(
                f"{show(r['ratio'])} / {show(r['worst_ratio'])}"
                + (f", {r['above_start']} above start" if r["above_start"] else "")
                for r in at
            )
            best = "; ".join(
                f"{r['eta_times_H']:.2g}{'*' if r['edge_of_grid'] else ''} {r['average']}"
                for r in at
            )
            failures = f", {row['failures']} failed" if row["failures"] else ""
            lines.append(f"| {name}{failures} | {row['half']} | {ratios} | {best} |")
        lines.append("")
    return "\n".join(lines).rstrip()


def failures_list(file: Path) -> str:
    """Return the problems on which a seed ended above its start, or far above the best step."""
    lines = []
    for method, found in json.loads(file.read_text(encoding="utf-8"))["methods"].items():
        for name, row in found["cells"].items():
            bad = [
                f"{show(row[K]['worst_ratio'])} at K = {K}"
                + (f", {row[K]['above_start']} above the start" if row[K]["above_start"] else "")
                for K in map(str, KS)
                if row[K]["above_start"] or (row[K]["worst_ratio"] or math.inf) > FAR
            ]
            if bad:
                lines.append(f"| `{method}` | {name} | {row['half']} | {'; '.join(bad)} |")
    return "\n".join(["| method | problem | half | worst seed |", "|---|---|---|---|", *lines])


def show(ratio: float | None) -> str:
    """Return a ratio to two digits after the point, or fewer if it is large."""
    return "∞" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def main() -> None:
    """Run the automatic steps, and write the record beside the best constant ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--half", choices=(FIXED, REPORTED))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--part", choices=PARTS, help="the grids, ProxyProx or SGD; default all")
    parser.add_argument("--resume", action="store_true", help="keep runs of a call broken off")
    parser.add_argument("--summary", type=Path, default=RECORD, help="write the short record here")
    parser.add_argument("--grids", action="store_true", help="run the constant steps again, too")
    given = parser.parse_args()
    threadpool_limits(1)

    def wanted(cell: Cell) -> bool:
        return given.only in cell.name and given.half in (None, cell.half)

    kept = load() if given.resume else {part: {} for part in PARTS}
    earlier = {} if given.grids else json.loads(RECORD.read_text(encoding="utf-8"))["methods"]
    parts = [given.part] if given.part else [p for p in PARTS if p in METHODS or not earlier]
    jobs = [
        (part, cell, seed)
        for part in parts
        for cell in filter(wanted, PARTS[part]())
        for seed in range(given.seeds)
        if str(seed) not in kept[part].get(cell.name, {})
    ]
    fill(kept, jobs, given.processes)
    record = make_record(kept, wanted, given.seeds, earlier)
    for method, found in record["methods"].items():
        print(method, found["summary"], f"incomplete: {found['incomplete']}", sep="\n")
    methods = [f"src/proxyprox/methods/{name}.py" for name in ("base", "proxyprox", "sgd")]
    measures = ["src/proxyprox/stepsizes", *methods]
    if given.summary != RECORD or not (given.only or given.half or given.part):
        write_record(given.summary, record, measures=measures)


if __name__ == "__main__":
    main()
