"""What every experiment shares: its options, and the way from curves to a report."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from experiments import figures
from experiments.compare import Experiment
from experiments.comparison import present, run_experiment, write_results
from experiments.report.summary import summarise
from proxyprox._util.signals import ending_signals
from proxyprox_app.cli.console import (
    Json,
    Output,
    Seeds,
    command_line,
    guarded,
    help_of,
    output_folder,
)

__all__ = [
    "Experiment", "Json", "NoDownload", "Output", "Record", "Seeds", "Workers", "guarded",
    "listed", "run_and_report", "start",
]  # fmt: skip

Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes; default: the cores there are.")
]
Record = Annotated[
    bool, typer.Option("--record", help="Replace what docs/results has of it, in a clone.")
]
NoDownload = Annotated[bool, typer.Option("--no-download", help="Never use the network.")]

T = TypeVar("T")


def listed(kind: Callable[[str], T], words: str) -> Callable[[str], tuple[T, ...]]:
    """Return the reader of a list separated by commas; "none" is an empty one.

    Parameters
    ----------
    kind : callable
        Reads one entry.
    words : str
        What an entry is, for the message.
    """

    def read(text: str) -> tuple[T, ...]:
        if text.strip().lower() == "none":
            return ()
        try:
            return tuple(kind(part) for part in text.split(","))
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not {words}, separated by commas") from None

    return read


def run_and_report(
    experiment: Experiment,
    context: typer.Context,
    *,
    folder: Path,
    workers: int | None,
    as_json: bool,
) -> dict[str, Any]:
    """Run what is not yet on disk, write summary, figures and report, and print what came out.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    context : typer.Context
        Of the running command, for the line that says how to repeat it.
    folder : Path
        Output folder; finished runs of the same settings in it are used.
    workers : int or None
        Processes; None for the cores there are.
    as_json : bool
        Print one JSON object and nothing else.
    """
    command = command_line(context)
    with output_folder(folder, command):
        outcome = run_experiment(experiment, folder=folder, workers=workers, as_json=as_json)
        found = write_results(experiment, outcome, folder=folder, command=command)
        figures.save_figures(folder, summarise(outcome.records))
    present(found, as_json=as_json)
    return found


def application(command: Callable[..., None]) -> typer.Typer:
    """Return a command as an application, with its docstring as the help."""
    app = typer.Typer(
        rich_markup_mode="rich",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command(**help_of(command))(command)
    return app


def start(command: Callable[..., None]) -> None:
    """Run a command with the words of the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    name = command.__module__ if command.__module__ != "__main__" else _module_name()
    with ending_signals():
        application(command)(prog_name=f"python -m {name}")


def _module_name() -> str:
    spec = sys.modules["__main__"].__spec__
    return "" if spec is None else spec.name.removesuffix(".__main__")
