"""``eta="auto"`` against a grid of constant step sizes and two averages, first try against best.

Run ``python benchmarks/auto_eta.py [--seeds 5] [--only TEXT]``. For every problem of
:mod:`auto_cases` and every K the best of ten η × {last iterate, uniform mean} is picked afterwards,
with the true loss; ``eta="auto"`` runs once a seed, its re-evaluations counted as target gradients.
Medians over the seeds. Everything is kept in ``benchmarks/results/auto_eta.json``, so that an
interrupted run goes on; ``--fresh`` starts over. ``--summary`` writes what is kept as a short table
(JSON) and runs nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

import proxyprox as pp
from auto_cases import Cell, cells
from grid_runs import EXACT, Grid

KS = (300, 1000)
RESULTS = Path(__file__).parent / "results" / "auto_eta.json"
PROXY_GRID = [0.25 * 4.0**j for j in range(10)]
"""Step sizes of ProxyProx, in units of 1/H."""
SGD_GRID = [0.1 * 2.2**j for j in range(12)]


def best_of_grid(cell: Cell, seeds: int, *, proxy: bool) -> dict[str, Any]:
    """Return, for every K, the least median suboptimality of the grid and where it was."""
    H = cell.target().smoothness
    H = H if math.isfinite(H) else 2.0
    grid = np.array(PROXY_GRID if proxy else SGD_GRID)
    found: dict[int, list[Any]] = {K: [] for K in KS}
    for seed in range(seeds):
        problem, optimum = cell.problem(seed), cell.optimum()
        runs = Grid(problem.objective, problem.proxy if proxy else None, grid / H, seed)
        for k in range(1, max(KS) + 1):
            runs.step()
            if k % 20 == 0:
                runs.drop_lost(problem)
            if k in KS:
                found[k].append(runs.values(problem) - optimum)
    best = {}
    for K, values in found.items():
        medians = np.median(values, axis=0)
        which = np.unravel_index(medians.argmin(), medians.shape)
        average = ("last", "mean")[which[0]]
        edge = which[1] in (0, len(grid) - 1)
        best[str(K)] = [float(medians[which]), float(grid[which[1]]), average, bool(edge)]
    return best


def measured(cell: Cell, seeds: int, method: Any) -> dict[str, float]:
    """Return the median suboptimality of a method that is run once, at every K."""
    found: dict[int, list[float]] = {K: [] for K in KS}
    for seed in range(seeds):
        answers: dict[int, Any] = {}

        def watch(step: Any, answers: dict[int, Any] = answers) -> None:
            for K in KS:
                if step.ledger.target_gradients <= K:
                    answers[K] = step.answer

        problem = cell.problem(seed)
        stop = pp.Residual(EXACT)
        pp.minimize(problem, method=method, budget=max(KS), stop=stop, rng=seed, callback=watch)
        for K in KS:
            found[K].append(problem.value(answers[K]) - cell.optimum())
    return {str(K): float(np.median(values)) for K, values in found.items()}


def shared_sgd(results: dict[str, Any], name: str) -> Any:
    """Return SGD's best on the same target and batch size, whatever the proxy."""
    same = name.rsplit(" ", 1)[0] if not name.endswith(("x0.1", "x10")) else name.rsplit(" ", 2)[0]
    return results.setdefault("SGD", {}).get(same), same


def main() -> None:
    """Fill the table and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--summary", type=Path, help="only write a short table of what is kept")
    given = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    kept = {} if given.fresh or not RESULTS.exists() else json.loads(RESULTS.read_text())
    if given.summary is not None:
        given.summary.write_text(json.dumps(summary(kept), indent=1) + "\n")
        return
    ratios = " ".join(f"{f'K={K} auto':>12} {'best':>9} {'ratio':>6} {'SGD/auto':>9}" for K in KS)
    print(f"{'problem':36} {ratios}  best η·H")
    for cell in cells():
        if given.only not in cell.name:
            continue
        begun, row = time.perf_counter(), kept.setdefault(cell.name, {})
        sgd, same = shared_sgd(kept, cell.name)
        if sgd is None:
            sgd = kept["SGD"][same] = best_of_grid(cell, given.seeds, proxy=False)
        row["auto"] = measured(cell, given.seeds, pp.ProxyProx(eta="auto"))
        if "grid" not in row:
            row["grid"] = best_of_grid(cell, given.seeds, proxy=True)
        row["seeds"] = given.seeds
        RESULTS.write_text(json.dumps(kept, indent=1))
        print(line(cell.name, row, sgd), f" {time.perf_counter() - begun:.0f}s", flush=True)


def summary(kept: dict[str, Any]) -> dict[str, Any]:
    """Return, for every problem and K, the suboptimalities and their ratios to three digits."""
    table = {}
    for name in (cell.name for cell in cells()):
        row, sgd = kept.get(name, {}), shared_sgd(kept, name)[0]
        if "grid" in row and sgd is not None:
            table[name] = {
                K: {
                    "auto": float(f"{row['auto'][K]:.3g}"),
                    "best_of_grid": float(f"{row['grid'][K][0]:.3g}"),
                    "best": f"{row['grid'][K][1]:g}/H, {row['grid'][K][2]}",
                    "tuned_sgd": float(f"{sgd[K][0]:.3g}"),
                    "auto_over_grid": float(f"{row['auto'][K] / row['grid'][K][0]:.3g}"),
                    "sgd_over_auto": float(f"{sgd[K][0] / row['auto'][K]:.3g}"),
                }
                for K in map(str, KS)
            }
    return {"quantity": "median suboptimality over 5 seeds after K gradients", "cells": table}


def line(name: str, row: dict[str, Any], sgd: dict[str, Any]) -> str:
    """Return one line of the table."""
    parts, where = [], []
    for K in map(str, KS):
        auto, best = row["auto"][K], row["grid"][K]
        ratio = auto / best[0]
        parts.append(f"{auto:12.2e} {best[0]:9.2e} {ratio:6.2f} {sgd[K][0] / auto:9.1f}")
        where.append(f"{best[1]:g}{'*' if best[3] else ''} {best[2]}")
    return f"{name:36} {' '.join(parts)}  {'; '.join(where)}"


if __name__ == "__main__":
    main()
