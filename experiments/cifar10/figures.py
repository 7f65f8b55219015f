"""The paper's second figure: train loss, test accuracy and ‖∇φₖ(wₖ₊₁)‖ along the passes."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxyprox._util.extras import require
from proxyprox._util.files import atomic_write_bytes
from proxyprox.experiments.figures import in_order, styles
from proxyprox.experiments.summary import Row, summarise

METRICS = {
    "train_loss": ("train loss", True),
    "test_accuracy": ("test accuracy", False),
    "residual": ("‖∇φₖ(wₖ₊₁)‖", True),
}
"""The panels: field, title, and whether the axis is logarithmic."""

COSTS = ("target_gradients", "proxy_gradients", "proxy_sampled_gradients", "seconds")
X_AXES = {"passes": "passes over the target data", "seconds": "seconds of training steps"}
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


def save_panels(folder: Path, records: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Write ``figure_<x>.png`` and ``.svg`` with the three panels, over passes and seconds.

    Parameters
    ----------
    folder : Path
        Existing folder.
    records : sequence of mappings
        Points of all runs.
    """
    matplotlib = require("matplotlib", extra="report", purpose="drawing figures")
    figures = require("matplotlib.figure", extra="report", purpose="drawing figures")
    looks, paths = styles(records), []
    for x, label in X_AXES.items():
        figure = figures.Figure(figsize=(9.7, 3.5), dpi=200, layout="constrained")
        axes = figure.subplots(1, len(METRICS))
        handles: dict[str, Any] = {}
        for axis, (metric, (title, log)) in zip(axes, METRICS.items(), strict=True):
            rows = panel_rows(records, metric)
            for method in in_order(rows, "method"):
                curve = [row for row in rows if row["method"] == method]
                line = _curve(axis, curve, metric, x, looks[method])
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
        for kind in ("png", "svg"):
            buffer = io.BytesIO()
            with matplotlib.rc_context({"svg.hashsalt": "proxyprox"}):
                figure.savefig(
                    buffer, format=kind, metadata={"Date": None} if kind == "svg" else {}
                )
            paths.append(folder / f"figure_{x}.{kind}")
            atomic_write_bytes(paths[-1], buffer.getvalue())
    return paths


def _lowest(rows: Sequence[Row], metric: str) -> float:
    """Return where an axis of accuracies begins."""
    end = max(row["passes"] for row in rows)
    later = [row[f"{metric}_q25"] for row in rows if row["passes"] >= BEGINNING * end]
    return float(min(later)) - 0.01


def _curve(axis: Any, rows: Sequence[Row], metric: str, x: str, look: Any) -> Any:
    at = [row[x] for row in rows]
    middle, low, high = (
        [row[f"{metric}_{statistic}"] for row in rows] for statistic in ("median", "q25", "q75")
    )
    if x == "seconds":
        at = [seconds or math.nan for seconds in at]
    axis.fill_between(at, low, high, color=look.colour, alpha=0.16, linewidth=0)
    (line,) = axis.plot(
        at, middle, color=look.colour, linestyle=(0, look.dash) if look.dash else "solid",
        linewidth=1.5, marker=look.marker, markersize=4, markeredgecolor="white",
        markeredgewidth=0.5,
    )  # fmt: skip
    return line
