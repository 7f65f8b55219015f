"""The rows of the records, and the tables that are made of them."""

from __future__ import annotations

import csv
import math
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from experiments.ways.jobs import DEFAULT, REPORTED, SELECT

NAMES = {
    'ours:{"before": 1.0}': "late",
    'ours:{"before": 0.875, "weight": 2.0}': "weighted",
    'ours:{"before": 1.0, "restart": 0.5}': "fine-tuned",
    'ours:{"growth": 2.0}': "growing",
}
GPU = "docs/results/torch/ways_gpu.csv"
FIELDS = ("case", "k", "recipe", "lr", "seed", "held_out", "loss", "accuracy", "seconds", "chosen")
MEASURED = [
    "src/proxyprox/torch/ways.py",
    "src/proxyprox/torch/proxied.py",
    "experiments/ways/recipes.py",
    "experiments/ways/cases.py",
]
NOTE = (
    "One NVIDIA H200 with 16 CPU cores, torch 2.11; the seconds of a run are those of 15 processes "
    "at once. Seed 100 chose settings on held-out rows; seeds 0 to 2 are reported."
)
Row = dict[str, Any]
Runs = dict[tuple[str, int], dict[str, dict[str, tuple[float, float]]]]


def as_row(run: Row) -> Row:
    """Return what is recorded of a run."""
    part = "validation" if run.get("validation") else "test"
    numbers = {name: f"{run[f'{part}_{name}']:.4g}" for name in ("loss", "accuracy")}
    found = {**run, **numbers, "held_out": part == "validation"}
    return {name: found.get(name, "") for name in FIELDS}


def merged(runs: list[Row]) -> list[Row]:
    """Return the rows of the GPU's record with new runs, which replace equal ones."""
    with Path(GPU).open() as file:
        rows = list(csv.DictReader(file))
    rows += [as_row(run) for run in runs if "error" not in run and run["case"][:6] != "digits"]
    kept = {tuple(str(row[name]) for name in FIELDS[:6]): row for row in rows}
    return list(kept.values())


def reported(path: str | Path) -> Runs:
    """Return loss and accuracy by case, number of proxy steps, recipe and seed."""
    found: Any = defaultdict(lambda: defaultdict(dict))
    with Path(path).open() as file:
        for row in csv.DictReader(file):
            if row["held_out"] == "False" and row["seed"] != str(SELECT):
                numbers = float(row["loss"]), float(row["accuracy"])
                found[row["case"], int(row["k"])][row["recipe"]][row["seed"]] = numbers
    return found  # type: ignore[no-any-return]


def median(runs: dict[str, tuple[float, float]], column: int = 0) -> float:
    """Return the median of losses, or of accuracies, over the seeds."""
    return statistics.median(run[column] for run in runs.values())


def shown(recipe: str) -> str:
    """Return a recipe as tables name it."""
    owner, _, name = recipe.partition(":")
    return f"by hand: {name}" if owner == "hand" else f"**ours: {NAMES.get(recipe, name)}**"


def large_table(path: str | Path) -> str:
    """Return text and images: every reported recipe."""
    lines = ["| case | proxy steps | recipe | loss: median (seeds) | accuracy |"]
    lines.append("|---|---|---|---|---|")
    for (case, k), recipes in sorted(reported(path).items()):
        for recipe, runs in sorted(recipes.items(), key=lambda item: median(item[1])):
            seeds = ", ".join(f"{loss:.3f}" for loss, _ in runs.values())
            accuracy = median(runs, 1)
            last = "" if math.isnan(accuracy) else f"{accuracy:.3f}"
            loss = f"{median(runs):.3f} ({seeds})"
            lines.append(f"| {case} | {k} | {shown(recipe)} | {loss} | {last} |")
    return "\n".join(lines) + "\n"


GROUPS = {
    "fresh rows: a part": (("-subset",), "weighted"),
    "fresh rows: other data": (("-old", "-synthetic"), "late"),
    "reused: wrong labels, pairs": (("-pair",), "fine-tuned"),
    "reused: wrong labels, uniform": (("-uniform",), "fine-tuned"),
    "reused: useless labels": (("-useless",), "fine-tuned"),
    "reused: a teacher": (("-teacher",), "fine-tuned"),
    "a9a: wrong labels": (("a9a-wrong",), "fine-tuned"),
    "a9a: drifted labels": (("a9a-drifted",), "fine-tuned"),
}


def small_table(path: str | Path) -> str:
    """Return digits and a9a: geometric means over networks and proxies of median test losses."""
    runs, others = reported(path), Path(path).with_name("chosen.csv")
    for at, own in reported(others).items():
        runs[at].update(own)
    lines = ["| case | proxy steps | best by hand | by default | ratio | corrected | chosen |"]
    lines.append("|---|---|---|---|---|---|---|")
    for group, (ends, way) in GROUPS.items():
        for k in (8, 2):
            found = [own for at, own in runs.items() if at[1] == k and at[0].endswith(ends)]
            if not found:
                continue
            by_hand = [next(own[r] for r in own if r.startswith("hand")) for own in found]
            ours = [own[DEFAULT] for own in found]
            mean, error = ratio(ours, by_hand)
            cells = [geometric(by_hand), f"{way} {geometric(ours)}", f"{mean:.2f} ± {error:.2f}"]
            cells += [
                geometric([own[recipe] for own in found if recipe in own])
                for recipe in ("ours:corrected", "chosen")
            ]
            lines.append(f"| {group} | {k} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def geometric(cases: list[dict[str, tuple[float, float]]]) -> str:
    """Return the geometric mean of medians."""
    return f"{statistics.geometric_mean(map(median, cases)):.3f}" if cases else ""


def ratio(ours: Any, theirs: Any) -> tuple[float, float]:
    """Return the geometric mean of ours over theirs, run by run, and its standard error."""
    logs = [
        math.log(a[str(seed)][0] / b[str(seed)][0])
        for a, b in zip(ours, theirs, strict=True)
        for seed in REPORTED
    ]
    mean = math.exp(statistics.mean(logs))
    return mean, mean * statistics.stdev(logs) / math.sqrt(len(logs))
