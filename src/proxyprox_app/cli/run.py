"""``proxyprox run``: a model of one's own table."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxyprox_app.cli import console
from proxyprox_app.cli.console import CommandError, Json, Output, guarded

if TYPE_CHECKING:
    from proxyprox_app.study.columns import Columns
    from proxyprox_app.study.fit import Comparison, TableModel, Target


Encoding = Annotated[str | None, typer.Option(help="Of a text file; default: found out.")]
Separator = Annotated[str | None, typer.Option(help="Between cells; default: found out.")]
Sheet = Annotated[str | None, typer.Option(help="Of an Excel file, by name or number.")]

# Coefficients that the terminal shows, and bytes of a file that is read in silence.
SHOWN, SILENT = 20, 2 << 20


@guarded
def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Your table: CSV, Parquet, Excel.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--as", metavar="COLUMN=KIND", help="number, category, text, date or drop."),
    ] = None,
    groups: Annotated[
        str | None, typer.Option(help="Column whose rows of one value belong together.")
    ] = None,
    when: Annotated[
        str | None, typer.Option("--time", help="Column by which later rows are held out.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what every column becomes, and stop.")
    ] = False,
    model: Annotated[
        str, typer.Option(help="best, proxyprox, scikit-learn, huber, erm or base-rate.")
    ] = "best",
    task: Annotated[str | None, typer.Option(help="classification or regression.")] = None,
    encoding: Encoding = None,
    separator: Separator = None,
    sheet: Sheet = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the held-out rows.")] = 0,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Fit a model to your own table, however messy, and see what it is worth.

    FILE may hold text, dates, categories and gaps. Rows whose --target is empty have no label:
    they help as the proxy. Models are compared on held-out rows, the best is fitted to all labels
    and written to a file for proxyprox predict.

    If several rows come from one person or one machine, name that column by --groups: whole groups
    are then held out, as new persons will be. With --time, later rows are held out.

    Without --output the folder is runs/ and the name of the file.

    Examples
    --------
    proxyprox run sales.csv --target churned --dry-run
    proxyprox run visits.csv --target ill --groups patient
    proxyprox predict runs/sales/model.json new.csv --output predictions.csv

    Every file is read as it comes: separator, encoding, decimal commas, titles above the header.
    What is odd is reported by column, all at once; --as changes what a column becomes.

    Written: model.json, coefficients.csv and summary.json.
    """
    folder = output or Path("runs") / file.name.partition(".")[0]
    command = console.command_line(context)
    frame, columns, goal, findings = read_table_and_goal(
        file, target, parse_kinds(kinds or []), task, (encoding, separator, sheet), groups, as_json
    )
    if dry_run:
        show_columns(columns, findings, goal, as_json)
        raise typer.Exit(console.BAD_INPUT if any(f.fatal for f in findings) else 0)
    fit_table(
        frame, columns, goal, findings, file, folder, model=model, seed=seed, groups=groups,
        when=when, as_json=as_json, command=command,
    )  # fmt: skip


def parse_kinds(given: list[str]) -> dict[str, str]:
    """Return what columns shall be, from ``column=kind``."""
    kinds = {}
    for each in given:
        name, sign, kind = each.rpartition("=")
        if not sign or not name:
            raise CommandError(f"--as must be COLUMN=KIND, such as zip=category, got {each!r}.")
        kinds[name.strip()] = kind.strip()
    return kinds


@contextmanager
def progress_of(as_json: bool, lines: bool = True) -> Iterator[Callable[[str], None]]:
    """Yield what tells the user what is being done: one line at a terminal, else one each."""
    screen = console.stderr()
    if as_json or not screen.is_terminal:
        yield lambda text: console.say(screen, text, "dim") if lines and not as_json else None
        return
    with screen.status("") as status:
        yield lambda text: status.update(console.plain(text))


def read_table_and_goal(
    file: Path,
    target: str | None,
    kinds: dict[str, str],
    task: str | None,
    reading: tuple[str | None, str | None, str | None],
    groups: str | None,
    as_json: bool,
) -> tuple[Any, Columns, Target, list[Any]]:
    """Return a table, what its columns become, what is predicted, and what is odd."""
    from proxyprox._util.validation import one_of
    from proxyprox_app.study import fit
    from proxyprox_app.study.columns import Columns
    from proxyprox_app.study.tables import load_cells

    if task is not None:
        one_of("--task", task, fit.TASKS)
    large = file.is_file() and file.stat().st_size > SILENT
    with progress_of(as_json, large) as progress:
        progress(
            f"reading {file.name} ({file.stat().st_size / 1e6:.0f} MB)" if large else "reading"
        )
        frame, findings, decimal = load_cells(file, *reading).parse()
        if target is None:
            shown = ", ".join(map(repr, list(frame)[:20]))
            raise CommandError(f"name the column to predict with --target; there are {shown}.")
        goal = fit.read_target(frame, target, task, decimal)
        if groups is not None:
            kinds = {groups: "drop"} | kinds if groups in frame else kinds
        begun = time.monotonic()

        def now_and_then(text: str) -> None:
            nonlocal begun
            if time.monotonic() > begun + 1:
                progress(text)
                begun = time.monotonic()

        columns = Columns(kinds, decimal=decimal)
        columns.plan(frame, goal.y, [target], now_and_then)
    findings = [*findings, *goal.findings, *columns.findings, *fit.repeated_rows(frame)]
    return frame, columns, goal, findings


