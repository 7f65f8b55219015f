"""A page that works from disk with no network: words, tables, and curves as SVG inside it."""

from __future__ import annotations

import io
import json
import platform
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from proxyprox import __version__
from proxyprox._util.extras import require
from proxyprox._util.files import atomic_write_text
from proxyprox._util.text import printable

# After Okabe and Ito: each has a contrast of at least 3 with white paper and with a dark page.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#737373")
_MARKERS, _INK = "os^DvP", "#1b1f24"


def write_page(path: Path, **content: Any) -> Path:
    """Write a page, and return its path.

    Parameters
    ----------
    path : Path
        The file, in a folder that exists.
    **content
        ``title``; ``lead``, paragraphs; ``parts``, mappings with ``heading`` and ``rows`` (those
        of a table), perhaps ``text``, ``about`` (words by name) and ``svg``;
        ``notes``; ``command``, which makes the page again.

    Raises
    ------
    MissingExtraError
        Without jinja2.
    """
    jinja2 = require("jinja2", extra="app", purpose="writing the report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("proxyprox_app", ""),
        autoescape=True,
        # Characters that act on a reader's screen are escapes too; jinja2's own markup is safe.
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    versions = (
        f"proxyprox {__version__}, numpy {np.__version__}, Python {platform.python_version()}"
    )
    made = {"command": content["command"].replace(str(Path.home()), "~"), "shown": number}
    text = environment.get_template("page.html").render({**content, **made, "versions": versions})
    atomic_write_text(path, text + "\n")
    return path


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON values, laid out for a reader."""
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    atomic_write_text(path, text + "\n")


def number(value: Any) -> str:
    """Write a value for a reader.

    Examples
    --------
    >>> number(12345), number(0.0000123), number(2.5), number(None), number("a")
    ('12,345', '1.23e-05', '2.5', '–', 'a')
    """
    if value is None or value != value:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) < 1e9 and value % 1 == 0 else f"{value:,.4g}"


def curves_svg(
    title: str, curves: Mapping[str, tuple[Sequence[float], Any]], x_label: str, y_label: str,
    log_x: bool,
) -> str:  # fmt: skip
    """Return curves as an ``<svg>`` element of a page, on a logarithmic y axis.

    Parameters
    ----------
    title : str
        What a screen reader says; where each curve ends is added.
    curves : mapping
        By method the places on the x axis, and an array of shape (draws, places). The line is the
        median, the band holds the middle half of the draws.
    x_label, y_label : str
        Words at the axes.
    log_x : bool
        Whether the x axis is logarithmic.
    """
    matplotlib: Any = require("matplotlib", extra="app", purpose="drawing figures")
    figures: Any = require("matplotlib.figure", extra="app", purpose="drawing figures")
    ticker: Any = require("matplotlib.ticker", extra="app", purpose="drawing figures")
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    look = {
        "svg.fonttype": "none", "svg.hashsalt": title, "font.size": 12, "text.parse_math": False,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.alpha": 0.25, "legend.frameon": False, **dict.fromkeys(inked, _INK),
    }  # fmt: skip
    with matplotlib.rc_context():
        # The user's own settings would change the page.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(look)
        figure = figures.Figure(figsize=(7, 4.4), layout="constrained")
        axis, ends = figure.add_subplot(), []
        for (method, (x, draws)), colour, marker in zip(
            curves.items(), _COLOURS, _MARKERS, strict=False
        ):
            low, middle, high = np.quantile(np.maximum(draws, 1e-12), (0.25, 0.5, 0.75), axis=0)
            axis.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
            axis.plot(x, middle, color=colour, marker=marker, markevery=len(x) // 8 or 1,
                      markersize=5, label=printable(method))  # fmt: skip
            ends.append(f"{method} {middle[-1]:.2g}")
        axis.set(xlabel=x_label, ylabel=y_label, yscale="log", xscale="log" if log_x else "linear")
        axis.xaxis.set_major_locator(
            ticker.LogLocator(subs=(1, 2, 5)) if log_x else ticker.MaxNLocator(integer=True)
        )
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_formatter(lambda value, _: f"{value:g}")
            if side.get_scale() == "log":
                side.set_minor_locator(ticker.NullLocator())
        figure.legend(loc="outside upper left", ncols=2)
        output = io.StringIO()
        figure.savefig(output, format="svg", transparent=True, metadata={"Date": None})
    svg = output.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    # Names that nothing refers to would be many times in one page.
    svg = re.sub(r' id="(?![mp][0-9a-f]{10}")[^"]*"|<metadata>.*?</metadata>', "", svg, flags=re.S)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', r"\1", svg)
    label = escape(printable(f"{title}: {'; '.join(ends)}"), quote=True)
    return svg.replace("<svg", f'<svg class="plot" role="img" aria-label="{label}"', 1)
