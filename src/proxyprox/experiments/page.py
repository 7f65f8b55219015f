"""One self-contained HTML page for an experiment or an audit.

The parts of a report, each a function from data to HTML.

Every string that comes from outside passes through `html.escape` here and nowhere else.

One HTML file that shows an experiment: figures, tables, ledger, settings and command.

The page works from disk with no network: the plotting library, the style and the data are inside
it, and its content-security policy forbids it to fetch anything.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any

from proxyprox._util.extras import require
from proxyprox._util.files import atomic_write_text
from proxyprox._util.text import escape_html
from proxyprox.diagnostics import Audit, Interval, RunPlan
from proxyprox.experiments import summary as findings
from proxyprox.experiments.contest import LEDGER_FIELDS, ON_STEP_SIZE
from proxyprox.experiments.figures import (
    COSTS,
    field_label,
    in_order,
    path_figure,
    prediction_figure,
    save_figures,
    spectra_figure,
    styles,
)
from proxyprox.experiments.records import Point, machine, versions, without_home
from proxyprox.experiments.summary import Row, end_points, summarise, write_summary
from proxyprox.experiments.tournament import Outcome


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
        Sections and embedded data, as `proxyprox.experiments.page` makes them.
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


def publish(
    folder: Path,
    outcome: Outcome,
    *,
    title: str,
    command: str,
    config: Mapping[str, Any],
    notes: Sequence[str] = (),
    lead: Sequence[str] | None = None,
) -> list[Row]:
    """Write ``summary.json``, the figures and ``report.html``, and return the summary's rows.

    Parameters
    ----------
    folder : Path
        Where everything goes; it must exist.
    outcome : Outcome
        What the tournament returned.
    title : str
        Heading of the report.
    command : str
        Command that makes it again.
    config : mapping
        Settings to show.
    notes : sequence of str
        Remarks to be read with the numbers.
    lead : sequence of str, optional
        What was found; by default composed from the rows.

    Raises
    ------
    MissingExtraError
        Without the ``report`` extra, when the summary has been written and only figures and
        report are missing.
    """
    rows = summarise(outcome.records)
    on_eta = step_size_rows(outcome)
    write_summary(
        folder / "summary.json", rows, command=command, config=dict(config), step_sizes=on_eta
    )
    save_figures(folder, rows)
    write_report(
        folder,
        title=title,
        lead=findings.sentences(rows) if lead is None else lead,
        command=command,
        config=config,
        rows=rows,
        ledger_rows=[
            {**spent, **sizes}
            for spent, sizes in zip(ledger_rows(outcome.records), on_eta, strict=True)
        ],
        labels={
            "tuning_gradients": "target gradients of the grid runs",
            ON_STEP_SIZE: "of the run's, for the step size",
        },
        notes=[*notes, *_edge_notes(outcome)],
    )
    return rows


def ledger_rows(records: Sequence[Point]) -> list[Row]:
    """Return what a whole run of each method spent: the median over seeds at its last point."""
    runs: dict[tuple[str, str], dict[int, Point]] = {}
    for point in records:
        # Points come in the order of a run: the last one stays.
        runs.setdefault((point["panel"], point["method"]), {})[point["seed"]] = point
    names = ("target_gradients", *LEDGER_FIELDS)
    return [
        {
            "panel": panel,
            "method": method,
            **{name: median(p[name] for p in seeds.values()) for name in names},
        }
        for (panel, method), seeds in runs.items()
    ]


def step_size_rows(outcome: Outcome) -> list[Row]:
    """Return what the step size of each method cost, in target gradients.

    ``tuning_gradients`` are those of its grid runs, on top of a run's own; ``step_size_gradients``,
    where the step size was measured on the way, those among a run's own: the median over seeds.
    """
    runs: dict[tuple[str, str], dict[int, Any]] = {}
    for point in outcome.records:
        curve = runs.setdefault((point["panel"], point["method"]), {})
        curve[point["seed"]] = point.get(ON_STEP_SIZE)
    return [
        {
            "panel": panel,
            "method": method,
            "tuning_gradients": outcome.tuning.get((panel, method), 0),
            ON_STEP_SIZE: None if None in seeds.values() else median(seeds.values()),
        }
        for (panel, method), seeds in runs.items()
    ]


def _edge_notes(outcome: Outcome) -> list[str]:
    if not outcome.at_edge:
        return []
    where = "; ".join(f"{method} ({panel})" for panel, method in outcome.at_edge)
    return [f"The best step size lies at the edge of its grid for: {where}."]


_LABELS = {
    "quantity": "quantity",
    "batch_samples": "samples in a batch",
    "sigma2": "noise σ²",
    "eta": "step size η",
    "steps": "target gradients",
    "in_full": "Hessian seen in full",
}


def write_audit_page(
    folder: str | os.PathLike[str],
    audit: Audit,
    plan: RunPlan | None = None,
    *,
    title: str,
    command: str,
    config: Mapping[str, Any] | None = None,
) -> Path:
    """Write ``audit.html`` into `folder`.

    Parameters
    ----------
    folder : path-like
        Existing folder.
    audit : Audit
        What was found.
    plan : RunPlan, optional
        What to do about it.
    title : str
        Heading of the page.
    command : str
        Command line that makes the page again.
    config : mapping, optional
        Settings to show.

    Returns
    -------
    path : Path
        The file written.

    Raises
    ------
    MissingExtraError
        Without plotly.
    """
    plotly = require("plotly.offline", extra="report", purpose="writing the audit's page")
    figures = [spectra_figure(audit), path_figure(audit), prediction_figure(audit)]
    ledger = {k: v for k, v in audit.ledger.as_dict().items() if v}
    sections = [
        _audit_section("Figures", "figures", _frames([figure["title"] for figure in figures])),
        _audit_section("Estimates", "estimates", _estimates(audit)),
        _audit_section("Point by point", "points", _points(audit)),
        "" if plan is None else _audit_section("A plan", "plan", _planned(plan)),
        notes_section([] if plan is None else plan.notes),
        mapping_section("What the audit cost", "ledger", {"Ledger": ledger}),
        command_section(command),
        mapping_section("Configuration", "configuration", {"Settings": config}) if config else "",
        mapping_section(
            "Versions and machine", "machine", {"Versions": versions(), "Machine": machine()}
        ),
    ]
    content = page(
        title,
        [audit.sentence, *audit.reasons],
        "".join(sections),
        json_script("figures-data", {"figures": figures}),
        plotly.get_plotlyjs(),
        script="audit.js",
    )
    path = Path(folder) / "audit.html"
    atomic_write_text(path, content)
    return path


def audit_values(audit: Audit, plan: RunPlan | None = None) -> dict[str, Any]:
    """Return an audit, and the plan made of it, as JSON values.

    Parameters
    ----------
    audit : Audit
        What was found.
    plan : RunPlan, optional
        What to do about it.
    """
    told = audit.prediction
    names = ("delta", "H", "mu", "sigma2", "rho2")
    values: dict[str, Any] = {
        "verdict": audit.verdict.name,
        "leaning": audit.leaning.name,
        "doubts": list(audit.doubts),
        "sentence": audit.sentence,
        "reasons": list(audit.reasons),
        "confidence": audit.confidence,
        **{name: _limits(getattr(audit, name)) for name in names},
        "scale": {
            "value": audit.scale.weights[0],
            "delta": _limits(audit.scale.delta),
            "offered": audit.scale.helps,
        },
        "epsilon": audit.epsilon,
        "epsilon_source": audit.epsilon_source,
        "B": audit.B,
        "B_source": audit.B_source,
        "rehearsed": {
            "sgd": _finite(told.rehearsed_sgd.steps),
            "proxyprox": _finite(told.rehearsed_proxyprox.steps),
            "offered": _finite(told.rehearsed_best.steps),
        },
        "theory": {
            "regime": told.regime,
            "sgd": told.sgd,
            "accelerated": told.accelerated,
            "proxyprox": told.proxyprox,
        },
        "cost_ratio": _finite(audit.cost.ratio),
        "ledger": audit.ledger.as_dict(),
    }
    if plan is not None:
        values["plan"] = {
            "method": repr(plan.method),
            "steps": plan.steps,
            "averaging": repr(plan.averaging),
            "stop": repr(plan.stop),
            "expected": plan.expected,
            "reaches": plan.reaches,
            "bill": asdict(plan.bill),
            "what_if": [
                {name: _finite(value) for name, value in asdict(line).items()}
                for line in plan.what_if
            ],
            "notes": list(plan.notes),
        }
    return values


def _limits(found: Interval) -> dict[str, float | None]:
    return {name: _finite(value) for name, value in found._asdict().items()}


def _audit_section(title: str, anchor: str, content: str) -> str:
    return (
        f'<section aria-labelledby="{anchor}"><h2 id="{anchor}">{escape_html(title)}</h2>'
        f"{content}</section>"
    )


def _frames(titles: list[str]) -> str:
    frames = "".join(
        f'<figure><figcaption id="panel-{i}">{escape_html(title)}</figcaption>'
        f'<div class="plot" data-panel="{i}" role="img" aria-labelledby="panel-{i}"></div></figure>'
        for i, title in enumerate(titles)
    )
    return (
        "<noscript><p>The figures need JavaScript; the tables hold the numbers.</p></noscript>"
        f'<div class="plots">{frames}</div>'
    )


def _estimates(audit: Audit) -> str:
    rows = [
        _line("similarity δ = ‖∇²L − ∇²L̂‖: how differently proxy and target curve", audit.delta),
        _line("smoothness H: the target's strongest curvature", audit.H),
        _line("strong convexity μ: the target's weakest curvature", audit.mu),
        _line("noise σ²: how far one batch's target gradient is off, squared", audit.sigma2),
        _line("noise ρ² of a sampled proxy gradient", audit.rho2),
        _line(
            f"δ at the best scale, {audit.scale.weights[0]:.4g}, at the path's end",
            audit.scale.delta,
        ),
    ]
    if audit.mixture is not None:
        shown = ", ".join(f"{weight:.3g}" for weight in audit.mixture.weights)
        rows.append(
            _line(f"δ of the best mixture ({shown}), at the path's end", audit.mixture.delta)
        )
    caption = (
        f"Estimates with {audit.confidence:.0%} limits: the largest over the points visited, for μ "
        "the smallest."
    )
    told = audit.prediction
    counts = [
        {
            "method": "SGD",
            "rehearsed": _finite(told.rehearsed_sgd.steps),
            "order": told.sgd,
        },
        {"method": "accelerated SGD", "rehearsed": None, "order": told.accelerated},
        {
            "method": "ProxyProx, proxy as it is",
            "rehearsed": _finite(told.rehearsed_proxyprox.steps),
            "order": told.proxyprox,
        },
        {
            "method": "ProxyProx, as offered",
            "rehearsed": _finite(told.rehearsed_best.steps),
            "order": None,
        },
    ]
    words = {
        "rehearsed": "tuned, on the quadratic model",
        "order": f"theory ({told.regime}), constants left out",
    }
    about = (
        f"Target gradients to ε = {audit.epsilon:.3g} ({audit.epsilon_source}); B = {audit.B:.3g} "
        f"({audit.B_source}). A target gradient costs {audit.cost.ratio:.3g} proxy gradients "
        f"({audit.cost.unit})."
    )
    return table(rows, list(rows[0]), caption=caption) + table(
        counts, list(counts[0]), caption=about, labels=words
    )


def _line(name: str, found: Interval) -> dict[str, Any]:
    return {
        "quantity": name,
        "estimate": float(found.estimate),
        "lower limit": float(found.low),
        "upper limit": _finite(found.high),
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _points(audit: Audit) -> str:
    rows = [
        {
            "point": "the start" if i == 0 else f"{i} of the path",
            "δ": str(point.delta),
            "H": str(point.H),
            "μ": str(point.mu),
            "σ²": str(point.sigma2),
            "in_full": "yes" if point.in_full else "no",
        }
        for i, point in enumerate(audit.points)
    ]
    caption = "Estimate and limits at every point visited."
    return table(rows, list(rows[0]), caption=caption, labels=_LABELS)


def _planned(plan: RunPlan) -> str:
    bill = {name: value for name, value in asdict(plan.bill).items() if value is not None}
    settings = {
        "method": plan.method,
        "outer steps": f"{plan.steps:,}",
        "averaging": plan.averaging,
        "subproblems": "none" if plan.stop is None else plan.stop,
        "suboptimality expected": f"{plan.expected:.3g}",
        **{f"bill: {name.replace('_', ' ')}": f"{value:,.4g}" for name, value in bill.items()},
    }
    rows = [
        {
            "batch_samples": float(line.batch_samples),
            "sigma2": float(line.sigma2),
            "eta": _finite(line.eta),
            "steps": _finite(line.steps),
            "target_samples": _finite(line.target_samples),
        }
        for line in plan.what_if
    ]
    caption = f"What if the batches were larger or smaller: to ε = {plan.epsilon:.3g}."
    body = "".join(
        f'<tr><th scope="row">{escape_html(name)}</th><td>{escape_html(str(value))}</td></tr>'
        for name, value in settings.items()
    )
    plain = f'<div class="scroll"><table class="plain"><tbody>{body}</tbody></table></div>'
    return plain + table(rows, list(rows[0]), caption=caption, labels=_LABELS)
