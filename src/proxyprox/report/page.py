"""One self-contained HTML page for an experiment or an audit.

The pages work from disk with no network: the plotting library, the style and the data are inside
them, and their content-security policy forbids them to fetch anything. The templates escape every
string that comes from outside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from proxyprox._util.extras import require
from proxyprox._util.files import atomic_write_text
from proxyprox._util.text import printable
from proxyprox.diagnostics import Audit, Interval, RunPlan
from proxyprox.report.figures import COSTS, audit_data, field_label, finite, in_order, styles
from proxyprox.report.records import flat, machine, versions, without_home
from proxyprox.report.summary import last_rows

_PURPOSE = "writing the report"


def write_report(
    folder: str | os.PathLike[str],
    *,
    title: str,
    lead: Sequence[str],
    command: str,
    config: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    costs: Sequence[Mapping[str, Any]] = (),
    notes: Sequence[str] = (),
    metric: str = "suboptimality",
    x_axes: Sequence[str] = COSTS,
    log_x: bool = False,
    labels: Mapping[str, str] | None = None,
    costs_heading: str = "Ledger",
    costs_caption: str = "What each method spent on one run. Target gradients are the scarce ones.",
) -> Path:
    """Write ``report.html`` into `folder`.

    Parameters
    ----------
    folder : path-like
        Existing folder.
    title : str
        Heading of the page.
    lead : sequence of str
        What was found, in plain words; one paragraph each.
    command : str
        Command line that makes the report again. The home folder in it is written ``~``.
    config : mapping
        Settings; nested mappings are shown with dotted names.
    rows : sequence of mappings
        Rows of :func:`proxyprox.report.summary.summarise`.
    costs : sequence of mappings
        What each method spent; the columns are the fields of the rows.
    notes : sequence of str
        Remarks to be read with the numbers.
    metric : str
        Field on the y axis, of which the rows hold ``_median``, ``_q25`` and ``_q75``; less is
        better.
    x_axes : sequence of str
        Fields offered for the x axis, the one that counts first; those without a value are
        dropped.
    log_x : bool
        Start with a logarithmic x axis.
    labels : mapping, optional
        Words by field, in place of the usual ones.
    costs_heading, costs_caption : str
        Heading and caption of the table of `costs`.

    Returns
    -------
    path : Path
        The file written.

    Raises
    ------
    ValueError
        When there are no rows, or `x_axes` names no field of them.
    MissingExtraError
        Without plotly or jinja2.
    """
    if not rows:
        raise ValueError("rows is empty: there is nothing to report.")
    axes = [x for x in x_axes if any(row.get(x) is not None for row in rows)]
    if not axes:
        raise ValueError(
            f"x_axes={list(x_axes)} names no field of the rows ({', '.join(rows[0])})."
        )
    ends = last_rows(rows, x=axes[0])
    middle, low, high = (f"{metric}_{s}" for s in ("median", "q25", "q75"))
    optional = ("batch_size", "eta", axes[0], middle, low, high, *axes[1:], "seeds")
    columns = [f for f in optional if f == middle or any(r.get(f) is not None for r in ends)]
    best = []
    for panel in in_order(ends, "panel"):
        known = [r for r in ends if str(r["panel"]) == panel and r.get(middle) is not None]
        best += [ends.index(min(known, key=lambda row: float(row[middle])))] if known else []
    words = {
        middle: f"median {field_label(metric, labels)}",
        low: "lower quartile",
        high: "upper quartile",
    }
    return _write(
        Path(folder) / "report.html",
        title=title,
        lead=lead,
        command=command,
        config=config,
        notes=notes,
        panels=in_order(rows, "panel"),
        data={
            "metric": metric,
            "labels": {field: field_label(field, labels) for field in (metric, *axes)},
            "styles": {method: look._asdict() for method, look in styles(rows).items()},
            "rows": rows,
        },
        axes={x: field_label(x, labels) for x in axes},
        log_x=log_x,
        ends=ends,
        columns=["panel", "method", *columns],
        best=best,
        costs=costs,
        costs_heading=costs_heading,
        costs_caption=costs_caption,
        labels={**words, **(labels or {})},
    )


def write_audit_page(
    folder: str | os.PathLike[str],
    audit: Audit,
    plan: RunPlan,
    *,
    title: str,
    command: str,
    config: Mapping[str, Any],
) -> Path:
    """Write ``audit.html`` into `folder`, and return its path.

    Parameters
    ----------
    folder : path-like
        Existing folder.
    audit : Audit
        What was found.
    plan : RunPlan
        What to do about it.
    title, command : str
        Heading of the page, and the command line that makes it again.
    config : mapping
        Settings to show.

    Raises
    ------
    MissingExtraError
        Without plotly or jinja2.
    """
    bill = {name: value for name, value in asdict(plan.bill).items() if value is not None}
    return _write(
        Path(folder) / "audit.html",
        title=title,
        lead=[audit.sentence, *audit.reasons],
        command=command,
        config=config,
        notes=plan.notes,
        data=audit_data(audit),
        audit=audit,
        found=audit.prediction,
        plan=plan,
        bill=bill,
        ledger={name: value for name, value in audit.ledger.as_dict().items() if value},
    )


def audit_values(audit: Audit, plan: RunPlan) -> dict[str, Any]:
    """Return an audit, and the plan made of it, as JSON values."""
    found, scale = audit.prediction, audit.scale
    plain = ("sentence", "confidence", "epsilon", "epsilon_source", "B", "B_source")
    intervals = ("delta", "H", "mu", "sigma2", "rho2")
    return {
        "verdict": audit.verdict.name,
        "leaning": audit.leaning.name,
        "doubts": list(audit.doubts),
        "reasons": list(audit.reasons),
        **{name: getattr(audit, name) for name in plain},
        **{name: _finite_values(getattr(audit, name)._asdict()) for name in intervals},
        "scale": {
            "value": scale.weights[0],
            "delta": _finite_values(scale.delta._asdict()),
            "offered": scale.helps,
        },
        "rehearsed": {
            "sgd": finite(found.rehearsed_sgd.steps),
            "proxyprox": finite(found.rehearsed_proxyprox.steps),
            "offered": finite(found.rehearsed_best.steps),
        },
        "theory": {n: getattr(found, n) for n in ("regime", "sgd", "accelerated", "proxyprox")},
        "cost_ratio": finite(audit.cost.ratio),
        "ledger": audit.ledger.as_dict(),
        "plan": {
            **{name: getattr(plan, name) for name in ("steps", "expected", "reaches")},
            **{name: repr(getattr(plan, name)) for name in ("method", "averaging", "stop")},
            "bill": asdict(plan.bill),
            "what_if": [_finite_values(asdict(line)) for line in plan.what_if],
            "notes": list(plan.notes),
        },
    }


def _finite_values(found: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: finite(value) for name, value in found.items()}


def _write(path: Path, **content: Any) -> Path:
    plotly = require("plotly.offline", extra="report", purpose=_PURPOSE)
    page = _environment().get_template(path.name)
    facts = {"versions": versions(), "machine": machine(), "plotly": plotly.get_plotlyjs()}
    atomic_write_text(path, page.render(**content, **facts) + "\n")
    return path


@cache
def _environment() -> Any:
    jinja2 = require("jinja2", extra="report", purpose=_PURPOSE)
    markup = require("markupsafe", extra="report", purpose=_PURPOSE).Markup
    folder = files("proxyprox.report") / "templates"

    def shown(value: Any) -> Any:
        """Write characters that act on a reader's screen as escapes; jinja2 escapes the rest."""
        return printable(value) if type(value) is str else value

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        finalize=shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "ensure_ascii": False}
    more: dict[str, Any] = {
        "asset": lambda name: markup((folder / name).read_text(encoding="utf-8")),
        "cells": _cells,
        "settings": _settings,
        "without_home": without_home,
    }
    environment.globals.update(more)
    environment.filters["finite"] = finite
    environment.filters["limits"] = _limits
    return environment


