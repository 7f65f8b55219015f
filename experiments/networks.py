"""Everything that asks for a GPU, in one command that stops in time and goes on where it stopped.

    python -m experiments.networks RESULTS.jsonl [--seconds 560] [--processes 8] [--tiny]

Schedules by hand and ours are tried on held-out rows: CIFAR-10 at three passes with 8 proxy
steps and at one with 16, and 2,000 right labels among wrong ones. What was best by hand, and the
default at the learning rate that was best for it, are then run on test rows with other seeds, at
one, three and five passes, and with 500, 2,000 and 8,000 right labels; last, images of a generator
are the proxy. Runs that ``docs/results/torch/ways_gpu.csv`` has are not made again;
``python -m experiments.ways gpu RESULTS.jsonl`` adds new ones.

Beside them one process runs the paper's Figure 2 with its own method (θ = 1, 20 steps of SGD at
.01, then 40) and the proxy alone, over 25 passes, into the folder ``figure2`` beside the results;
``python -m experiments.cifar10 --paper --output FOLDER`` draws it (with ``--tiny`` if this had it).

A machine that ends every command after ten minutes gets ``--seconds 540``, again and again until
nothing is left: the results, the folder ``figure2`` and that of ``PROXYPROX_WAYS`` must stay. A run
takes some minutes at most; one that would not end in time is left for the next call.
"""

from __future__ import annotations

import argparse
import csv
import functools
import multiprocessing
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.ways import cases
from experiments.ways.jobs import SELECT, Job, best, hand, jobs, ways
from experiments.ways.pool import end_with_parent, key, run_all
from proxyprox.torch import Way, default_way

RECORD = Path("docs/results/torch/ways_gpu.csv")
REPORTED = (0, 1, 2)
"""The seeds that are reported; another one chooses settings."""
NOISE = ("pair", "uniform")
WRONG = [
    f"cifar-{n}-{kind}{m}" for m in ("", "-matrix") for n in (2000, 500, 8000) for kind in NOISE
]
WEIGHTED = hand("interleaved", "interleaved*3", "interleaved*6")
GENERATED = [f"cifar-1-{name}" for name in cases.GENERATED]


def default(case: str) -> str:
    """Return the library's way for a case, by what a user can say of the data."""
    kind: Any = {"target_rows": "fresh", "proxy": "part"}
    if case in WRONG:
        kind = {"target_rows": "reused", "proxy": "wrong labels"}
    elif case == "text-reused":
        kind = {"target_rows": "reused", "proxy": "other data"}
    elif case in GENERATED[1:]:
        kind["proxy"] = "other data"
    plain = asdict(Way())
    fields = {n: v for n, v in asdict(default_way(**kind)).items() if v != plain[n]}
    return ways(fields)[0]


@functools.cache
def candidates() -> list[Job]:
    """Return the jobs by which settings are chosen."""
    given: dict[str, Any] = {"seeds": (SELECT,), "validation": True}
    ours = default("cifar-1")
    recipes = [*hand("late2", "late2*2"), ours, *ways({"before": 1.0})]
    found = jobs(["cifar-3"], recipes, (4e-3,), (8,), **given)
    recipes = [*hand("late2", "interleaved*3"), ours]
    found += jobs(["cifar-3"], recipes, (2e-3,), (8,), **given)
    found += jobs(["cifar-1"], [*hand("late2", "late2*2", "late3"), ours], (4e-3,), (16,), **given)
    by_hand = hand("growing", "joint", "late2", "fine-tuned")
    wrong = [case for case in WRONG if "-2000-" in case]
    others = [default(wrong[0]), *ways({"before": 1.0}, {"before": 0.875}, {"growth": 2.0})]
    recipes = list(dict.fromkeys([*by_hand, *others]))
    found += jobs(wrong, recipes, (2e-3,), (4,), **given)
    return found + jobs(wrong, [*by_hand[:3], *others[:2]], (4e-3,), (4,), **given)


def report(rows: list[Job], case: str, k: int, like: tuple[str, int], seeds: Any) -> list[Job]:
    """Return the jobs of a case on other seeds, once settings are chosen on a case like it."""
    own = [row for row in rows if (row["case"], row["k"]) == like and row.get("validation")]
    asked = {key(job) for job in candidates() if (job["case"], job["k"]) == like}
    if asked - {key(row) for row in own}:
        return []
    ours = [row for row in own if row["recipe"] == default(case)]
    chosen = [best(some, owner).get(like) for some, owner in ((own, "hand"), (ours, "ours"))]
    return [
        job for c in chosen if c for job in jobs([case], [c["recipe"]], (c["lr"],), (k,), seeds)
    ]


