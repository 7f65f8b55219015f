"""``proxyprox run``: methods compared on one's own tables, without writing Python."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxyprox_app.cli import console
from proxyprox_app.cli.console import CommandError, Json, Output, Workers, guarded

if TYPE_CHECKING:
    from proxyprox_app.study.columns import Columns
    from proxyprox_app.study.config import StudyConfig
    from proxyprox_app.study.fit import Comparison, TableModel, Target


Encoding = Annotated[str | None, typer.Option(help="Of a text file; default: found out.")]
Separator = Annotated[str | None, typer.Option(help="Between cells; default: found out.")]
Sheet = Annotated[str | None, typer.Option(help="Of an Excel file, by name or number.")]


@guarded
def run(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Your table: CSV, Parquet, Excel; or CONFIG.toml."),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--as", metavar="COLUMN=KIND", help="number, category, text, date or drop."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what every column becomes, and stop.")
    ] = False,
    model: Annotated[
        str, typer.Option(help="best, proxyprox, scikit-learn, erm or base-rate.")
    ] = "best",
    task: Annotated[str | None, typer.Option(help="classification or regression.")] = None,
    encoding: Encoding = None,
    separator: Separator = None,
    sheet: Sheet = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the held-out rows.")] = 0,
    output: Output = None,
    example: Annotated[bool, typer.Option("--example", help="Print a configuration.")] = False,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Fit a model to your own table, however messy, and see what it is worth.

    FILE may hold text, dates, categories and gaps. Rows whose --target is empty have no label:
    they help as the proxy. Models are compared on held-out rows, the best is fitted to all labels
    and written to a file for proxyprox predict.

    Without --output the folder is runs/ and the name of the file.

    Examples
    --------
    proxyprox run sales.csv --target churned --dry-run
    proxyprox run sales.csv --target churned --as zip=category --as notes=drop
    proxyprox predict runs/sales/model.json new.csv --output predictions.csv

    Every file is read as it comes: separator, encoding, decimal commas, titles above the header.
    What is odd is reported by column, all at once; --as changes what a column becomes.

    Written: model.json, coefficients.csv and summary.json.

    With a CONFIG.toml, which --example prints and explains, the optimisers of this package are
    compared on the table instead: target gradients on the x-axis, records.jsonl, figures,
    report.html, weights.json, and model.json for a table of cells.
    """
    from proxyprox_app.study import config as settings

    if example:
        typer.echo(settings.example(), nl=False)
        return
    if file is None:
        raise CommandError("name a table, or a configuration: --example prints one.")
    folder = output or Path("runs") / file.name.partition(".")[0]
    if file.suffix.lower() == ".toml" or (file.is_dir() and target is None):
        given = {"--target": target, "--as": kinds, "--task": task, "--sheet": sheet}
        given |= {"--encoding": encoding, "--separator": separator}
        if odd := [name for name, value in given.items() if value]:
            raise CommandError(f"{odd[0]} goes with a table; {file.name} has keys for it.")
        read, base = settings.read_config(file), file.parent.absolute()
        if dry_run:
            show_columns_of(read, base, as_json)
            return
        folder = output or Path("runs") / file.stem
        run_study(read, base, f"proxyprox: {file.name}", folder, context, workers, as_json)
        return
    run_table(
        file, target, folder, kinds=parse_kinds(kinds or []), dry_run=dry_run, model=model,
        task=task, reading=(encoding, separator, sheet), seed=seed, as_json=as_json,
        command=console.command_line(context),
    )  # fmt: skip


# -- one's own table ------------------------------------------------------------------------------

# Coefficients and columns that the terminal shows.
SHOWN = 20


def parse_kinds(given: list[str]) -> dict[str, str]:
    """Return what columns shall be, from ``column=kind``."""
    kinds = {}
    for each in given:
        name, sign, kind = each.rpartition("=")
        if not sign or not name:
            raise CommandError(f"--as must be COLUMN=KIND, such as zip=category, got {each!r}.")
        kinds[name.strip()] = kind.strip()
    return kinds