def _limits(found: Interval) -> dict[str, float | None]:
    names = ("estimate", "low", "high")
    values = [finite(getattr(found, name)) for name in names]
    return dict(zip(("estimate", "lower limit", "upper limit"), values, strict=True))


def _cells(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return headings and cells of a table; a column of numbers has keys to sort by."""
    columns = columns or list(dict.fromkeys(field for row in rows for field in row))
    heads, lines = [], [list[tuple[str, str | None]]() for _ in rows]
    for column in columns:
        values = [row.get(column) for row in rows]
        numeric = all(
            v is None or (isinstance(v, int | float) and not isinstance(v, bool)) for v in values
        )
        # One value that needs an exponent gives one to its whole column, so that they compare.
        scientific = numeric and any(_needs_exponent(value) for value in values)
        heads.append((field_label(column, labels), numeric))
        for line, value in zip(lines, values, strict=True):
            key = None if not numeric else "" if value is None else repr(float(value))
            line.append((number(value, scientific=scientific), key))
    return {"heads": heads, "lines": lines}


def _settings(mapping: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in flat(mapping):
        items = value if isinstance(value, list | tuple) else [value]
        texts = [f"{item:g}" if isinstance(item, float) else str(item) for item in items]
        yield name, without_home(", ".join(texts) or "none").replace("None", "none")


def number(value: Any, *, scientific: bool = False) -> str:
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
    if isinstance(value, float) and (scientific or _needs_exponent(value)):
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1000 and value == int(value) else f"{value:.4g}"


def _needs_exponent(value: Any) -> bool:
    return isinstance(value, float) and value != 0 and not 1e-3 <= abs(value) < 1e6
