"""A table of the rows that have a label, written only where nothing else is lost."""

from __future__ import annotations

import csv
import errno
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxyprox._files import atomic_write_bytes
from proxyprox._text import without_formula
from proxyprox.cli._errors import BAD_INPUT, BAD_RUN, CommandError
from proxyprox.cli._label_pool import Pool

TABLES = {".csv": ",", ".tsv": "\t"}
"""Files whose own columns are exported, and what separates them."""


def refuse_losing(target: Path, source: Path, answers: Path) -> None:
    """Refuse a table that would replace the data or the answers, or that cannot be written.

    Parameters
    ----------
    target : Path
        The file to write.
    source, answers : Path
        The data and the file of the answers.
    """
    for other, what in ((source, "the rows"), (answers, "the answers")):
        if same_file(target, other):
            raise CommandError(
                f"--export would replace {what} in {other}: name another file, for example "
                f"--export {source.stem}-labelled.csv."
            )
    if target.is_dir():
        raise CommandError(f"--export needs a file, but {target} is a folder: name a file in it.")
    if not target.parent.is_dir():
        raise CommandError(
            f"--export cannot write {target}: the folder {target.parent} does not exist. Make it, "
            "or name another."
        )


def refuse_foreign(target: Path, source: Path, pool: Pool, labels: Mapping[int, Any]) -> None:
    """Refuse to replace a file that an earlier export of these answers cannot have written.

    Parameters
    ----------
    target : Path
        The file to write.
    source : Path
        The data.
    pool : Pool
        The rows.
    labels : mapping
        Labels by row number.
    """
    if not target.is_file() or not target.stat().st_size:
        return
    names, rows = _table(source, pool, sorted(labels))
    # Version 0.1 wrote formulas as they were.
    known = {tuple(map(_written, row)) for row in rows.values()}
    known |= {tuple(_written(without_formula(value)) for value in row) for row in rows.values()}
    try:
        with target.open(newline="", encoding="utf-8") as file:
            found = list(csv.reader(file, delimiter=_separator(target)))
    except (OSError, ValueError, csv.Error):
        found = []
    # Answers are only added: rows of an earlier export are among those labelled now.
    header = [*names, _column(names)]
    headers = (header, [without_formula(name) for name in header])
    if (
        not found
        or found[0] not in headers
        or any(tuple(row[:-1]) not in known for row in found[1:])
    ):
        raise CommandError(
            f"--export would replace {target}, which holds something other than rows labelled "
            "here: name another file, or add --overwrite."
        )


def export(target: Path, source: Path, pool: Pool, labels: Mapping[int, Any]) -> None:
    """Write the labelled rows with their labels as a table that holds no formula.

    Parameters
    ----------
    target : Path
        The file to write, CSV or TSV; it appears whole or stays what it was.
    source : Path
        The data; of a CSV or TSV all columns are written, else the features.
    pool : Pool
        The rows.
    labels : mapping
        Labels by row number.
    """
    names, rows = _table(source, pool, sorted(labels))
    lines = [[*names, _column(names)], *([*rows[row], labels[row]] for row in sorted(labels))]
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=_separator(target))
    writer.writerows([without_formula(cell) for cell in line] for line in lines)
    try:
        atomic_write_bytes(target, text.getvalue().encode("utf-8", "surrogateescape"))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise CommandError(
            f"--export cannot write {target}: {error.strerror}. The answers are kept, and so is "
            "an earlier export.",
            BAD_RUN if full else BAD_INPUT,
        ) from error


def same_file(first: Path, second: Path) -> bool:
    """Tell whether two paths lead to one file.

    Parameters
    ----------
    first, second : Path
        The paths; the file need not exist yet.
    """
    if first.resolve() == second.resolve():
        return True
    return first.exists() and second.exists() and first.samefile(second)


def _separator(target: Path) -> str:
    return TABLES.get(target.suffix.lower(), ",")


def _column(names: list[str]) -> str:
    """Return the name of the labels' column, which no other has."""
    column = "label"
    while column in names:
        column += "_"
    return column


def _written(value: Any) -> str:
    """Return a cell as a table has it."""
    return "" if value is None else str(value)


def _table(source: Path, pool: Pool, wanted: list[int]) -> tuple[list[str], dict[int, list[Any]]]:
    """Return the columns' names and the wanted rows."""
    separator = TABLES.get(source.suffix.lower())
    if separator is not None:
        with source.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, delimiter=separator)
            names = list(reader.fieldnames or ())
            table = [[row[name] for name in names] for row in reader]
        # Where the features were read by other rules, the rows must still be the same.
        if names and len(table) == pool.X.shape[0]:
            return names, {row: table[row] for row in wanted}
    found = {}
    for row in wanted:
        values = pool.X[[row]]
        values = values.toarray() if hasattr(values, "toarray") else values
        found[row] = values.ravel().tolist()
    return list(pool.names), found