def run_table(
    file: Path,
    target: str | None,
    folder: Path,
    *,
    kinds: dict[str, str],
    dry_run: bool,
    model: str,
    task: str | None,
    reading: tuple[str | None, str | None, str | None],
    seed: int,
    as_json: bool,
    command: str,
) -> None:
    """Read a table, compare models on held-out rows, and write the best."""
    from proxyprox._util.digests import file_digest
    from proxyprox._util.validation import one_of
    from proxyprox_app.cli.comparison import output_folder
    from proxyprox_app.study import fit
    from proxyprox_app.study.columns import Columns, raise_fatal
    from proxyprox_app.study.tables import load_table

    one_of("--model", model, ("best", *fit.MODELS))
    if task is not None:
        one_of("--task", task, fit.TASKS)
    frame, findings, decimals = load_table(file, *reading)
    if target is None:
        shown = ", ".join(map(repr, list(frame)[:20]))
        raise CommandError(f"name the column to predict with --target; there are {shown}.")
    goal = fit.read_target(frame, target, task, decimals)
    columns = Columns(kinds).plan(frame, goal.y, [target], decimals)
    findings = [*findings, *goal.findings, *columns.findings]
    if dry_run:
        show_columns(columns, findings, goal, as_json)
        raise typer.Exit(console.BAD_INPUT if any(f.fatal for f in findings) else 0)
    if not as_json:
        tell_findings(finding for finding in findings if not finding.fatal)
    raise_fatal(findings)
    screen = console.stderr()

    def progress(text: str) -> None:
        if not as_json:
            console.say(screen, text, "dim")

    with output_folder(folder, command):
        found = fit.compare_models(frame, columns, goal, model, seed, progress)
        progress(f"fitting {found.chosen} to all {found.labels} labels")
        kept = fit.fit_all(frame, columns, goal, found)
        kept.about["data"] = file_digest(file)
        done = write_table(folder, file, kept, found, findings, command)
    if as_json:
        console.emit(done)
    else:
        tell_table(done, kept, found)


def write_table(
    folder: Path, file: Path, kept: TableModel, found: Comparison, findings: Any, command: str
) -> dict[str, Any]:
    """Write the model, its coefficients and a summary; return the summary."""
    from proxyprox_app.report.summary import write_json

    coefficients = kept.coefficients()
    done: dict[str, Any] = {
        "command": command,
        "file": str(file),
        "target": kept.target,
        **asdict(found),
        "measures": found.measures,
        "findings": [finding._asdict() for finding in findings],
        "columns": kept.columns.describe(),
        "effects": kept.about["effects"],
        "coefficients": coefficients,
        "intervals_note": kept.about.get("note", ""),
        "mean_without_label": kept.about.get("mean"),
        "classes": kept.classes,
        "model": str(folder / "model.json"),
        "summary": str(folder / "summary.json"),
    }
    kept.save(folder / "model.json")
    write_csv(folder / "coefficients.csv", coefficient_rows(coefficients))
    write_json(folder / "summary.json", done)
    return done


def coefficient_rows(coefficients: list[dict[str, Any]]) -> list[list[Any]]:
    """Return the coefficients as the rows of a table, header first."""
    names = list(dict.fromkeys(
        key for row in coefficients for key in (
            row["coefficient"] if isinstance(row["coefficient"], dict) else ["coefficient"]
        )
    ))  # fmt: skip
    rows: list[list[Any]] = [["name", "column", *names, "low", "high"]]
    for row in coefficients:
        values = row["coefficient"]
        values = list(values.values()) if isinstance(values, dict) else [values]
        rows.append([row["name"], row["column"], *values, row.get("low"), row.get("high")])
    return rows


def write_csv(path: Path, rows: list[list[Any]]) -> None:
    """Write a table that no spreadsheet takes for formulas, whole or not at all."""
    from proxyprox._util.files import atomic_write_bytes

    atomic_write_bytes(path, csv_text(rows).encode("utf-8"))


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV whose text no spreadsheet computes."""
    from proxyprox._util.text import without_formula

    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerows([without_formula(cell) for cell in row] for row in rows)
    return lines.getvalue()


def tell_findings(findings: Any) -> None:
    """Print what is odd about a table."""
    screen = console.stderr()
    for finding in findings:
        console.say(screen, f"{'Error' if finding.fatal else 'Note'}: {finding}",
                    "bold red" if finding.fatal else "yellow")  # fmt: skip


def show_columns_of(read: StudyConfig, base: Path, as_json: bool) -> None:
    """Print what the columns of a configuration's files become."""
    from proxyprox_app.study.problem import read_rows

    rows = read_rows(read, base)
    if rows.columns is None:
        console.say(console.stdout(), f"{len(rows.target.feature_names):,} columns of numbers.")
    else:
        show_columns(rows.columns, rows.findings, None, as_json)


