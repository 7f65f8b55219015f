"""One self-contained HTML page for an experiment or an audit.

The page works from disk with no network: plots are SVG inside the page, and a content-security
policy forbids to fetch anything. The template escapes every string that comes from outside.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from experiments.report import figures
from experiments.report.figures import COSTS, field_label, in_order, styles
from experiments.report.summary import (
    LIMITS,
    flat,
    joint_confidence,
    last_rows,
    machine,
    versions,
    without_home,
)
from proxyprox._util.extras import require
from proxyprox._util.files import atomic_write_text
from proxyprox._util.text import printable
from proxyprox_app.page import number

TERMS: dict[str, str] = tomllib.loads(
    resources.files("experiments.report").joinpath("templates/glossary.toml").read_text("utf-8")
)
"""What a word means, by an expression that finds the word; a page lists those that it uses."""


def write_report(
    folder: str | os.PathLike[str],
    *,
    rows: Sequence[Mapping[str, Any]] = (),
    sections: Sequence[Mapping[str, Any]] = (),
    name: str = "report.html",
    **content: Any,
) -> Path:
    """Write a page into `folder`.

    Parameters
    ----------
    folder : path-like
        Existing folder.
    rows : sequence of mappings
        Rows of :func:`experiments.report.summary.summarise`, for a page of one section.
    sections : sequence of mappings
        In place of rows: the arguments of :func:`section`, one mapping for each.
    name : str
        The file.
    **content
        ``metric``, ``x_axes``, ``labels`` and ``log_x`` of a single section, as in :func:`section`,
        and what else the template shows. Needed: ``title``; ``lead``, what was found, one paragraph
        each; ``command``, which makes the report again (the home folder in it is written ``~``);
        ``config``, settings, nested ones with dotted names. Optional: ``about``, problem, data and
        proxy by name; ``notes``, remarks; ``tables``, pairs of a heading and rows; ``costs``, rows
        of what each method spent, with ``costs_heading`` and ``costs_caption``.

    Returns
    -------
    path : Path
        The file written.

    Raises
    ------
    ValueError
        When `x_axes` names no field of the rows.
    MissingExtraError
        Without jinja2 or matplotlib.
    """
    jinja2 = require("jinja2", extra="app", purpose="writing the report")
    names = ("metric", "x_axes", "labels", "log_x")
    own = {name: content.pop(name) for name in names if name in content}
    content["labels"] = own.get("labels") or {}
    content["parts"] = [
        section(**part) for part in sections or ([{"rows": rows, **own}] * bool(rows))
    ]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("experiments.report"),
        autoescape=True,
        # Characters that act on a reader's screen are escapes too; jinja2's own markup is safe.
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    content |= {"versions": versions(), "machine": machine(), "short": without_home}
    content |= {"cells": _cells, "settings": _settings}
    template = environment.get_template("report.html")
    text = re.sub("<[^>]*>", " ", template.render(glossary={}, **content))
    found = {term: re.search(rf"(?<![\w-])(?:{term})(?![\w-])", text) for term in TERMS}
    glossary = {match[0]: TERMS[term] for term, match in found.items() if match}
    path = Path(folder) / name
    atomic_write_text(path, template.render(glossary=glossary, **content) + "\n")
    return path


def section(
    rows: Sequence[Mapping[str, Any]],
    *,
    metric: str = "suboptimality",
    x_axes: Sequence[str] = COSTS,
    labels: Mapping[str, str] | None = None,
    log_x: bool = False,
    heading: str = "Results",
    text: str = "",
    about: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what a page shows of some curves: a plot for each panel and a table of their ends.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of :func:`experiments.report.summary.summarise`.
    metric : str
        Field on the y axis, of which the rows hold ``_median``, ``_q25`` and ``_q75``, perhaps
        ``_low`` and ``_high``; less is better.
    x_axes : sequence of str
        Fields offered for the x axis, the one that counts first; those without a value are
        dropped.
    labels : mapping, optional
        Words by field, in place of the usual ones.
    log_x : bool
        Whether the first x axis is logarithmic; the others always are, because methods differ in
        them by orders of magnitude.
    heading, text : str
        Title, and what was found.
    about : mapping, optional
        Problem, data and proxy of this section, by name.
    """
    axes = [x for x in x_axes if any(row.get(x) is not None for row in rows)]
    if not axes:
        raise ValueError(f"rows is empty, or x_axes={list(x_axes)} names no field of theirs.")
    looks, panels = styles(rows), in_order(rows, "panel")
    ends = last_rows(rows)
    middle, low, high = f"{metric}_median", *(f"{metric}_{s}" for s in LIMITS)
    # The budget is mostly the same for all: the caption tells it.
    budgets = {row.get(axes[0]) for row in ends}
    spent = [axes[0]] if len(budgets) > 1 else []
    optional = ("batch_size", "eta", *spent, middle, low, high, *axes[1:])
    columns = [f for f in optional if f == middle or any(r.get(f) is not None for r in ends)]
    end = "" if len(budgets) > 1 or None in budgets else f"After {number(*budgets)} "
    caption = f"{end}{field_label(axes[0], labels)}: " if end else ""
    caption += f"median {field_label(metric, labels)}; the lowest "
    caption += "is in bold." if len(panels) == 1 else "of each panel is in bold."
    best, plots = [], list[list[str]]()
    for panel in panels:
        known = [r for r in ends if str(r["panel"]) == panel and r.get(middle) is not None]
        best += [ends.index(min(known, key=lambda row: float(row[middle])))] if known else []
        here = [row for row in rows if str(row["panel"]) == panel]
        plots.append([])
        for i, x in enumerate(axes):
            words = field_label(x, labels), field_label(metric, labels)
            draw = partial(
                figures.draw_curves, rows=here, looks=looks, metric=metric, x=x,
                log_x=log_x or i > 0, labels=labels,
            )  # fmt: skip
            title = f"{panel}: {words[1]} by {words[0]}"
            plots[-1].append(figures.plot_svg(title, *words, draw))
    count = max(sum(str(row["panel"]) == panel for row in ends) for panel in panels)
    seeds = min(int(row.get("seeds", 1)) for row in ends)
    fields = {middle: "median", low: "lower limit", high: "upper limit", "eta": "step size"}
    return {
        "heading": heading,
        "text": text,
        "about": about or {},
        "axes": [field_label(x, labels) for x in axes],
        "legend": [(method, figures.glyph(look)) for method, look in looks.items()],
        "panels": list(zip(panels, plots, strict=True)),
        "ends": ends,
        "caption": caption[0].upper() + caption[1:],
        "best": best,
        "columns": [*(["panel"] if len(panels) > 1 else []), "method", *columns],
        "labels": {**fields, **(labels or {})},
        "confidence": joint_confidence(seeds, count) if low in columns else None,
        "seeds": seeds,
        "count": count,
    }


def _cells(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], labels: Mapping[str, str]
) -> list[tuple[str, bool, list[tuple[str, Any]]]]:
    """Return the columns of a table: heading, whether of numbers, and its texts and values."""
    found = []
    for column in columns or dict.fromkeys(field for row in rows for field in row):
        values = [row.get(column) for row in rows]
        numeric = all(v is None or type(v) is int or isinstance(v, float) for v in values)
        cells = [(number(value), value) for value in values]
        found.append((field_label(column, labels), numeric, cells))
    return found


def _settings(mapping: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in flat(mapping):
        items = value if isinstance(value, list | tuple) else [value]
        texts = [f"{item:g}" if isinstance(item, float) else str(item) for item in items]
        yield name, without_home(", ".join(texts) or "none").replace("None", "none")
