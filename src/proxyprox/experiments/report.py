"""One HTML file that shows an experiment: figures, tables, ledger, settings and command.

The page works from disk with no network: the plotting library, the style and the data are inside
it, and its content-security policy forbids it to fetch anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from proxyprox._extras import require
from proxyprox._files import atomic_write_text
from proxyprox._text import escape_html
from proxyprox.experiments._machine import machine, versions
from proxyprox.experiments._sections import (
    command_section,
    figure_data,
    figures_section,
    json_script,
    mapping_section,
    notes_section,
    result_section,
    table,
)
from proxyprox.experiments._style import COSTS, in_order

__all__ = ["page", "write_report"]

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)


LEDGER = (
    "Ledger",
    "What each method spent on one run. The target gradients are the scarce ones.",
)


def write_report(
    folder: str | os.PathLike[str],
    *,
    title: str,
    lead: str | Sequence[str],
    command: str,
    config: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    ledger_rows: Sequence[Mapping[str, Any]] = (),
    notes: Sequence[str] = (),
    metric: str = "suboptimality",
    x_axes: Sequence[str] = COSTS,
    larger_is_better: bool = False,
    log_x: bool = False,
    log_y: bool = True,
    labels: Mapping[str, str] | None = None,
    ledger_words: tuple[str, str] = LEDGER,
) -> Path:
    """Write ``report.html`` into `folder`.

    Parameters
    ----------
    folder : path-like
        Existing folder.
    title : str
        Heading of the page.
    lead : str or sequence of str
        What was found, in plain words; one paragraph each.
    command : str
        Command line that makes the report again. The home folder in it is written ``~``.
    config : mapping
        Settings; nested mappings are shown with dotted names.
    rows : sequence of mappings
        Rows of `proxyprox.experiments.summary.summarise`.
    ledger_rows : sequence of mappings
        What each method spent; the columns are the fields of the rows.
    notes : sequence of str
        Remarks to be read with the numbers.
    metric : str
        Field on the y axis, of which the rows hold ``_median``, ``_q25`` and ``_q75``.
    x_axes : sequence of str
        Fields offered for the x axis, the one that counts first; those without a value are
        dropped.
    larger_is_better : bool
        True for an accuracy.
    log_x, log_y : bool
        Start with logarithmic axes.
    labels : mapping, optional
        Words by field, in place of the usual ones.
    ledger_words : (str, str)
        Heading and caption of the table of `ledger_rows`.

    Returns
    -------
    path : Path
        The file written.

    Raises
    ------
    ValueError
        When there are no rows, or `x_axes` names no field of them.
    MissingExtraError
        Without plotly.
    """
    if not rows:
        raise ValueError("rows is empty: there is nothing to report.")
    axes = [x for x in x_axes if any(row.get(x) is not None for row in rows)]
    if not axes:
        raise ValueError(
            f"x_axes={list(x_axes)} names no field of the rows ({', '.join(rows[0])})."
        )
    plotly = require("plotly.offline", extra="report", purpose="writing the report")
    paragraphs = [lead] if isinstance(lead, str) else list(lead)
    sections = [
        figures_section(in_order(rows, "panel"), axes, log_x=log_x, log_y=log_y, labels=labels),
        result_section(
            rows,
            metric=metric,
            x=axes[0],
            costs=axes[1:],
            larger_is_better=larger_is_better,
            labels=labels,
        ),
        _ledger_section(ledger_rows, labels, *ledger_words),
        notes_section(notes),
        command_section(command),
        mapping_section("Configuration", "configuration", {"Settings of this run": config}),
        mapping_section(
            "Versions and machine",
            "machine",
            {"Versions": versions(), "Machine": machine()},
        ),
    ]
    content = page(
        title,
        paragraphs,
        "".join(sections),
        json_script("figures-data", figure_data(rows, metric=metric, x_axes=axes, labels=labels)),
        plotly.get_plotlyjs(),
    )
    path = Path(folder) / "report.html"
    atomic_write_text(path, content)
    return path


def _ledger_section(
    ledger_rows: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str] | None,
    heading: str,
    caption: str,
) -> str:
    if not ledger_rows:
        return ""
    columns = list(dict.fromkeys(field for row in ledger_rows for field in row))
    inside = table(ledger_rows, columns, caption=caption, labels=labels)
    return f'<section aria-labelledby="ledger"><h2 id="ledger">{heading}</h2>{inside}</section>'


def page(
    title: str,
    lead: Sequence[str],
    body: str,
    data: str,
    plotly_js: str,
    *,
    script: str = "report.js",
) -> str:
    """Return a page that needs nothing from outside.

    Parameters
    ----------
    title : str
        Heading.
    lead : sequence of str
        Paragraphs under it.
    body, data : str
        Sections and embedded data, as `proxyprox.experiments._sections` makes them.
    plotly_js : str
        The plotting library.
    script : str
        Which of the assets draws the figures.
    """
    assets = files("proxyprox.experiments") / "assets"
    css = (assets / "report.css").read_text(encoding="utf-8")
    drawing, sorting = (
        (assets / name).read_text(encoding="utf-8") for name in (script, "tables.js")
    )
    paragraphs = "".join(f'<p class="lead">{escape_html(text)}</p>' for text in lead)
    # The policy's img-src allows the data: icon, without which browsers ask for /favicon.ico.
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape_html(title)}</title>\n<style>\n{css}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape_html(title)}</h1>{paragraphs}</header>\n<main>{body}</main>\n"
        f"{data}\n<script>{plotly_js}</script>\n<script>\n{drawing}{sorting}</script>\n</body>\n</html>\n"
    )
