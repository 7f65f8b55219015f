"""``proxyprox predict``: a model that ``proxyprox run`` has written, applied to a new table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from proxyprox_app.cli import console
from proxyprox_app.cli.console import CommandError, Json, guarded
from proxyprox_app.cli.run import Encoding, Separator, Sheet, csv_text, tell_findings


@guarded
def predict(
    model: Annotated[Path, typer.Argument(help="What proxyprox run wrote: model.json.")],
    file: Annotated[Path, typer.Argument(help="New rows: CSV, Parquet or Excel.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file; default: standard output.")
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Columns that lack count as empty.")
    ] = False,
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

    Written: the number of the row, counted from 1, columns that identify it, the prediction, and
    the probability of every class. Text that begins with = + - or @ gets an apostrophe in front,
    so that no spreadsheet takes it for a formula. If the table has labels, the predictions are
    compared with them.
    """
    from proxyprox._util.files import atomic_write_bytes
    from proxyprox_app.cli.console import file_digest
    from proxyprox_app.study.fit import TableModel
    from proxyprox_app.study.tables import Finding, load_cells

    if output is not None and output.resolve() in (model.resolve(), file.resolve()):
        raise CommandError(f"--output would replace the model or the rows: {output}.")
    kept = TableModel.load(model)
    cells, usual = load_cells(file, encoding, separator, sheet), kept.columns.decimal
    frame, findings, decimal = cells.parse(kept.columns.texts, usual)
    if decimal and usual and decimal != usual:
        marks = {",": "comma", ".": "point"}
        text = f"decimals are behind a {marks[decimal]} here, unlike in the file of the fit."
        findings.append(Finding("", text))
        kept.columns.decimal = decimal
    found, more = kept.predict(frame, allow_missing, cells.text(kept.columns.identifiers))
    findings = [*findings, *more]
    rows = [list(found), *found.astype(object).to_numpy().tolist()]
    if output is not None:
        atomic_write_bytes(output, csv_text(rows).encode("utf-8"))
    own = kept.about.get("data") == file_digest(file)
    score = None if own else kept.score(frame, allow_missing)
    if as_json:
        shown: dict[str, Any] = {"rows": len(frame), "output": output and str(output)}
        # JSON has no NaN, which R² of a single label is.
        finite: Any = score and {
            k: x if x is not None and math.isfinite(x) else None for k, x in score.items()
        }
        shown |= {"score": finite, "findings": [finding._asdict() for finding in findings]}
        shown |= {} if output else {"predictions": found.to_dict("records")}
        console.emit(shown)
        return
    tell_findings(findings)
    if output is None:
        typer.echo(csv_text(rows), nl=False)
    screen = console.stderr()
    if score is not None:
        values = [f"{k} {x:.3g}" for k, x in score.items() if k != "labels" and x is not None]
        console.say(screen, f"{score['labels']:,} rows have a label: {', '.join(values)}.")
    if own:
        console.say(screen, "The model was fitted to this file; how good it is, run has printed.")
    if output is not None:
        console.tell_path(screen, f"{len(frame):,} predictions: {output}")
