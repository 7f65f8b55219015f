"""The output folder of a tournament: summary, figures and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from proxyprox.experiments import findings
from proxyprox.experiments.contest import LEDGER_FIELDS, ON_STEP_SIZE
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
