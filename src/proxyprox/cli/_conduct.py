"""Hold a tournament from the command line: folder, display, interruption, output files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from proxyprox._extras import MissingExtraError
from proxyprox._files import locked
from proxyprox.cli._console import emit, say, stderr, stdout, tell_path
from proxyprox.cli._errors import INTERRUPTED, CommandError
from proxyprox.cli._results import panels, print_panels
from proxyprox.experiments import findings
from proxyprox.experiments._display import LineDisplay, LiveDisplay, NoDisplay
from proxyprox.experiments.publish import publish, step_size_rows
from proxyprox.experiments.records import Point, RecordStore
from proxyprox.experiments.summary import Row, summarise
from proxyprox.experiments.tournament import Entry, Job, Outcome, cores, hold

LEGEND = (
    "target, proxy: gradients spent of each; above opt.: the loss above its minimum; on eta: "
    "target gradients for the step size, + in runs before, ( ) among the run's own. Medians over "
    "seeds; the best end of a table is marked *."
)


@dataclass(frozen=True)
class Contest:
    """What is run and how it is presented.

    Attributes
    ----------
    title : str
        Heading of the report.
    config : dataclass
        Settings that the records depend on.
    entries : sequence of Entry
        The curves.
    play : callable
        Runs one job; importable by name.
    seeds, tuning_budget, budget : int
        Final runs of each method, and target gradients of a grid run and of a final run.
    shown : mapping
        Settings and facts for the report.
    notes : sequence of str
        Remarks for the report and the terminal.
    main : str or None
        The method that the sentences speak of; None for the best ProxyProx.
    remarks : callable
        Returns further sentences, given the summary's rows.
    """

    title: str
    config: Any
    entries: Sequence[Entry]
    play: Callable[[Any, Job], list[Point]]
    seeds: int
    tuning_budget: int
    budget: int
    shown: Mapping[str, Any]
    notes: Sequence[str] = field(default=())
    main: str | None = None
    remarks: Callable[[Sequence[Row]], Sequence[str]] = lambda rows: ()


@dataclass(frozen=True)
class Finished:
    """What a tournament left behind."""

    folder: Path
    rows: list[Row]
    outcome: Outcome
    said: list[str]
    notes: list[str]
    report: Path | None
    missing: str | None
    runs: int
    reused: int


def conduct(
    contest: Contest, *, folder: Path, workers: int | None, command: str, as_json: bool
) -> Finished:
    """Run what is not yet on disk, and write summary, figures and report.

    Parameters
    ----------
    contest : Contest
        What to run.
    folder : Path
        Output folder; finished runs of the same settings in it are used.
    workers : int or None
        Processes; None for the cores there are.
    command : str
        What to type to go on.
    as_json : bool
        Show no progress unless somebody watches.

    Raises
    ------
    CommandError
        When the folder cannot be used, or the user interrupts.
    """
    with output_folder(folder):
        return _conducted(contest, folder, workers, command, as_json)


def _conducted(
    contest: Contest, folder: Path, workers: int | None, command: str, as_json: bool
) -> Finished:
    before = _finished(folder)
    try:
        with _display(stderr(), quiet=as_json) as display:
            outcome = hold(
                contest.entries,
                contest.play,
                contest.config,
                folder=folder,
                seeds=contest.seeds,
                tuning_budget=contest.tuning_budget,
                budget=contest.budget,
                workers=workers or cores(),
                display=display,
            )
        rows = summarise(outcome.records)
        said = [*findings.sentences(rows, main=contest.main), *contest.remarks(rows)]
        missing = _published(contest, folder, outcome, command, said)
    except KeyboardInterrupt:
        raise CommandError(_kept(contest, folder, command), INTERRUPTED) from None
    return Finished(
        folder=folder,
        rows=rows,
        outcome=outcome,
        said=said,
        notes=list(contest.notes),
        report=folder / "report.html" if missing is None else None,
        missing=missing,
        runs=_total(contest),
        reused=before,
    )


def _published(
    contest: Contest, folder: Path, outcome: Outcome, command: str, said: Sequence[str]
) -> str | None:
    """Write the files; return how to get figures and report where they cannot be made."""
    console = stderr()
    drawing = "writing figures and report"
    try:
        with console.status(drawing) if console.is_terminal else nullcontext():
            publish(
                folder,
                outcome,
                title=contest.title,
                command=command,
                config=contest.shown,
                notes=contest.notes,
                lead=said,
            )
    except MissingExtraError as error:
        return f"No figures and no report: {error}"
    return None


def present(
    done: Finished, *, as_json: bool, intro: str = "", more: Mapping[str, Any] | None = None
) -> None:
    """Print what came out: a table and sentences, or one JSON object.

    Parameters
    ----------
    done : Finished
        What :func:`conduct` returned.
    as_json : bool
        Print JSON.
    intro : str
        Lines that tell a reader what was compared.
    more : mapping, optional
        Further fields of the JSON object.
    """
    found = panels(done.rows, step_size_rows(done.outcome))
    if as_json:
        content = {
            "folder": str(done.folder),
            "report": None if done.report is None else str(done.report),
            "panels": found,
            "findings": done.said,
            "notes": done.notes,
            "runs": done.runs,
            "reused": done.reused,
        }
        emit({**content, **(more or {})})
        return
    console = stdout()
    if intro:
        say(console, intro)
    print_panels(console, found)
    console.print()
    say(console, LEGEND, style="dim")
    for text in [*done.said, *done.notes]:
        console.print()
        say(console, text)
    console.print()
    if done.missing is not None:
        say(console, done.missing)
    if done.reused:
        were = "was" if done.reused == 1 else "were"
        say(console, f"Of the {done.runs} runs {done.reused} {were} in {done.folder} already.")
    what = "Records and summary" if done.report is None else "Report"
    tell_path(console, f"{what}: {done.report or done.folder}")


@contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """Make the output folder and lock it while the block runs, or say why it cannot be used.

    Parameters
    ----------
    folder : Path
        The folder.

    Raises
    ------
    CommandError
        When it is a file, or may not be written to.
    LockedError
        When another process writes it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
        reason = "Permission denied"
    except OSError as error:
        writable = False
        reason = "it is a file" if isinstance(error, FileExistsError) else str(error.strerror)
    if not writable:
        raise CommandError(
            f"the folder {str(folder)!r} cannot be written to ({reason}): choose another with "
            "--output."
        )
    with locked(folder, again=True):
        yield


def _display(console: Console, *, quiet: bool) -> AbstractContextManager[Any]:
    if console.is_terminal:
        return LiveDisplay(console)
    return nullcontext(NoDisplay() if quiet else LineDisplay(console.file))


def _kept(contest: Contest, folder: Path, command: str) -> str:
    return (
        f"Interrupted. {_finished(folder)} of {_total(contest)} runs are finished and kept in "
        f"{folder}.\nTo go on where it stopped:  {command}"
    )


def _total(contest: Contest) -> int:
    grids = sum(len(entry.etas) for entry in contest.entries if len(entry.etas) > 1)
    return grids + len(contest.entries) * contest.seeds


def _finished(folder: Path) -> int:
    stores = (folder / "grid.jsonl", folder / "records.jsonl")
    return sum(len(RecordStore(store)) for store in stores)
