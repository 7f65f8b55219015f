"""Figures as a paper prints them: panels side by side, medians with quartile bands."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxyprox._extras import require
from proxyprox._files import atomic_write_bytes
from proxyprox.experiments._style import COSTS, Style, field_label, in_order, styles

__all__ = ["draw_panels", "save_figures"]

_PURPOSE = "drawing figures"
_SMALL, _MEDIUM = 8.5, 9.5  # points, in panels 3.1 inches wide


_ACROSS = 4
"""Panels side by side; more of them continue in the next line."""


def draw_panels(
    rows: Sequence[Mapping[str, Any]],
    *,
    metric: str = "suboptimality",
    x: str = "target_gradients",
    log_x: bool = False,
    log_y: bool = True,
    labels: Mapping[str, str] | None = None,
) -> Any:
    """Draw one panel for each ``"panel"`` of the rows, one curve for each ``"method"``.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of `proxyprox.experiments.summary.summarise`.
    metric, x : str
        What goes on the y axis (its median, q25 and q75) and on the x axis.
    log_x, log_y : bool
        Logarithmic axes; points at or below 0 are left out of them.
    labels : mapping, optional
        Words for the axes by field, in place of the usual ones.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Free of pyplot: nothing to close.

    Raises
    ------
    ValueError
        When there are no rows.
    MissingExtraError
        Without matplotlib.
    """
    if not rows:
        raise ValueError("rows is empty: there is nothing to draw.")
    figures = require("matplotlib.figure", extra="report", purpose=_PURPOSE)
    panels = in_order(rows, "panel")
    looks = styles(rows)
    names = [_legend_name(method, rows, x, log_x=log_x) for method in looks]
    lines = math.ceil(len(panels) / _ACROSS)
    across = math.ceil(len(panels) / lines)
    width = 3.1 * across + 0.4
    legend_columns = _legend_columns(names, width=width)
    legend_lines = math.ceil(len(looks) / legend_columns)
    figure = figures.Figure(
        figsize=(width, 2.6 * lines + 0.3 + 0.2 * legend_lines), dpi=200, layout="constrained"
    )
    # Many panels are many data sets, whose losses have little in common.
    axes = figure.subplots(lines, across, sharey=lines == 1, squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    handles: dict[str, Any] = {}
    for axis, panel in zip(axes.flat, panels, strict=False):
        here = [row for row in rows if str(row["panel"]) == panel]
        # Without a positive number an axis cannot be logarithmic; shared axes count together.
        logs_y = log_y and _any_drawable(here if lines > 1 else rows, metric, x, log_x, log_y=True)
        logs_x = log_x and _any_drawable(here, metric, x, True, log_y=logs_y)
        for method in in_order(here, "method"):
            curve = [row for row in here if str(row["method"]) == method]
            line = _curve(axis, curve, looks[method], metric, x, log_x=logs_x, log_y=logs_y)
            handles.setdefault(method, line)
        _dress(axis, panel, field_label(x, labels), log_x=logs_x, log_y=logs_y)
    for axis in axes[:, 0]:
        axis.set_ylabel(field_label(metric, labels), fontsize=_MEDIUM)
    figure.legend(
        [handles[method] for method in looks],
        names,
        loc="outside lower center",
        ncols=legend_columns,
        fontsize=_SMALL,
        frameon=False,
        handlelength=3.2,
        columnspacing=1.6,
    )
    return figure


def save_figures(
    folder: str | os.PathLike[str],
    rows: Sequence[Mapping[str, Any]],
    *,
    metric: str = "suboptimality",
    x_axes: Sequence[str] = COSTS,
    log_x: bool = False,
    log_y: bool = True,
    labels: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write ``figure_<x>.png`` and ``figure_<x>.svg`` for each x axis the rows have.

    Costs other than the first are drawn on a logarithmic axis, since methods differ in them by
    orders of magnitude.

    Parameters
    ----------
    folder : path-like
        Existing folder.
    rows : sequence of mappings
        Rows of `proxyprox.experiments.summary.summarise`.
    metric : str
        What goes on the y axis.
    x_axes : sequence of str
        Fields for the x axis, the one that counts first.
    log_x, log_y : bool
        Logarithmic axes; the first says so of the first x axis.
    labels : mapping, optional
        Words for the axes by field.

    Returns
    -------
    paths : list of Path
        The files written.
    """
    matplotlib = require("matplotlib", extra="report", purpose=_PURPOSE)
    paths = []
    for position, x in enumerate(x_axes):
        # Of a cost that nobody had, such as gradients of no proxy, there is nothing to draw.
        if not any(_drawable(row.get(x), log_x or position > 0) for row in rows):
            continue
        figure = draw_panels(
            rows, metric=metric, x=x, log_x=log_x or position > 0, log_y=log_y, labels=labels
        )
        for kind in ("png", "svg"):
            buffer = io.BytesIO()
            # A fixed salt and no date: the same rows give the same SVG, byte for byte.
            with matplotlib.rc_context({"svg.hashsalt": "proxyprox"}):
                figure.savefig(
                    buffer, format=kind, metadata={"Date": None} if kind == "svg" else {}
                )
            path = Path(folder) / f"figure_{x}.{kind}"
            atomic_write_bytes(path, buffer.getvalue())
            paths.append(path)
    return paths


