"""Plots as SVG inside a page: text stays text, colours follow the page, no library is loaded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from proxyprox._util.text import printable
from proxyprox_app.report.figures import Style

WIDTH, HEIGHT = 480, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 14, 52
_MARKS = {
    "s": "M-4-4H4V4H-4Z", "^": "M0-5 5 4H-5Z", "D": "M0-5.5 5.5 0 0 5.5-5.5 0Z",
    "v": "M0 5 5-4H-5Z", "P": "M-5-2H-2V-5H2V-2H5V2H2V5H-2V2H-5Z",
    "X": "M-5-3-3-5 0-2 3-5 5-3 2 0 5 3 3 5 0 2-3 5-5 3-2 0Z",
    "<": "M-5 0 4-5V5Z", ">": "M5 0-4-5V5Z", "p": "M0-5 5-1 3 5H-3L-5-1Z",
    "*": "M0-6 1.5-2 6-2 2.5 1 3.5 5 0 2.5-3.5 5-2.5 1-6-2-1.5-2Z",
}  # fmt: skip
_CIRCLE = "M-4.5 0A4.5 4.5 0 1 0 4.5 0 4.5 4.5 0 1 0-4.5 0Z"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Number = float | None


class Series(NamedTuple):
    """A curve or a row of points.

    Attributes
    ----------
    name : str
        As the legend has it.
    look : Style
        Colour, marker and dash.
    x, y : sequences of float or None
        The points; those without a number, or without a logarithm where the axis needs one, are
        left out.
    low, high : sequences of float or None
        A band around a curve, limits of single points.
    joined : bool
        Whether a line joins the points.
    texts : sequence of str
        Words beside the points.
    """

    name: str
    look: Style
    x: Sequence[Number]
    y: Sequence[Number]
    low: Sequence[Number] = ()
    high: Sequence[Number] = ()
    joined: bool = True
    texts: Sequence[str] = ()


def words(value: float) -> str:
    """Write a number for a reader: three digits, thousands separated.

    Examples
    --------
    >>> words(12345.0), words(0.00012345), words(1e-9), words(0.25)
    ('12,345', '0.000123', '1e-09', '0.25')
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.3g}"
    return (
        f"{value:.6f}".rstrip("0").rstrip(".")
        if value and 1e-4 <= abs(value) < 1e-3
        else f"{value:.3g}"
    )


def glyph(look: Style) -> str:
    """Return the entry of a legend: the line and the marker of a method."""
    dash = " ".join(f"{2 * d:g}" for d in look.dash)
    mark = _MARKS.get(look.marker, _CIRCLE)
    return (
        f'<svg class="glyph" viewBox="0 0 40 14" width="40" height="14" aria-hidden="true" '
        f'style="--c:{look.colour}"><path class="curve" d="M0 7H40" stroke-dasharray="{dash}"/>'
        f'<path class="mark" transform="translate(20 7)" d="{mark}"/></svg>'
    )


