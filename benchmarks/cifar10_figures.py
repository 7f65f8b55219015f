"""Draw the figures of docs/results/cifar10 from its records.

    python benchmarks/cifar10_figures.py [--folder docs/results/cifar10]

Figure 2 has test accuracy against passes over the target (5, and 25 with one seed) and against
seconds: all gradients, of target and proxy, times what one takes where a training has the GPU.
The other figure has the few right labels among wrong ones; the validation images chose each bar.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from experiments.report.figures import styles

mpl.use("Agg")
Row = dict[str, Any]
METHODS = (
    "AdamW",
    "ProxyProx with EMA, θ = 1",
    "AdamW, 5 proxy batches between",
    "ProxyAdamW (8 proxy batches)",
    "ProxyAdamW, 16 proxy batches",
)
NAMES = {
    "AdamW: 0.002": "AdamW",
    "interleaved: 0.002, 5": "AdamW, 5 proxy batches between",
    "ProxyAdamW: 0.002, mixed": "ProxyAdamW (8 proxy batches)",
    "ProxyAdamW, 16 batches: 0.002, mixed": "ProxyAdamW, 16 proxy batches",
}
OLD = {"AdamW, refined": "AdamW", "ProxyProx EMA, refined": "ProxyProx with EMA, θ = 1"}
BARS = {
    "clean alone": "right labels alone",
    "fine-tuned": "fine-tuned by hand",
    "mixed": "both in every batch, by hand",
    "mixed, forward": "the same, with a confusion matrix",
    "ours": "ProxyAdamW, way chosen",
    "ours, confusion": "the same, with a confusion matrix",
}
LOOKS = styles({"method": name} for name in (*METHODS, *BARS))
Curves = dict[str, list[list[tuple[float, float, float]]]]


def read_curves(folder: Path, passes: int) -> Curves:
    """Return for each method its seeds' points: passes, all gradients, accuracy."""
    curves: Curves = {}
    for row in json.loads((folder / "figure2.json").read_text())["rows"]:
        if row["task"]["passes"] == passes and row["name"] in NAMES:
            points = [(p["passes"], p["gradients"], p["test_accuracy"]) for p in row["points"]]
            curves.setdefault(NAMES[row["name"]], []).append(points)
    if passes == 5:
        old: dict[tuple[str, int], list[Any]] = {}
        for line in (folder / "records.jsonl").read_text().splitlines():
            row = json.loads(line)
            if row["method"] in OLD and abs(row["passes"] - round(row["passes"])) < 0.01:
                spent = row["seconds"] / seconds_per_gradient(folder)
                point = (row["passes"], spent, row["test_accuracy"])
                old.setdefault((OLD[row["method"]], row["seed"]), []).append(point)
        for (name, _), points in old.items():
            curves.setdefault(name, []).append(points)
    return {name: curves[name] for name in METHODS if name in curves}


def seconds_per_gradient(folder: Path) -> float:
    """Return what a gradient of 128 images took where one training had the GPU."""
    rows = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    alone = [r for r in rows if r["method"] == "AdamW, refined" and r["target_gradients"] > 1900]
    return statistics.median(r["seconds"] / r["target_gradients"] for r in alone)


def draw_figure2(folder: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(11.5, 4.2), layout="constrained")
    each = seconds_per_gradient(folder)
    for axis, passes, unit in (
        (axes[0], 5, 0),
        (axes[1], 25, 0),
        (axes[2], 25, 1),
        (axes[2], 5, 1),
    ):
        for name, seeds in read_curves(folder, passes).items():
            x = [point[unit] * (each if unit else 1) for point in seeds[0]]
            columns = [[p[2] for p in column] for column in zip(*seeds, strict=True)]
            style = {"color": LOOKS[name].colour, "marker": LOOKS[name].marker, "markersize": 3}
            dashed = "--" if unit and passes == 5 else "-"
            median = [statistics.median(column) for column in columns]
            label = name if passes == 5 and not unit else None
            axis.plot(x[1:], median[1:], dashed, label=label, **style)
            low, high = [min(c) for c in columns], [max(c) for c in columns]
            axis.fill_between(x[1:], low[1:], high[1:], color=LOOKS[name].colour, alpha=0.15)
        axis.set_ylim(0.66, 0.91)
        axis.grid(alpha=0.3)
    axes[2].set_xscale("log")
    for axis, title, label in zip(
        axes,
        (
            "5 passes, medians and ranges of seeds",
            "25 passes, one seed",
            "the same runs over seconds",
        ),
        (*["passes over the target"] * 2, "seconds (solid: 25 passes, dashed: 5)"),
        strict=True,
    ):
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(label)
    axes[0].set_ylabel("test accuracy")
    figure.legend(loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    figure.savefig(folder / "figure2.png", dpi=130)


def chosen(rows: list[Row]) -> dict[str, Row]:
    """Return of each kind of method the run that its validation images prefer."""
    best: dict[str, Row] = {}
    for row in rows:
        kind = row["name"].partition(":")[0]
        if kind not in best or row["validation"] > best[kind]["validation"]:
            best[kind] = row
    return best


def draw_wrong_labels(folder: Path) -> None:
    rows = json.loads((folder / "wrong_labels.json").read_text())["rows"]
    tasks = [(500, "pair"), (2000, "pair"), (8000, "pair"), (2000, "uniform")]
    figure, axes = plt.subplots(1, 4, figsize=(11.5, 3.2), sharey=True, layout="constrained")
    for axis, (clean, noise) in zip(axes, tasks, strict=True):
        best = chosen(
            [r for r in rows if (r["task"]["clean"], r["task"]["noise"]) == (clean, noise)]
        )
        shown = list(reversed(BARS))
        ends = [best[kind]["end"] for kind in shown]
        # The bars' places are numbers, as two of them bear one name.
        axis.barh(range(len(shown)), ends, color=[LOOKS[kind].colour for kind in shown])
        for place, end in enumerate(ends):
            axis.text(end + 0.004, place, f"{end:.3f}", va="center", fontsize=9)
        axis.set_yticks(range(len(shown)), [BARS[kind] for kind in shown])
        share = "45 % of pairs" if noise == "pair" else "60 % uniform"
        axis.set_title(f"{clean} right labels,\n{share} wrong", fontsize=9)
        axis.set_xlim(0.4, 1.0)
        axis.set_xlabel("test accuracy")
    figure.savefig(folder / "wrong_labels.png", dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("docs/results/cifar10"))
    folder = parser.parse_args().folder
    draw_figure2(folder)
    draw_wrong_labels(folder)


if __name__ == "__main__":
    main()