def _legend_name(method: str, rows: Sequence[Mapping[str, Any]], x: str, *, log_x: bool) -> str:
    """Say so when a method spends nothing of a cost and so has no place on a logarithmic axis."""
    spent = [row.get(x) for row in rows if str(row["method"]) == method]
    drawn = any(_drawable(value, log_x) for value in spent)
    return method if drawn else f"{method} (no {x.replace('_', ' ')})"


def _legend_columns(methods: Sequence[str], width: float) -> int:
    # A character at this size is about 0.065 inch; handle and gap take 0.65 inch.
    widest = 0.65 + 0.065 * max(len(method) for method in methods)
    fitting = max(1, int(width / widest))
    lines = math.ceil(len(methods) / fitting)
    return math.ceil(len(methods) / lines)


def _curve(
    axis: Any,
    rows: Sequence[Mapping[str, Any]],
    look: Style,
    metric: str,
    x: str,
    *,
    log_x: bool,
    log_y: bool,
) -> Any:
    kept = [row for row in rows if _drawable(row.get(x), log_x)]
    at = [float(row[x]) for row in kept]

    def column(statistic: str) -> list[float]:
        values = (row.get(f"{metric}_{statistic}") for row in kept)
        return [float(v) if _drawable(v, log_y) else math.nan for v in values]  # type: ignore[arg-type]

    dashes = (0, look.dash) if look.dash else "solid"
    axis.fill_between(at, column("q25"), column("q75"), color=look.colour, alpha=0.16, linewidth=0)
    (line,) = axis.plot(
        at,
        column("median"),
        color=look.colour,
        linestyle=dashes,
        linewidth=1.5,
        marker=look.marker,
        markersize=4.2,
        markeredgecolor="white",
        markeredgewidth=0.5,
        markevery=max(1, len(at) // 8),
    )
    return line


def _drawable(value: float | None, log: bool) -> bool:
    return value is not None and math.isfinite(value) and (value > 0 or not log)


def _any_drawable(
    rows: Sequence[Mapping[str, Any]], metric: str, x: str, log_x: bool, *, log_y: bool
) -> bool:
    return any(
        _drawable(row.get(x), log_x) and _drawable(row.get(f"{metric}_median"), log_y)
        for row in rows
    )


def _dress(axis: Any, title: str, x_label: str, *, log_x: bool, log_y: bool) -> None:
    if log_x:
        axis.set_xscale("log")
        _plain_ticks(axis)
    if log_y:
        axis.set_yscale("log")
    axis.set_title(title, fontsize=_MEDIUM)
    axis.set_xlabel(x_label, fontsize=_MEDIUM)
    axis.tick_params(labelsize=_SMALL, which="both")
    axis.grid(visible=True, which="major", color="0.88", linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _plain_ticks(axis: Any) -> None:
    """Write 20, 50, 100 on an axis of few decades: powers of ten alone would leave it bare."""
    ticker = require("matplotlib.ticker", extra="report", purpose=_PURPOSE)
    low, high = axis.get_xlim()
    if low > 0 and high / low < 1e3:
        axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_formatter(ticker.NullFormatter())
