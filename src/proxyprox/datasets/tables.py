"""Tables from files: CSV, Parquet, svmlight and npz, checked column by column.

CSV with errors that name the cell.

The standard library reads every file and words every error. pandas, where installed, is only a
fast lane for files without a flaw: at the first irregularity its answer is thrown away.
"""

from __future__ import annotations

import bz2
import csv
import difflib
import gzip
import hashlib
import importlib
import io
import lzma
import math
import os
import zipfile
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from proxyprox._util.extras import require
from proxyprox._util.text import printable
from proxyprox._util.validation import file_path, listed, message


class DataError(ValueError):
    """A user's table cannot be used; the message says where the trouble is and what to do."""

    def __init__(self, text: str = "") -> None:
        # Names of files and columns are a stranger's, and messages end up on a terminal.
        super().__init__(printable(text))


class DatasetError(OSError):
    """A public data set could not be provided."""


class DatasetNotFoundError(DatasetError, FileNotFoundError):
    """The set is in none of the places looked at and could not be downloaded."""


class DatasetCorruptError(DatasetError):
    """A file was found, but it is damaged or not the set it is named after."""


@dataclass(frozen=True)
class Table:
    """Rows read from a file, ready for a model.

    Parameters
    ----------
    X : array of float64 or csr matrix, shape (rows, features)
        Inputs; sparse for svmlight files.
    y : array or None
        Labels: float64 if every label is a number, otherwise text. None without a label column.
    feature_names : tuple of str
        One name for each column of `X`.
    rows : int
        Number of rows.
    sample_weight : array of float64 or None
        Weights, when a weight column was asked for.
    """

    X: Any
    y: NDArray[Any] | None
    feature_names: tuple[str, ...]
    rows: int
    sample_weight: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Roles:
    """Column names by what they are used for."""

    features: tuple[str, ...]
    label: str | None
    sample_weight: str | None


def assign_roles(
    columns: Sequence[str],
    *,
    where: str,
    label: str | None,
    features: Sequence[str] | None,
    sample_weight: str | None,
) -> Roles:
    """Decide which column is what, or say which one is missing.

    Parameters
    ----------
    columns : sequence of str
        Columns the file has.
    where : str
        File name for messages.
    label, sample_weight : str or None
        Columns asked for.
    features : sequence of str or None
        Input columns; None takes every column that is not label or weight.

    Raises
    ------
    DataError
        For a duplicate, missing or doubly used column.
    """
    repeated = [name for name, count in Counter(columns).items() if count > 1]
    if repeated:
        raise DataError(f"{where}: the column {repeated[0]!r} appears twice; rename one of them.")
    if isinstance(features, str):
        raise DataError(f"features={features!r} is one string: give a list of column names.")
    names = columns if features is None else listed("features", features, "a list of column names")
    given = [("label", label), ("sample_weight", sample_weight)]
    for argument, name in [*given, *(("features", name) for name in names)]:
        if name is not None and not isinstance(name, str):
            raise TypeError(message(argument, name, "the name of a column, as text"))
    for argument, name in given:
        if name is not None and name not in columns:
            raise DataError(missing_column(where, argument, name, columns))
    others = (label, sample_weight)
    if features is None:
        chosen = tuple(name for name in columns if name not in others)
    else:
        chosen = tuple(names)
        for name in chosen:
            if name not in columns:
                raise DataError(missing_column(where, "features", name, columns))
            if name in others or chosen.count(name) > 1:
                raise DataError(
                    f"{where}: the column {name!r} is asked for twice (label={label!r}, "
                    f"sample_weight={sample_weight!r}, features={list(chosen)}): name it once."
                )
    if label is not None and label == sample_weight:
        raise DataError(f"{where}: label and sample_weight are both {label!r}: name two columns.")
    if not chosen:
        raise DataError(f"{where}: no feature column is left; the columns are {_listed(columns)}.")
    return Roles(chosen, label, sample_weight)


