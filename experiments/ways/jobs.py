"""The jobs behind the records.

    python -m experiments.ways.jobs select > jobs.json
    python -m experiments.ways.jobs report 3 4 5 > jobs.json

*select* has one seed (two on the CPU) that is not reported, and measures on held-out rows of the
target; *report* takes what was selected, from the record, on other seeds; *wider* compares ways on
a table that is not reported.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from experiments.ways.cases import DIGITS_PROXIES, NETWORKS
from proxyprox.torch import WAYS

TEXTS = ("text-part", "text-other", "text-reused")
OTHERS = ("useless", "pair", "uniform", "teacher")
SMALL = [f"digits-{n}-{p}" for p in (*DIGITS_PROXIES, *OTHERS) for n in NETWORKS]
TABLES = ["a9a-wrong", "a9a-drifted"]
OTHER_TABLES = ["mushrooms-wrong", "mushrooms-drifted"]
Job = dict[str, Any]


def ways(*found: dict[str, Any]) -> list[str]:
    """Return recipes of ways by their fields."""
    return [f"ours:{json.dumps(fields)}" for fields in found]


LATE = [{"before": 0.5}, {"before": 0.75}, {"before": 0.875}, {"before": 1.0}]
OURS = ways(
    *LATE, {"before": 0.75, "weight": 2.0}, {"growth": 1.0}, {"growth": 2.0},
    {"before": 0.5, "growth": 1.0}, {"joint": True}, {"before": 0.875, "joint": True},
)  # fmt: skip
TUNED = ways(
    {"before": 1.0, "restart": 1.0}, {"before": 1.0, "restart": 0.5},
    {"before": 1.0, "restart": 0.25}, {"before": 0.75, "restart": 0.5},
)  # fmt: skip


def hand(*kinds: str) -> list[str]:
    """Return recipes by hand."""
    return [f"hand:{kind}" for kind in kinds]


def jobs(cases: Any, recipes: Any, lrs: Any, ks: Any, seeds: Any, **more: Any) -> list[Job]:
    """Return all combinations."""
    return [
        {"case": case, "recipe": recipe, "lr": lr, "k": k, "seed": seed, **more}
        for seed in seeds
        for k in ks
        for lr in lrs
        for recipe in recipes
        for case in cases
    ]


def select() -> list[Job]:
    """Return the jobs by which settings are chosen, the most important first."""
    given: dict[str, Any] = {"seeds": (100,), "validation": True}
    one, wrong = ["cifar-1"], ["cifar-2000-pair", "cifar-2000-pair-matrix"]
    first = hand("late1", "late2", "growing")
    found = jobs(TEXTS, [*first, *OURS[1:4]], (3e-3,), (8,), **given)
    found += jobs(one, [*hand("late2", "late3"), *OURS[1:3]], (2e-3,), (8,), **given)
    found += jobs(
        wrong, [*hand("fine-tuned", "joint", "growing"), TUNED[1]], (2e-3,), (4,), **given
    )
    found += jobs(TEXTS, first, (1.5e-3, 6e-3), (8,), **given)
    found += jobs(
        TEXTS, [*OURS[4:8], *hand("interleaved", "fine-tuned", "joint")], (3e-3,), (8,), **given
    )
    found += jobs(
        one,
        hand("late3*2", "late1", "growing", "interleaved", "interleaved*3"),
        (2e-3,),
        (8,),
        **given,
    )
    found += jobs(one, hand("late3", "late2"), (1e-3, 4e-3), (8,), **given)
    found += jobs(["cifar-1"], [*hand("late2", "late3"), OURS[2]], (2e-3,), (16,), **given)
    found += jobs(wrong, [OURS[1], OURS[6], OURS[8], "hand:late2"], (2e-3,), (4,), **given)
    found += jobs(one, [OURS[0], OURS[4], OURS[9]], (2e-3,), (8,), **given)
    found += jobs(["cifar-3"], hand("late3", "late3*2", "interleaved*3"), (2e-3,), (8,), **given)
    # On the CPU.
    kinds = hand("late1", "late2", "late3", "growing", "interleaved", "fine-tuned", "joint")
    fresh, reused = SMALL[:9], SMALL[9:]
    every = ("hand:adamw", *kinds, *OURS, *TUNED, "ours:corrected")
    for seed in (100, 101):
        given["seeds"] = (seed,)
        found += jobs(fresh, every, (0.01, 0.02, 0.005, 0.04), (8,), **given)
        found += jobs(reused, every, (0.01, 0.02, 0.005), (8, 2), **given)
        found += jobs(TABLES, every, (0.003, 0.001, 0.01), (8, 2), **given)
    return found


def best(rows: list[Job], owner: str) -> dict[tuple[str, int], Job]:
    """Return for each case and number of proxy steps the best recipe on held-out rows."""
    sums = defaultdict(list)
    for row in rows:
        if row["recipe"].startswith(owner) and "error" not in row:
            sums[row["case"], row["k"], row["recipe"], row["lr"]].append(row["validation_loss"])
    found: dict[tuple[str, int], Job] = {}
    for (case, k, recipe, lr), losses in sums.items():
        mean = sum(losses) / len(losses)
        if (case, k) not in found or mean < found[case, k]["loss"]:
            found[case, k] = {"case": case, "k": k, "recipe": recipe, "lr": lr, "loss": mean}
    return found


def wider() -> list[Job]:
    """Return the jobs that settle the default for wrong labels, on a table that is not reported."""
    kinds = [*hand("adamw"), *(f"ours:{name}" for name in WAYS if name != "target alone")]
    given: dict[str, Any] = {"seeds": (100, 101, 102), "validation": True}
    return jobs(OTHER_TABLES, kinds, (0.003, 0.001, 0.01), (8, 2), **given)


def report(seeds: Any) -> list[Job]:
    """Return jobs of digits on more seeds: the best by hand, the defaults and corrected.

    Recipes and learning rates are those of the record, whose seed 0 has what was chosen.
    """
    from experiments.ways.record import NAMES, RECORD, selected

    by_hand, found = selected(RECORD), []
    with Path(RECORD).open() as file:
        rows = [row for row in csv.DictReader(file) if row["held_out"] == "False"]
    for row in (row for row in rows if row["seed"] == "0"):
        at = row["case"], int(row["k"])
        fresh = at[0].endswith(DIGITS_PROXIES)
        wanted = ("late", "corrected") if fresh else ("fine-tuned", "late")
        if at[0] in SMALL and (row["recipe"] == by_hand[at] or NAMES.get(row["recipe"]) in wanted):
            found += jobs(at[:1], [row["recipe"]], [float(row["lr"])], at[1:], seeds)
    return sorted(found, key=lambda job: job["seed"])


def main() -> None:
    """Print the jobs that the command line asks for."""
    parser = argparse.ArgumentParser(description="Jobs for python -m experiments.ways run.")
    parser.add_argument("what", choices=("select", "wider", "report"))
    parser.add_argument("seeds", type=int, nargs="*", default=[0, 1, 2])
    given = parser.parse_args()
    makers = {"select": select, "wider": wider}
    found = report(given.seeds) if given.what == "report" else makers[given.what]()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
