"""Figures for print: panels of curves as PNG and SVG."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.report.figures import (
    COSTS,
    column,
    draw_curves,
    drawing,
    field_label,
    in_order,
    styles,
)
from proxyprox._util.files import atomic_output
from proxyprox._util.text import printable

_ACROSS = 4
"""Panels side by side; more of them continue in the next line."""


def draw_panels(
    rows: Sequence[Mapping[str, Any]],
    *,
    metric: str = "suboptimality",
    x: str = "target_gradients",
    log_x: bool = False,
    labels: Mapping[str, str] | None = None,
) -> Any:
    """Draw one panel for each ``"panel"`` of the rows, one curve for each ``"method"``.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of :func:`experiments.report.summary.summarise`.
    metric, x : str
        What goes on the y axis (its median, q25 and q75) and on the x axis.
    log_x : bool
        Logarithmic x axis; points at or below 0 are left out of it.
    labels : mapping, optional
        Words for the axes by field, in place of the usual ones.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Free of pyplot: nothing to close.
    """
    if not rows:
        raise ValueError("rows is empty: there is nothing to draw.")
    panels, looks = in_order(rows, "panel"), styles(rows)
    spending = {str(r["method"]) for r in rows if np.isfinite(column([r], x, log_x)[0])}
    names = [m if m in spending else f"{m} (no {x.replace('_', ' ')})" for m in looks]
    lines = math.ceil(len(panels) / _ACROSS)
    across = math.ceil(len(panels) / lines)
    # The legend has a column for each panel.
    size = (3.1 * across + 0.4, 2.6 * lines + 0.3 + 0.2 * math.ceil(len(looks) / across))
    with drawing() as figures:
        figure = figures.Figure(figsize=size, dpi=200, layout="constrained")
        # Many panels are many data sets, whose losses have little in common.
        axes = figure.subplots(lines, across, sharey=lines == 1, squeeze=False)
        handles: dict[str, Any] = {}
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        for axis, panel in zip(axes.flat, panels, strict=False):
            here = [row for row in rows if str(row["panel"]) == panel]
            curves = draw_curves(
                axis, here, looks, metric=metric, x=x, log_x=log_x, labels=labels,
                scale=rows if lines == 1 else (),
            )  # fmt: skip
            handles = curves | handles
            axis.set_title(printable(panel))
        for axis in axes[:, 0]:
            axis.set_ylabel(field_label(metric, labels))
        figure.legend(
            [handles[method] for method in looks], list(map(printable, names)),
            loc="outside lower center", ncols=across, handlelength=3.2, columnspacing=1.6,
        )  # fmt: skip
    return figure


def save_figures(
    folder: str | os.PathLike[str],
    rows: Sequence[Mapping[str, Any]],
    *,
    x_axes: Sequence[str] = COSTS,
    log_x: bool = False,
    **options: Any,
) -> list[Path]:
    """Write ``figure_<x>.png`` and ``figure_<x>.svg`` for each x axis the rows have.

    The first axis is logarithmic if `log_x` says so; the others always are, since methods
    differ in them by orders of magnitude. Other options are those of :func:`draw_panels`.

    Returns
    -------
    paths : list of Path
        The files written.
    """
    paths = []
    for position, x in enumerate(x_axes):
        log = log_x or position > 0
        # Of a cost that nobody had, such as gradients of no proxy, there is nothing to draw.
        if np.isfinite(column(rows, x, log)).any():
            figure = draw_panels(rows, x=x, log_x=log, **options)
            paths += save_figure(Path(folder) / f"figure_{x}", figure)
    return paths


def save_figure(path: Path, figure: Any) -> list[Path]:
    """Write a figure as PNG and SVG; the same rows give the same SVG, byte for byte."""
    paths = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "svg")]
    for file in paths:
        metadata = {"Date": None} if file.suffix == ".svg" else {}
        with drawing(), atomic_output(file) as output:
            figure.savefig(output, format=file.suffix[1:], metadata=metadata)
        # Both files have the same layout; to find it takes as long as to draw.
        figure.set_layout_engine("none")
    return paths
