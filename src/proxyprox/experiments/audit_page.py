"""The page of an audit: verdict, estimates, spectra, path, prediction and plan in one file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proxyprox._extras import require
from proxyprox._files import atomic_write_text
from proxyprox._text import escape_html
from proxyprox.diagnostics import Audit, Interval, RunPlan
from proxyprox.experiments._machine import machine, versions
from proxyprox.experiments._sections import (
    command_section,
    json_script,
    mapping_section,
    notes_section,
    table,
)
from proxyprox.experiments.audit_figures import path_figure, prediction_figure, spectra_figure
from proxyprox.experiments.report import page

__all__ = ["audit_values", "write_audit_page"]

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
        _section("Figures", "figures", _frames([figure["title"] for figure in figures])),
        _section("Estimates", "estimates", _estimates(audit)),
        _section("Point by point", "points", _points(audit)),
        "" if plan is None else _section("A plan", "plan", _planned(plan)),
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
    return {name: _finite(value) for name, value in asdict(found).items()}


def _section(title: str, anchor: str, content: str) -> str:
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