def missing_column(where: str, argument: str, name: str, columns: Sequence[str]) -> str:
    """Word the message for a column that is not there."""
    near = difflib.get_close_matches(name, columns, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{where}: no column {name!r} ({argument}).{hint} The columns are {_listed(columns)}."


def _listed(columns: Sequence[str], limit: int = 20) -> str:
    shown = ", ".join(repr(name) for name in columns[:limit])
    more = len(columns) - limit
    return f"{shown} and {more} more" if more > 0 else shown


def to_number(cell: str) -> float | None:
    """Read a cell as a number, None if it is text.

    Examples
    --------
    >>> to_number(" 2.5 "), to_number("red"), to_number("1_000")
    (2.5, None, None)
    """
    if "_" in cell:  # Python's digit grouping is not a number in a data file
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def as_labels(cells: Sequence[str]) -> NDArray[Any]:
    """Turn label cells into numbers when every one of them is a number, else keep the text.

    Examples
    --------
    >>> as_labels(["1", "-1"]).tolist(), as_labels(["yes", "1"]).tolist()
    ([1.0, -1.0], ['yes', '1'])
    """
    numbers = [to_number(cell) for cell in cells]
    if all(number is not None and np.isfinite(number) for number in numbers):
        return np.array(numbers, dtype=np.float64)
    return np.array(cells, dtype=np.str_)


def check_weights(
    weights: NDArray[np.float64] | None, where: str, name: str | None
) -> NDArray[np.float64] | None:
    """Return `weights` if none is negative or not finite and one is positive."""
    if weights is None:
        return None
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        row = int(bad[0])
        raise DataError(
            f"{where}: row {row + 1}, column {name!r}: the weight {weights[row]} is not allowed; "
            "weights are finite and at least 0."
        )
    if not weights.any():
        raise DataError(f"{where}: every weight in {name!r} is 0; at least one must be positive.")
    return weights


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


COMPRESSIONS = (".xz", ".bz2", ".gz")

EXPAND_VARIABLE = "PROXYPROX_EXPAND_MB"
"""Environment variable with the megabytes that a file may become in memory."""

EXPANDED_LEAST, EXPANDED_RATIO = 64 << 20, 200
"""A file may become 64 MiB, or 200 times its size; tables compress 5 to 50 times."""

CHUNK = 1 << 20
DICTIONARY = 512 << 20


def read_bytes(path: Path, *, name: str | None = None) -> bytes:
    """Read a file, decompressed if its name ends in ``.xz``, ``.bz2`` or ``.gz``.

    Parameters
    ----------
    path : Path
        File to read.
    name : str, optional
        Name that decides the compression, where `path` is a temporary one.

    Returns
    -------
    content : bytes
        The decompressed content.

    Raises
    ------
    ValueError
        When the compressed stream is damaged, ends too early, or expands to more than
        `expansion_limit` allows.
    """
    suffix = Path(name or path.name).suffix.lower()
    if suffix not in COMPRESSIONS:
        return path.read_bytes()
    limit = expansion_limit(path)
    try:
        with path.open("rb") as file:
            found = bytearray()
            for part in _expanded(file, suffix):
                found += part
                if len(found) > limit:
                    break
    # bz2 reports damage as a bare OSError, without a number.
    except (lzma.LZMAError, EOFError, OSError, ValueError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"not a whole {suffix[1:]} file ({error})") from error
    if len(found) > limit:
        raise ValueError(too_large("the content", limit))
    return bytes(found)


def expansion_limit(path: Path) -> int:
    """Return how many bytes a file may become in memory, so that no small file fills it."""
    given = os.environ.get(EXPAND_VARIABLE, "").strip()
    if not given:
        return max(EXPANDED_LEAST, EXPANDED_RATIO * path.stat().st_size)
    try:
        limit = int(float(given) * 1e6)
    except (ValueError, OverflowError):
        limit = 0
    if limit <= 0:
        raise ValueError(f"{EXPAND_VARIABLE} must be a positive number of megabytes, got {given!r}")
    return limit


def too_large(what: str, limit: int) -> str:
    """Word the message for a small file that would fill the memory."""
    return (
        f"{what} takes more than {limit / 1e6:,.0f} MB in memory, which is out of proportion to "
        f"the file; if it is meant to, set the environment variable {EXPAND_VARIABLE} to the "
        "megabytes it may take"
    )


def _expanded(file: IO[bytes], suffix: str) -> Iterator[bytes]:
    """Yield the decompressed content in pieces of bounded size; streams may follow each other."""
    if suffix == ".gz":
        with gzip.GzipFile(fileobj=file) as stream:
            while part := stream.read(CHUNK):
                yield part
        return
    held = file.read(CHUNK)
    whole = 0
    while held:
        # The limit is for the dictionary that the header of an xz file may ask for.
        decoder: Any = (
            lzma.LZMADecompressor(memlimit=DICTIONARY) if suffix == ".xz" else bz2.BZ2Decompressor()
        )
        try:
            while not decoder.eof:
                if decoder.needs_input and not held:
                    held = file.read(CHUNK)
                    if not held:
                        raise EOFError("it ends too early")
                yield decoder.decompress(held, CHUNK)
                held = b""
        except (lzma.LZMAError, OSError):
            if whole:
                return  # what follows a whole stream is padding
            raise
        whole += 1
        held = decoder.unused_data or file.read(CHUNK)


def content_digest(text: bytes) -> str:
    r"""SHA-256 of the text with line ends and trailing blanks made uniform.

    Copies of a set differ in a final newline or in CRLF without differing in content, so every
    line is stripped on the right and ended by one newline before hashing.

    Parameters
    ----------
    text : bytes
        Decompressed content.

    Returns
    -------
    digest : str
        64 hexadecimal digits.

    Examples
    --------
    >>> content_digest(b"1 1:2 \r\n") == content_digest(b"1 1:2")
    True
    """
    digest = hashlib.sha256()
    for line in text.splitlines():
        digest.update(line.rstrip() + b"\n")
    return digest.hexdigest()


def parse(
    text: bytes, *, features: int | None = None, one_based: bool = False
) -> tuple[Any, NDArray[np.float64]]:
    r"""Parse svmlight text into a CSR matrix and its labels.

    Parameters
    ----------
    text : bytes
        Decompressed content.
    features : int, optional
        Number of columns; the largest index seen when omitted.
    one_based : bool
        True when indices are known to start at 1; otherwise it is guessed from the content.

    Returns
    -------
    X : csr matrix of float64
    y : array of float64
        Labels as in the file.

    Raises
    ------
    ValueError
        When the text is empty or not svmlight.

    Examples
    --------
    >>> X, y = parse(b"+1 1:0.5 3:2\n-1 2:1\n")
    >>> X.shape, y.tolist()
    ((2, 3), [1.0, -1.0])
    """
    from sklearn.datasets import load_svmlight_file

    if not text.strip():
        raise ValueError("the file is empty")
    try:
        X, y = load_svmlight_file(
            io.BytesIO(text),
            n_features=features,
            dtype=np.float64,
            zero_based=False if one_based else "auto",
        )
    except (ValueError, OverflowError, IndexError) as error:
        raise ValueError(
            f"not LIBSVM text, 'label index:value …' on each line ({error})"
        ) from error
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError("no row with a feature in it")
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise ValueError("it holds a value that is not finite")
    return X, y


def read_parquet(
    path: Path,
    *,
    label: str | None,
    features: Sequence[str] | None,
    sample_weight: str | None,
) -> Table:
    """Read a Parquet file; needs the ``data`` extra.

    Parameters
    ----------
    path : Path
        File.
    label, features, sample_weight
        See `proxyprox.datasets.read_table`.
    """
    purpose = f"reading {path.name} (Parquet)"
    require("pyarrow", extra="data", purpose=purpose)
    pd = require("pandas", extra="data", purpose=purpose)
    try:
        parquet = importlib.import_module("pyarrow.parquet")
        shape = parquet.read_metadata(path)
        limit = expansion_limit(path)
        if 8 * shape.num_rows * shape.num_columns > limit:
            what = f"a table of {shape.num_rows:,} rows and {shape.num_columns:,} columns"
            raise DataError(f"{path.name}: {too_large(what, limit)}.")
        frame = pd.read_parquet(path)
    except DataError:
        raise
    except Exception as error:  # pyarrow's errors have no public base of their own
        raise DataError(f"{path.name}: not a readable Parquet file ({error}).") from error
    columns = [str(name) for name in frame.columns]
    frame.columns = columns
    roles = assign_roles(
        columns, where=path.name, label=label, features=features, sample_weight=sample_weight
    )
    if len(frame) == 0:
        raise DataError(f"{path.name}: the table has no rows.")
    X = np.column_stack([_numeric(frame[name], path.name, name) for name in roles.features])
    y = None if roles.label is None else _labels(frame[roles.label], path.name, roles.label)
    weights = None
    if roles.sample_weight is not None:
        weights = _numeric(frame[roles.sample_weight], path.name, roles.sample_weight)
    check_weights(weights, path.name, roles.sample_weight)
    return Table(X, y, roles.features, len(X), weights)


def _numeric(series: Any, where: str, name: str) -> NDArray[np.float64]:
    missing = np.flatnonzero(series.isna().to_numpy())
    if missing.size:
        raise DataError(
            f"{where}: row {int(missing[0]) + 1}, column {name!r}: the cell is empty; fill it in "
            "or remove the row."
        )
    try:
        if series.dtype.kind in "mM":
            raise TypeError("a date")
        values = np.asarray(series.to_numpy(dtype=np.float64))
    except (TypeError, ValueError) as error:
        row, value = next(
            ((i, v) for i, v in enumerate(series, start=1) if not isinstance(v, int | float)),
            (1, series.iloc[0]),
        )
        raise DataError(
            f"{where}: row {row}, column {name!r}: {value!r} is not a number; encode it as numbers "
            "first, or leave the column out of 'features'."
        ) from error
    _check_finite(values[:, None], where, (name,))
    return values


def _labels(series: Any, where: str, name: str) -> NDArray[Any]:
    missing = np.flatnonzero(series.isna().to_numpy())
    if missing.size:
        raise DataError(
            f"{where}: row {int(missing[0]) + 1}, column {name!r}: the label is missing; put rows "
            "without a label in a file of their own."
        )
    if series.dtype.kind in "iuf":
        return np.asarray(series.to_numpy(dtype=np.float64))
    return as_labels([str(value) for value in series])


def read_npz(
    path: Path,
    *,
    label: str | None,
    features: Sequence[str] | None,
    sample_weight: str | None,
) -> Table:
    """Read arrays ``X`` (and ``y``, ``sample_weight``, ``feature_names``) from an npz file.

    Parameters
    ----------
    path : Path
        File; objects (pickles) in it are refused.
    label : str or None
        Name of the label array; None takes ``y`` if there.
    features : sequence of str or None
        Columns to keep, by ``feature_names`` or ``x1, x2, …``.
    sample_weight : str or None
        Name of the weight array.
    """
    where = path.name
    try:
        arrays, held = _npz_arrays(path, {"X", "y", "feature_names", label, sample_weight})
    except (DataError, PermissionError):
        raise
    except Exception as error:  # zipfile, zlib and numpy's parser of headers have many of their own
        raise DataError(f"{where}: not a readable npz file of plain arrays ({error}).") from error
    there = ", ".join(held) or "none"
    if "X" not in arrays:
        raise DataError(f"{where}: no array 'X' in it (arrays: {there}); np.savez(path, X=…, y=…).")
    X = arrays["X"]
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        raise DataError(
            f"{where}: 'X' has shape {X.shape} and type {X.dtype}; a non-empty table of numbers "
            "(2 dimensions) is needed."
        )
    X = np.ascontiguousarray(X, dtype=np.float64)
    names = tuple(str(name) for name in arrays.get("feature_names", ()))
    names = names or tuple(f"x{i}" for i in range(1, X.shape[1] + 1))
    if len(names) != X.shape[1]:
        raise DataError(f"{where}: {len(names)} feature_names for {X.shape[1]} columns of 'X'.")
    for argument, name in (("label", label), ("sample_weight", sample_weight)):
        if name is not None and name not in arrays:
            raise DataError(f"{where}: no array {name!r} ({argument}); arrays: {there}.")
    label = "y" if label is None and "y" in arrays else label
    y = None if label is None else _vector(arrays[label], where, label, len(X))
    if y is not None and y.dtype.kind in "biuf":
        y = y.astype(np.float64)
        _check_finite(y[:, None], where, (str(label),))
    weights = None
    if sample_weight is not None:
        vector = _vector(arrays[sample_weight], where, sample_weight, len(X))
        if vector.dtype.kind not in "biuf":
            raise DataError(f"{where}: {sample_weight!r} has type {vector.dtype}, not numbers.")
        weights = check_weights(vector.astype(np.float64), where, sample_weight)
    _check_finite(X, where, names)
    X, names = select_features(X, names, features, where)
    return Table(X, y, names, len(X), weights)


def _npz_arrays(
    path: Path, wanted: set[str | None]
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """Return the wanted arrays of an npz file and the names of all, nothing larger than it says."""
    with path.open("rb") as start:
        if start.read(6) == b"\x93NUMPY":
            raise DataError(f"{path.name}: one array, not an npz archive; save with np.savez(X=…).")
    found: dict[str, NDArray[Any]] = {}
    limit, total = expansion_limit(path), 0
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        for name in wanted & members.keys():
            info = members[str(name)]
            with archive.open(info) as file:
                shape, dtype = _npy_header(file)
            count = math.prod(shape)
            # numpy takes the memory that the header asks for before it reads any of it.
            if count * max(dtype.itemsize, 1) > info.file_size:
                raise ValueError(f"{name!r} holds less than its shape {shape} says")
            total += count * max(dtype.itemsize, 8)
            if total > limit:
                raise DataError(f"{path.name}: {too_large(f'{name!r}, of shape {shape},', limit)}.")
            with archive.open(info) as file:
                found[str(name)] = np.lib.format.read_array(file, allow_pickle=False)
    return found, tuple(members)


def _npy_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"an array in format {version[0]}.{version[1]}")
    first = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype


def _vector(array: NDArray[Any], where: str, name: str, rows: int) -> NDArray[Any]:
    if array.shape != (rows,):
        raise DataError(f"{where}: {name!r} has shape {array.shape}, 'X' has {rows} rows.")
    return array


def _check_finite(X: NDArray[np.float64], where: str, names: Sequence[str]) -> None:
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        row, column = (int(i) for i in bad[0])
        raise DataError(
            f"{where}: row {row + 1}, column {names[column]!r}: {X[row, column]} is not finite; "
            "fill it in or remove the row."
        )


def select_features(
    X: Any, names: tuple[str, ...], features: Sequence[str] | None, where: str
) -> tuple[Any, tuple[str, ...]]:
    """Keep the columns of `X` that `features` names, in that order; None keeps all."""
    roles = assign_roles(names, where=where, label=None, features=features, sample_weight=None)
    if features is None:
        return X, names
    place = {name: index for index, name in enumerate(names)}
    return X[:, [place[name] for name in roles.features]], roles.features


Format = Literal["csv", "parquet", "svmlight", "npz"]

_BY_SUFFIX: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".npz": "npz",
}