def show_columns(columns: Columns, findings: Any, goal: Target | None, as_json: bool) -> None:
    """Print what every column becomes."""
    from rich.table import Table

    if as_json:
        about = {} if goal is None else {
            "target": goal.name, "task": goal.task, "labels": int(goal.known.sum()),
            "unlabelled": int((~goal.known).sum()),
        }  # fmt: skip
        shown = [finding._asdict() for finding in findings]
        console.emit({**about, "columns": columns.describe(), "findings": shown})
        return
    screen = console.stdout()
    if goal is not None:
        console.say(screen, target_line(goal), "bold")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in ("column", "becomes", "empty", "because"):
        table.add_column(heading, justify="right" if heading == "empty" else "left")
    for column in columns.columns:
        empty = f"{column.missing:.0%}" if column.missing else ""
        cells = (column.name, column.kind if column.kind != "drop" else "dropped", empty)
        style = "dim" if column.kind == "drop" else ""
        table.add_row(*(console.plain(cell, style) for cell in (*cells, column.why)))
    screen.print(table)
    tell_findings(findings)
    console.say(screen, "To change what a column becomes: --as column=category, for instance.")


def target_line(goal: Target) -> str:
    """Return what is predicted, and of how many rows it is known."""
    labels, others = int(goal.known.sum()), int((~goal.known).sum())
    text = f"To predict: {goal.name} ({goal.task}), {labels:,} labels"
    if goal.task == "classification":
        counts = goal.y.value_counts()
        text += f" ({', '.join(f'{name} {count}' for name, count in counts.head(6).items())})"
    return f"{text}, {others:,} rows without."


def tell_table(done: dict[str, Any], kept: TableModel, found: Comparison) -> None:
    """Print scores, coefficients, and what was written."""
    from rich.table import Table

    from proxyprox_app.study.fit import MODELS

    screen, (first, second) = console.stdout(), found.measures
    console.say(
        screen,
        f"{kept.target}: {found.labels:,} labels, {found.unlabelled:,} rows without; "
        f"{found.folds}-fold cross-validation, 95 % intervals over the held-out rows",
        "bold",
    )
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in ("model", first, "", second, "", "fitted to"):
        table.add_column(heading, no_wrap=heading != "fitted to")
    for score in found.scores:
        mark = "*" if score.model == found.chosen else ""
        cells = [score.model + mark]
        for value, low, high in (score.loss, score.second):
            cells += [f"{value:.3g}", f"{low:.3g} to {high:.3g}"]
        cells.append(MODELS[score.model])
        table.add_row(*map(console.plain, cells), style="bold" if mark else "")
    screen.print(table)
    console.say(screen, f"\n{found.why}")
    value, low, high = found.expected
    console.say(
        screen,
        f"The lowest of {len(found.scores)} looks better than it is, because it was chosen: expect "
        f"a {first} of {value:.3g} ({low:.3g} to {high:.3g}) of it.",
    )
    tell_coefficients(done["coefficients"], done["effects"])
    if done["intervals_note"]:
        console.say(screen, done["intervals_note"], "dim")
    if (mean := done["mean_without_label"]) and not isinstance(mean[0], list):
        value, low, high = mean
        if found.task == "classification":
            what, shares = f"are expected to be {kept.classes[1]}", [f"{v:.1%}" for v in mean]
        else:
            what, shares = f"is the expected mean {kept.target}", [f"{v:.4g}" for v in mean]
        console.say(
            screen,
            f"\nOf the rows without a label {shares[0]} {what} ({shares[1]} to {shares[2]}).",
        )
    console.tell_path(screen, f"\nModel ({found.chosen}, all labels): {done['model']}")
    console.tell_path(screen, f"To use it:  proxyprox predict {done['model']} NEW_FILE")


