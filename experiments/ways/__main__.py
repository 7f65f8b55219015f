"""Run jobs in several processes, write every result at once, and end before a limit.

    python -m experiments.ways pack
    python -m experiments.ways run JOBS.json RESULTS.jsonl [--seconds 500] [--gpu 6] [--cpu 6]

A job is a JSON object, see ``recipes.run``; jobs run in the order of the file, those of digits and
tables on the CPU. Jobs whose result is in the file already are left out. ``python -m
experiments.ways.jobs select`` writes those by which settings are chosen.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Schedules of target and proxy steps.")
    parser.add_argument("what", choices=("pack", "run"))
    parser.add_argument("jobs", type=Path, nargs="?")
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so long")
    parser.add_argument("--gpu", type=int, default=1, help="processes for text and images")
    parser.add_argument("--cpu", type=int, default=1, help="processes for the other cases")
    parser.add_argument("--tiny", action="store_true", help="a few steps, to try the code")
    given = parser.parse_args()
    if given.what == "pack":
        from experiments.ways.cases import pack

        pack()
    else:
        from experiments.ways.pool import run_all

        jobs = json.loads(given.jobs.read_text())
        limits = {"seconds": given.seconds, "gpu": given.gpu, "cpu": given.cpu}
        run_all(lambda rows: jobs, given.results, tiny=given.tiny, **limits)


if __name__ == "__main__":
    main()
