"""Figures in one style: panels of curves for print."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from proxyprox._util.extras import require
from proxyprox._util.files import atomic_output
from proxyprox_app.report.summary import QUARTILES

# The colour of a method on every page and figure, by the first expression found in its name. After
# Okabe and Ito, with the light colours darkened and black left out, so that each has a contrast of
# at least 3 with white paper and with a dark page.
_COLOURS = {
    r"^AuxMom|^PAGE": "008B8B",
    r"^AuxMVR|^SVRP": "B5489A",
    r"^DANE": "E0218A",
    r"^(ours|Proxy).*(steps|, \d)": "5C7AEA",
    r"^(ours|Proxy).*(mean|auto|Newton|corrected)": "8C62C9",
    r"^(ours|Proxy).*(EMA|residuals|teacher|tuned)": "3D9BD0",
    r"^(ours|Proxy)": "0072B2",
    r"^(teacher|proxy|noisy|public)|^self-training|^SelfTraining": "DC143C",
    r"^ERM|alone$|^LogisticRegression|^target": "009E73",
    r"^mix": "6B8E23",
    r"^(fine|weighted|importance)": "E0218A",
    r"Nesterov|heavy ball|momentum|CG": "A65628",
    r"^AdamW, (inter|\d)": "CC79A7",
    r"Adam|least_squares": "D55E00",
    r"BFGS|lbfgs": "CC79A7",
    r"[Nn]ewton|SAGA": "B8860B",
    r"SGD|gradient descent": "737373",
}
_MARKERS = "os^DvPX<>*p"
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.6), (1.4, 1.4), (6, 1.5, 1.4, 1.5))

_LABELS = {
    "target_gradients": "target gradients (minibatches)",
    "target_samples": "target samples (rows)",
    "proxy_hvps": "proxy Hessian-vector products",
    "suboptimality": "suboptimality L(w) − L*",
    "eta": "step size η",
}

COSTS = ("target_gradients", "proxy_gradients", "seconds")
"""The x axes a figure is offered over, the one that counts first."""

_PURPOSE = "drawing figures"
_SMALL, _MEDIUM = 8.5, 9.5  # points, in panels 3.1 inches wide
_LEGIBLE = 8
"""Methods that a legend can name; more of them are named at the ends of their curves."""
ROUNDING = 1e-12
"""Suboptimality that is rounding: a curve that falls so low does not stretch the axis."""
_SOLVED = 1e-9
"""Lower values leave the axis of a figure for print: nobody needs them."""
_ACROSS = 4
"""Panels side by side; more of them continue in the next line."""


class Style(NamedTuple):
    """How one method is drawn by matplotlib."""

    colour: str
    marker: str
    dash: tuple[float, ...]

    def draw(self, axis: Any, x: Any, median: Any, low: Any, high: Any) -> Any:
        """Draw a curve and the band around it, and return the curve for the legend."""
        axis.fill_between(x, low, high, color=self.colour, alpha=0.16, linewidth=0)
        (line,) = axis.plot(x, median, self.marker, color=self.colour, markevery=len(x) // 8 or 1)
        line.set(linestyle=(0, self.dash) if self.dash else "solid", linewidth=1.5)
        line.set(markersize=4.2, markeredgecolor="white", markeredgewidth=0.5)
        return line


def in_order(rows: Iterable[Mapping[str, Any]], field: str) -> list[str]:
    """Return the distinct values of `field`, as text, in order of first appearance."""
    return list(dict.fromkeys(str(row[field]) for row in rows))


def styles(rows: Iterable[Mapping[str, Any]]) -> dict[str, Style]:
    """Give each method a look of its own: its colour by its name, the same on every page.

    A method without a colour of its own gets one that no other of these methods has. Methods of one
    colour differ in marker and dash.

    Examples
    --------
    >>> looks = styles([{"method": "SGD"}, {"method": "ProxyProx"}, {"method": "SGD"}])
    >>> list(looks), looks["ProxyProx"].colour
    (['SGD', 'ProxyProx'], '#0072B2')
    """
    methods = in_order(rows, "method")
    found = {m: next((c for e, c in _COLOURS.items() if re.search(e, m)), None) for m in methods}
    free = cycle(
        [c for c in dict.fromkeys(_COLOURS.values()) if c not in found.values()] or ["737373"]
    )
    looks = zip(methods, cycle(_MARKERS), cycle(_DASHES), strict=False)
    return {
        method: Style(f"#{found[method] or next(free)}", marker, dash)
        for method, marker, dash in looks
    }


def field_label(field: str, labels: Mapping[str, str] | None = None) -> str:
    """Return the words for a field: the caller's, the known ones, or the name itself.

    Examples
    --------
    >>> field_label("test_accuracy"), field_label("seconds", {"seconds": "wall-clock time (s)"})
    ('test accuracy', 'wall-clock time (s)')
    """
    return {**_LABELS, **(labels or {})}.get(field, field.replace("_", " "))


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
        Rows of :func:`proxyprox_app.report.summary.summarise`.
    metric, x : str
        What goes on the y axis (its median, q25 and q75) and on the x axis.
    log_x : bool
        Logarithmic x axis. The y axis is logarithmic if any median is positive; curves that fall to
        rounding, or below 0, leave it at the bottom. Points at or below 0 are left out of a
        logarithmic x axis.
    labels : mapping, optional
        Words for the axes by field, in place of the usual ones.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Free of pyplot: nothing to close.
    """
    if not rows:
        raise ValueError("rows is empty: there is nothing to draw.")
    figures = require("matplotlib.figure", extra="app", purpose=_PURPOSE)
    panels, looks = in_order(rows, "panel"), styles(rows)
    spending = {str(r["method"]) for r in rows if np.isfinite(_values([r], x, log_x)[0])}
    names = [m if m in spending else f"{m} (no {x.replace('_', ' ')})" for m in looks]
    lines = math.ceil(len(panels) / _ACROSS)
    across = math.ceil(len(panels) / lines)
    named = len(looks) > _LEGIBLE and lines == 1
    # The legend has a column for each panel.
    size = (3.1 * across + 0.4, 2.6 * lines + 0.3 + 0.2 * math.ceil(len(looks) / across))
    if named:
        size = (4.2 * across + 0.2, 4.4)
    figure = figures.Figure(figsize=size, dpi=200, layout="constrained")
    # Many panels are many data sets, whose losses have little in common.
    axes = figure.subplots(lines, across, sharey=lines == 1, squeeze=False)
    # Without a positive number an axis cannot be logarithmic.
    log_x = log_x and bool(spending)
    log_y = bool(np.isfinite(_values(rows, f"{metric}_median", True)).any())
    handles: dict[str, Any] = {}
    labelled: list[tuple[Any, dict[str, float]]] = []
    medians = _values(rows, f"{metric}_median", log_y)
    shown = medians[medians > ROUNDING] if log_y else medians
    low, least = (float(shown.min()), ROUNDING) if log_y and len(shown) else (0.0, 0.0)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis, panel in zip(axes.flat, panels, strict=False):
        here = [row for row in rows if str(row["panel"]) == panel]
        ends: dict[str, float] = {}
        for method in in_order(here, "method"):
            curve = [row for row in here if str(row["method"]) == method]
            bands = [_values(curve, f"{metric}_{s}", log_y, least) for s in QUARTILES]
            line = looks[method].draw(axis, _values(curve, x, log_x), *bands)
            handles.setdefault(method, line)
            ends[method] = next(iter(bands[0][np.isfinite(bands[0])][::-1]), math.nan)
        axis.set(xscale="log" if log_x else "linear", yscale="log" if log_y else "linear")
        _finish(axis, panel, field_label(x, labels))
        if log_y and low > least:
            axis.set_ylim(bottom=low / 3)
        labelled.append((axis, ends))
    for axis in axes[:, 0]:
        axis.set_ylabel(field_label(metric, labels), fontsize=_MEDIUM)
    if named:
        for axis, ends in labelled:
            _name_ends(axis, ends, dict(zip(looks, names, strict=True)), looks)
        return figure
    where: dict[str, Any] = {"loc": "outside lower center", "ncols": across, "fontsize": _SMALL}
    shape = {"frameon": False, "handlelength": 3.2, "columnspacing": 1.6}
    figure.legend([handles[method] for method in looks], names, **where, **shape)
    return figure


