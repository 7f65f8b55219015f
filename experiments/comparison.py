"""A comparison of methods from the command line: folder, progress, interruption, tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.compare import (
    BASELINES,
    ERM,
    LEDGER_FIELDS,
    ON_STEP_SIZE,
    Experiment,
    Outcome,
    compare,
)
from experiments.report import page, summary
from experiments.report.summary import Row, last_rows, summarise, write_json
from proxyprox._util.arrays import core_count
from proxyprox_app.cli import console
from proxyprox_app.cli.console import plain, say

LEGEND = (
    "target, proxy: gradients spent of each; above opt.: the loss above its minimum; on eta: "
    "target gradients for the step size, + in runs before, ( ) among the run's own. Medians over "
    "seeds; the best end of a table is marked *."
)
LABELS = {
    "tuning_gradients": "target gradients of the grid runs",
    ON_STEP_SIZE: "of the run's, for the step size",
}


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
    texts = [*sentences(rows, main=experiment.main), *experiment.remarks(rows)]
    costs = method_costs(outcome.records, outcome.tuning)
    sizes = [{name: row[name] for name in ("panel", "method", *LABELS)} for row in costs]
    common: dict[str, Any] = {"command": command, "config": dict(experiment.shown)}
    write_json(folder / "summary.json", {"step_sizes": sizes, **common, "rows": rows})
    notes = [*experiment.notes, *edge_notes(outcome)]
    found = {
        "folder": str(folder),
        "panels": panels(rows, sizes),
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
    """Print a table for each panel, as :func:`experiments.report.summary.panels` returns them."""
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
        marked = [
            (f"{row[0]}{' *' * first}", *row[1:]) for row, first in zip(rows, firsts, strict=True)
        ]
        console.print_table(screen, headings, marked, ["bold" * first for first in firsts])


def _on_step_size(before: float | None, within: float | None) -> str:
    if within is not None:
        return f"({within:,.0f})"
    return f"+{before:,.0f}" if before else ""


def _count(value: float | None, absent: str = "") -> str:
    return absent if value is None else f"{value:,.0f}"


def method_costs(
    records: Iterable[Mapping[str, Any]], tuning: Mapping[tuple[str, str], int]
) -> list[Row]:
    """Return what a whole run of each method spent: medians over seeds at its last point.

    ``tuning_gradients`` are the target gradients of its grid runs, on top of a run's own;
    ``step_size_gradients``, where the step size was measured on the way, those among a run's own.
    """
    fields = ("panel", "method", "target_gradients", *LEDGER_FIELDS, ON_STEP_SIZE)
    rows = summarise(records, metric="target_gradients", constant=(), costs=fields[3:])
    return [
        {name: end[name] for name in fields}
        | {"tuning_gradients": tuning.get((end["panel"], end["method"]), 0)}
        for end in last_rows(rows)
    ]


def panels(
    rows: Sequence[Mapping[str, Any]], step_sizes: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return, panel by panel, where each method ended and what it took to match the baseline.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of a summary.
    step_sizes : sequence of mappings
        More fields by panel and method.
    """
    sizes = {(row["panel"], row["method"]): row for row in step_sizes}
    ends, found = last_rows(rows), []
    for panel in dict.fromkeys(end["panel"] for end in ends):
        methods = [dict(end) for end in ends if end["panel"] == panel]
        rivals = [end for end in methods if end["method"] in BASELINES]
        base: Row = min(rivals, key=_end, default={})
        level = base.get("suboptimality_median")
        for end in methods:
            curve = (row for row in rows if (row["panel"], row["method"]) == (panel, end["method"]))
            lows = ((row, row["suboptimality_median"]) for row in curve if level is not None)
            hit = next((row for row, low in lows if low is not None and low <= level), {})
            end |= sizes.get((panel, end["method"]), {})
            del end["panel"]
            for kind in ("target_gradients", "proxy_gradients"):
                end[f"{kind}_to_level"] = hit.get(kind)
        baseline = base.get("method")
        found.append({"panel": panel, "baseline": baseline, "level": level, "methods": methods})
    return found


def _end(row: Mapping[str, Any]) -> float:
    low = row["suboptimality_median"]
    return float("inf") if low is None else float(low)


def sentences(rows: Sequence[Mapping[str, Any]], *, main: str | None = None) -> list[str]:
    """Return a few sentences for each panel: a method against the best rival and against ERM.

    Parameters
    ----------
    rows : sequence of mappings
        Rows of a summary.
    main : str, optional
        The method to speak of; by default the best ProxyProx of the panel.
    """
    texts = []
    for panel in panels(rows):
        name, base, level = panel["panel"], panel["baseline"], panel["level"]
        ends = {end["method"]: end for end in panel["methods"]}
        lows = {method: end["suboptimality_median"] for method, end in ends.items()}
        ours = [
            (low, method)
            for method, low in lows.items()
            if low is not None and (method == main if main else method.startswith("ProxyProx"))
        ]
        if not ours:
            continue
        low, best = min(ours, key=lambda pair: pair[0])
        budget = max(end["target_gradients"] for end in ends.values())
        text = f"{name[:1].upper()}{name[1:]}: after {budget:,} target gradients, “{best}” is "
        text += height(low)
        if base not in (None, best):
            text += f"; {base} " + ("broke off" if level is None else f"is {height(level)}")
        if (hit := ends[best]["target_gradients_to_level"]) is not None and base != best:
            text += (
                f". It got as low as {base}'s end with {hit:,} target gradients "
                f"({base}: {ends[base]['target_gradients_to_level']:,}) and "
                f"{ends[best]['proxy_gradients_to_level']:,.0f} proxy gradients"
            )
        if (fitted := lows.get(ERM)) is not None:
            text += f". Fitting the rows seen by then, without any proxy, gives {fitted:.2g}"
        if len(ours) > 1:
            text += f". The ProxyProx named is the best of {len(ours)}"
        text += "."
        texts.append(text)
    return texts


def height(value: float) -> str:
    """Return a suboptimality in words."""
    # A reference solved to rounding error can lie above an answer by as much.
    return "at the optimum to rounding" if value <= 0 else f"{value:.2g} above the optimum"