class Axis:
    """Where numbers go on one axis, and its ticks.

    Parameters
    ----------
    values : iterable of float or None
        What must have a place.
    log : bool
        Logarithmic.
    start, end : float
        Pixels of the lowest and the highest value.
    floor : float
        On a logarithmic axis, lower values are drawn here.
    named : bool
        Put the ticks of a logarithmic axis at the values, if they are few.
    """

    def __init__(
        self,
        values: Iterable[Number],
        log: bool,
        start: float,
        end: float,
        floor: float = 0.0,
        named: bool = False,
    ) -> None:
        known = [float(v) for v in values if v is not None and math.isfinite(v)]
        positive = [max(v, floor) for v in known if v > 0 or floor > 0]
        self.log, self.floor = log and bool(positive), floor
        self.start, self.end = start, end
        low, high = 0.0, 1.0
        if self.log:
            low, high = math.log10(min(positive)), math.log10(max(positive))
        elif known:
            low, high = min(known), max(known)
            low = 0.0 if 0 <= low < 0.5 * high else low
        room = 0.03 * (high - low) or 0.5
        self.low, self.high = low - (room if self.log or low else 0.0), high + room
        self.shown = sorted(set(positive if self.log else known))
        # Few values in all, such as numbers of labels: each is a tick.
        self.named = named and len(self.shown) <= 6

    def place(self, value: Number) -> float | None:
        """Return the pixel of a value, None if it has no place."""
        if value is None or not math.isfinite(value):
            return None
        if self.log:
            if max(value, self.floor) <= 0:
                return None
            value = math.log10(max(value, self.floor))
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Return values and words of the ticks."""
        if not self.log:
            size = 10 ** math.floor(math.log10((self.high - self.low) / 4))
            step = next(size * m for m in (1, 2, 5, 10) if (self.high - self.low) / (size * m) <= 6)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [(k * step, words(k * step)) for k in range(first, last + 1)]
        if self.named:
            return [(v, words(v)) for v in self.shown]
        first, last = math.ceil(self.low), math.floor(self.high)
        if last - first >= 2:
            every = max(1, math.ceil((last - first) / 6))
            return [(10.0**k, _power(k)) for k in range(first, last + 1, every)]
        found = [m * 10.0**k for k in range(first - 1, last + 1) for m in (1, 2, 5)]
        return [(v, words(v)) for v in found if self.low <= math.log10(v) <= self.high]


def plot(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    floor: float = 0.0,
    categories: Sequence[str] = (),
) -> str:
    """Return a plot as one ``<svg>`` element, scaled by the page.

    Parameters
    ----------
    series : sequence of Series
        What to draw, the last on top.
    title : str
        What a screen reader says.
    x_label, y_label : str
        Words at the axes.
    log_x, log_y : bool
        Logarithmic axes, where any number is positive.
    floor : float
        Values below it, rounding, are drawn there on a logarithmic y axis.
    categories : sequence of str
        Names of x = 0, 1, …, in place of numbers.

    Examples
    --------
    >>> look = Style("#0072B2", "o", ())
    >>> text = plot([Series("a", look, [1, 2], [3.0, 1.0])], title="t", x_label="x", y_label="y")
    >>> text.count('class="curve"'), "NaN" in text
    (1, False)
    """
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    spread = [-0.5, len(categories) - 0.5] if categories else [v for s in series for v in s.x]
    across = Axis(spread, log_x, _LEFT, right, named=True)
    heights = [v for s in series for part in (s.y, s.low, s.high) for v in part]
    up = Axis(heights, log_y, bottom, _TOP, floor)
    parts = []
    for value, text in up.ticks():
        y = up.place(value)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{_LEFT - 7}" y="{y:.1f}" dy=".32em" class="end">{text}</text>')
    marks = list(enumerate(categories)) or across.ticks()
    for i, (value, text) in enumerate(marks):
        x = across.place(value)
        # Long names of categories stand on two lines in turn.
        drop = 14 * (i % 2) if categories and len(categories) > 3 else 0
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 17 + drop}" class="mid">{_clean(text)}</text>'
        )
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>')
    middle, label = (_LEFT + right) / 2, _clean(x_label)
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" class="mid label">{label}</text>')
    parts.append(
        f'<text class="mid label" transform="translate(15 {(_TOP + bottom) / 2}) rotate(-90)">'
        f"{_clean(y_label)}</text>"
    )
    parts += [_drawn(one, across, up, categories) for one in series]
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_clean(title)}">'
        f"{''.join(parts)}</svg>"
    )


def _drawn(one: Series, across: Axis, up: Axis, categories: Sequence[str]) -> str:
    """Return the band, the line and the markers of a series, with what a pointer reads there."""
    points, band = list[tuple[float, float, str]](), list[tuple[float, float, float]]()
    limits, texts = list[str](), list[str]()
    for i, (x, y) in enumerate(zip(one.x, one.y, strict=True)):
        at, height = across.place(x), up.place(y)
        low, high = (up.place(part[i]) if part else None for part in (one.low, one.high))
        if at is not None and low is not None and high is not None:
            band.append((at, low, high))
            limits.append(f"M{at:.1f} {low:.1f}V{high:.1f}")
        if at is None or height is None or x is None or y is None:
            continue
        place = categories[int(x)] if categories else words(x)
        points.append((at, height, f"{place}: {words(y)}"))
        if one.texts and one.texts[i]:
            texts.append(
                f'<text x="{at + 9:.1f}" y="{height:.1f}" dy=".32em">{_clean(one.texts[i])}</text>'
            )
    parts = []
    if one.joined and len(band) > 1:
        there = " ".join(f"{x:.1f} {low:.1f}" for x, low, _ in band)
        back = " ".join(f"{x:.1f} {high:.1f}" for x, _, high in reversed(band))
        parts.append(f'<path class="band" d="M{there} {back}Z"/>')
    elif limits:
        parts.append(f'<path class="limits" d="{"".join(limits)}"/>')
    if one.joined and len(points) > 1:
        dash = " ".join(f"{2 * d:g}" for d in one.look.dash)
        line = " ".join(f"{x:.1f} {y:.1f}" for x, y, _ in points)
        parts.append(f'<path class="curve" d="M{line}" stroke-dasharray="{dash}"/>')
    mark, every = _MARKS.get(one.look.marker, _CIRCLE), max(1, len(points) // 8)
    for i, (x, y, _) in enumerate(points):
        if not one.joined or i % every == 0 or i == len(points) - 1:
            parts.append(f'<path class="mark" transform="translate({x:.1f} {y:.1f})" d="{mark}"/>')
    read = escape(";".join(f"{x:.0f},{y:.0f},{text}" for x, y, text in points))
    name = _clean(one.name)
    return (
        f'<g data-method="{name}" data-points="{read}" style="--c:{one.look.colour}">'
        f"{''.join(parts)}{''.join(texts)}</g>"
    )


def _power(k: int) -> str:
    return str(10**k) if 0 <= k < 3 else f"10{str(k).translate(_SUPERSCRIPTS)}"


def _clean(text: str) -> str:
    return escape(printable(text))
