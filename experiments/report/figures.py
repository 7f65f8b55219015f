"""Figures in one style, by matplotlib: curves of methods, and SVG inside a page."""

from __future__ import annotations

import hashlib
import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from experiments.report.summary import QUARTILES
from proxyprox._util.extras import require
from proxyprox._util.text import printable

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

# The colours of a light page; inside a page its variables take their places.
_THEME = {"#1b1f24": "--ink", "#57606a": "--soft", "#e6e8eb": "--grid", "#ffffff": "--paper"}
_INK, _SOFT, _GRID, _PAPER = _THEME
ROUNDING = 1e-12
"""Suboptimality that is rounding: a curve that falls so low does not stretch the axis."""


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
        line.set(markersize=4.2, markeredgecolor=_PAPER, markeredgewidth=0.5)
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


@contextmanager
def drawing(settings: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """Yield ``matplotlib.figure``, with the one look of all figures while the block runs.

    Text is shown as it is: a dollar sign begins no formula, and nothing is handed to LaTeX.

    Parameters
    ----------
    settings : mapping, optional
        More of matplotlib's settings.

    Raises
    ------
    MissingExtraError
        Without matplotlib.
    """
    matplotlib = require("matplotlib", extra="app", purpose="drawing figures")
    figures = require("matplotlib.figure", extra="app", purpose="drawing figures")
    look = {
        "text.parse_math": False, "text.color": _INK, "axes.labelcolor": _SOFT,
        "axes.edgecolor": _SOFT, "xtick.color": _SOFT, "ytick.color": _SOFT,
        "xtick.labelcolor": _INK, "ytick.labelcolor": _INK, "grid.color": _GRID,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "axes.axisbelow": True, "legend.frameon": False, "svg.hashsalt": "proxyprox",
        "font.size": 8.5, "axes.titlesize": 9.5, "axes.labelsize": 9.5,
    }  # fmt: skip
    with matplotlib.rc_context(), warnings.catch_warnings():
        # The user's own settings would change the figures of a record.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({**look, **(settings or {})})
        # Inside a page the reader's fonts are used.
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield figures


def draw_curves(
    axis: Any,
    rows: Sequence[Mapping[str, Any]],
    looks: Mapping[str, Style],
    *,
    metric: str,
    x: str,
    log_x: bool = False,
    labels: Mapping[str, str] | None = None,
    scale: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Draw the curves of one panel, and return the lines by method.

    The y axis is logarithmic if the positive medians differ by a factor of 4; curves that fall to
    rounding, or below 0, leave it at the bottom.

    Parameters
    ----------
    axis : matplotlib.axes.Axes
        Where to draw.
    rows : sequence of mappings
        Rows of the panel.
    looks : mapping
        Of all methods, as :func:`styles` gives them.
    metric, x : str
        What goes on the y axis (its median, q25 and q75) and on the x axis.
    log_x : bool
        Logarithmic x axis; points at or below 0 are left out of it.
    labels : mapping, optional
        Words for the axes by field, in place of the usual ones.
    scale : sequence of mappings
        Rows that the y axis is for; by default those of the panel.
    """
    medians = column(scale or rows, f"{metric}_median", True)
    medians = medians[np.isfinite(medians)]
    log_y = len(medians) > 0 and bool(medians.max() >= 4 * medians.min())
    above = medians[medians > ROUNDING]
    least = ROUNDING if log_y and len(above) else 0.0
    # Without a positive number an axis cannot be logarithmic.
    log_x = log_x and bool(np.isfinite(column(rows, x, True)).any())
    lines = {}
    for i, (method, look) in enumerate(looks.items()):
        if curve := [row for row in rows if str(row["method"]) == method]:
            bands = [column(curve, f"{metric}_{s}", log_y, least) for s in QUARTILES]
            before = len(axis.collections)
            lines[method] = look.draw(axis, column(curve, x, log_x), *bands)
            for artist in (lines[method], *axis.collections[before:]):
                artist.set_gid(f"method-{i}")
            lines[method].set_label(printable(method))
    axis.set(xscale="log" if log_x else "linear", yscale="log" if log_y else "linear")
    if least:
        axis.set_ylim(bottom=float(above.min()) / 3)
    put_ticks(axis.xaxis, {row[x] for row in rows if row.get(x) is not None})
    put_ticks(axis.yaxis)
    axis.set_xlabel(field_label(x, labels))
    return lines


def put_ticks(axis: Any, values: Iterable[float] = ()) -> None:
    """Put at most seven ticks on an x or y axis, or at these values if they are few."""
    ticker = require("matplotlib.ticker", extra="app", purpose="drawing figures")
    low, high = axis.get_view_interval()
    log = axis.get_scale() == "log"
    decades = log and high >= 100 * low
    named = sorted({value for value in values if value > 0 or not log})
    if 0 < len(named) <= 6:
        axis.set_major_locator(ticker.FixedLocator(named))
    elif log:
        subs = (1.0,) if decades else (1.0, 2.0, 5.0)
        axis.set_major_locator(ticker.LogLocator(subs=subs, numticks=7))
    else:
        axis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 5, 10]))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _written(value, decades)))


def _written(value: float, decades: bool) -> str:
    """Write the number of a tick, powers of ten with raised digits."""
    text = f"{value:.0e}" if decades and not 0.01 <= value < 1000 else f"{value:,.6g}"
    front, _, power = text.partition("e")
    if not power:
        return text
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{'' if front == '1' else f'{front}·'}10{raised}"


def plot_svg(title: str, x_label: str, y_label: str, draw: Callable[[Any], object]) -> str:
    """Return a plot as an ``<svg>`` element of a page.

    Parameters
    ----------
    title : str
        What a screen reader says; the ends of the lines are added.
    x_label, y_label : str
        Words at the axes.
    draw : callable
        Draws on the axes that it is given.
    """
    settings = {"font.size": 12, "axes.labelsize": 12, "svg.fonttype": "none"}
    with drawing({**settings, "svg.hashsalt": title}) as figures:
        figure = figures.Figure(figsize=(480 / 72, 330 / 72))
        axis = figure.add_axes((0.16, 0.15, 0.81, 0.82))
        axis.set(xlabel=printable(x_label), ylabel=printable(y_label))
        # A narrow page has larger letters: the label stays clear of the ticks' numbers.
        axis.yaxis.set_label_coords(-0.165, 0.5)
        axis.tick_params(length=0)
        draw(axis)
        return _element(figure, title, "; ".join(map(_told, axis.get_lines())))


def _told(line: Any) -> str:
    """Say where a line begins and ends; a short one in full."""
    heights = [f"{y:.3g}" for y in line.get_ydata() if math.isfinite(y)]
    shown = heights if len(heights) <= 6 else [heights[0], "…", heights[-1]]
    return f"{line.get_label()}: {', '.join(shown) or 'no value'}"


def glyph(look: Style) -> str:
    """Return the entry of a legend inside a page: the line and the marker of a method."""
    with drawing({"svg.hashsalt": repr(look)}) as figures:
        axis = figures.Figure(figsize=(40 / 72, 14 / 72)).add_axes((0, 0, 1, 1))
        axis.set_axis_off()
        axis.set_xlim(0, 2)
        look.draw(axis, [0, 1, 2], [0, 0, 0], math.nan, math.nan).set(markevery=[1], markersize=7)
        return _element(axis.figure)


def _element(figure: Any, title: str = "", text: str = "") -> str:
    """Return a figure as an ``<svg>`` element of a page, in the colours of the page."""
    output, nothing = io.StringIO(), dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(output, format="svg", transparent=True, metadata=nothing)
    svg = output.getvalue()
    svg = re.sub(r"<style.*?</style>", "", svg[svg.index("<g ") : svg.rindex("</svg>")])
    # Names that nothing refers to would be many times in one page.
    svg = re.sub(r' id="method-(\d+)"', r' data-method="\1"', svg)
    svg = re.sub(r' id="(?![mp][0-9a-f]{10}")[^"]*"', "", svg)
    for colour, name in _THEME.items():
        svg = re.sub(rf'(style="[^"<>]*){colour}', rf"\1var({name})", svg)
    width, height = (round(72 * inches) for inches in figure.get_size_inches())
    box = f'viewBox="0 0 {width} {height}"'
    if not title:
        return f'<svg class="glyph" {box} width="40" height="14" aria-hidden="true">{svg}</svg>'
    name = hashlib.sha256(title.encode("utf-8", "replace")).hexdigest()[:10]
    return (
        f'<svg class="plot" {box} role="img" aria-labelledby="t{name} d{name}">'
        f'<title id="t{name}">{escape(printable(title))}</title>'
        f'<desc id="d{name}">{escape(printable(text))}</desc>{svg}</svg>'
    )


def column(rows: Iterable[Mapping[str, Any]], field: str, log: bool, least: float = 0.0) -> Any:
    """Return a column as floats, NaN if there is no value or a logarithm has no place for it.

    With ``least`` lower ones are drawn there.
    """
    values = np.array([math.nan if r.get(field) is None else float(r[field]) for r in rows])
    if log and least > 0:
        values = np.maximum(values, least)
    return np.where(np.isfinite(values) & ((values > 0) | (not log)), values, math.nan)
