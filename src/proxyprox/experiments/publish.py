"""The output folder of a tournament: summary, figures and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from proxyprox.experiments import findings
from proxyprox.experiments.contest import LEDGER_FIELDS
from proxyprox.experiments.plots import save_figures
from proxyprox.experiments.records import Point
from proxyprox.experiments.report import write_report
from proxyprox.experiments.summary import Row, summarise, write_summary
from proxyprox.experiments.tournament import Outcome


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
    write_summary(folder / "summary.json", rows, command=command, config=dict(config))
    save_figures(folder, rows)
    write_report(
        folder,
        title=title,
        lead=findings.sentences(rows) if lead is None else lead,
        command=command,
        config=config,
        rows=rows,
        ledger_rows=ledger_rows(outcome.records),
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


def _edge_notes(outcome: Outcome) -> list[str]:
    if not outcome.at_edge:
        return []
    where = "; ".join(f"{method} ({panel})" for panel, method in outcome.at_edge)
    return [f"The best step size lies at the edge of its grid for: {where}."]
