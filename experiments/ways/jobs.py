"""The jobs behind the records.

    python -m experiments.ways.jobs select > jobs.json
    python -m experiments.ways.jobs report results.jsonl > jobs.json

*select* has one seed (two on the CPU) that is not reported, and measures on held-out rows of the
target; *report* takes what was selected, from a file of results, on three other seeds.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from experiments.ways.cases import DIGITS_PROXIES, NETWORKS

TEXTS = ("text-part", "text-other", "text-reused")
OTHERS = ("useless", "pair", "uniform", "teacher")
SMALL = [f"digits-{n}-{p}" for p in (*DIGITS_PROXIES, *OTHERS) for n in NETWORKS]
TABLES = ["a9a-wrong", "a9a-drifted"]
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


def read(path: str) -> list[Job]:
    """Return the results of a file."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def again() -> list[Job]:
    """Return the jobs that ask what the first ones left open, on the same seed."""
    given: dict[str, Any] = {"seeds": (100,), "validation": True}
    late = ways(
        {"before": 0.875, "weight": 3.0}, {"before": 0.9375, "weight": 2.0}, {"before": 1.0}
    )
    found = jobs(TEXTS[:2], late, (6e-3,), (8,), **given)
    found += jobs(["cifar-1"], late, (4e-3,), (8,), **given)
    found += jobs(["text-reused"], ways({"growth": 4.0}), (3e-3,), (8,), **given)
    wrong = ["cifar-2000-pair-matrix", "cifar-2000-uniform"]
    found += jobs(wrong, hand("growing", "joint", "late2"), (2e-3,), (4,), **given)
    found += jobs(TEXTS[:2], hand("late1"), (12e-3,), (8,), **given)
    return found + jobs(["cifar-1"], hand("late2"), (8e-3,), (8,), **given)


def report(rows: list[Job]) -> list[Job]:
    """Return the jobs on fresh seeds, with what was best by hand, from the selection's results."""
    seeds, found = (0, 1, 2), []
    late = ways({"before": 0.875, "weight": 3.0}, {"before": 1.0})
    texts = jobs(TEXTS[:2], [*hand("late1", "late2"), *late], (6e-3,), (8,), seeds)
    reused = jobs(TEXTS[2:], [*hand("growing"), *ways({"growth": 2.0})], (3e-3,), (8,), seeds)
    images = jobs(["cifar-1"], [*hand("late2"), *late], (4e-3,), (8,), seeds)
    images += jobs(["cifar-1"], hand("late3*2"), (2e-3,), (8,), seeds)
    more = jobs(["cifar-1"], hand("proxy alone"), (2e-3,), (8,), (0,))
    more += jobs(["cifar-3"], [*hand("late2"), late[0]], (4e-3,), (8,), (0,))
    more += jobs(["cifar-1"], [*hand("late2"), late[0]], (4e-3,), (16,), (0, 1))
    more += jobs(TEXTS, ["chosen"], (4e-3,), (8,), (0,))
    wrong = ["cifar-2000-pair", "cifar-2000-pair-matrix", "cifar-2000-uniform"]
    more += jobs(wrong, [*hand("growing"), *ways({"growth": 2.0})], (2e-3,), (4,), (0, 1))
    more += jobs(["cifar-5"], [*hand("late2"), late[0]], (4e-3,), (8,), (0,))
    found = again() + texts + reused + images + more
    # On the CPU: the best by hand, every way that may become a default, and the choice.
    candidates = [
        *ways({"before": 0.75, "weight": 2.0}, {"before": 0.875}, {"before": 0.875, "weight": 3.0}),
        *ways({"before": 1.0}, {"before": 1.0, "restart": 0.5}, {"growth": 2.0}), "ours:corrected",
    ]  # fmt: skip
    tuned = {recipe: best(rows, recipe) for recipe in ("hand", *candidates)}
    small = {at for at in tuned["hand"] if at[0].startswith(("digits", "a9a"))}
    for seed in seeds:
        for at in sorted(small):
            for settings in tuned.values():
                if at in settings:
                    chosen = settings[at]
                    found.append(
                        {k: chosen[k] for k in ("case", "recipe", "lr", "k")} | {"seed": seed}
                    )
            found.append({"case": at[0], "recipe": "chosen", "lr": 0.01, "k": at[1], "seed": seed})
    kinds = hand("adamw", "late1", "late2", "growing", "interleaved", "fine-tuned", "joint")
    given: dict[str, Any] = {"cases": TABLES, "ks": (8, 2)}
    every = [*kinds, *candidates]
    found += jobs(recipes=every, lrs=(0.003, 0.001), seeds=(100,), validation=True, **given)
    return found + jobs(recipes=[*every, "chosen"], lrs=(0.003,), seeds=seeds, **given)


if __name__ == "__main__":
    made = select() if sys.argv[1] == "select" else report(read(sys.argv[2]))
    json.dump(made, sys.stdout)