def tell_coefficients(coefficients: list[dict[str, Any]], effects: dict[str, float]) -> None:
    """Print the coefficients of the columns that matter most."""
    from rich.table import Table

    if not coefficients and not effects:
        return
    screen = console.stdout()
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in ("coefficient of", "per unit", "95 % interval", "effect of the column"):
        table.add_column(heading, justify="left" if heading == "coefficient of" else "right")
    shown = 0
    for source, effect in effects.items():
        mine = [row for row in coefficients if row["column"] == source]
        rows = mine or [{"name": f"{source} (text)", "coefficient": None}]
        for place, row in enumerate(rows[: max(0, SHOWN - shown)]):
            value = row["coefficient"]
            several = isinstance(value, dict)
            text = "" if value is None else "by class" if several else f"{value:.3g}"
            ends = f"{row['low']:.3g} to {row['high']:.3g}" if "low" in row else ""
            table.add_row(
                *map(console.plain, (row["name"], text, ends, "" if place else f"{effect:.2g}"))
            )
            shown += 1
    screen.print()
    screen.print(table)
    console.say(
        screen,
        "effect: standard deviation of the column's part of the prediction"
        + (f"; coefficients.csv has all {len(coefficients)}" if len(coefficients) > shown else "")
        + ".",
        "dim",
    )


# -- methods compared -----------------------------------------------------------------------------


def run_study(
    config: StudyConfig,
    base: Path,
    title: str,
    folder: Path,
    context: typer.Context,
    workers: int | None,
    as_json: bool,
) -> None:
    """Compare the methods of a configuration, and write the weights of one of them."""
    from proxyprox_app.cli.comparison import output_folder, present, run_experiment, write_results
    from proxyprox_app.report.summary import last_rows
    from proxyprox_app.study import problem
    from proxyprox_app.study.compare import Experiment

    command = console.command_line(context)
    with output_folder(folder, command):
        config = problem.prepare(config, base)
        wanted, shown = config.run.weights, asdict(config)
        # The records do not depend on which weights are written: another choice may use them.
        config = replace(config, run=replace(config.run, weights="method"))
        study = problem.load_study(config, base)
        curves = {curve.method: curve for curve in study.curves()}
        main = next(iter(curves))
        experiment = Experiment(
            title=title,
            config=config,
            curves=list(curves.values()),
            run_job=partial(problem.run_job, base=base),
            seeds=config.run.seeds,
            tuning_budget=config.run.tuning_budget,
            budget=config.run.target_gradients,
            shown={**shown, "facts": study.facts()},
            notes=study.notes(),
            main=main,
            remarks=lambda rows: [problem.method_to_write(main, wanted, last_rows(rows))[-1]],
        )
        outcome = run_experiment(experiment, folder=folder, workers=workers, as_json=as_json)
        done = write_results(experiment, outcome, folder=folder, command=command)
        ends = done["panels"][0]["methods"]
        method, lowest, _ = problem.method_to_write(main, wanted, ends)
        eta = outcome.etas[problem.PANEL, method]
        file = folder / "weights.json"
        answer = problem.write_weights(file, study, curves[method], eta)
        kept = problem.table_model(study, answer.w, method) if answer.success else None
        if kept is not None:
            kept.save(folder / "model.json")
    done |= {
        "model": None if kept is None else str(folder / "model.json"),
        "lowest": lowest,
        "weights_of": method,
        "weights": [str(file)],
        "status": answer.message,
        "success": answer.success,
        "eta": eta,
    }
    present(done, as_json=as_json)
    if not as_json:
        screen = console.stdout()
        console.tell_path(screen, f"Weights ({method}): {file}")
        if kept is None:
            console.say(screen, problem.prediction_rule(study))
        else:
            console.tell_path(screen, f"To use them:  proxyprox predict {done['model']} NEW_FILE")
    if not answer.success:
        text = f"Error: {method} ended badly (eta = {eta}); its weights are not usable. "
        console.say(console.stderr(), text + answer.message, "bold red")
        raise typer.Exit(console.BAD_RUN)
