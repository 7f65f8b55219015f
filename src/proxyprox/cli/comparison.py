"""A comparison of methods from the command line: folder, progress, interruption, tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from proxyprox._util.extras import MissingExtraError
from proxyprox._util.files import locked
from proxyprox.cli import console
from proxyprox.cli.console import CommandError, plain, say, stderr
from proxyprox.report import figures, page, summary
from proxyprox.report.records import cores
from proxyprox.report.summary import ON_STEP_SIZE
from proxyprox.study.compare import Experiment, Outcome, compare

LEGEND = (
    "target, proxy: gradients spent of each; above opt.: the loss above its minimum; on eta: "
    "target gradients for the step size, + in runs before, ( ) among the run's own. Medians over "
    "seeds; the best end of a table is marked *."
)


def run_experiment(
    experiment: Experiment, *, folder: Path, workers: int | None, command: str, as_json: bool
) -> Outcome:
    """Run what is not yet on disk.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    folder : Path
        Output folder; finished runs of the same settings in it are used.
    workers : int or None
        Processes; None for the cores there are.
    command : str
        What to type to resume.
    as_json : bool
        Show no progress unless somebody watches.

    Raises
    ------
    CommandError
        When the user interrupts.
    """
    screen = stderr()
    status = screen.status("starting") if screen.is_terminal else None
    shown = [-1]

    def progress(stage: str, share: float) -> None:
        text, tenths = f"{stage}: {100 * share:.0f} % done", int(10 * share + 1e-9)
        if status is not None:
            status.update(plain(text))
        elif not as_json and tenths != shown[0]:
            say(screen, text)
        shown[0] = tenths

    try:
        with status or nullcontext():
            return compare(experiment, folder, workers or cores(), progress)
    except KeyboardInterrupt:
        raise interrupted(folder, command) from None


def interrupted(folder: Path, command: str) -> CommandError:
    """Return the message for a user who interrupts."""
    text = f"Interrupted. Finished runs are kept in {folder}.\nTo resume:  {command}"
    return CommandError(text, console.INTERRUPTED)


def write_results(
    experiment: Experiment, outcome: Outcome, *, folder: Path, command: str
) -> dict[str, Any]:
    """Write summary, figures and report, and return what came out as JSON values.

    Parameters
    ----------
    experiment : Experiment
        What was run.
    outcome : Outcome
        What came out.
    folder : Path
        Where everything goes.
    command : str
        Command that makes it again.
    """
    rows = summary.summarise(outcome.records)
    texts = [*summary.sentences(rows, main=experiment.main), *experiment.remarks(rows)]
    costs = summary.method_costs(outcome.records, outcome.tuning)
    names = ("panel", "method", "tuning_gradients", ON_STEP_SIZE)
    sizes = [{name: row[name] for name in names} for row in costs]
    common: dict[str, Any] = {"command": command, "config": dict(experiment.shown)}
    summary.write_summary(folder / "summary.json", rows, step_sizes=sizes, **common)
    edge = "; ".join(f"{method} ({panel})" for panel, method in outcome.at_edge)
    at_edge = f"The best step size lies at the edge of its grid for: {edge}."
    found = {
        "folder": str(folder),
        "report": None,
        "panels": panels(rows, sizes),
        "findings": texts,
        "notes": list(experiment.notes),
        "runs": outcome.runs,
        "reused": outcome.reused,
    }
    words = {
        "tuning_gradients": "target gradients of the grid runs",
        ON_STEP_SIZE: "of the run's, for the step size",
    }
    try:
        figures.save_figures(folder, rows)
        report = page.write_report(
            folder,
            title=experiment.title,
            lead=texts,
            rows=rows,
            costs=costs,
            labels=words,
            notes=[*experiment.notes, *([at_edge] if edge else [])],
            **common,
        )
    except MissingExtraError as error:
        return {**found, "missing": f"No figures and no report: {error}"}
    except KeyboardInterrupt:
        raise interrupted(folder, command) from None
    return {**found, "report": str(report)}


def panels(
    rows: Sequence[Mapping[str, Any]], step_sizes: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return, panel by panel, where each method ended and what it took to match the baseline."""
    sizes = {(row["panel"], row["method"]): row for row in step_sizes}
    ends, found = summary.last_rows(rows), []
    for panel in dict.fromkeys(end["panel"] for end in ends):
        here = {end["method"]: dict(end) for end in ends if end["panel"] == panel}
        base = next((name for name in here if name in summary.BASELINES), None)
        level = None if base is None else here[base]["suboptimality_median"]
        reached = {} if level is None else summary.first_reaching(rows, level)
        for name, method in here.items():
            hit = reached.get((panel, name)) or {}
            method |= sizes.get((panel, name), {})
            del method["panel"]
            for kind in ("target_gradients", "proxy_gradients"):
                method[f"{kind}_to_level"] = hit.get(kind)
        methods = list(here.values())
        found.append({"panel": panel, "baseline": base, "level": level, "methods": methods})
    return found


