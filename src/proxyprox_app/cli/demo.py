"""``proxyprox demo``: what a proxy is worth, in a few situations."""

from __future__ import annotations

from pathlib import Path

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

    from proxyprox_app import demo as study
    from proxyprox_app.page import number, write_json, write_page

    folder, command = output or Path("runs/demo"), console.command_line(context)
    kept = "Nothing was written: the page is written when all runs have ended."
    with (
        console.output_folder(folder, command, kept),
        progress_of(as_json) as progress,
        threadpool_limits(1),
    ):
        parts = study.run_parts(seeds, progress)
        page = write_page(
            folder / "report.html", title="proxyprox: what a cheap proxy is worth",
            lead=[study.TEXTS["lead"]], parts=parts, notes=(), command=command,
        )  # fmt: skip
        found = [{name: part[name] for name in part if name != "svg"} for part in parts]
        done = {"command": command, "seeds": seeds, "parts": found, "report": str(page)}
        write_json(folder / "summary.json", done)
    if as_json:
        console.emit(done)
        return
    screen = console.stdout()
    for part in parts:
        console.say(screen, f"\n{part['heading']}", "bold")
        console.say(screen, part["about"]["Who should care"], "dim")
        console.say(screen, part["text"])
        cells = [[number(value) for value in row.values()] for row in part["rows"]]
        headings = ["loss above the lowest, at the end", *list(part["rows"][0])[1:]]
        console.print_table(screen, headings, cells, [""] * len(cells))
    console.tell_path(screen, f"\nReport: {page}")
