"""``proxyprox demo``: what a proxy is worth, in three situations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from proxyprox_app.cli import console
from proxyprox_app.cli.console import Json, Output, Seeds, Workers, guarded


@guarded
def demo(
    context: typer.Context,
    output: Output = Path("runs/demo"),
    as_json: Json = False,
    workers: Workers = None,
    seeds: Seeds = 7,
) -> None:
    """See what a cheap proxy is worth, in three situations, on data that is always there.

    Few exact gradients, one label at a time, few labels and a teacher: each with the default of
    this package and with its strongest rivals, who win or lose in plain sight. Writes a report, a
    figure, a summary and the records. Finished runs found in the folder are used.

    Examples
    --------
    proxyprox demo
    proxyprox demo --output runs/demo --seeds 20
    proxyprox demo --json | python -m json.tool
    """
    from proxyprox_app.cli.comparison import output_folder, run_experiment
    from proxyprox_app.report import page
    from proxyprox_app.report.summary import write_json
    from proxyprox_app.study import demo as study

    folder, command = output or Path("runs/demo"), console.command_line(context)
    config = study.DemoConfig(seeds=seeds)
    with output_folder(folder, command):
        experiment = study.experiment(config)
        outcome = run_experiment(experiment, folder=folder, workers=workers, as_json=as_json)
        parts = study.sections(config, outcome.records)
        notes, settings = study.tuning_notes(outcome, config), vars(config)
        found: dict[str, Any] = {
            "folder": str(folder),
            "findings": {part["heading"]: part["text"] for part in parts},
            "notes": notes,
            "runs": outcome.runs,
            "reused": outcome.reused,
        }
        summary = {"command": command, "config": settings, "findings": found["findings"]}
        rows = [{"section": part["heading"], **row} for part in parts for row in part["rows"]]
        write_json(folder / "summary.json", {**summary, "notes": notes, "rows": rows})
        lead = (
            "You want to minimise a loss that is expensive to ask about, and you have a cheap one "
            "that resembles it. Three situations, each with the default of this package and its "
            "rivals on the same draws; what won and what lost is shown."
        )
        report = page.write_report(
            folder, sections=parts, title=experiment.title, lead=[lead], notes=notes,
            command=command, config=settings,
        )  # fmt: skip
        found["report"] = str(report)
    if as_json:
        console.emit({**found, "rows": rows})
        return
    _present(found, parts)


def _present(found: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    """Print a table and a sentence for each situation."""
    from rich.table import Table

    from proxyprox_app.cli.comparison import tell_report
    from proxyprox_app.report.summary import last_rows

    screen = console.stdout()
    for part in parts:
        console.say(screen, f"\n{part['heading']}", "bold")
        console.say(screen, part["about"]["Problem"], "dim")
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
        metric, unit = part.get("ends_metric", part["metric"]), part["x_axes"][0]
        ends = part.get("ends") or last_rows(part["rows"])
        budget = f", after {ends[0][unit]} {unit}" if unit in ends[0] else ""
        table.add_column(f"{part['labels'][metric]}{budget}")
        for heading in ("median", "limits", "seconds"):
            table.add_column(heading, justify="right", no_wrap=True)
        known = [row[f"{metric}_median"] for row in ends if row[f"{metric}_median"] is not None]
        for row in ends:
            middle, low, high = (row[f"{metric}_{end}"] for end in ("median", "low", "high"))
            first = middle is not None and middle == min(known)
            table.add_row(
                console.plain(row["method"]),
                f"{_short(middle)}{'*' if first else ' '}",
                f"{_short(low)} to {_short(high)}",
                f"{row['seconds']:.2g}",
                style="bold" if first else "",
            )
        screen.print(table)
        console.say(screen, part["text"])
    text = (
        "Medians over the draws, the lowest marked *; limits for all medians of a table at once: "
        "the report says how sure they are."
    )
    console.say(screen, f"\n{text}", "dim")
    tell_report(screen, found)


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"