NAME_BYTES = 64
"""What a column takes before it has an entry: mostly its name."""


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    format: Format | None = None,
    n_features: int | None = None,
) -> Table:
    r"""Read rows for a model from a file.

    Parameters
    ----------
    path : path-like
        The file. Its ending tells the format: ``.csv``, ``.tsv``, ``.parquet``, ``.pq``,
        ``.svm``, ``.svmlight``, ``.libsvm``, ``.npz``; CSV and svmlight also with ``.xz``,
        ``.bz2`` or ``.gz`` behind it. A file that would take more than 64 MiB in memory and more
        than 200 times its size is refused; the environment variable ``PROXYPROX_EXPAND_MB`` sets
        another limit.
    label : str, optional
        Label column (npz: array). Without it CSV and Parquet rows are unlabelled, an npz gives
        its array ``y`` if it has one, and svmlight rows always carry their label.
    features : sequence of str, optional
        Columns to use, in this order; default every column that is not label or weight. Columns
        of svmlight, and of npz without ``feature_names``, are called ``x1``, ``x2``, …
    sample_weight : str, optional
        Column (npz: array) of weights.
    format : {"csv", "parquet", "svmlight", "npz"}, optional
        For a file whose ending says nothing.
    n_features : int, optional
        Columns of a svmlight file, when its largest index is not enough.

    Returns
    -------
    table : Table

    Raises
    ------
    DataError
        When the file cannot be used; the message names the row, the column and the value.
    MissingExtraError
        For Parquet without the ``data`` extra.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.csv"
    ...     _ = path.write_text("age,income,bought\n31,2.5,yes\n45,1.0,no\n")
    ...     table = read_table(path, label="bought")
    >>> table.feature_names, table.y.tolist(), table.rows
    (('age', 'income'), ['yes', 'no'], 2)
    """
    file = file_path("path", path).expanduser()
    kind = _format_of(file) if format is None else format
    if not isinstance(kind, str) or kind not in set(_BY_SUFFIX.values()):
        raise DataError(f"format={kind!r} is not known: use csv, parquet, svmlight or npz.")
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise DataError(f"the data file {str(path)!r} {what}; check the path.")
    if n_features is not None and kind != "svmlight":
        raise DataError(f"n_features={n_features} applies to svmlight files, not to {kind}.")
    try:
        if kind == "svmlight":
            return _read_svmlight(file, label, features, sample_weight, n_features)
        reader = {"csv": read_csv, "parquet": read_parquet, "npz": read_npz}[kind]
        return reader(file, label=label, features=features, sample_weight=sample_weight)
    except MemoryError as error:
        raise DataError(f"{file.name}: the table does not fit into memory.") from error
    except PermissionError as error:
        raise DataError(f"the data file {str(path)!r} may not be read by this user.") from error