def plan(rows: list[Job]) -> list[Job]:
    """Return all jobs that can be run, the most important first."""
    rows = [*recorded(), *rows]
    known = {key(row) for row in rows if "error" not in row}
    rows = [row for row in rows if row.get("validation")]
    tried = candidates()
    of_images = [job for job in tried if job["case"] not in WRONG]
    found = jobs(["cifar-1", "cifar-3", "cifar-5"], hand("adamw"), (2e-3,), (8,), REPORTED)
    found += of_images + report(rows, "cifar-3", 8, ("cifar-3", 8), REPORTED)
    found += jobs(["cifar-1"], [default("cifar-1")], (4e-3,), (8,), REPORTED)
    found += report(rows, "cifar-1", 16, ("cifar-1", 16), REPORTED)
    found += [job for job in tried if job["case"] in WRONG and job["lr"] == 2e-3]
    for case, lr, by_hand in (("text-reused", 3e-3, "growing"), ("text-part", 6e-3, "late1")):
        found += jobs([case], [default(case), *hand(by_hand)], (lr,), (8,), REPORTED)
    found += report(rows, "cifar-5", 8, ("cifar-3", 8), REPORTED)
    found += jobs(["cifar-3"], hand("proxy alone"), (2e-3,), (8,), REPORTED[:1])
    found += [job for job in tried if job["case"] in WRONG]
    found += report(rows, "cifar-3", 16, ("cifar-3", 8), REPORTED[:1])
    for case in WRONG:
        first, _, *rest = case.split("-")
        found += report(rows, case, 4, ("-".join([first, "2000", *rest]), 4), REPORTED)
    right = [case for case in WRONG if case.endswith("pair")]
    found += jobs(right, hand("adamw"), (2e-3,), (4,), REPORTED)
    found += report(rows, "cifar-3", 16, ("cifar-3", 8), REPORTED)
    found += jobs(["generator"], ["hand:generate"], (3e-4,), (0,), (0,))
    if (cases.FOLDER / "generated.npz").exists():
        found += [job for c in GENERATED for job in jobs([c], [default(c)], (4e-3,), (8,), (0, 1))]
    found += report(rows, "cifar-5", 16, ("cifar-3", 8), REPORTED[:1])
    # How many proxy steps, and which weight of the target, schedules by hand want.
    found += [
        job for k in (5, 8, 16) for job in jobs(["cifar-3"], WEIGHTED, (2e-3,), (k,), (SELECT,),
                                                 validation=True)
    ]  # fmt: skip
    return [job for job in found if key(job) not in known]


@functools.cache
def recorded() -> list[Job]:
    """Return the runs of the record, but for text: another machine has other sources."""
    found = []
    with RECORD.open() as file:
        for row in csv.DictReader(file):
            if row["case"].startswith("text") or "growth" in row["recipe"]:
                continue
            job = {"case": row["case"], "recipe": row["recipe"], "lr": float(row["lr"])}
            job |= {"k": int(row["k"]), "seed": int(row["seed"])}
            if row["held_out"] == "True":
                job |= {"validation": True, "validation_loss": float(row["loss"])}
            found.append(job)
    return found


def figure2(folder: Path, until: float, tiny: bool) -> None:
    """Run the paper's Figure 2, from where it stopped, as far as there is time."""
    from experiments.cifar10.config import FIGURE2, TINY_FIGURE2
    from experiments.cifar10.run import run

    end_with_parent()
    run(TINY_FIGURE2 if tiny else FIGURE2, folder, report=False, until=until, progress=print)


def main() -> None:
    """Read the command line and run what is planned."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--processes", type=int, default=8, help="jobs at a time")
    parser.add_argument("--tiny", action="store_true", help="a few steps, to try the code")
    given = parser.parse_args()
    begun = time.time()
    given.results.parent.mkdir(parents=True, exist_ok=True)
    # A step is finished, and a checkpoint written, after it is asked to stop.
    arguments = (given.results.parent / "figure2", begun + 0.97 * given.seconds, given.tiny)
    paper = multiprocessing.get_context("spawn").Process(target=figure2, args=arguments)
    paper.start()
    limits = {"seconds": given.seconds, "processes": given.processes}
    run_all(plan, given.results, tiny=given.tiny, **limits)
    paper.join(min(604_800.0, max(1.0, begun + given.seconds - time.time())))
    paper.terminate()


if __name__ == "__main__":
    main()
