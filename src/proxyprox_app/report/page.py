"""One self-contained HTML page for an experiment or an audit.

The pages work from disk with no network: plots are SVG inside the page, and a content-security
policy forbids to fetch anything. The templates escape every string that
comes from outside.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from proxyprox._util.extras import require
from proxyprox._util.files import atomic_write_text
from proxyprox._util.text import printable
from proxyprox.diagnostics.plan import RunPlan
from proxyprox.diagnostics.report import Audit, RoundAudit
from proxyprox_app.report import figures
from proxyprox_app.report.figures import COSTS, Style, field_label, in_order, styles
from proxyprox_app.report.summary import (
    LIMITS,
    flat,
    joint_confidence,
    last_rows,
    machine,
    versions,
    without_home,
)

_PURPOSE = "writing the report"

TERMS: dict[str, str] = tomllib.loads(
    resources.files("proxyprox_app.report").joinpath("templates/glossary.toml").read_text("utf-8")
)
"""What a word means, shown when it is pointed at and in the list at the end of a page."""
_TERM = re.compile("|".join(f"(?<![\\w-])(?:{term})(?![\\w-])" for term in TERMS))


def write_report(
    folder: str | os.PathLike[str],
    *,
    rows: Sequence[Mapping[str, Any]] = (),
    sections: Sequence[Mapping[str, Any]] = (),
    **content: Any,
) -> Path:
    """Write ``report.html`` into `folder`.

    Parameters
    ----------
    folder : path-like
        Existing folder.
    rows : sequence of mappings
        Rows of :func:`proxyprox_app.report.summary.summarise`, for a page of one section.
    sections : sequence of mappings
        In place of rows: the arguments of :func:`section`, one mapping for each.
    **content
        ``metric``, ``x_axes``, ``labels`` and ``log_x`` of a single section, as in :func:`section`,
        and what else the template shows. Needed: ``title``; ``lead``, what was found, one paragraph
        each; ``command``, which makes the report again (the home folder in it is written ``~``);
        ``config``, settings, nested ones with dotted names. Optional: ``about``, problem, data and
        proxy by name; ``notes``, remarks; ``costs``, rows of what each method spent, with
        ``costs_heading`` and ``costs_caption``.

    Returns
    -------
    path : Path
        The file written.

    Raises
    ------
    ValueError
        When there are no rows, or `x_axes` names no field of them.
    MissingExtraError
        Without jinja2 or matplotlib.
    """
    names = ("metric", "x_axes", "labels", "log_x")
    own = {name: content.pop(name) for name in names if name in content}
    content["labels"] = own.get("labels") or {}
    parts = [section(**part) for part in sections or [{"rows": rows, **own}]]
    return _write(Path(folder) / "report.html", "report.html", **content, parts=parts)


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
        Rows of :func:`proxyprox_app.report.summary.summarise`.
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
    absent = [
        [m for m in looks if not any((r.get(x) or 0) > 0 for r in rows if str(r["method"]) == m)]
        for x in axes
    ]
    count = max(sum(str(row["panel"]) == panel for row in ends) for panel in panels)
    seeds = min(int(row.get("seeds", 1)) for row in ends)
    fields = {middle: "median", low: "lower limit", high: "upper limit", "eta": "step size"}
    return {
        "heading": heading,
        "text": text,
        "about": about or {},
        "axes": [field_label(x, labels) for x in axes],
        "absent": absent,
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
        Without jinja2 or matplotlib.
    """
    values, file = audit_values(audit, plan), Path(folder) / "audit.html"
    shared = {"lead": [audit.sentence, *audit.reasons], "notes": plan.notes, "values": values}
    if isinstance(audit, RoundAudit):
        return _write(file, "rounds.html", **content, **shared, plan=plan)
    shared["figure"] = _spectra(audit)
    return _write(file, "audit.html", **content, **shared, audit=audit, plan=plan)


def _spectra(audit: Audit) -> dict[str, Any]:
    """Draw the eigenvalues of the target and of the difference, by rank."""
    end = audit.points[-1]
    kind = "eigenvalues" if end.in_full else "Ritz values"
    title = f"At the end of the path: {kind}, absolute, by rank"
    found = {"target ∇²L": end.target_spectrum, "difference ∇²L − ∇²L̂": end.difference_spectrum}
    looks = dict(zip(found, (Style("#737373", "o", ()), Style("#0072B2", "s", ())), strict=True))
    # Below rounding error a logarithm shows noise.
    floor = 1e-10 * max(abs(float(end.target_spectrum.max())), 1e-300)

    def draw(axis: Any) -> None:
        axis.set_yscale("log")
        for name, (colour, marker, _) in looks.items():
            values = np.maximum(np.sort(np.abs(found[name]))[::-1], floor)
            ranks = range(1, len(values) + 1)
            axis.plot(ranks, values, marker, color=colour, label=name, markersize=6)
        figures.put_ticks(axis.xaxis)
        figures.put_ticks(axis.yaxis)

    plot = figures.plot_svg(title, "rank", "absolute eigenvalue", draw)
    legend = [(name, figures.glyph(look)) for name, look in looks.items()]
    return {"title": title, "legend": legend, "plot": plot}


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
    jinja2 = require("jinja2", extra="app", purpose=_PURPOSE)
    markup = require("markupsafe", extra="app", purpose=_PURPOSE).Markup
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("proxyprox_app.report"),
        autoescape=True,
        # Characters that act on a reader's screen are escapes too; jinja2's own markup is safe.
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    used: dict[str, str] = {}

    def explain(text: str) -> Any:
        """Mark the first use of each term of a text, with what it means."""
        parts, end, seen = [], 0, set[str]()
        for found in _TERM.finditer(text := printable(str(text))):
            meaning = meaning_of(found[0])
            if meaning not in seen:
                seen.add(meaning)
                used.setdefault(meaning, found[0])
                term = markup('<span class="term" tabindex="0" data-tip="{}">{}</span>')
                parts += [markup.escape(text[end : found.start()]), term.format(meaning, found[0])]
                end = found.end()
        return markup("").join([*parts, markup.escape(text[end:])])

    def tip(text: str) -> str:
        """Return what the first term of a heading means."""
        found = _TERM.search(text)
        return meaning_of(found[0]) if found else ""

    content |= {"versions": versions(), "machine": machine(), "glossary": used, "tip": tip}
    content |= {"cells": _cells, "limits": _limits, "settings": _settings, "short": without_home}
    environment.filters["explain"] = explain
    atomic_write_text(path, environment.get_template(template).render(content) + "\n")
    return path


def meaning_of(word: str) -> str:
    """Return what a term means, as :data:`TERMS` has it."""
    return next(meaning for term, meaning in TERMS.items() if re.fullmatch(term, word))


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
    return f"{value:,.0f}" if abs(value) < 1e9 and value % 1 == 0 else f"{value:,.4g}"
