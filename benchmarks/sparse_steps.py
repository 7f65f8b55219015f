"""``eta="auto"`` on sparse rows and wide means, in batches of 1 to 8, against constant steps.

Run ``python benchmarks/sparse_steps.py [--half fixed] [--part sgd] [--only TEXT] [--json FILE]
[--grids]``. For every problem of :mod:`sparse_cases` the automatic step size runs once a seed
(eight seeds), with the proxy or without, its re-evaluations counted as target gradients. Two things
count: no run ends above its start, and the worst seed's suboptimality after 300 target gradients,
divided by that of the best constant η × {last iterate, mean}, picked afterwards with the true loss,
the median of four of the seeds.

Grids do not depend on the rule: the best constant steps are taken from the record. ``--resume``
keeps the problems that a call broken off had finished.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from auto_cases import FIXED, REPORTED, Cell
from auto_eta import AVERAGES, METHODS, SGD_GRID, run_auto, shorten, show
from experiments.records import write_record
from grid_runs import Grid
from sparse_cases import cells

K, SEEDS, GRID_SEEDS = 300, 8, 4
PROXY_GRID = 4.0 ** np.arange(-5, 3)
RECORD = Path(__file__).parents[1] / "docs/results/auto_eta/sparse_steps.json"
GRIDS = Path(__file__).parent / "results" / "sparse_grids.json"
RUNS = Path(__file__).parent / "results" / "sparse_runs.json"

LIMIT = 4.0
"""What the worst seed's ratio should stay below."""


def problems(part: str) -> list[Cell]:
    """Return every problem with its proxy, or every target once without."""
    if part == "auto":
        return cells()
    return list(dict.fromkeys(replace(cell, kind=None) for cell in cells()))


def grid_of(cell: Cell) -> Any:
    """Return the constant step sizes that are tried, in units of 1/H."""
    table = cell.make()
    return SGD_GRID * table.sgd_scale if cell.kind is None else PROXY_GRID * table.eta_scale


def run_grid(cell: Cell) -> list[Any]:
    """Return the suboptimality of every average and constant η, for each seed."""
    found = []
    for seed in range(GRID_SEEDS):
        runs = Grid(cell.loss(), cell.proxy(seed), grid_of(cell) / cell.smoothness(), seed)
        for k in range(1, K + 1):
            runs.step()
            if k % 20 == 0:
                runs.drop_lost()
        found.append((runs.values() - cell.optimum()).tolist())
    return found


def best_constant(cell: Cell, tried: list[Any]) -> dict[str, Any]:
    """Return what the best constant step size reached, and which it was."""
    medians = np.median(tried, axis=0)
    medians = np.where(np.isnan(medians), np.inf, medians)
    average, j = np.unravel_index(medians.argmin(), medians.shape)
    return {
        "best_of_grid": shorten(float(medians[average, j])),
        "eta_times_H": shorten(float(grid_of(cell)[j])),
        "average": AVERAGES[average],
        "edge_of_grid": bool(j in (0, medians.shape[1] - 1)),
    }


