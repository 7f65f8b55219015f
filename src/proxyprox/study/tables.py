"""Tables from files: CSV and Parquet through pandas, svmlight through scikit-learn, and npz."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyprox._util.extras import require
from proxyprox._util.text import printable

COMPRESSIONS: dict[str, Any] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}

ENDINGS = {
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), "svmlight"),
    ".npz": "npz",
}

# More columns than these are an index that went wrong; their names alone would fill the memory.
MOST_COLUMNS = 10**7
_FILL_IN = "fill it in, or leave the column out of 'features'"

Name = str | None
Names = Sequence[str] | None


class DataError(ValueError):
    """A user's table cannot be used; the message says where the trouble is and what to do."""

    def __init__(self, text: str = "") -> None:
        # Names of files and columns are a stranger's, and messages end up on a terminal.
        super().__init__(printable(text))


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


def read_table(
    path: Path,
    label: Name = None,
    features: Names = None,
    sample_weight: Name = None,
    format: Name = None,
) -> Table:
    r"""Read rows for a model from a file.

    Parameters
    ----------
    path : Path
        The file. Its ending tells the format: ``.csv``, ``.tsv``, ``.parquet``, ``.pq``,
        ``.svm``, ``.svmlight``, ``.libsvm``, ``.npz``; CSV and svmlight also with ``.xz``,
        ``.bz2`` or ``.gz`` behind it. CSV is UTF-8 text with a header line and commas,
        semicolons or tabs between the cells. An svmlight index above 10 million is refused.
    label : str, optional
        Label column (npz: array). Without it CSV and Parquet rows are unlabelled, and an npz
        gives its array ``y`` if it has one. Rows of svmlight begin with their label.
    features : sequence of str, optional
        Columns to use, in this order; default every column that is not label or weight. Columns
        of svmlight, and of npz without ``feature_names``, are called ``x1``, ``x2``, …
    sample_weight : str, optional
        Column (npz: array) of weights.
    format : {"csv", "parquet", "svmlight", "npz"}, optional
        For a file whose ending says nothing.

    Returns
    -------
    table : Table

    Raises
    ------
    DataError
        When the file cannot be used; the message names the row, counted from 1, the column and
        the value.
    MissingExtraError
        For CSV and Parquet without the ``data`` extra.

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
    kind = format or format_of(path)
    with _errors_of(path):
        if kind == "svmlight":
            return _read_svmlight(path, features, sample_weight)
        if kind == "npz":
            columns, label = _read_npz(path, label, sample_weight)
        else:
            columns = _read_csv(path, {label: str}) if kind == "csv" else _read_parquet(path)
        return from_columns(columns, label, features, sample_weight)


def read_cells(path: Path) -> Any:
    """Return a CSV or Parquet file as a DataFrame of text, None for other formats."""
    kind = format_of(path)
    with _errors_of(path):
        if kind == "csv":
            return _read_csv(path, str).fillna("")
        return _read_parquet(path).astype(str) if kind == "parquet" else None


@contextmanager
def _errors_of(file: Path) -> Iterator[None]:
    """Put the name of the file before what is wrong with it."""
    if not file.is_file():
        raise DataError(f"the data file {str(file)!r} does not exist or is a folder.")
    try:
        yield
    except (ValueError, EOFError, MemoryError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{file.name}: {str(error) or 'it cannot be read'}") from error


def format_of(file: Path) -> str:
    """Return the format that a file's ending tells."""
    name = file.with_suffix("") if file.suffix.lower() in COMPRESSIONS else file
    if name.suffix.lower() not in ENDINGS:
        known = f"use one of {', '.join(ENDINGS)}, or pass format=."
        raise DataError(f"{file.name}: the ending does not tell the format; {known}")
    return ENDINGS[name.suffix.lower()]


