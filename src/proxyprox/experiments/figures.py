"""Figures in one style: panels of curves, spectra, paths and predictions."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from proxyprox._util.extras import require
from proxyprox._util.files import atomic_write_bytes
from proxyprox.diagnostics import Audit, Interval

# After Okabe and Ito, with the light colours darkened and black left out, so that each has a
# contrast of at least 3 with white paper and with a dark page.
_COLOURS = (
    "#737373",
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#B8860B",
    "#3D9BD0",
    "#8C62C9",
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p")
_PLOTLY_MARKERS = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "x",
    "triangle-left",
    "triangle-right",
    "star",
    "pentagon",
)
_DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.6), (1.4, 1.4), (6, 1.5, 1.4, 1.5))

_LABELS = {
    "target_gradients": "target gradients (minibatches)",
    "target_samples": "target samples (rows)",
    "proxy_gradients": "proxy gradients",
    "proxy_hvps": "proxy Hessian-vector products",
    "seconds": "seconds",
    "suboptimality": "suboptimality L(w) − L*",
    "eta": "step size η",
    "batch_size": "batch size",
}

COSTS = ("target_gradients", "proxy_gradients", "seconds")
"""The x axes a figure is offered over, the first being the one that counts."""


@dataclass(frozen=True)
class Style:
    """How one method is drawn, in matplotlib's words and in plotly's."""

    colour: str
    marker: str
    plotly_marker: str
    dash: tuple[float, ...]

    @property
    def plotly_dash(self) -> str:
        """The dash pattern as plotly writes it."""
        return ",".join(f"{2 * length:g}px" for length in self.dash) or "solid"


def in_order(rows: Iterable[Mapping[str, Any]], field: str) -> list[str]:
    """Return the distinct values of `field`, as text, in order of first appearance."""
    return list(dict.fromkeys(str(row[field]) for row in rows))


def styles(rows: Iterable[Mapping[str, Any]]) -> dict[str, Style]:
    """Give each method a look of its own, the same in every panel.

    Parameters
    ----------
    rows : iterable of mappings
        Rows with a field ``"method"``.

    Examples
    --------
    >>> looks = styles([{"method": "SGD"}, {"method": "ProxyProx"}, {"method": "SGD"}])
    >>> list(looks), looks["ProxyProx"].colour
    (['SGD', 'ProxyProx'], '#0072B2')
    """
    looks = {}
    for i, method in enumerate(in_order(rows, "method")):
        # 8 colours and 11 markers repeat together only after 88 methods.
        looks[method] = Style(
            _COLOURS[i % len(_COLOURS)],
            _MARKERS[i % len(_MARKERS)],
            _PLOTLY_MARKERS[i % len(_PLOTLY_MARKERS)],
            _DASHES[i % len(_DASHES)],
        )
    return looks


def field_label(field: str, labels: Mapping[str, str] | None = None) -> str:
    """Return the words for a field: the caller's, the known ones, or the name itself.

    Examples
    --------
    >>> field_label("test_accuracy"), field_label("seconds", {"seconds": "wall-clock time (s)"})
    ('test accuracy', 'wall-clock time (s)')
    """
    known = {**_LABELS, **(labels or {})}
    return known.get(field, field.replace("_", " "))


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


_LOOKS = styles([{"method": name} for name in ("grey", "blue", "orange", "green")])
_AUDIT_COLOURS = [look.colour for look in _LOOKS.values()]


def spectra_figure(audit: Audit) -> dict[str, Any]:
    """Return the eigenvalues of the target's Hessian and of the difference, largest first."""
    end = audit.points[-1]
    target = sorted((abs(float(x)) for x in end.target_spectrum), reverse=True)
    apart = sorted((abs(float(x)) for x in end.difference_spectrum), reverse=True)
    floor = 1e-10 * max(target[0], 1e-300)
    kind = "eigenvalues" if end.in_full else "Ritz values"
    return {
        "title": f"Spectra at the end of the path: {kind}, absolute, by rank",
        "traces": [
            _dots("target ∇²L", target, floor, 0, "circle"),
            _dots("difference ∇²L − ∇²L̂", apart, floor, 1, "square"),
        ],
        "xaxis": {"title": {"text": "rank"}},
        "yaxis": {"title": {"text": "absolute eigenvalue"}} | _decades([*target, *apart], floor),
    }


