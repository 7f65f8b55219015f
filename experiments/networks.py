"""Everything that asks for a GPU, in one command that stops in time and goes on where it stopped.

    python -m experiments.networks FOLDER [--seconds 1700] [--tiny] [--parts select,report]

The parts, in the order of what they are worth: *select* tries schedules by hand and ours on
held-out rows (CIFAR-10 at one, three and five passes with 8 and 16 proxy steps; the grid of wrong
labels); *report* takes what was best of each on other seeds, on test rows; *figure2* is the paper's
figure over 25 passes; *generator* trains a diffusion model on 2,000 images and takes its images as
the proxy; *figure2-seeds* is the figure at five passes with three seeds.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.ways import cases
from experiments.ways.jobs import Job, best, hand, jobs, read, ways

GRACE = 8.0
"""Seconds for jobs that take a little longer than expected."""
SELECT, REPORTED = 100, (0, 1, 2)
"""The seed that chooses settings, and those that are reported."""
WRONG = [f"cifar-{n}-{kind}" for n in (500, 2000, 8000) for kind in ("pair", "uniform")]


def candidates() -> list[Job]:
    """Return the jobs by which settings are chosen, the most important first."""
    given: dict[str, Any] = {"seeds": (SELECT,), "validation": True}
    late, weighted = ways({"before": 1.0}, {"before": 0.9375, "weight": 2.0})
    found = jobs(["cifar-3"], [*hand("late2", "late3"), late, weighted], (4e-3,), (8,), **given)
    found += jobs(["cifar-3"], hand("late2", "interleaved*3"), (2e-3,), (8,), **given)
    found += jobs(["cifar-5"], [*hand("late2"), late], (4e-3,), (8,), **given)
    found += jobs(
        ["cifar-1"], [*hand("late1", "late2", "late3"), late, weighted], (4e-3,), (16,), **given
    )
    wrong = [*WRONG, *(f"{name}-matrix" for name in WRONG)]
    kinds = [*hand("growing", "joint", "late2", "fine-tuned"), *ways({"before": 0.875})]
    found += jobs(wrong, kinds, (2e-3,), (4,), **given)
    found += jobs(["cifar-3"], [*hand("late2"), late], (4e-3,), (16,), **given)
    found += jobs(["cifar-5"], [*hand("late3"), weighted], (4e-3,), (8,), **given)
    return found + jobs(wrong, kinds[:4], (4e-3,), (4,), **given)


def report(rows: list[Job]) -> list[Job]:
    """Return the jobs on other seeds: the best by hand and the default of every case."""
    found = []
    for seed in REPORTED:
        for owner in ("hand", "ours"):
            for chosen in best(rows, owner).values():
                kept = {name: chosen[name] for name in ("case", "recipe", "lr", "k")}
                found.append({**kept, "seed": seed})
    return found


def train(todo: list[Job], path: Path, until: float, *, tiny: bool, many: int = 1) -> bool:
    """Run the jobs that the file lacks in several processes; tell whether all are done."""
    from experiments.ways.pool import key, run_all

    if tiny:  # one of each kind
        todo = list({(job["case"][-4:], job["recipe"][:4]): job for job in todo}.values())
    left = until - time.time() - GRACE
    options = {"seconds": left, "grace": GRACE, "gpu": many, "cpu": 1, "tiny": tiny}
    run_all(todo, path, argparse.Namespace(**options))
    known = {key(row) for row in read(str(path)) if "error" not in row}
    return all(key(job) in known for job in todo)


def figure(config: Any, folder: Path, until: float, *, tiny: bool) -> bool:
    """Run the paper's figure; tell whether it is done."""
    from experiments.cifar10 import config as settings
    from experiments.cifar10.run import run

    if tiny:
        config = replace(settings.TINY, recipes=settings.tiny(config.recipes), passes=0.5)
    points = run(config, folder, until=until, report=False)
    return len({(p["method"], p["seed"]) for p in points}) == len(config.jobs())


def generated(folder: Path, until: float, *, tiny: bool) -> bool:
    """Train on a generator's images, on those it has seen, and on both; tell whether it is done."""
    import numpy as np
    import torch

    from experiments.generator import generate

    file = cases.FOLDER / "generated.npz"
    if not file.exists():
        if until - time.time() < (0 if tiny else 600):
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        x, y, *_ = cases.cifar_images(tiny=tiny)
        first = cases.shuffled(len(x))[: cases.REAL]
        device = "cuda" if torch.cuda.is_available() else "cpu"
        count = 64 if tiny else 20_000
        made = generate(x[first], y[first], count=count, tiny=tiny, device=device)
        np.savez_compressed(file, images=made[0], labels=made[1])
    names = [f"cifar-1-{name}" for name in cases.GENERATED]
    todo = jobs(names, ["ours:default", "hand:late2"], (4e-3,), (8,), (0,))
    todo += jobs(["cifar-1"], hand("adamw"), (4e-3,), (8,), (0,))
    return train(todo, folder / "generator.jsonl", until, tiny=tiny)


def main() -> None:
    """Read the command line and run the parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--tiny", action="store_true", help="a few steps, to try the code")
    parser.add_argument("--processes", type=int, default=9, help="jobs at a time")
    parser.add_argument("--parts", default="select,report,figure2,generator,figure2-seeds")
    given = parser.parse_args()
    until, folder, tiny = time.time() + given.seconds, given.folder, given.tiny
    options: dict[str, Any] = {"tiny": tiny, "many": given.processes}
    folder.mkdir(parents=True, exist_ok=True)
    cases.FOLDER = Path(os.environ.setdefault("PROXYPROX_WAYS", str(folder / "data")))
    from experiments.cifar10.config import FIGURE2, Config

    selected, reported = folder / "selected.jsonl", folder / "reported.jsonl"
    parts = {
        "select": lambda: train(candidates(), selected, until, **options),
        "report": lambda: train(report(read(str(selected))), reported, until, **options),
        "figure2": lambda: figure(FIGURE2, folder / "figure2", until, tiny=tiny),
        "generator": lambda: generated(folder, until, tiny=tiny),
        "figure2-seeds": lambda: figure(Config(), folder / "figure2-seeds", until, tiny=tiny),
    }
    left = [name for name in given.parts.split(",") if time.time() > until or not parts[name]()]
    sys.stdout.write(f"Left: {', '.join(left) or 'nothing'}.\n")


if __name__ == "__main__":
    main()
