"""Compare ways with schedules by hand on the CPU, and write the records.

    python -m experiments.ways small     digits and a9a: docs/results/torch/ways.csv
    python -m experiments.ways text      a small transformer of bytes: text.csv
    python -m experiments.ways choose    what choose_way finds on digits and a9a: chosen.csv
    python -m experiments.ways gpu RESULTS.jsonl    what experiments.networks found: ways_gpu.csv
    python -m experiments.ways pack      write the data of all cases, for another machine

Each is one process; *small*, *text* and *choose* take some five minutes.
"""

from __future__ import annotations

from experiments.records import write_record  # isort: skip - it starts the clock

import argparse
import sys
from pathlib import Path

from experiments.ways import cases, jobs
from experiments.ways.pool import read
from experiments.ways.recipes import run
from experiments.ways.record import GPU, MEASURED, NOTE, as_row, merged


def run_here(planned: list[jobs.Job]) -> list[jobs.Job]:
    """Run jobs one after the other."""
    found = []
    for job in planned:
        found.append(run(job, "cpu"))
        if len(found) % 25 == 0 or len(found) == len(planned):
            sys.stderr.write(f"{len(found)} of {len(planned)} runs\n")
    return found


def main() -> None:
    """Read the command line, run, and write a record."""
    parser = argparse.ArgumentParser(description="Schedules of target and proxy steps.")
    parser.add_argument("what", choices=("small", "text", "choose", "gpu", "pack"))
    parser.add_argument("results", type=Path, nargs="*", help="of experiments.networks, for gpu")
    given = parser.parse_args()
    if given.what == "gpu":
        rows = [row for path in given.results for row in read(path)]
        write_record(GPU, merged(rows), measures=MEASURED, note=NOTE)
        return
    if given.what == "pack" or not (cases.FOLDER / "tables.npz").exists():
        cases.pack()
    if given.what == "pack":
        return
    if given.what == "choose":
        name, rows = "chosen.csv", run_here(jobs.chosen())
    else:
        name = "ways.csv" if given.what == "small" else "text.csv"
        rows = run_here(jobs.small() if given.what == "small" else jobs.text())
        rows += run_here(jobs.report(rows))
    own = {"choose": ["src/proxyprox/torch/choosing.py"], "text": ["experiments/bytes_lm.py"]}
    measured = [*MEASURED, *own.get(given.what, [])]
    write_record(f"docs/results/torch/{name}", [as_row(row) for row in rows], measures=measured)


if __name__ == "__main__":
    main()
