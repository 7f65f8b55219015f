"""One self-contained HTML page for an experiment or an audit.

The pages work from disk with no network: the plotting library, the style and the data are inside
them, and their content-security policy forbids them to fetch anything. The templates escape every
string that comes from outside.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proxyprox._util.extras import require
from proxyprox._util.files import atomic_write_text
from proxyprox._util.text import printable
from proxyprox.diagnostics import Audit, RoundAudit, RunPlan
from proxyprox.report.figures import COSTS, field_label, in_order, styles
from proxyprox.report.records import flat, machine, versions, without_home
from proxyprox.report.summary import QUARTILES, last_rows

_PURPOSE = "writing the report"


def write_report(
    folder: str | os.PathLike[str],
    *,
    rows: Sequence[Mapping[str, Any]],
    metric: str = "suboptimality",
    x_axes: Sequence[str] = COSTS,
    labels: Mapping[str, str] | None = None,
    **content: Any,
) -> Path:
    """Write ``report.html`` into `folder`.

    Parameters
    ----------
    folder : path-like
        Existing folder.
    rows : sequence of mappings
        Rows of :func:`proxyprox.report.summary.summarise`.
    metric : str
        Field on the y axis, of which the rows hold ``_median``, ``_q25`` and ``_q75``; less is
        better.
    x_axes : sequence of str
        Fields offered for the x axis, the one that counts first; those without a value are
        dropped.
    labels : mapping, optional
        Words by field, in place of the usual ones.
    **content
        What else the template shows. Needed: ``title``; ``lead``, what was found, one paragraph
        each; ``command``, which makes the report again (the home folder in it is written ``~``);
        ``config``, settings, nested ones with dotted names. Optional: ``notes``, remarks;
        ``log_x``, whether to start with a logarithmic x axis; ``costs``, rows of what each method
        spent, with ``costs_heading`` and ``costs_caption``.

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
    axes = [x for x in x_axes if any(row.get(x) is not None for row in rows)]
    if not axes:
        raise ValueError(f"rows is empty, or x_axes={list(x_axes)} names no field of theirs.")
    ends = last_rows(rows)
    middle, low, high = (f"{metric}_{s}" for s in QUARTILES)
    optional = ("batch_size", "eta", axes[0], middle, low, high, *axes[1:], "seeds")
    columns = [f for f in optional if f == middle or any(r.get(f) is not None for r in ends)]
    best = []
    for panel in in_order(ends, "panel"):
        known = [r for r in ends if str(r["panel"]) == panel and r.get(middle) is not None]
        best += [ends.index(min(known, key=lambda row: float(row[middle])))] if known else []
    words = {middle: f"median {field_label(metric, labels)}"}
    words |= {low: "lower quartile", high: "upper quartile", **(labels or {})}
    data = {
        "metric": metric,
        "labels": {field: field_label(field, labels) for field in (metric, *axes)},
        "styles": {method: look._asdict() for method, look in styles(rows).items()},
        "rows": rows,
    }
    return _write(
        Path(folder) / "report.html",
        "report.html",
        **content,
        panels=in_order(rows, "panel"),
        data=data,
        axes=axes,
        ends=ends,
        columns=["panel", "method", *columns],
        best=best,
        labels=words,
    )


def write_audit_page(
    folder: str | os.PathLike[str], audit: Audit | RoundAudit, plan: RunPlan, **content: Any
) -> Path:
    """Write ``audit.html`` into `folder`, and return its path.

    Parameters
    ----------
    folder : path-like
        Existing folder.
    audit : Audit or RoundAudit
        What was found.
    plan : RunPlan
        What to do about it.
    **content
        ``title``, ``command`` and ``config``, as in :func:`write_report`.

    Raises
    ------
    MissingExtraError
        Without plotly or jinja2.
    """

    def curvatures(parts: Iterable[Any]) -> list[Any]:
        return [{name: _limits(part, name) for name in ("H", "delta")} for part in parts]

    values, file = audit_values(audit, plan), Path(folder) / "audit.html"
    shared = {"lead": [audit.sentence, *audit.reasons], "notes": plan.notes, "values": values}
    if isinstance(audit, RoundAudit):
        return _write(file, "rounds.html", **content, **shared, data={}, plan=plan)
    end = audit.points[-1]
    data = {
        "target": sorted(map(abs, end.target_spectrum.tolist()), reverse=True),
        "difference": sorted(map(abs, end.difference_spectrum.tolist()), reverse=True),
        "points": curvatures(audit.points),
        "secants": curvatures(audit.path),
        "rehearsed": values["rehearsed"],
        "theory": values["theory"],
    }
    return _write(file, "audit.html", **content, **shared, data=data, audit=audit, plan=plan)