def fit_table(
    frame: Any,
    columns: Columns,
    goal: Target,
    findings: Sequence[Any],
    file: Path,
    folder: Path,
    *,
    model: str,
    seed: int,
    groups: str | None,
    when: str | None,
    as_json: bool,
    command: str,
) -> None:
    """Compare models on held-out rows, and write the best."""
    from proxyprox._util.validation import one_of
    from proxyprox_app.cli.console import file_digest
    from proxyprox_app.study import fit
    from proxyprox_app.study.columns import raise_fatal

    one_of("--model", model, ("best", *fit.models_for(goal.task)))
    split = fit.read_split(frame, groups, when)
    if not as_json:
        tell_findings(finding for finding in findings if not finding.fatal)
    raise_fatal(findings)
    kept = "Nothing was written: files are written when the model is fitted."
    with console.output_folder(folder, command, kept), progress_of(as_json) as progress:
        found = fit.compare_models(frame, columns, goal, model, seed, progress, split)
        progress(f"fitting {found.chosen} to all {found.labels} labels")
        made = fit.fit_all(frame, columns, goal, found)
        made.about["data"] = file_digest(file)
        done = write_table(folder, file, made, found, findings, command)
    if as_json:
        console.emit(done)
    else:
        tell_table(done, made, found)


def write_table(
    folder: Path, file: Path, kept: TableModel, found: Comparison, findings: Any, command: str
) -> dict[str, Any]:
    """Write the model, its coefficients and a summary; return the summary."""
    from proxyprox_app.page import write_json

    coefficients, effects = kept.coefficients(), kept.about["effects"]
    doubts = []
    if found.perfect:
        first = next(iter(effects), "")
        doubts.append(
            "Scores as good as these are rare. Is the label in another column, or do rows repeat? "
            f"The column that matters most is {first}: leave it out (--as {first}=drop) and "
            "compare; or hold whole groups out (--groups)."
        )
    done: dict[str, Any] = {
        "command": command,
        "file": str(file),
        "target": kept.target,
        **asdict(found),
        "doubts": doubts,
        "findings": [finding._asdict() for finding in findings],
        "columns": kept.columns.describe(),
        "effects": effects,
        "coefficients": coefficients,
        "classes": kept.classes,
        "replaced": (folder / "model.json").exists(),
        "model": str(folder / "model.json"),
        "summary": str(folder / "summary.json"),
    }
    kept.save(folder / "model.json")
    write_csv(folder / "coefficients.csv", coefficient_rows(coefficients))
    write_json(folder / "summary.json", done)
    return done


