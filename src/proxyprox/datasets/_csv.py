"""CSV with errors that name the cell.

The standard library reads every file and words every error. pandas, where installed, is only a
fast lane for files without a flaw: at the first irregularity its answer is thrown away.
"""

from __future__ import annotations

import csv
import importlib
import io
import math
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyprox.datasets._columns import (
    Roles,
    Table,
    as_labels,
    assign_roles,
    check_weights,
    to_number,
)
from proxyprox.datasets._errors import DataError
from proxyprox.datasets._svmlight import read_bytes

__all__ = ["read_csv"]

_DELIMITERS = ",;\t"


def read_csv(
    path: Path,
    *,
    label: str | None,
    features: Sequence[str] | None,
    sample_weight: str | None,
) -> Table:
    """Read a CSV file with a header row; the delimiter is a comma, a semicolon or a tab.

    Parameters
    ----------
    path : Path
        File, possibly compressed.
    label, features, sample_weight
        See `proxyprox.datasets.read_table`.

    Raises
    ------
    DataError
        For anything that is not a table of numbers with a header.
    """
    text = _decode(path)
    delimiter = _delimiter(text)
    header = _header(text, delimiter, path.name)
    roles = assign_roles(
        header, where=path.name, label=label, features=features, sample_weight=sample_weight
    )
    table = _with_pandas(text, delimiter, header, roles)
    if table is None:
        table = _with_csv(text, delimiter, header, roles, path.name)
    check_weights(table.sample_weight, path.name, roles.sample_weight)
    return table


def _decode(path: Path) -> str:
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path.name}: byte {error.start} is not UTF-8; save the file as UTF-8 text."
        ) from error
    except ValueError as error:
        raise DataError(f"{path.name}: {error}.") from error
    if not text.strip():
        raise DataError(f"{path.name}: the file is empty; a header row and data rows are needed.")
    if "\0" in text:
        raise DataError(f"{path.name}: it holds NUL bytes, so it is not a CSV text file.")
    return text


def _delimiter(text: str) -> str:
    first = next(line for line in text.splitlines() if line.strip())
    return max(_DELIMITERS, key=first.count)  # a comma where none of them occurs


def _rows(text: str, delimiter: str, where: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for row in reader:
            if row:  # blank lines
                yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"{where}: line {reader.line_num} is not CSV: {error}.") from error


def _header(text: str, delimiter: str, where: str) -> list[str]:
    line, cells = next(_rows(text, delimiter, where))
    header = [cell.strip() for cell in cells]
    if all(to_number(cell) is not None for cell in header):
        raise DataError(
            f"{where}: line {line} holds only numbers ({', '.join(header[:4])}…): the first line "
            "must name the columns."
        )
    for position, name in enumerate(header, start=1):
        if not name:
            raise DataError(f"{where}: column {position} has no name in the header line.")
    return header


def _with_csv(text: str, delimiter: str, header: list[str], roles: Roles, where: str) -> Table:
    place = {name: index for index, name in enumerate(header)}
    wanted = [place[name] for name in roles.features]
    label = place[roles.label] if roles.label is not None else None
    weight = place[roles.sample_weight] if roles.sample_weight is not None else None
    values, weights, labels = array("d"), array("d"), list[str]()
    count = 0
    rows = _rows(text, delimiter, where)
    next(rows)
    for line, cells in rows:
        count += 1
        if len(cells) != len(header):
            raise DataError(
                f"{where}: row {count} (line {line}) has {len(cells)} cells, the header has "
                f"{len(header)}; check for a missing or stray {delimiter!r}."
            )
        for index in wanted:
            values.append(_number(cells[index], where, count, line, header[index]))
        if weight is not None:
            weights.append(_number(cells[weight], where, count, line, header[weight]))
        if label is not None:
            labels.append(_label(cells[label], where, count, line, header[label]))
    if count == 0:
        raise DataError(f"{where}: there is a header but no data row below it.")
    X = np.frombuffer(values, dtype=np.float64).reshape(count, len(wanted)).copy()
    sample_weight = np.array(weights, dtype=np.float64) if weight is not None else None
    y = as_labels(labels) if label is not None else None
    return Table(X, y, roles.features, count, sample_weight)


def _number(cell: str, where: str, row: int, line: int, column: str) -> float:
    place = f"{where}: row {row} (line {line}), column {column!r}"
    if not cell.strip():
        raise DataError(f"{place}: the cell is empty; fill it in or remove the row.")
    number = to_number(cell)
    if number is None:
        raise DataError(
            f"{place}: {_short(cell)} is not a number; encode text as numbers first, or leave the "
            "column out of 'features'."
        )
    if not math.isfinite(number):
        raise DataError(f"{place}: {_short(cell)} is not finite; fill it in or remove the row.")
    return number


def _label(cell: str, where: str, row: int, line: int, column: str) -> str:
    stripped = cell.strip()
    if not stripped or stripped.lower() == "nan":
        raise DataError(
            f"{where}: row {row} (line {line}), column {column!r}: the label is missing; put rows "
            "without a label in a file of their own."
        )
    return stripped


def _short(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:40] + "…")


def _with_pandas(text: str, delimiter: str, header: list[str], roles: Roles) -> Table | None:
    """Read with pandas; None without pandas or when anything looks odd."""
    try:
        pd: Any = importlib.import_module("pandas")
    except ImportError:
        return None
    dtypes: dict[str, Any] = {} if roles.label is None else {roles.label: "str"}
    try:
        frame = pd.read_csv(
            io.StringIO(text),
            sep=delimiter,
            names=header,
            header=0,
            dtype=dtypes,
            index_col=False,
            keep_default_na=False,
            na_values=[],
            float_precision="round_trip",
            on_bad_lines="error",
        )
        numeric = [*roles.features]
        if roles.sample_weight is not None:
            numeric.append(roles.sample_weight)
        if not all(frame[name].dtype.kind in "if" for name in numeric):
            return None
        X = np.ascontiguousarray(frame[list(roles.features)].to_numpy(dtype=np.float64))
        weights = _column(frame, roles.sample_weight)
        labels = [] if roles.label is None else [str(cell).strip() for cell in frame[roles.label]]
    except Exception:  # whatever it stumbled on, the slow reader will word it
        return None
    finite = np.isfinite(X).all() and (weights is None or np.isfinite(weights).all())
    if not len(X) or not finite or any(cell.lower() in ("", "nan") for cell in labels):
        return None
    y = as_labels(labels) if roles.label is not None else None
    return Table(X, y, roles.features, len(X), weights)


def _column(frame: Any, name: str | None) -> NDArray[np.float64] | None:
    return None if name is None else np.array(frame[name], dtype=np.float64)
