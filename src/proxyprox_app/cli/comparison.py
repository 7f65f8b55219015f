"""A comparison of methods from the command line: folder, progress, interruption, tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from proxyprox._util.arrays import core_count
from proxyprox._util.files import locked
from proxyprox_app.cli import console
from proxyprox_app.cli.console import CommandError, plain, say
from proxyprox_app.report import page, summary
from proxyprox_app.report.summary import ON_STEP_SIZE, write_json
from proxyprox_app.study.compare import Experiment, Outcome, compare

LEGEND = (
    "target, proxy: gradients spent of each; above opt.: the loss above its minimum; on eta: "
    "target gradients for the step size, + in runs before, ( ) among the run's own. Medians over "
    "seeds; the best end of a table is marked *."
)
LABELS = {
    "tuning_gradients": "target gradients of the grid runs",
    ON_STEP_SIZE: "of the run's, for the step size",
}


@contextmanager
def output_folder(folder: Path, command: str) -> Iterator[None]:
    """Make a folder and hold its lock while the block runs.

    Parameters
    ----------
    folder : Path
        Where everything goes.
    command : str
        What to type to resume after an interruption.

    Raises
    ------
    CommandError
        When it cannot be written to or another process writes it, and when the user interrupts.
    """
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error).rstrip(".")
            text = f"the folder {str(folder)!r} cannot be written to ({reason}): choose another "
            raise CommandError(f"{text}with --output.") from error
        try:
            yield
        except KeyboardInterrupt:
            text = f"Interrupted. Finished runs are kept in {folder}.\nTo resume:  {command}"
            raise CommandError(text, console.INTERRUPTED) from None


def run_experiment(
    experiment: Experiment, *, folder: Path, workers: int | None, as_json: bool
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
    as_json : bool
        Show no progress unless somebody watches.
    """
    screen, shown = console.stderr(), -1
    status = screen.status("starting") if screen.is_terminal else None

    def progress(stage: str, share: float) -> None:
        nonlocal shown
        text, tenths = f"{stage}: {100 * share:.0f} % done", int(10 * share + 1e-9)
        if status is not None:
            status.update(plain(text))
        elif not as_json and tenths != shown:
            say(screen, text)
        shown = tenths

    with status or nullcontext():
        return compare(experiment, folder, workers or core_count(), progress)


def write_results(
    experiment: Experiment, outcome: Outcome, *, folder: Path, command: str
) -> dict[str, Any]:
    """Write summary and report, and return what came out as JSON values.

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
    sizes = [{name: row[name] for name in ("panel", "method", *LABELS)} for row in costs]
    common: dict[str, Any] = {"command": command, "config": dict(experiment.shown)}
    write_json(folder / "summary.json", {"step_sizes": sizes, **common, "rows": rows})
    notes = [*experiment.notes, *edge_notes(outcome)]
    found = {
        "folder": str(folder),
        "panels": summary.panels(rows, sizes),
        "findings": texts,
        "notes": notes,
        "runs": outcome.runs,
        "reused": outcome.reused,
    }
    common |= {"title": experiment.title, "lead": texts, "notes": notes}
    report = page.write_report(folder, rows=rows, costs=costs, labels=LABELS, **common)
    return {**found, "report": str(report)}


def edge_notes(outcome: Outcome) -> list[str]:
    """Return a note on step sizes that are the first or the last tried, if there are any."""
    edge = "; ".join(f"{method} ({panel})" for panel, method in outcome.at_edge)
    return [f"The best step size lies at the edge of its grid for: {edge}."] * bool(edge)


def present(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what came out: tables and sentences, or one JSON object.

    Parameters
    ----------
    found : mapping
        What :func:`write_results` returns.
    as_json : bool
        Print JSON.
    """
    if as_json:
        console.emit(dict(found))
        return
    screen = console.stdout()
    print_panels(screen, found["panels"])
    say(screen, f"\n{LEGEND}", "dim")
    for text in (*found["findings"], *found["notes"]):
        say(screen, f"\n{text}")
    screen.print()
    tell_report(screen, found)


def tell_report(screen: Console, found: Mapping[str, Any]) -> None:
    """Say how many runs were in the folder already, and where the report is."""
    if reused := found["reused"]:
        say(screen, f"Reused {reused} of the {found['runs']} runs from {found['folder']}.")
    console.tell_path(screen, f"Report: {found['report']}")


def print_panels(screen: Console, found: Sequence[Mapping[str, Any]]) -> None:
    """Print a table for each panel, as :func:`proxyprox_app.report.summary.panels` returns them."""
    for panel in found:
        methods, level, name = panel["methods"], panel["level"], str(panel["panel"])
        reach = "" if level is None else f"; target and proxy gradients to reach {level:.1e}"
        say(screen, f"\n{name[:1].upper()}{name[1:]}", "bold")
        say(screen, f"after {methods[0]['target_gradients']:,} target gradients{reach}", "dim")
        ends = [method["suboptimality_median"] for method in methods]
        best = min((end for end in ends if end is not None), default=None)
        rows = [
            (
                method["method"],
                _count(method["target_gradients_to_level"], "" if level is None else "never"),
                _count(method["proxy_gradients_to_level"]),
                "diverged" if end is None else f"{end:.1e}",
                _count(method["proxy_gradients"]),
                f"{method['seconds']:.2g}",
                _on_step_size(method.get("tuning_gradients"), method.get(ON_STEP_SIZE)),
            )
            for method, end in zip(methods, ends, strict=True)
        ]
        firsts = [end is not None and end == best for end in ends]
        headings = ("method", "target", "proxy", "above opt.", "proxy", "seconds", "on eta")
        console.print_table(screen, headings, rows, firsts)


def _on_step_size(before: float | None, within: float | None) -> str:
    if within is not None:
        return f"({within:,.0f})"
    return f"+{before:,.0f}" if before else ""


def _count(value: float | None, absent: str = "") -> str:
    return absent if value is None else f"{value:,.0f}"