def read_bytes(path: Path, suffix: str | None = None) -> bytes:
    """Return a file's content, decompressed if its ending (or `suffix`) says so."""
    suffix = path.suffix.lower() if suffix is None else suffix
    if suffix not in COMPRESSIONS:
        return path.read_bytes()
    try:
        with COMPRESSIONS[suffix](path) as file:
            content: bytes = file.read()
    except (lzma.LZMAError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"not a whole {suffix[1:]} file ({error})") from error
    return content


# -- CSV and Parquet --------------------------------------------------------------------------


def _read_csv(path: Path, dtype: Any) -> Any:
    """Return a CSV file as a DataFrame with cells of these types."""
    pd: Any = require("pandas", extra="data", purpose=f"reading {path.name} (CSV)")
    content = read_bytes(path)
    first = re.search(rb"\S.*", content)
    if first is None:
        raise ValueError("the file is empty; it needs a header and data rows.")
    options = {
        "encoding": "utf-8-sig",
        "index_col": False,
        "keep_default_na": False,
        "low_memory": False,
        "sep": max(",;\t", key=lambda sep: first[0].count(sep.encode())),
    }
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # newer releases always are exact
    try:
        head = pd.read_csv(io.BytesIO(content), header=None, nrows=1, dtype=str, **options)
        columns = [str(cell).strip() for cell in head.iloc[0]]
        if "" in columns or np.isfinite([_to_number(name) for name in columns]).all():
            raise ValueError(f"the first line must name every column, but has {columns[:4]}.")
        _check_names(columns)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            options |= {"header": 0, "names": columns, "dtype": dtype}
            return pd.read_csv(io.BytesIO(content), **options)
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        remedy = "save it as UTF-8 text with a header line and as many cells in every row."
        raise ValueError(f"not a table ({str(error).strip()}); {remedy}") from error


def _read_parquet(path: Path) -> Any:
    purpose = f"reading {path.name} (Parquet)"
    require("pyarrow.parquet", extra="data", purpose=purpose)
    pd: Any = require("pandas", extra="data", purpose=purpose)
    return pd.read_parquet(path).rename(columns=str)


def from_columns(columns: Any, label: Name, features: Names, sample_weight: Name) -> Table:
    """Return a table from a DataFrame or a dict of arrays."""
    used = _choose_features(tuple(columns), features, label, sample_weight)
    if len(columns[used[0]]) == 0:
        raise ValueError("the table has no rows, only the names of its columns.")
    X = np.column_stack([numbers(columns[name], name) for name in used])
    y = None if label is None else _labels(columns[label], label)
    weights = None if sample_weight is None else numbers(columns[sample_weight], sample_weight)
    if weights is not None and ((weights < 0).any() or not weights.any()):
        raise ValueError(f"a weight in {sample_weight!r} is negative, or none is positive.")
    return Table(X, y, used, len(X), weights)


def numbers(column: Any, name: str, remedy: str = _FILL_IN) -> NDArray[np.float64]:
    """Return a column as numbers, or name the first cell that is none."""
    values = _floats(column)
    for row in np.flatnonzero(~np.isfinite(values)):
        shown = _text(np.asarray(column)[row])[:40] or "an empty cell"
        raise ValueError(f"row {row + 1}, column {name!r}: {shown!r} is not a number; {remedy}.")
    return values


def _labels(column: Any, name: str) -> NDArray[Any]:
    """Return labels as numbers if every one of them is a number, else as text."""
    cells, values = np.asarray(column), _floats(column)
    if np.isfinite(values).all():
        return values
    texts = np.array([_text(cell) for cell in cells], dtype=np.str_)
    missing = np.isin(np.char.lower(texts), ["", "nan", "inf", "-inf"])
    if missing.any():
        place = f"row {np.argmax(missing) + 1}, column {name!r}"
        raise ValueError(f"{place}: the label is missing; put such rows in a file of their own.")
    return texts


def _floats(column: Any) -> NDArray[np.float64]:
    """Return cells as numbers, NaN where there is none."""
    cells = np.asarray(column)
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    return np.array([_to_number(cell) for cell in cells], dtype=np.float64)


