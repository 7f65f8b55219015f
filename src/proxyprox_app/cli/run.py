"""``proxyprox run`` and ``proxyprox predict``: a model of one's own table, and new rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxyprox_app.cli import console
from proxyprox_app.cli.console import (
    CommandError,
    Json,
    Output,
    file_digest,
    guarded,
    without_formula,
)

if TYPE_CHECKING:
    from proxyprox_app.columns import Columns
    from proxyprox_app.fit import Comparison, Target
    from proxyprox_app.model import TableModel


Encoding = Annotated[str | None, typer.Option(help="Of a text file; default: found out.")]
Separator = Annotated[str | None, typer.Option(help="Between cells; default: found out.")]
Kinds = Annotated[
    list[str] | None, typer.Option("--as", help="COLUMN=number, category, text, date or drop.")
]
Sheet = Annotated[str | None, typer.Option(help="Of an Excel file, by name or number.")]

# Coefficients that the terminal shows, and bytes of a file that is read in silence.
SHOWN, SILENT = 20, 2 << 20


@guarded
def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Your table: CSV, Parquet, Excel.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    kinds: Kinds = None,
    groups: Annotated[str | None, typer.Option(help="Column of what belongs together.")] = None,
    when: Annotated[str | None, typer.Option("--time", help="Column of dates or order.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look at columns only.")] = False,
    model: Annotated[str, typer.Option(help="best, or one that the score table names.")] = "best",
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
    from proxyprox._util.validation import one_of
    from proxyprox_app import fit
    from proxyprox_app.columns import raise_fatal
    from proxyprox_app.model import fit_all

    folder = output or Path("runs") / file.name.partition(".")[0]
    command = console.command_line(context)
    if task is not None:
        one_of("--task", task, fit.TASKS)
    reading = (encoding, separator, sheet)
    frame, columns, goal, findings = read_goal(
        file, target, parse_kinds(kinds or []), task, reading, groups, as_json
    )
    if dry_run:
        show_columns(columns, findings, goal, as_json)
        raise typer.Exit(console.BAD_INPUT if any(f.fatal for f in findings) else 0)
    one_of("--model", model, ("best", *fit.models_for(goal.task)))
    split = fit.read_split(frame, groups, when)
    if not as_json:
        tell_findings(finding for finding in findings if not finding.fatal)
    raise_fatal(findings)
    kept = "Nothing was written: files are written when the model is fitted."
    with console.output_folder(folder, command, kept), progress_of(as_json) as progress:
        found = fit.compare_models(frame, columns, goal, model, seed, progress, split)
        progress(f"fitting {found.chosen} to all {found.labels} labels")
        made = fit_all(frame, columns, goal, found)
        made.about["data"] = file_digest(file)
        done = write_table(folder, file, made, found, findings, command)
    if as_json:
        console.emit(done)
    else:
        tell_table(done, made, found)


def parse_kinds(given: list[str]) -> dict[str, str]:
    """Return what columns shall be, from ``column=kind``."""
    kinds = {}
    for each in given:
        name, _, kind = each.rpartition("=")
        if not name:
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


def read_goal(
    file: Path,
    target: str | None,
    kinds: Mapping[str, str],
    task: str | None,
    reading: tuple[str | None, str | None, str | None],
    groups: str | None,
    as_json: bool,
) -> tuple[Any, Columns, Target, list[Any]]:
    """Read a table, and look at what is to be predicted and at every column."""
    from proxyprox_app import fit
    from proxyprox_app.columns import Columns
    from proxyprox_app.tables import load_cells

    large = file.is_file() and file.stat().st_size > SILENT
    with progress_of(as_json, large) as progress:
        progress(f"reading {file.name}" + " (it is long)" * large)
        frame, findings, decimal = load_cells(file, *reading).parse()
        if target is None:
            shown = ", ".join(map(repr, list(frame)[:20]))
            raise CommandError(f"name the column to predict with --target; there are {shown}.")
        if target not in frame:
            tell_findings(findings)  # one of them may be the reason
        goal = fit.read_target(frame, target, task, decimal)
        progress(f"looking at {frame.shape[1]} columns")
        apart = {groups: "drop"} if groups and groups in frame else {}
        columns = Columns({**apart, **kinds}, decimal=decimal)
        columns.plan(frame, goal.y, [target])
    odd = [*findings, *goal.findings, *columns.findings, *fit.repeated_rows(frame)]
    return frame, columns, goal, odd


def write_table(
    folder: Path, file: Path, kept: TableModel, found: Comparison, findings: Any, command: str
) -> dict[str, Any]:
    """Write the model, its coefficients and a summary; return the summary."""
    from proxyprox._util.files import atomic_write_bytes
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
        "command": command, "file": str(file), "target": kept.target, **asdict(found),
        "doubts": doubts, "findings": [finding._asdict() for finding in findings],
        "columns": [column.model_dump() for column in kept.columns.columns],
        "effects": effects, "coefficients": coefficients, "classes": kept.classes,
        "replaced": (folder / "model.json").exists(), "model": str(folder / "model.json"),
        "summary": str(folder / "summary.json"),
    }  # fmt: skip
    kept.save(folder / "model.json")
    text = csv_text(coefficient_rows(coefficients))
    atomic_write_bytes(folder / "coefficients.csv", text.encode("utf-8", "surrogateescape"))
    write_json(folder / "summary.json", done)
    return done


def coefficient_rows(coefficients: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the coefficients as the rows of a table, header first."""
    rows = list[dict[str, Any]]()
    for row in coefficients:
        value = row["coefficient"]
        own = value if isinstance(value, dict) else {"coefficient": value}
        rows.append({"name": row["name"], "column": row["column"], **own})
        rows[-1] |= {"low": row.get("low"), "high": row.get("high")}
    return [list(rows[0]), *(list(row.values()) for row in rows)] if rows else [["name", "column"]]