def compare(cell: Cell, known: dict[str, Any], runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a problem's row of the record."""
    best, start = known["best_of_grid"], runs[0]["start"]
    found = np.array([run[str(K)] for run in runs])
    found = np.where(np.isfinite(found), found, np.inf)
    return {
        "half": cell.half,
        "start": shorten(start),
        **known,
        "ratio": shorten(float(np.median(found)) / best),
        "worst_ratio": shorten(float(found.max()) / best),
        "above_start": int((found > start * (1 + 1e-12)).sum()),
        "failures": sum("failure" in run for run in runs),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of some problems together."""
    ratio, worst = (
        np.array([np.inf if row[key] is None else row[key] for row in rows])
        for key in ("ratio", "worst_ratio")
    )
    return {
        "problems": len(rows),
        "runs": len(rows) * SEEDS,
        "above_start": sum(row["above_start"] for row in rows),
        "median_ratio": shorten(float(np.median(ratio))),
        "worst_seed": shorten(float(worst.max())),
        "worst_seed_within_limit": int((worst <= LIMIT).sum()),
    }


def sparse_table(file: Path) -> str:
    """Return the figures of all problems together, and each problem."""
    lines = []
    for found in json.loads(file.read_text(encoding="utf-8"))["methods"].values():
        lines += [
            f"{figures['problems']} problems: {figures['above_start']} of {figures['runs']} "
            f"runs end above their start, the median ratio is {figures['median_ratio']:.2f}, "
            f"the worst seed is within {LIMIT:g} on {figures['worst_seed_within_limit']}."
            for figures in found["summary"].values()
        ]
        lines += ["", "| problem | median ratio | worst seed | above start | best η·H |"]
        lines.append("|---|---|---|---|---|")
        for name, row in found["problems"].items():
            best = f"{row['eta_times_H']:.2g}{'*' * row['edge_of_grid']} {row['average']}"
            ratios = f"{show(row['ratio'])} | {show(row['worst_ratio'])}"
            name = name.partition(": ")[2]
            lines.append(f"| {name} | {ratios} | {row['above_start']} of {SEEDS} | {best} |")
    return "\n".join(lines)


def above_words(file: Path) -> str:
    """Return how many runs ended above their start."""
    method = json.loads(file.read_text(encoding="utf-8"))["methods"]['ProxyProx(eta="auto")']
    figures = method["summary"][REPORTED]
    return f"{figures['above_start']} of {figures['runs']} runs"


def failures_list(file: Path) -> str:
    """Return the problems on which a seed ended above its start, or far above the best step."""
    lines = ["| problem | worst seed | above start |", "|---|---|---|"]
    for found in json.loads(file.read_text(encoding="utf-8"))["methods"].values():
        lines += [
            f"| {name.partition(': ')[2]} | {show(row['worst_ratio'])} "
            f"| {row['above_start']} of {SEEDS} |"
            for name, row in found["problems"].items()
            if row["above_start"] or (row["worst_ratio"] or np.inf) > LIMIT
        ]
    return "\n".join(lines)


def main() -> None:
    """Run what is asked for; print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=(FIXED, REPORTED), default=REPORTED)
    parser.add_argument("--part", choices=METHODS, default="auto")
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--json", type=Path, default=RECORD, help="write the record here")
    parser.add_argument("--resume", action="store_true", help="keep runs of a call broken off")
    parser.add_argument("--grids", action="store_true", help="run the constant steps again, too")
    given = parser.parse_args()
    threadpool_limits(1)
    np.seterr(all="ignore")
    GRIDS.parent.mkdir(exist_ok=True)
    kept = json.loads(GRIDS.read_text()) if GRIDS.exists() else {}
    done: dict[str, Any] = {}
    if given.resume and RUNS.exists():
        done = json.loads(RUNS.read_text())
    earlier = {} if given.grids else json.loads(RECORD.read_text(encoding="utf-8"))["methods"]
    record: dict[str, Any] = {"K": K, "seeds": SEEDS, "limit": LIMIT, "methods": {}}
    for part in [given.part]:
        rows: dict[str, Any] = {}
        print(f"\n`{METHODS[part]}`\n")
        print("| problem | half | median ratio | worst seed | above start | best η·H |")
        print("|---|---|---|---|---|---|")
        for cell in problems(part):
            if given.only not in cell.name or given.half != cell.half:
                continue
            key = f"{cell.half}: {cell.name}"
            known = earlier.get(METHODS[part], {}).get("problems", {}).get(key)
            if known is None:
                if key not in kept:
                    kept[key] = run_grid(cell)
                    GRIDS.write_text(json.dumps(kept))
                known = best_constant(cell, kept[key])
            names = ("best_of_grid", "eta_times_H", "average", "edge_of_grid")
            known = {name: known[name] for name in names}
            runs = f"{part}, {key}"
            if runs not in done:
                done[runs] = [run_auto(cell, seed, (K,)) for seed in range(SEEDS)]
                RUNS.write_text(json.dumps(done))
            row = compare(cell, known, done[runs])
            rows[key] = row
            print(
                f"| {cell.name} | {cell.half} | {show(row['ratio'])} | {show(row['worst_ratio'])} "
                f"| {row['above_start']} of {SEEDS} | {row['eta_times_H']:.2g}"
                f"{'*' if row['edge_of_grid'] else ''} {row['average']} |",
                flush=True,
            )
        halves = {
            half: summary(picked)
            for half in (FIXED, REPORTED)
            if (picked := [row for row in rows.values() if row["half"] == half])
        }
        record["methods"][METHODS[part]] = {"summary": halves, "problems": rows}
        for half, figures in halves.items():
            print(f"\n{half}: {figures}")
    measures = ["src/proxyprox/stepsizes", "src/proxyprox/methods"]
    if given.json != RECORD or not given.only:
        write_record(given.json, record, measures=measures)


if __name__ == "__main__":
    main()