def _decades(values: list[float], floor: float = 1e-300) -> dict[str, Any]:
    """Return a logarithmic axis of whole decades: one label each, and two at least."""
    logs = [math.log10(max(value, floor)) for value in values]
    low, high = math.floor(min(logs) - 0.05), math.ceil(max(logs) + 0.05)
    return {"type": "log", "range": [low, high], "dtick": max(1, (high - low) // 6)}


def _dots(name: str, values: list[float], floor: float, colour: int, symbol: str) -> dict[str, Any]:
    # Below rounding error a logarithm shows noise: such values are laid on the floor.
    return {
        "name": name,
        "x": list(range(1, len(values) + 1)),
        "y": [max(value, floor) for value in values],
        "type": "scatter",
        "mode": "markers",
        "marker": {"color": _AUDIT_COLOURS[colour], "symbol": symbol, "size": 7},
        "hovertemplate": "%{x}: %{y:.3~g}<extra></extra>",
    }


def path_figure(audit: Audit) -> dict[str, Any]:
    """Return δ and H at the points and along the steps between them, with their limits."""
    names = ["start", *(f"point {i}" for i in range(1, len(audit.points)))]
    steps = [f"{a} → {b}" for a, b in pairwise(names)]
    order = [x for pair in zip(names, [*steps, ""], strict=True) for x in pair if x]
    traces = [
        _bars("H at points", names, [p.H for p in audit.points], 0, "circle"),
        _bars("δ at points", names, [p.delta for p in audit.points], 1, "square"),
    ]
    if steps:
        traces.append(_bars("H by secant", steps, [s.H for s in audit.path], 3, "diamond"))
        traces.append(_bars("δ by secant", steps, [s.delta for s in audit.path], 2, "triangle-up"))
    return {
        "title": "Along the path: how far apart the losses curve",
        "traces": traces,
        "xaxis": {"type": "category", "categoryorder": "array", "categoryarray": order},
        "yaxis": {"title": {"text": "curvature"}, "rangemode": "tozero"},
    }


def _bars(
    name: str, x: list[str], found: list[Interval], colour: int, symbol: str
) -> dict[str, Any]:
    return {
        "name": name,
        "x": x,
        "y": [float(i.estimate) for i in found],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [_length(i.high - i.estimate) for i in found],
            "arrayminus": [_length(i.estimate - i.low) for i in found],
        },
        "type": "scatter",
        "mode": "markers",
        "marker": {"color": _AUDIT_COLOURS[colour], "symbol": symbol, "size": 10},
        "hovertemplate": "%{x}: %{y:.3~g}<extra>%{fullData.name}</extra>",
    }


def _length(value: float) -> float:
    return float(value) if math.isfinite(value) else 0.0


def prediction_figure(audit: Audit) -> dict[str, Any]:
    """Return the target gradients that each method needs, rehearsed and in theory."""
    told = audit.prediction
    names = ["SGD", "accelerated SGD", "ProxyProx", "ProxyProx, offered"]
    rehearsed = [
        told.rehearsed_sgd.steps, math.inf, told.rehearsed_proxyprox.steps,
        told.rehearsed_best.steps,
    ]  # fmt: skip
    theory = [told.sgd, told.accelerated, told.proxyprox, math.inf]
    shown = [v for v in (*rehearsed, *theory) if math.isfinite(v) and v > 0]
    return {
        "title": f"Target gradients to ε = {audit.epsilon:.3g}",
        "traces": [
            _counts("tuned, on the quadratic model", names, rehearsed, 1, "square", "left"),
            _counts("theory, constants left out", names, theory, 0, "circle", "right"),
        ],
        "xaxis": {"type": "category", "range": [-0.6, len(names) - 0.4]},
        "yaxis": {"title": {"text": "target gradients"}} | _decades(shown or [1.0]),
    }


def _counts(
    name: str, x: list[str], values: list[float], colour: int, symbol: str, side: str
) -> dict[str, Any]:
    # Points, not bars: a bar on a logarithmic axis has no foot to stand on.
    known = [float(v) if math.isfinite(v) and v > 0 else None for v in values]
    return {
        "name": name,
        "x": x,
        "y": known,
        "type": "scatter",
        "mode": "markers+text",
        "text": ["" if v is None else f"{v:,.0f}" if v >= 10 else f"{v:.2g}" for v in known],
        "textposition": f"middle {side}",
        "cliponaxis": False,
        "marker": {"color": _AUDIT_COLOURS[colour], "symbol": symbol, "size": 11},
        "hovertemplate": "%{x}: %{y:,.3~g}<extra>%{fullData.name}</extra>",
    }
