"""``proxyprox demo``: what a proxy is worth, in three situations."""

from __future__ import annotations

from dataclasses import asdict
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
    this package and with its rivals, who win or lose in plain sight. Writes a report, a summary and
    the records. Finished runs found in the folder are used.

    Examples
    --------
    proxyprox demo
    proxyprox demo --output runs/demo --seeds 20
    proxyprox demo --json | python -m json.tool
    """
    from proxyprox_app.cli.comparison import edge_notes, output_folder, run_experiment, tell_report
    from proxyprox_app.report.page import write_report
    from proxyprox_app.report.summary import last_rows, write_json
    from proxyprox_app.study import demo as study

    folder, command = output or Path("runs/demo"), console.command_line(context)
    config = study.DemoConfig(seeds=seeds)
    with output_folder(folder, command):
        experiment = study.experiment(config)
        outcome = run_experiment(experiment, folder=folder, workers=workers, as_json=as_json)
        parts = study.sections(config, outcome.records)
        found: dict[str, Any] = {
            "findings": {part["heading"]: part["text"] for part in parts},
            "notes": [text.format(**vars(config)) for text in study.TEXTS["notes"]],
            "rows": [{"section": part["heading"], **row} for part in parts for row in part["rows"]],
        }
        found["notes"] += edge_notes(outcome)
        common: dict[str, Any] = {"command": command, "config": asdict(config)}
        write_json(folder / "summary.json", {**common, **found})
        report = write_report(
            folder, sections=parts, title=experiment.title, lead=[study.TEXTS["lead"]],
            notes=found["notes"], **common,
        )  # fmt: skip
    found |= {"folder": str(folder), "report": str(report)}
    found |= {"runs": outcome.runs, "reused": outcome.reused}
    if as_json:
        console.emit(found)
        return
    screen = console.stdout()
    for part in parts:
        console.say(screen, f"\n{part['heading']}", "bold")
        console.say(screen, part["about"]["Problem"], "dim")
        ends, x = last_rows(part["rows"]), part["x_axes"][0]
        cells = [[row[f"gap_{end}"] for end in ("median", "low", "high")] for row in ends]
        best = min((middle for middle, *_ in cells if middle is not None), default=None)
        headings = [f"{part['labels']['gap']}, after {ends[0][x]} {x}", "median", "limits"]
        rows = [
            (row["method"], _short(middle), f"{_short(low)} to {_short(high)}",
             f"{row['seconds']:.2g}")
            for row, (middle, low, high) in zip(ends, cells, strict=True)
        ]  # fmt: skip
        firsts = [middle is not None and middle == best for middle, *_ in cells]
        console.print_table(screen, [*headings, "seconds"], rows, firsts)
        console.say(screen, part["text"])
    text = "Medians over the draws, the lowest marked *; the report says how sure the limits are."
    console.say(screen, f"\n{text}", "dim")
    tell_report(screen, found)


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"