def _format_of(file: Path) -> Format:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
        if suffixes and _BY_SUFFIX.get(suffixes[-1]) in ("parquet", "npz"):
            raise DataError(f"{file.name}: decompress this file first; {suffixes[-1]} is compact.")
    kind = _BY_SUFFIX.get(suffixes[-1]) if suffixes else None
    if kind is None:
        raise DataError(
            f"{file.name}: the ending does not tell the format; use one of "
            f"{', '.join(_BY_SUFFIX)}, or pass format=."
        )
    return kind


def _read_svmlight(
    file: Path,
    label: str | None,
    features: Sequence[str] | None,
    sample_weight: str | None,
    n_features: int | None,
) -> Table:
    for argument, value in (("label", label), ("sample_weight", sample_weight)):
        if value is not None:
            raise DataError(
                f"{file.name}: {argument}={value!r} does not apply to svmlight, where the label is "
                "the first entry of each line and rows carry no weight: leave it out."
            )
    try:
        X, y = parse(read_bytes(file), features=n_features)
        limit = expansion_limit(file)
        if NAME_BYTES * X.shape[1] > limit:
            # One large index makes a table of any width.
            raise ValueError(too_large(f"a table of {X.shape[1]:,} columns", limit))
    except ValueError as error:
        raise DataError(f"{file.name}: {error}.") from error
    names = tuple(f"x{i}" for i in range(1, X.shape[1] + 1))
    X, names = select_features(X, names, features, file.name)
    return Table(X, y, names, int(X.shape[0]))
