"""``proxyprox demo``: what a proxy is worth, in a few situations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from proxyprox_app.cli import console
from proxyprox_app.cli.console import Json, Output, Seeds, guarded
from proxyprox_app.cli.run import progress_of


@guarded
def demo(
    context: typer.Context,
    output: Output = Path("runs/demo"),
    as_json: Json = False,
    seeds: Seeds = 5,
) -> None:
    """See what a cheap proxy is worth, in a few situations, on data that is always there.

    Rounds to another site and others: each with the default of this package and its strongest
    rivals, who win or lose in plain sight. Written: report.html and summary.json.

    Examples
    --------
    proxyprox demo
    proxyprox demo --output runs/demo --seeds 20
    proxyprox demo --json | python -m json.tool
    """
    from threadpoolctl import threadpool_limits

    from proxyprox_app.report.page import write_report
    from proxyprox_app.report.summary import last_rows, write_json
    from proxyprox_app.study import demo as study

    folder, command = output or Path("runs/demo"), console.command_line(context)
    kept = "Nothing was written: the page is written when all runs have ended."
    with (
        console.output_folder(folder, command, kept),
        progress_of(as_json) as progress,
        threadpool_limits(1),
    ):
        parts = study.run_parts(seeds, progress)
        shown: dict[str, Any] = {"command": command, "config": {"seeds": seeds}}
        report = write_report(
            folder, sections=parts, title="proxyprox: what a cheap proxy is worth",
            lead=[study.TEXTS["lead"]], **shown,
        )  # fmt: skip
        found = {
            **shown,
            "findings": {part["heading"]: part["text"] for part in parts},
            "rows": [{"section": part["heading"], **row} for part in parts for row in part["rows"]],
        }
        write_json(folder / "summary.json", found)
    if as_json:
        console.emit({**found, "folder": str(folder), "report": str(report)})
        return
    screen = console.stdout()
    for part in parts:
        console.say(screen, f"\n{part['heading']}", "bold")
        console.say(screen, part["about"]["Who should care"], "dim")
        console.say(screen, part["text"])
        ends, x = last_rows(part["rows"]), part["x_axes"][0]
        gaps = [[row[f"gap_{end}"] for end in ("median", "low", "high")] for row in ends]
        best = min(middle for middle, *_ in gaps)
        cells = [
            (row["method"], f"{middle:.2g}", f"{low:.2g} to {high:.2g}")
            for row, (middle, low, high) in zip(ends, gaps, strict=True)
        ]
        headings = (f"after {ends[0][x]:.3g} {x}: {part['labels']['gap']}", "median", "limits")
        styles = ["bold" if middle == best else "" for middle, *_ in gaps]
        console.print_table(screen, headings, cells, styles)
    console.tell_path(screen, f"\nReport: {report}")
