"""What is made of the records: the paper's second figure, the summary and the report."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.cifar10.config import Config
from experiments.figures import save_figure
from experiments.report.figures import in_order, styles
from experiments.report.page import write_report
from experiments.report.summary import Point, Row, last_rows, summarise, write_json
from proxyprox._util.extras import require

METRICS = {
    "train_loss": ("train loss", True),
    "test_accuracy": ("test accuracy", False),
    "residual": ("‖∇φₖ(wₖ₊₁)‖", True),
}
"""The panels: field, title, and whether the axis is logarithmic."""

COSTS = ("target_gradients", "proxy_gradients", "proxy_sampled_gradients", "seconds")
OF_TARGET = "passes over the target data"
OF_ALL = "passes' worth of gradients, of target and proxy"
BEGINNING = 0.2
"""Accuracies of this first part of a run do not stretch the axis: the end is what differs."""


def panel_rows(records: Sequence[Mapping[str, Any]], metric: str) -> list[Row]:
    """Return median and quartiles of one metric for each method and number of passes.

    Parameters
    ----------
    records : sequence of mappings
        Points of all runs.
    metric : str
        Field to summarise; points without it (the residual of SGD) are left out.
    """
    there = [p for p in records if p.get(metric) is not None and math.isfinite(p[metric])]
    return summarise(there, metric=metric, x="passes", group=("method",), constant=(), costs=COSTS)


def unit(config: Config) -> str:
    """Return what the passes of a configuration are passes of."""
    return OF_TARGET if config.clean is None else OF_ALL


def save_panels(
    folder: Path, records: Sequence[Mapping[str, Any]], passes: str = OF_TARGET
) -> list[Path]:
    """Write ``figure_<x>.png`` and ``.svg`` with a panel for each metric, over passes and seconds.

    Parameters
    ----------
    folder : Path
        Existing folder.
    records : sequence of mappings
        Points of all runs.
    passes : str
        What the passes are passes of.
    """
    figures = require("matplotlib.figure", extra="app", purpose="drawing figures")
    looks, paths = styles(records), []
    panels = {metric: rows for metric in METRICS if (rows := panel_rows(records, metric))}
    for x, label in (("passes", passes), ("seconds", "seconds of training steps")):
        figure = figures.Figure(figsize=(9.7, 3.5), dpi=200, layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        handles: dict[str, Any] = {}
        for axis, (metric, rows) in zip(axes, panels.items(), strict=True):
            title, log = METRICS[metric]
            for method in in_order(rows, "method"):
                curve = [row for row in rows if row["method"] == method]
                at = [math.nan if x == "seconds" and not row[x] else row[x] for row in curve]
                bands = (
                    [row[f"{metric}_{statistic}"] for row in curve]
                    for statistic in ("median", "q25", "q75")
                )
                line = looks[method].draw(axis, at, *bands)
                handles.setdefault(method, line)
            axis.set_title(title, fontsize=9.5)
            axis.set_xlabel(label, fontsize=9.5)
            axis.set_yscale("log" if log else "linear")
            if x == "seconds":
                axis.set_xscale("log")
            if not log:
                axis.set_ylim(bottom=_lowest(rows, metric))
            axis.grid(visible=True, color="0.88", linewidth=0.6)
            axis.set_axisbelow(True)
            axis.tick_params(labelsize=8.5, which="both")
        names = [name for name in looks if name in handles]
        figure.legend(
            [handles[name] for name in names], names, loc="outside lower center",
            ncols=3, fontsize=8.5, frameon=False,
        )  # fmt: skip
        paths += save_figure(folder / f"figure_{x}", figure)
    return paths


def _lowest(rows: Sequence[Row], metric: str) -> float:
    """Return where an axis of accuracies begins."""
    end = max(row["passes"] for row in rows)
    later = [row[f"{metric}_q25"] for row in rows if row["passes"] >= BEGINNING * end]
    return float(min(later)) - 0.01


def publish(folder: Path, config: Config, records: list[Point], *, command: str) -> None:
    """Write ``summary.json``, the figures and the report."""
    rows: list[Row] = []
    titles = {metric: title for metric, (title, _) in METRICS.items()}
    for metric, title in {**titles, "validation_accuracy": "validation accuracy"}.items():
        rows += [{"panel": title, **row} for row in panel_rows(records, metric)]
    found = {"command": command, "config": config.as_dict(), "rows": rows}
    write_json(folder / "summary.json", found)
    save_panels(folder, records, unit(config))
    settings: dict[str, Any] = config.as_dict()
    settings["recipes"] = {recipe["name"]: recipe for recipe in settings["recipes"]}
    write_report(
        folder,
        title=f"ResNet-18 on CIFAR-10: {_subject(config)}",
        lead=sentences(records, unit(config)),
        command=command,
        config=settings,
        rows=_smaller_is_better(records),
        costs=_ledger(records),
        notes=notes(config, records),
        metric="value",
        x_axes=("passes", "seconds", "proxy_sampled_gradients"),
        labels={"passes": unit(config), "value": "value"},
    )


def _subject(config: Config) -> str:
    if config.clean is None:
        return "training with a proxy of a few images"
    wrong = f"{config.noise_rate:.0%} {config.noise} noise" if config.noise else "no noise"
    return f"{config.clean} clean images, the others with {wrong}"


def sentences(records: list[Point], passes: str = OF_TARGET) -> list[str]:
    """Say where each method stood at the end, the best first."""
    ends = _ends(records, "test_accuracy")
    ends.sort(key=lambda row: -(row["test_accuracy_median"] or 0.0))
    # Steps of different sizes end at slightly different fractions of a pass.
    end = round(statistics.median(row["passes"] for row in ends), 2)

    def standing(row: Row) -> str:
        at = round(row["passes"], 2)
        early = "" if at > 0.9 * end else f" (after {at:g})"
        return f"{row['method']} {row['test_accuracy_median']:.3f}{early}"

    return [
        f"After {end:g} {passes} the median test accuracy is: {'; '.join(map(standing, ends))}.",
        "All gradients count, those of the proxy too; time is in the ledger."
        if passes == OF_ALL
        else "The x axis that counts is passes over the target data; the methods with a proxy pay "
        "for them with passes over the proxy, which the ledger shows, and with time.",
    ]


def notes(config: Config, records: list[Point]) -> list[str]:
    """Return what is to be read with the numbers."""
    devices = sorted({point["device"] for point in records})
    found = [
        f"Trained on {', '.join(devices)}; seconds are those of the training steps, without the "
        "evaluations.",
        *(
            f"{recipe.name}: {recipe.seeds} of {config.seeds} seeds, because it is long."
            for recipe in config.recipes
            if recipe.seeds is not None and recipe.seeds < config.seeds
        ),
        "The report shows 1 − test accuracy, so that less is better in every panel; the figures "
        "show the accuracy.",
        "‖∇φₖ(wₖ₊₁)‖ is measured with the whole proxy, after the inner solve.",
    ]
    if config.held_out_share:
        found.append(
            f"{config.held_out_share:.0%} of the target images are held out: settings are chosen "
            "by the validation accuracy in summary.json, not by the test images."
        )
    if config.data == "cifar10":
        found.append(
            "If the images come from cifar10-jpeg75.tar.xz they are JPEG of quality 75, slightly "
            "lossy: accuracies are then not exactly those of the original set."
        )
    return found


def _ends(records: list[Point], metric: str) -> list[Row]:
    rows = [{"panel": metric, **row} for row in panel_rows(records, metric)]
    return last_rows(rows)


def _smaller_is_better(records: list[Point]) -> list[Row]:
    errors = [{**p, "test_error": 1 - p["test_accuracy"]} for p in records]
    rows: list[Row] = []
    for metric, title in (
        ("train_loss", "train loss"),
        ("test_error", "1 − test accuracy"),
        ("residual", METRICS["residual"][0]),
    ):
        for row in panel_rows(errors, metric):
            renamed = {k.replace(metric, "value"): v for k, v in row.items()}
            rows.append({"panel": title, **renamed})
    return rows


def _ledger(records: list[Point]) -> list[Row]:
    return [
        {name: row[name] for name in ("method", "passes", *COSTS)}
        for row in _ends(records, "test_accuracy")
    ]
