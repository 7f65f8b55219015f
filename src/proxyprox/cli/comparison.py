"""A comparison of methods from the command line: folder, display, interruption, tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from proxyprox._util.extras import MissingExtraError
from proxyprox._util.files import locked
from proxyprox.cli.console import (
    INTERRUPTED,
    CommandError,
    emit,
    plain,
    say,
    stderr,
    stdout,
    tell_path,
)
from proxyprox.experiments import summary as findings
from proxyprox.experiments.page import publish, step_size_rows
from proxyprox.experiments.records import Point, RecordStore
from proxyprox.experiments.summary import Row, summarise
from proxyprox.experiments.tournament import (
    Entry,
    Job,
    LineDisplay,
    LiveDisplay,
    NoDisplay,
    Outcome,
    cores,
    hold,
)


def panels(
    rows: Sequence[Mapping[str, Any]], step_sizes: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return, panel by panel, where each method ended and what it took to match the baseline.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of a summary.
    step_sizes : sequence of mappings
        What the step sizes cost, as ``publish.step_size_rows`` returns it.
    """
    from proxyprox.experiments import summary as findings
    from proxyprox.experiments.summary import end_points

    reached = {(row["panel"], row["method"]): row for row in findings.to_reach(rows)}
    sizes = {(row["panel"], row["method"]): row for row in step_sizes}
    found: dict[str, dict[str, Any]] = {}
    for end in end_points(rows):
        name = (end["panel"], end["method"])
        hit = reached.get(name, {})
        panel = found.setdefault(
            end["panel"],
            {"panel": end["panel"], "baseline": None, "level": hit.get("level"), "methods": []},
        )
        if end["method"] in findings.BASELINES:
            panel["baseline"] = end["method"]
        panel["methods"].append(
            {
                **{key: value for key, value in end.items() if key != "panel"},
                **{key: value for key, value in sizes.get(name, {}).items() if key != "panel"},
                "target_gradients_to_level": hit.get("target_gradients"),
                "proxy_gradients_to_level": hit.get("proxy_gradients"),
            }
        )
    return list(found.values())


def print_panels(console: Console, found: Sequence[Mapping[str, Any]]) -> None:
    """Print a table for each panel.

    Parameters
    ----------
    console : Console
        Where to.
    found : sequence of mappings
        What :func:`panels` returns.
    """
    for panel in found:
        name = str(panel["panel"])
        console.print()
        say(console, f"{name[:1].upper()}{name[1:]}", style="bold")
        for line in _table(panel):
            console.print(line, soft_wrap=True)


def _table(panel: Mapping[str, Any]) -> Iterator[Text]:
    """Lay the table out by hand: two headings span several columns."""
    methods, level = panel["methods"], panel["level"]
    width = max(20, *(len(method["method"]) for method in methods))
    reach = f"to reach {level:.1e}" if level is not None else ""
    after = f"after {methods[0]['target_gradients']:,} target gradients"
    yield Text(f"{'':{width}}  {reach:>17}  {after:>27}".rstrip(), style="dim")
    pair = ("target", "proxy") if reach else ("", "")
    spent = [_on_step_size(method) for method in methods]
    alike = len({text for text in spent if text}) < 2
    yield Text(
        f"{'method':{width}}  {pair[0]:>8} {pair[1]:>8}  {'above opt.':>10} {'proxy':>8} "
        f"{'seconds':>7} {'' if alike else 'on eta':>8}".rstrip(),
        style="dim",
    )
    ends = [method["suboptimality_median"] for method in methods]
    best = min((end for end in ends if end is not None), default=None)
    for method, end, on_eta in zip(methods, ends, spent, strict=True):
        hit, cost = method["target_gradients_to_level"], method["proxy_gradients_to_level"]
        first = end is not None and end == best
        reached = ("" if level is None else "never") if hit is None else f"{hit:,}"
        yield plain(
            f"{method['method']:{width}}  {reached:>8} {_count(cost):>8}  "
            f"{'diverged' if end is None else f'{end:.1e}':>10}{'*' if first else ' '}"
            f"{_count(method['proxy_gradients']):>8} {method['seconds']:>7.2g} "
            f"{'' if alike else on_eta:>8}".rstrip(),
            "bold" if first else "",
        )
    if alike and any(spent):
        yield Text(f"on eta: {max(spent)} each", style="dim")


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _on_step_size(method: Mapping[str, Any]) -> str:
    """Return the target gradients spent on the step size: + on top, ( ) among the run's own."""
    before, within = method.get("tuning_gradients"), method.get("step_size_gradients")
    if within is not None:
        return f"({within:,.0f})"
    return f"+{before:,}" if before else ""


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