def csv_text(rows: Iterable[Sequence[Any]], end: str = "\n") -> str:
    """Return rows as CSV whose text no spreadsheet computes."""
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
        about["findings"] = [finding._asdict() for finding in findings]
        console.emit({**about, "columns": [column.model_dump() for column in columns.columns]})
        return
    text = f"To predict: {goal.name} ({goal.task}), {labels:,} labels"
    if goal.task == "classification":
        counts = goal.y.value_counts()
        text += f" ({', '.join(f'{name} {count}' for name, count in counts.head(6).items())})"
    console.say(console.stdout(), f"{text}, {others:,} rows without.", "bold")
    rows = [
        (c.name, c.kind if c.kind != "drop" else "dropped", f"{c.missing:.0%}" * (c.missing > 0),
         c.why) for c in columns.columns
    ]  # fmt: skip
    styles = ["dim" if column.kind == "drop" else "" for column in columns.columns]
    console.print_table(console.stdout(), ("column", "becomes", "empty", "because"), rows, styles)
    tell_findings(findings)
    console.say(console.stdout(), "To change what a column becomes: --as NAME=category, say.")


def tell_table(done: dict[str, Any], kept: TableModel, found: Comparison) -> None:
    """Print scores, coefficients, and what was written."""
    from proxyprox_app.fit import MODELS

    screen, (first, second) = console.stdout(), found.measures
    console.say(
        screen,
        f"{kept.target}: {found.labels:,} labels, {found.unlabelled:,} rows without; "
        f"{found.folds} folds, {found.split}; 95 % intervals over {found.judged:,} rows",
        "bold",
    )
    rows, styles = [], []
    for score in found.scores:
        chosen = score.model == found.chosen
        styles.append("bold" if chosen else "")
        rows.append([score.model + "*" * chosen])
        for value, low, high in (score.loss, score.second):
            rows[-1] += [f"{value:.3g}", f"{low:.3g} to {high:.3g}"]
        rows[-1] += ["–" if value is None else f"{value:.3g}" for value in score.more.values()]
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
    if len(kept.classes) == 2:
        towards = f"{kept.target} = {kept.classes[1]}"
        console.say(screen, f"A column with a coefficient above 0 speaks for {towards}.", "dim")
    console.tell_path(screen, f"\nModel ({found.chosen}, all labels): {done['model']}")
    if done["replaced"]:
        console.say(screen, "It replaced the model of an earlier run; --output keeps both.", "dim")
    console.tell_path(screen, f"To use it:  proxyprox predict {done['model']} NEW_FILE")