def _name_ends(
    axis: Any, ends: Mapping[str, float], names: Mapping[str, str], looks: Mapping[str, Style]
) -> None:
    """Write each method's name beside the end of its curve, no two on top of each other."""
    order = sorted((m for m in ends if math.isfinite(ends[m])), key=lambda method: ends[method])
    to_axes = axis.transScale + axis.transLimits
    at = [min(1.0, max(0.0, float(to_axes.transform((1.0, ends[m]))[1]))) for m in order]
    room = min(0.062, 1 / max(1, len(order)))
    # As little moved as there is room for: each run of names that touch is centred on its curves.
    merged: list[list[float]] = []
    for place in at:
        merged.append([place, 1])
        while (
            len(merged) > 1
            and merged[-1][0] - merged[-2][0] < room * (merged[-1][1] + merged[-2][1]) / 2
        ):
            (first, m), (second, n) = merged[-2:]
            merged[-2:] = [[(first * m + second * n) / (m + n), m + n]]
    places: list[float] = []
    for centre, count in merged:
        half = room * (count - 1) / 2
        centre = min(max(centre, half), 1 - half)
        places += [centre - half + room * j for j in range(int(count))]
    for method, true, place in zip(order, at, places, strict=True):
        colour = looks[method].colour
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "relpos": (0, 0.5)}
        axis.annotate(
            names[method], xy=(1.0, true), xytext=(1.08, place), xycoords="axes fraction",
            color=colour, fontsize=_SMALL, va="center", annotation_clip=False, arrowprops=line,
        )  # fmt: skip