def coefficient_rows(coefficients: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the coefficients as the rows of a table, header first."""
    by_class = [
        value if isinstance(value, dict) else {"coefficient": value}
        for value in (row["coefficient"] for row in coefficients)
    ]
    rows: list[list[Any]] = [["name", "column", *(by_class[0] if by_class else ()), "low", "high"]]
    for row, values in zip(coefficients, by_class, strict=True):
        rows.append([row["name"], row["column"], *values.values(), row.get("low"), row.get("high")])
    return rows


def write_csv(path: Path, rows: list[list[Any]]) -> None:
    """Write a table that no spreadsheet takes for formulas, whole or not at all."""
    from proxyprox._util.files import atomic_write_bytes

    atomic_write_bytes(path, csv_text(rows).encode("utf-8", "surrogateescape"))


def csv_text(rows: Iterable[Sequence[Any]], end: str = "\n") -> str:
    """Return rows as CSV whose text no spreadsheet computes."""
    from proxyprox_app.cli.console import without_formula

    lines = io.StringIO(newline="")
    writer = csv.writer(lines, lineterminator=end)
    writer.writerows([without_formula(cell) for cell in row] for row in rows)
    return lines.getvalue()


# -- what the terminal shows ----------------------------------------------------------------------


def tell_findings(findings: Any) -> None:
    """Print what is odd about a table."""
    screen = console.stderr()
    for finding in findings:
        console.say(screen, f"{'Error' if finding.fatal else 'Note'}: {finding}",
                    "bold red" if finding.fatal else "yellow")  # fmt: skip


def show_columns(columns: Columns, findings: Any, goal: Target, as_json: bool) -> None:
    """Print what every column becomes."""
    labels, others = int(goal.known.sum()), int((~goal.known).sum())
    if as_json:
        about = {"target": goal.name, "task": goal.task, "labels": labels, "unlabelled": others}
        shown = [finding._asdict() for finding in findings]
        console.emit({**about, "columns": columns.describe(), "findings": shown})
        return
    text = f"To predict: {goal.name} ({goal.task}), {labels:,} labels"
    if goal.task == "classification":
        counts = goal.y.value_counts()
        text += f" ({', '.join(f'{name} {count}' for name, count in counts.head(6).items())})"
    console.say(console.stdout(), f"{text}, {others:,} rows without.", "bold")
    rows = [
        (column.name, column.kind if column.kind != "drop" else "dropped",
         f"{column.missing:.0%}" if column.missing else "", column.why)
        for column in columns.columns
    ]  # fmt: skip
    styles = ["dim" if column.kind == "drop" else "" for column in columns.columns]
    console.print_table(console.stdout(), ("column", "becomes", "empty", "because"), rows, styles)
    tell_findings(findings)
    text = "To change what a column becomes: --as column=category, for instance."
    console.say(console.stdout(), text)


def tell_table(done: dict[str, Any], kept: TableModel, found: Comparison) -> None:
    """Print scores, coefficients, and what was written."""
    from proxyprox_app.study.fit import MODELS

    screen, (first, second) = console.stdout(), found.measures
    console.say(
        screen,
        f"{kept.target}: {found.labels:,} labels, {found.unlabelled:,} rows without; "
        f"{found.folds} folds, {found.split}; 95 % intervals over {found.judged:,} rows",
        "bold",
    )
    rows = []
    for score in found.scores:
        cells = [score.model + "*" * (score.model == found.chosen)]
        for value, low, high in (score.loss, score.second):
            cells += [f"{value:.3g}", f"{low:.3g} to {high:.3g}"]
        cells += ["–" if value is None else f"{value:.3g}" for value in score.more.values()]
        rows.append(cells)
    styles = ["bold" if score.model == found.chosen else "" for score in found.scores]
    headings = ("model", first, "", second, "", *found.scores[0].more)
    console.print_table(screen, headings, rows, styles)
    for name in (score.model for score in found.scores):
        console.say(screen, f"{name}: {MODELS[name]}", "dim")
    console.say(screen, f"\n{found.why}")
    value, low, high = found.expected
    console.say(
        screen,
        f"The lowest of {len(found.scores)} looks better than it is, because it was chosen: expect "
        f"a {first} of {value:.3g} ({low:.3g} to {high:.3g}) of it.",
    )
    for doubt in done["doubts"]:
        console.say(screen, f"\n{doubt}", "yellow")
    tell_coefficients(done["coefficients"], done["effects"])
    console.tell_path(screen, f"\nModel ({found.chosen}, all labels): {done['model']}")
    if done["replaced"]:
        console.say(screen, "It replaced the model of an earlier run; --output keeps both.", "dim")
    console.tell_path(screen, f"To use it:  proxyprox predict {done['model']} NEW_FILE")


def tell_coefficients(coefficients: list[dict[str, Any]], effects: dict[str, float]) -> None:
    """Print the coefficients of the columns that matter most."""
    rows = list[tuple[str, ...]]()
    for source, effect in effects.items():
        mine = [row for row in coefficients if row["column"] == source]
        for place, row in enumerate(mine or [{"name": f"{source} (text)", "coefficient": None}]):
            value = row["coefficient"]
            text = (
                "" if value is None else "by class" if isinstance(value, dict) else f"{value:.3g}"
            )
            ends = f"{row['low']:.3g} to {row['high']:.3g}" if "low" in row else ""
            rows.append((row["name"], text, ends, "" if place else f"{effect:.2g}"))
    if not rows:
        return
    screen = console.stdout()
    screen.print()
    headings = ("coefficient of", "per unit", "95 % interval", "effect of the column")
    console.print_table(screen, headings, rows[:SHOWN], [""] * len(rows[:SHOWN]))
    more = f"; coefficients.csv has all {len(coefficients)}" if len(rows) > SHOWN else ""
    text = "effect: standard deviation of the column's part of the prediction"
    console.say(screen, f"{text}{more}.", "dim")
