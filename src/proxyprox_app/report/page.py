"""One self-contained HTML page for an experiment or an audit.

The pages work from disk with no network and no library: plots are SVG, drawn here, and their
content-security policy forbids them to fetch anything. The templates escape every string that
comes from outside.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proxyprox._util.extras import require
from proxyprox._util.files import atomic_write_text
from proxyprox._util.text import printable
from proxyprox.advice.plan import RunPlan
from proxyprox.advice.report import Audit, RoundAudit
from proxyprox_app.report.figures import COSTS, ROUNDING, Style, field_label, in_order, styles
from proxyprox_app.report.records import flat, machine, versions, without_home
from proxyprox_app.report.summary import LIMITS, QUARTILES, joint_confidence, last_rows
from proxyprox_app.report.svg import Series, glyph, plot

_PURPOSE = "writing the report"

# What a word means, shown where it is pointed at and in the list at the end of a page.
TERMS = {
    "target gradients?": "A slope of the loss you care about, at one point: what labels, rollouts "
    "or messages are paid for.",
    "proxy gradients?": "A slope of the cheap stand-in; many of them cost little.",
    "ProxyProx": "The method of this package: each expensive slope corrects the cheap loss, whose "
    "minimum near the last point is the next point.",
    "ProxyBFGS": "ProxyProx for exact slopes: it also learns the curvature from step to step.",
    "proxy": "A cheap loss that resembles the expensive one.",
    "(?:subo|o)ptim(?:ality|um)": "The lowest loss that the model can have is the optimum; the "
    "suboptimality is how far a loss is above it.",
    "step sizes?|eta": "How far a method moves along each slope. Too small is slow, too large "
    "diverges.",
    "ERM(?! on)": "Empirical risk minimisation: keep every label bought so far and "
    "fit all of them again, without a proxy.",
    "L-BFGS": "The usual method for exact gradients: it estimates the curvature from the last few "
    "of them.",
    "Newton": "Uses the exact curvature: at each point a matrix of all second derivatives, not "
    "only the slope.",
    "SGD": "Stochastic gradient descent: a small step down each noisy slope.",
    "Adam": "Stochastic gradient descent with a step size for each coordinate.",
    "medians?": "Half of the runs are lower, half are higher.",
    "seeds?|draws?": "Repetitions in which everything random is drawn anew.",
    "rounds?": "One exchange with whoever holds the data: a point is sent, the loss and its "
    "gradient come back.",
    "teacher": "Another model whose answers cost nothing and may be wrong.",
    "log-loss": "Minus the logarithm of the probability that was given to the right answer, on "
    "average; 0 is perfect, 0.69 is a coin.",
    "similarity": "How differently the two losses curve: 0 is best.",
    "smoothness": "The strongest curvature of the loss.",
    "strong convexity": "The weakest curvature of the loss.",
    "rehears(?:ed|al)": "Played through on a quadratic model of the losses, without buying "
    "anything.",
    "Ritz values": "Estimates of eigenvalues from products with a matrix.",
}
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
        Without jinja2.
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
    ends: Sequence[Mapping[str, Any]] | None = None,
    ends_metric: str | None = None,
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
    ends, ends_metric : sequence of mappings and str, optional
        Rows and metric of the table, where that is not the end of each curve.
    """
    axes = [x for x in x_axes if any(row.get(x) is not None for row in rows)]
    if not axes:
        raise ValueError(f"rows is empty, or x_axes={list(x_axes)} names no field of theirs.")
    looks, panels = styles(rows), in_order(rows, "panel")
    shown, ends = ends_metric or metric, ends or last_rows(rows)
    middle, low, high = f"{shown}_median", *(f"{shown}_{s}" for s in LIMITS)
    # The budget is mostly the same for all: the caption tells it.
    budgets = {row.get(axes[0]) for row in ends}
    spent = [axes[0]] if len(budgets) > 1 else []
    optional = ("batch_size", "eta", *spent, middle, low, high, *axes[1:])
    columns = [f for f in optional if f == middle or any(r.get(f) is not None for r in ends)]
    end = "" if len(budgets) > 1 or None in budgets else f"After {number(*budgets)} "
    caption = f"{end}{field_label(axes[0], labels)}: " if end else ""
    caption += f"median {field_label(shown, labels)}; the lowest "
    caption += "is in bold." if len(panels) == 1 else "of each panel is in bold."
    best, plots = [], []
    for panel in panels:
        known = [r for r in ends if str(r["panel"]) == panel and r.get(middle) is not None]
        best += [ends.index(min(known, key=lambda row: float(row[middle])))] if known else []
        here = [row for row in rows if str(row["panel"]) == panel]
        heights = [v for row in here if (v := row.get(f"{metric}_median") or 0) > 0]
        drawn = [_curves(here, looks, metric, x) for x in axes]
        plots.append(
            [
                plot(
                    curves,
                    title=f"{panel}: {field_label(metric, labels)} by {field_label(x, labels)}",
                    x_label=field_label(x, labels),
                    y_label=field_label(metric, labels),
                    log_x=log_x or i > 0,
                    log_y=bool(heights) and max(heights) >= 4 * min(heights),
                    floor=ROUNDING if any(v > ROUNDING for v in heights) else 0,
                )
                for i, (x, curves) in enumerate(zip(axes, drawn, strict=True))
            ]
        )
    absent = [
        [m for m in looks if not any((r.get(x) or 0) > 0 for r in rows if str(r["method"]) == m)]
        for x in axes
    ]
    words = {middle: "median", low: "lower limit", "eta": "step size"}
    return {
        "heading": heading,
        "text": text,
        "about": about or {},
        "axes": [field_label(x, labels) for x in axes],
        "absent": absent,
        "legend": [(method, glyph(look)) for method, look in looks.items()],
        "panels": list(zip(panels, plots, strict=True)),
        "ends": ends,
        "caption": caption[0].upper() + caption[1:],
        "best": best,
        "columns": [*(["panel"] if len(panels) > 1 else []), "method", *columns],
        "labels": {**words, high: "upper limit", **(labels or {})},
        "limits": _what_limits_cover(ends) if low in columns else "",
    }


