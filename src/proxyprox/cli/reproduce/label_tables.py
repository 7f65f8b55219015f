"""The label experiment from the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from proxyprox.cli.comparison import _display
from proxyprox.cli.console import INTERRUPTED, CommandError, plain, stderr
from proxyprox.experiments import labels
from proxyprox.experiments.records import Point
from proxyprox.experiments.tournament import cores, hold


def held(
    config: labels.Config, *, folder: Path, workers: int | None, command: str, as_json: bool
) -> list[Point]:
    """Run what is not yet on disk and return all points.

    Parameters
    ----------
    config : labels.Config
        What to run.
    folder : Path
        Output folder.
    workers : int or None
        Processes; None for the cores there are.
    command : str
        What to type to go on.
    as_json : bool
        Show no progress unless somebody watches.
    """
    try:
        with _display(stderr(), quiet=as_json) as display:
            outcome = hold(
                labels.entries(config),
                labels.run_job,
                config,
                folder=folder,
                seeds=config.seeds,
                tuning_budget=1,
                budget=max(config.labels),
                workers=workers or cores(),
                display=display,
                metric="test_loss",
            )
    except KeyboardInterrupt:
        text = f"Interrupted. Finished runs are kept in {folder}.\nTo go on:  {command}"
        raise CommandError(text, INTERRUPTED) from None
    return outcome.records


def print_differences(console: Console, gaps: Sequence[Mapping[str, Any]]) -> None:
    """Print a table for each panel.

    Parameters
    ----------
    console : Console
        Where to.
    gaps : sequence of mappings
        What ``label_report.differences`` returns.
    """
    for panel in dict.fromkeys(row["panel"] for row in gaps):
        table = Table(title=plain(panel), title_justify="left", box=None)
        for heading in ("against", "labels", "ours", "theirs", "ours − theirs, 95 %"):
            table.add_column(heading, justify="left" if heading == "against" else "right")
        for row in (row for row in gaps if row["panel"] == panel):
            table.add_row(
                plain(row["method"]),
                f"{row['labels']:,}",
                f"{row['ours']:.4f}",
                f"{row['theirs']:.4f}",
                f"{row['difference']:+.4f} ({row['low']:+.4f}, {row['high']:+.4f})",
            )
        console.print(table)