def present(found: Mapping[str, Any], *, as_json: bool, intro: str = "") -> None:
    """Print what came out: tables and sentences, or one JSON object.

    Parameters
    ----------
    found : mapping
        What :func:`write_results` returns.
    as_json : bool
        Print JSON.
    intro : str
        Lines that tell a reader what was compared.
    """
    if as_json:
        console.emit(dict(found))
        return
    screen = console.stdout()
    if intro:
        say(screen, intro)
    print_panels(screen, found["panels"])
    texts = [*found["findings"], *found["notes"]]
    for text, style in ((LEGEND, "dim"), *((text, "") for text in texts)):
        screen.print()
        say(screen, text, style)
    screen.print()
    if "missing" in found:
        say(screen, found["missing"])
    if reused := found["reused"]:
        say(screen, f"Reused {reused} of the {found['runs']} runs from {found['folder']}.")
    what = "Records and summary" if found["report"] is None else "Report"
    console.tell_path(screen, f"{what}: {found['report'] or found['folder']}")


def print_panels(screen: Console, found: Sequence[Mapping[str, Any]]) -> None:
    """Print a table for each panel, as :func:`panels` returns them."""
    for panel in found:
        methods, level = panel["methods"], panel["level"]
        name, after = str(panel["panel"]), methods[0]["target_gradients"]
        reach = "" if level is None else f"; target and proxy gradients to reach {level:.1e}"
        screen.print()
        say(screen, f"{name[:1].upper()}{name[1:]}", style="bold")
        say(screen, f"after {after:,} target gradients{reach}", style="dim")
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
        table.add_column("method")
        for heading in ("target", "proxy", "above opt.", "proxy", "seconds", "on eta"):
            table.add_column(heading, justify="right", no_wrap=True)
        ends = [method["suboptimality_median"] for method in methods]
        best = min((end for end in ends if end is not None), default=None)
        for method, end in zip(methods, ends, strict=True):
            hit, first = method["target_gradients_to_level"], end is not None and end == best
            never = "" if level is None else "never"
            table.add_row(
                plain(method["method"]),
                never if hit is None else f"{hit:,}",
                _count(method["proxy_gradients_to_level"]),
                "diverged" if end is None else f"{end:.1e}{'*' if first else ' '}",
                _count(method["proxy_gradients"]),
                f"{method['seconds']:.2g}",
                _on_step_size(method),
                style="bold" if first else "",
            )
        screen.print(table)


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _on_step_size(method: Mapping[str, Any]) -> str:
    """Return the target gradients spent on the step size: + on top, ( ) among the run's own."""
    before, within = method.get("tuning_gradients"), method.get(ON_STEP_SIZE)
    if within is not None:
        return f"({within:,.0f})"
    return f"+{before:,}" if before else ""


@contextmanager
def output_folder(folder: Path) -> Iterator[None]:
    """Make the output folder and lock it while the block runs, or say why it cannot be used.

    Raises
    ------
    CommandError
        When it is a file, or may not be written to.
    LockedError
        When another process writes it.
    """
    reason = "Permission denied"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except (OSError, ValueError) as error:
        writable, reason = False, getattr(error, "strerror", None) or str(error)
    if not writable:
        raise CommandError(
            f"the folder {str(folder)!r} cannot be written to ({reason}): choose another with "
            "--output."
        )
    with locked(folder, again=True):
        yield