def save_figures(
    folder: str | os.PathLike[str],
    rows: Sequence[Mapping[str, Any]],
    *,
    x_axes: Sequence[str] = COSTS,
    log_x: bool = False,
    **options: Any,
) -> list[Path]:
    """Write ``figure_<x>.png`` and ``figure_<x>.svg`` for each x axis the rows have.

    The first axis is logarithmic where `log_x` says so; the others always are, since methods
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
        if np.isfinite(_values(rows, x, log)).any():
            figure = draw_panels(rows, x=x, log_x=log, **options)
            paths += save_figure(Path(folder) / f"figure_{x}", figure)
    return paths


def save_parts(
    folder: str | os.PathLike[str], name: str, parts: Sequence[Mapping[str, Any]]
) -> list[Path]:
    """Write a figure of panels with axes of their own, as PNG and SVG.

    Parameters
    ----------
    folder : path-like
        Existing folder.
    name : str
        Of the files, without the ending.
    parts : sequence of mappings
        Arguments of :func:`proxyprox_app.report.page.section`, one for each panel.

    Returns
    -------
    paths : list of Path
        The files written.
    """
    figures = require("matplotlib.figure", extra="app", purpose=_PURPOSE)
    figure = figures.Figure(figsize=(3.9 * len(parts), 4.5), dpi=200, layout="constrained")
    for axis, part in zip(figure.subplots(1, len(parts), squeeze=False)[0], parts, strict=True):
        rows, metric, x = part["rows"], part["metric"], part["x_axes"][0]
        for method, look in styles(rows).items():
            curve = [row for row in rows if row["method"] == method]
            bands = [_values(curve, f"{metric}_{s}", True, ROUNDING) for s in QUARTILES]
            look.draw(axis, _values(curve, x, False), *bands).set_label(method)
        axis.set_xscale("log" if part.get("log_x") else "linear")
        _finish(axis, part["heading"], field_label(x, part["labels"]))
        axis.set_ylabel(field_label(metric, part["labels"]), fontsize=_MEDIUM)
        heights = _values(rows, f"{metric}_median", True, _SOLVED)
        low, high = float(np.nanmin(heights)), float(np.nanmax(heights))
        if high >= 4 * low:
            axis.set_yscale("log")
            axis.set_ylim(bottom=low / 1.5)
        if 4 * low <= high < 1000 * low:  # less than three decades: 2 and 5 are labelled, too
            marks = [m * 10.0**k for k in range(-12, 3) for m in (1, 2, 5)]
            marks = [mark for mark in marks if low / 1.5 <= mark <= 1.5 * high]
            axis.set_yticks(marks, [f"{mark:g}" for mark in marks])
            axis.minorticks_off()
        if len(ticks := sorted({row[x] for row in rows})) <= 6:
            axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
            axis.minorticks_off()
        axis.legend(
            loc="upper center", bbox_to_anchor=(0.45, -0.17), fontsize=_SMALL, frameon=False
        )
    return save_figure(Path(folder) / name, figure)


def _finish(axis: Any, title: str, x_label: str) -> None:
    """Give a panel its title, its label and a quiet grid."""
    axis.set_title(title, fontsize=_MEDIUM)
    axis.set_xlabel(x_label, fontsize=_MEDIUM)
    axis.tick_params(labelsize=_SMALL, which="both")
    axis.grid(visible=True, which="major", color="0.88", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def save_figure(path: Path, figure: Any) -> list[Path]:
    """Write a figure as PNG and SVG; the same rows give the same SVG, byte for byte."""
    matplotlib = require("matplotlib", extra="app", purpose=_PURPOSE)
    paths = [path.with_name(f"{path.name}.{kind}") for kind in ("png", "svg")]
    for file in paths:
        metadata = {"Date": None} if file.suffix == ".svg" else {}
        with matplotlib.rc_context({"svg.hashsalt": "proxyprox"}), atomic_output(file) as output:
            figure.savefig(output, format=file.suffix[1:], metadata=metadata)
        # Both files have the same layout; to find it takes as long as to draw.
        figure.set_layout_engine("none")
    return paths


def _values(rows: Iterable[Mapping[str, Any]], field: str, log: bool, least: float = 0.0) -> Any:
    """Return a column as floats, NaN where there is no value or a logarithm has no place for it.

    With ``least`` lower ones are drawn there.
    """
    values = np.array([math.nan if r.get(field) is None else float(r[field]) for r in rows])
    if log and least > 0:
        values = np.maximum(values, least)
    return np.where(np.isfinite(values) & ((values > 0) | (not log)), values, math.nan)