def tell_coefficients(coefficients: list[dict[str, Any]], effects: dict[str, float]) -> None:
    """Print the coefficients of the columns that matter most."""
    rows = list[tuple[str, ...]]()
    for source, effect in effects.items():
        mine = [row for row in coefficients if row["column"] == source]
        for place, row in enumerate(mine or [{"name": f"{source} (text)", "coefficient": ""}]):
            value = "by class" if isinstance(row["coefficient"], dict) else row["coefficient"]
            text = f"{value:.3g}" if isinstance(value, float) else value
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


# -- new rows -------------------------------------------------------------------------------------


@guarded
def predict(
    model: Annotated[Path, typer.Argument(help="What proxyprox run wrote: model.json.")],
    file: Annotated[Path, typer.Argument(help="New rows: CSV, Parquet or Excel.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file.")] = None,
    absent: Annotated[bool, typer.Option("--allow-missing", help="Columns may lack.")] = False,
    encoding: Encoding = None,
    separator: Separator = None,
    sheet: Sheet = None,
    as_json: Json = False,
) -> None:
    """Predict the rows of a new table with a model of proxyprox run.

    The table needs the columns that the model was fitted to, in any order; others are left alone.
    Columns that lack are an error that names them all. Cells that are no number or no date count as
    missing, and new categories have no effect; a note says in how many rows, and in which columns.

    Examples
    --------
    proxyprox run sales.csv --target churned
    proxyprox predict runs/sales/model.json new.csv --output predictions.csv
    proxyprox predict runs/sales new.xlsx --sheet June

    Without --output the predictions go to standard output. Columns that lack are an error unless
    --allow-missing takes them as empty.

    Written: the number of the row, counted from 1, columns that identify it, the prediction, and
    the probability of every class. Text that begins with = + - or @ gets an apostrophe in front,
    so that no spreadsheet takes it for a formula. If the table has labels, the predictions are
    compared with them.
    """
    from proxyprox._util.files import atomic_write_bytes
    from proxyprox_app.model import TableModel
    from proxyprox_app.tables import Finding, load_cells

    if output is not None and output.resolve() in (model.resolve(), file.resolve()):
        raise CommandError(f"--output would replace the model or the rows: {output}.")
    kept = TableModel.load(model)
    cells, usual = load_cells(file, encoding, separator, sheet), kept.columns.decimal
    frame, findings, decimal = cells.parse(kept.columns.texts, usual)
    if decimal and usual and decimal != usual:
        text = f"decimals are behind {decimal!r} here, unlike in the file of the fit."
        findings.append(Finding("", text))
        kept.columns.decimal = decimal
    found, more = kept.predict(frame, absent, cells.text(kept.columns.identifiers))
    findings = [*findings, *more]
    rows = [list(found), *found.astype(object).to_numpy().tolist()]
    if output is not None:
        atomic_write_bytes(output, csv_text(rows).encode("utf-8"))
    own = kept.about.get("data") == file_digest(file)
    score = None if own else kept.score(frame, absent)
    if as_json:
        shown: dict[str, Any] = {"rows": len(frame), "output": output and str(output)}
        # JSON has no NaN, which R² of a single label is.
        finite = score and {k: x if x == x else None for k, x in score.items()}
        shown |= {"score": finite, "findings": [finding._asdict() for finding in findings]}
        shown |= {} if output else {"predictions": found.to_dict("records")}
        console.emit(shown)
        return
    tell_findings(findings)
    if output is None:
        typer.echo(csv_text(rows), nl=False)
    screen = console.stderr()
    told = "The model was fitted to this file; how good it is, run has printed." if own else ""
    if score is not None:
        values = [f"{k} {x:.3g}" for k, x in score.items() if k != "labels" and x is not None]
        told = f"{score['labels']:,} rows have a label: {', '.join(values)}."
    if told:
        console.say(screen, told)
    if output is not None:
        console.tell_path(screen, f"{len(frame):,} predictions: {output}")
