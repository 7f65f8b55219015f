"""One and two threads, float32 and peak memory of ``minimize(target)``.

Each table of benchmarks/glm_seconds.py is fitted in processes of its own with OMP_NUM_THREADS=1
and 2, in turns; SciPy's L-BFGS-B stands beside it, with the tolerance that reaches a gap of 1e-6.
The least of the wall seconds counts: the machine may have other work. The float32 table holds the
same numbers, rounded; its answer is compared with that of these numbers in float64.

    python benchmarks/glm_forms.py --out docs/results/seconds/forms.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.records import write_record
from glm_seconds import (
    L2,
    LOSSES,
    MEASURES,
    TABLES,
    clocked,
    make,
    ours,
    peak_memory,
    scipy_lbfgs,
    size_of,
)
from proxyprox import minimize

CHOSEN = {
    "correlated_300k_50": 1e-7, "correlated_100k_200": 1e-8, "wide_20k_1000": 1e-5,
    "sparse_200k_300": 1e-6, "poisson_200k_50": 1e-7,
}  # fmt: skip


def fit(name: str, repeats: int) -> dict[str, Any]:
    """Return the least seconds of ours and SciPy's, with the threads that this process has."""
    table = TABLES[name]
    X, y = make(table)
    ours(table, X, y, None)
    runs = [
        (clocked(ours, table, X, y, None)[:2], clocked(scipy_lbfgs, table, X, y, CHOSEN[name])[:2])
        for _ in range(repeats)
    ]
    least = np.array(runs).min(axis=0)
    (cpu, wall), (scipy_cpu, scipy_wall) = least.tolist()
    return {"cpu": cpu, "wall": wall, "scipy cpu": scipy_cpu, "scipy wall": scipy_wall}


def compare(name: str) -> dict[str, Any]:
    """Return what float32 changes, and the peak memory of both."""
    table = TABLES[name]
    X, y = make(table)
    small = X.astype(np.float32)
    loss, wide = (LOSSES[table.family](x, y, l2=L2) for x in (small, small.astype(np.float64)))
    one, other = minimize(loss), minimize(wide)
    first = wide.value(wide.zeros()) - wide.value(other.w)
    memory = {kind: peak_memory(partial(ours, table, x, y, None)) for kind, x in
              (("float64", X), ("float32", small))}  # fmt: skip
    vectors, squares = 24 * table.rows, 16 * wide.dim**2
    return {
        "kept": str(loss.design.X.dtype), "statuses": [one.status.name, other.status.name],
        "gap": abs(wide.value(one.w) - wide.value(other.w)) / first,
        "memory": {kind: [found, size_of(x) // 10 + vectors + squares] for (kind, found), x in
                   zip(memory.items(), (X, small), strict=True)},
    }  # fmt: skip


def summary(path: Path) -> str:
    """Return the record as a table of Markdown."""
    head = "wall, 1 thread | 2 threads | SciPy, 1 | 2 | float32's gap | MB, of allowed | in float32"
    lines = [f"| table | {head} |", "|---" * 8 + "|"]
    for name, found in json.loads(path.read_text())["tables"].items():
        one, two = found["1"], found["2"]
        cells = [f"{x:.3f}" for x in (one["wall"], two["wall"])]
        cells += [f"{x:.3f}" for x in (one["scipy wall"], two["scipy wall"])]
        cells.append(f"{found['gap']:.0e}")
        for kind in ("float64", "float32"):
            used, allowed = (value / 2**20 for value in found["memory"][kind])
            cells.append(f"{used:.0f} of {allowed:.0f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure the chosen tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--table", action="append", choices=CHOSEN)
    parser.add_argument("--child", choices=["fit", "compare"])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.child:
        name = given.table[0]
        print(json.dumps(fit(name, given.repeats) if given.child == "fit" else compare(name)))
        return
    record: dict[str, Any] = {"tables": {}}
    for name in given.table or CHOSEN:
        found: dict[str, Any] = {}
        for turn in range(4):
            threads = str(turn % 2 + 1)
            own = child(name, "fit", given.repeats, threads)
            before = found.get(threads, own)
            found[threads] = {key: min(own[key], before[key]) for key in own}
        record["tables"][name] = found | child(name, "compare", given.repeats, "1")
        print(name, json.dumps(record["tables"][name]), flush=True)
    if given.out:
        write_record(given.out, record, measures=MEASURES)


def child(name: str, task: str, repeats: int, threads: str) -> dict[str, Any]:
    """Run one task in a process with that number of threads."""
    command = [sys.executable, __file__, "--child", task, "--table", name]
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
    done = subprocess.run(
        [*command, "--repeats", str(repeats)], env={**os.environ, **limits}, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    main()