def _curves(
    rows: Sequence[Mapping[str, Any]], looks: Mapping[str, Style], metric: str, x: str
) -> list[Series]:
    """Return the curves of one panel over one axis."""
    found = []
    for method in in_order(rows, "method"):
        curve = [row for row in rows if str(row["method"]) == method]
        y, low, high = ([row.get(f"{metric}_{s}") for row in curve] for s in QUARTILES)
        found.append(Series(method, looks[method], [row.get(x) for row in curve], y, low, high))
    return found


def _what_limits_cover(ends: Sequence[Mapping[str, Any]]) -> str:
    """Say with which confidence the limits of a table hold."""
    panels = in_order(ends, "panel")
    count = max(sum(str(row["panel"]) == panel for row in ends) for panel in panels)
    seeds = min(int(row["seeds"]) for row in ends)
    sure = joint_confidence(seeds, count)
    where = "of a panel " if len(panels) > 1 else ""
    if sure <= 0.5:
        return (
            f"Limits: the lowest and the highest of {seeds} draw{'s' * (seeds > 1)}; too few to "
            f"say anything with confidence about {count} medians at once."
        )
    return (
        f"Limits: with a confidence of at least {math.floor(100 * sure)} % the true medians of all "
        f"{count} methods {where}lie within their limits, at once (order statistics of {seeds} "
        "draws, Bonferroni)."
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
        Without jinja2.
    """
    values, file = audit_values(audit, plan), Path(folder) / "audit.html"
    shared = {"lead": [audit.sentence, *audit.reasons], "notes": plan.notes, "values": values}
    if isinstance(audit, RoundAudit):
        return _write(file, "rounds.html", **content, **shared, plan=plan)
    plots = [_spectra(audit), _path(audit), _counts(values)]
    return _write(file, "audit.html", **content, **shared, plots=plots, audit=audit, plan=plan)


_GREY, _BLUE = Style("#737373", "o", ()), Style("#0072B2", "s", ())


def _figure(title: str, series: Sequence[Series], **options: Any) -> dict[str, Any]:
    legend = [(one.name, glyph(one.look)) for one in series]
    return {"title": title, "legend": legend, "plot": plot(series, title=title, **options)}


def _spectra(audit: Audit) -> dict[str, Any]:
    """Draw the eigenvalues of the target and of the difference, by rank."""
    end = audit.points[-1]
    kind = "eigenvalues" if end.in_full else "Ritz values"
    found = {
        "target ∇²L": (_GREY, end.target_spectrum),
        "difference ∇²L − ∇²L̂": (_BLUE, end.difference_spectrum),
    }
    series = []
    for name, (look, spectrum) in found.items():
        values = sorted(map(abs, spectrum.tolist()), reverse=True)
        series.append(Series(name, look, range(1, len(values) + 1), values, joined=False))
    return _figure(
        f"Spectra at the end of the path: {kind}, absolute, by rank",
        series,
        x_label="rank",
        y_label="absolute eigenvalue",
        log_y=True,
        # Below rounding error a logarithm shows noise.
        floor=1e-10 * max(abs(float(end.target_spectrum.max())), 1e-300),
    )


def _path(audit: Audit) -> dict[str, Any]:
    """Draw curvature and its difference at the points visited."""
    points, series = range(len(audit.points)), []
    for name, look, field in (("H", _GREY, "H"), ("δ", _BLUE, "delta")):
        found = [_limits(point, field) for point in audit.points]
        y, low, high = ([each[key] for each in found] for key in ("estimate", "low", "high"))
        series.append(Series(name, look, points, y, low, high, joined=False))
    return _figure(
        "Along the path: how far apart the losses curve",
        series,
        x_label="",
        y_label="curvature",
        categories=["start", *(f"point {i}" for i in points[1:])],
    )


def _counts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the target gradients that each method needs."""
    names = {
        "sgd": "SGD",
        "accelerated": "accelerated",
        "proxyprox": "ProxyProx",
        "offered": "as offered",
    }
    series = []
    for name, look, found in (
        ("tuned, on the quadratic model", _BLUE, values["rehearsed"]),
        ("theory, constants left out", _GREY, values["theory"]),
    ):
        y = [found.get(key) for key in names]
        texts = ["" if v is None else number(round(v) if v >= 10 else float(f"{v:.2g}")) for v in y]
        # Points, not bars: a bar on a logarithmic axis has no foot to stand on.
        series.append(Series(name, look, range(len(names)), y, joined=False, texts=texts))
    return _figure(
        f"Target gradients to ε = {values['epsilon']:.3g}",
        series,
        x_label="",
        y_label="target gradients",
        log_y=True,
        categories=list(names.values()),
    )


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