def audit_values(audit: Audit | RoundAudit, plan: RunPlan) -> dict[str, Any]:
    """Return an audit, and the plan made of it, as JSON values."""
    planned = {
        **{name: getattr(plan, name) for name in ("steps", "reaches")},
        "expected": finite(plan.expected),
        **{name: repr(getattr(plan, name)) for name in ("method", "averaging", "stop")},
        "bill": asdict(plan.bill),
        "what_if": [_finite_values(asdict(line)) for line in plan.what_if],
        "notes": list(plan.notes),
    }
    if isinstance(audit, RoundAudit):
        counts = ("rounds", "rounds_without", "rounds_lbfgs", "epsilon")
        return {
            "verdict": audit.verdict.name,
            "sentence": audit.sentence,
            "reasons": audit.reasons,
            **{name: finite(getattr(audit, name)) for name in counts},
            "epsilon_source": audit.epsilon_source,
            **{name: _limits(audit, name) for name in ("delta", "H")},
            "misfits": audit.misfits,
            "ledger": audit.ledger.as_dict(),
            "plan": planned,
        }
    found, scale = audit.prediction, audit.scale
    plain = ("sentence", "confidence", "epsilon", "epsilon_source", "B", "B_source")
    return {
        "verdict": audit.verdict.name,
        "leaning": audit.leaning.name,
        "doubts": list(audit.doubts),
        "reasons": list(audit.reasons),
        **{name: getattr(audit, name) for name in plain},
        **{name: _limits(audit, name) for name in ("delta", "H", "mu", "sigma2", "rho2")},
        "scale": {
            "value": scale.weights[0],
            "delta": _limits(scale, "delta"),
            "offered": scale.helps,
        },
        "rehearsed": {
            "sgd": finite(found.rehearsed_sgd.steps),
            "proxyprox": finite(found.rehearsed_proxyprox.steps),
            "offered": finite(found.rehearsed_best.steps),
        },
        "theory": {
            "regime": found.regime,
            **{name: finite(getattr(found, name)) for name in ("sgd", "accelerated", "proxyprox")},
        },
        "cost_ratio": finite(audit.cost.ratio),
        "ledger": audit.ledger.as_dict(),
        "plan": planned,
    }


def finite(value: float) -> float | None:
    """Return a number as JSON has it: None where it is not finite."""
    return float(value) if math.isfinite(value) else None


def _finite_values(found: Mapping[str, float]) -> dict[str, float | None]:
    return {name: finite(value) for name, value in found.items()}


def _limits(found: Any, name: str) -> dict[str, float | None]:
    """Return an interval that is an attribute, as JSON values."""
    return _finite_values(getattr(found, name)._asdict())


def _write(path: Path, template: str, **content: Any) -> Path:
    plotly = require("plotly.offline", extra="report", purpose=_PURPOSE)
    jinja2 = require("jinja2", extra="report", purpose=_PURPOSE)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("proxyprox.report"),
        autoescape=True,
        # Characters that act on a reader's screen are escapes too; jinja2's own markup is safe.
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "ensure_ascii": False}
    content |= {"versions": versions(), "machine": machine(), "plotly": plotly.get_plotlyjs()}
    content |= {"cells": _cells, "limits": _limits, "settings": _settings, "short": without_home}
    atomic_write_text(path, environment.get_template(template).render(content) + "\n")
    return path


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
    return f"{value:,.0f}" if abs(value) < 1e9 and value % 1 == 0 else f"{value:.4g}"
