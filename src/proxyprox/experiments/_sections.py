"""The parts of a report, each a function from data to HTML.

Every string that comes from outside passes through `html.escape` here and nowhere else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from proxyprox._text import escape_html
from proxyprox.experiments._machine import without_home
from proxyprox.experiments._style import field_label, in_order, styles
from proxyprox.experiments.summary import end_points

__all__ = [
    "command_section",
    "figure_data",
    "figures_section",
    "json_script",
    "mapping_section",
    "notes_section",
    "number",
    "result_section",
    "table",
]


def number(value: Any, *, scientific: bool = False) -> str:
    """Write a value for a reader.

    Examples
    --------
    >>> number(12345), number(0.0000123), number(2.5), number(None), number("a")
    ('12,345', '1.23e-05', '2.5', '–', 'a')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, float) and scientific:
        return f"{value:.2e}"
    if isinstance(value, float) and value.is_integer() and 1000 <= abs(value) < 1e15:
        value = int(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2e}" if _needs_exponent(value) else f"{value:.4g}"
    return str(value)


def _needs_exponent(value: Any) -> bool:
    return isinstance(value, float) and value != 0 and not 1e-3 <= abs(value) < 1e6


def table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    caption: str,
    labels: Mapping[str, str] | None = None,
    strong: Iterable[int] = (),
) -> str:
    """Write a sortable table.

    Parameters
    ----------
    rows : sequence of mappings
        Cells by column.
    columns : sequence of str
        Fields to show, in order.
    caption : str
        What the table holds.
    labels : mapping, optional
        Headings by field.
    strong : iterable of int
        Positions of the rows to set off.
    """
    numeric = {c for c in columns if all(_is_number(row.get(c)) for row in rows)}
    head = "".join(
        f'<th scope="col" class="{"num" if c in numeric else "text"}"><button type="button">'
        f"{escape_html(field_label(c, labels))}</button></th>"
        for c in columns
    )
    # One value that needs an exponent gives one to its whole column, so that they compare.
    scientific = {c for c in numeric if any(_needs_exponent(row.get(c)) for row in rows)}
    chosen = set(strong)
    body = []
    for position, row in enumerate(rows):
        cells = "".join(
            _cell(row.get(c), numeric=c in numeric, scientific=c in scientific) for c in columns
        )
        body.append(f"<tr{' class=best' if position in chosen else ''}>{cells}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape_html(caption)}">'
        f"<table><caption>{escape_html(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Any, *, numeric: bool, scientific: bool) -> str:
    if not numeric:
        return f"<td>{escape_html(number(value))}</td>"
    key = "" if value is None else repr(float(value))
    shown = escape_html(number(value, scientific=scientific))
    return f'<td class="num" data-value="{key}">{shown}</td>'


def result_section(
    rows: Sequence[Mapping[str, Any]],
    *,
    metric: str,
    x: str,
    costs: Sequence[str],
    larger_is_better: bool,
    labels: Mapping[str, str] | None,
) -> str:
    """Write where every method ended, the best of each panel set off."""
    ends = end_points(rows, x=x)
    median, q25, q75 = (f"{metric}_{s}" for s in ("median", "q25", "q75"))
    settings = [f for f in ("batch_size", "eta") if any(r.get(f) is not None for r in ends)]
    others = [c for c in costs if c != x and any(r.get(c) is not None for r in ends)]
    counts = ["seeds"] if any("seeds" in r for r in ends) else []
    columns = ["panel", "method", *settings, x, median, q25, q75, *others, *counts]
    words = {
        median: f"median {field_label(metric, labels)}",
        q25: "lower quartile",
        q75: "upper quartile",
        **(labels or {}),
    }
    pick = max if larger_is_better else min
    best = []
    for panel in in_order(ends, "panel"):
        here = [i for i, r in enumerate(ends) if str(r["panel"]) == panel]
        if known := [i for i in here if ends[i].get(median) is not None]:
            best.append(pick(known, key=lambda i: float(ends[i][median])))
    caption = (
        "Where each method ended: median and quartiles over seeds. The best median of each panel "
        "is in bold; press a heading to sort."
    )
    return _section(
        "Results", "results", table(ends, columns, caption=caption, labels=words, strong=best)
    )


def figures_section(
    panels: Sequence[str],
    x_axes: Sequence[str],
    *,
    log_x: bool = False,
    log_y: bool,
    labels: Mapping[str, str] | None,
) -> str:
    """Write the controls and one empty frame a panel; the script of the page fills them."""
    radios = "".join(
        f'<label><input type="radio" name="x-axis" value="{escape_html(x)}"'
        f"{' checked' if i == 0 else ''}><span>{escape_html(field_label(x, labels))}</span></label>"
        for i, x in enumerate(x_axes)
    )
    frames = "".join(
        f'<figure><figcaption id="panel-{i}">{escape_html(panel)}</figcaption>'
        f'<div class="plot" data-panel="{i}" role="img" aria-labelledby="panel-{i}"></div></figure>'
        for i, panel in enumerate(panels)
    )
    how = (
        "Each line is the median over seeds, the band around it the quartiles. Point at a curve to "
        "read its values, press a method to hide it, drag to zoom, double-press to come back."
    )
    return _section(
        "Figures",
        "figures",
        f'<div class="controls"><fieldset><legend>x axis</legend>{radios}</fieldset>'
        '<fieldset><legend>scales</legend><label><input type="checkbox" id="log-x"'
        f"{' checked' if log_x else ''}>"
        '<span>logarithmic x</span></label><label><input type="checkbox" id="log-y"'
        f"{' checked' if log_y else ''}><span>logarithmic y</span></label></fieldset></div>"
        f'<p class="hint">{how}</p>'
        '<div class="legend" id="legend" role="group" aria-label="Methods shown"></div>'
        '<p class="hint" id="absent" aria-live="polite"></p>'
        "<noscript><p>The figures need JavaScript; the tables hold the numbers.</p></noscript>"
        f'<div class="plots">{frames}</div>',
    )


def figure_data(
    rows: Sequence[Mapping[str, Any]],
    *,
    metric: str,
    x_axes: Sequence[str],
    labels: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Return what the script of the page draws from."""
    looks = styles(rows)
    panels = []
    for panel in in_order(rows, "panel"):
        here = [row for row in rows if str(row["panel"]) == panel]
        curves = []
        for method in in_order(here, "method"):
            curve = [row for row in here if str(row["method"]) == method]
            look = looks[method]
            curves.append(
                {
                    "method": method,
                    "colour": look.colour,
                    "dash": look.plotly_dash,
                    "symbol": look.plotly_marker,
                    "x": {x: [row.get(x) for row in curve] for x in x_axes},
                    **{
                        s: [r.get(f"{metric}_{s}") for r in curve] for s in ("median", "q25", "q75")
                    },
                }
            )
        panels.append({"title": panel, "curves": curves})
    words = {field: field_label(field, labels) for field in (metric, *x_axes)}
    return {"metric": words[metric], "labels": words, "panels": panels}


def mapping_section(
    title: str, anchor: str, tables: Mapping[str, Mapping[str, Any]], *, lead: str = ""
) -> str:
    """Write nested settings as tables of names and values, one for each entry of `tables`."""
    parts = [f"<p>{escape_html(lead)}</p>"] if lead else []
    for caption, mapping in tables.items():
        lines = "".join(
            f'<tr><th scope="row">{escape_html(name)}</th>'
            f"<td>{escape_html(without_home(value))}</td></tr>"
            for name, value in _flat(mapping)
        )
        parts.append(
            f'<div class="scroll"><table class="plain"><caption>{escape_html(caption)}</caption>'
            f"<tbody>{lines}</tbody></table></div>"
        )
    return _section(title, anchor, "".join(parts))


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            yield f"{prefix}{name}", ", ".join(_setting(item) for item in value) or "none"
        else:
            yield f"{prefix}{name}", _setting(value)


def _setting(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)


def command_section(command: str) -> str:
    """Write the command that makes the report again."""
    shown = escape_html(without_home(command))
    return _section(
        "How to make it again", "command", f'<pre tabindex="0"><code>{shown}</code></pre>'
    )


def notes_section(notes: Sequence[str]) -> str:
    """Write remarks as a list; nothing without remarks."""
    items = "".join(f"<li>{escape_html(note)}</li>" for note in notes)
    return _section("Notes", "notes", f"<ul>{items}</ul>") if items else ""


def _section(title: str, anchor: str, content: str) -> str:
    return (
        f'<section aria-labelledby="{anchor}"><h2 id="{anchor}">{escape_html(title)}</h2>'
        f"{content}</section>"
    )


def json_script(identifier: str, data: Any) -> str:
    """Embed data in a page so that no string in it can end the script element."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return f'<script type="application/json" id="{escape_html(identifier)}">{safe}</script>'