def _text(cell: Any) -> str:
    return "" if cell is None or type(cell).__name__ in ("NAType", "NaTType") else str(cell).strip()


def _to_number(cell: Any) -> float:
    """Return a cell as a number, NaN if it is none."""
    try:
        # Python's digit grouping is not a number in a data file.
        return math.nan if "_" in str(cell) else float(cell)
    except (TypeError, ValueError):
        return math.nan


def _choose_features(columns: Sequence[str], features: Names, *roles: Name) -> tuple[str, ...]:
    """Return the feature columns; refuse names that are absent or asked for twice."""
    _check_names(columns)
    shown = ", ".join(map(repr, columns[:20])) + (" …" if len(columns) > 20 else "")
    asked = [name for name in (*roles, *(features or ())) if name is not None]
    for name in asked:
        if name not in columns:
            raise ValueError(f"no column {name!r}; the columns are {shown}.")
    _check_names(asked)
    used = [name for name in columns if name not in asked] if features is None else features
    if not used:
        raise ValueError(f"no feature column is left of {shown}.")
    return tuple(used)


def _check_names(names: Sequence[str]) -> None:
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise ValueError(f"the column {name!r} appears twice; rename or drop one of them.")


# -- svmlight and npz -------------------------------------------------------------------------


def parse_svmlight(
    text: bytes, n_features: int | None = None, zero_based: bool | str = "auto"
) -> tuple[Any, NDArray[np.float64]]:
    """Return svmlight text as a CSR matrix and its labels."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(text), n_features=n_features, zero_based=zero_based)
    except (ValueError, OverflowError, IndexError) as error:
        fault = f"not LIBSVM text, 'label index:value …' on each line ({error})"
        raise ValueError(fault) from error
    if 0 in X.shape:
        raise ValueError("it is empty: no row with a feature in it")
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise ValueError("it holds a value that is not finite")
    return X, y


def _read_svmlight(path: Path, features: Names, sample_weight: Name) -> Table:
    if sample_weight is not None:
        raise ValueError(f"svmlight files hold no weights: leave {sample_weight!r} out.")
    X, y = parse_svmlight(read_bytes(path))
    if X.shape[1] > MOST_COLUMNS:
        raise ValueError(f"its indices make {X.shape[1]:,} columns, at most {MOST_COLUMNS:,}.")
    names = _numbered_names(X)
    used = _choose_features(names, features)
    X = X if features is None else X[:, [names.index(name) for name in used]]
    return Table(X, y, used, int(X.shape[0]))


def _read_npz(path: Path, label: Name, sample_weight: Name) -> tuple[dict[Any, Any], Name]:
    """Return the columns of an archive, and the name of its label."""
    if not zipfile.is_zipfile(path):
        raise ValueError("not a zip file, which an npz file is: np.savez writes one.")
    with np.load(path, allow_pickle=False) as found:
        wanted = {"X", "y", "feature_names", label, sample_weight}
        arrays = {name: found[name] for name in found.files if name in wanted}
        X = arrays.get("X", np.empty(0))
        if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
            got = f"shape {X.shape} and type {X.dtype}; arrays: {', '.join(found.files)}"
            raise ValueError(f"the array 'X' must be a table of numbers, got {got}.")
    names = tuple(map(str, arrays.get("feature_names", ()))) or _numbered_names(X)
    if len(names) != X.shape[1]:
        raise ValueError(f"{len(names)} feature_names for {X.shape[1]} columns of 'X'.")
    _check_names(names)
    columns: dict[Any, Any] = dict(zip(names, X.T, strict=True))
    label = "y" if label is None and "y" in arrays else label
    return columns | {name: arrays[name] for name in {label, sample_weight} & arrays.keys()}, label


def _numbered_names(X: Any) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(1, X.shape[1] + 1))
