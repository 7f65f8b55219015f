"""Tables from files: CSV and Parquet through pandas, svmlight through scikit-learn, and npz."""

from __future__ import annotations

import bz2
import difflib
import gzip
import io
import lzma
import math
import os
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from proxyprox._util.extras import require
from proxyprox._util.text import printable
from proxyprox._util.validation import as_list, file_path, message

Format = Literal["csv", "parquet", "svmlight", "npz"]
Name = str | None
Names = Sequence[str] | None

COMPRESSIONS: dict[str, Any] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}

ENDINGS: dict[Format, tuple[str, ...]] = {
    "csv": (".csv", ".tsv"),
    "parquet": (".parquet", ".pq"),
    "svmlight": (".svm", ".svmlight", ".libsvm"),
    "npz": (".npz",),
}

EXPAND_VARIABLE = "PROXYPROX_EXPAND_MB"

# A file may become 64 MiB, or 200 times its size, in memory: tables compress 5 to 50 times.
EXPANDED_LEAST, EXPANDED_RATIO = 64 << 20, 200

# What a column takes before it has an entry: mostly its name.
NAME_BYTES = 64


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
        ``.bz2`` or ``.gz`` behind it. CSV is UTF-8 text with a header line and commas,
        semicolons or tabs between the cells. A file that would take more than 64 MiB in memory
        and more than 200 times its size is refused; the environment variable
        ``PROXYPROX_EXPAND_MB`` sets another limit.
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
    file = file_path("path", path).expanduser()
    kind = _format_of(file) if format is None else format
    if kind not in tuple(ENDINGS):
        raise DataError(f"format={kind!r} is not known: use {', '.join(ENDINGS)}.")
    if n_features is not None and kind != "svmlight":
        raise DataError(f"n_features={n_features} applies to svmlight files, not to {kind}.")
    with _errors_of(file):
        if kind == "svmlight":
            return _read_svmlight(file, label, features, sample_weight, n_features)
        if kind == "npz":
            return _read_npz(file, label, features, sample_weight)
        frame = _read_csv(file, label) if kind == "csv" else _read_parquet(file)
        return _from_columns(frame, label, features, sample_weight)


def read_cells(path: Path) -> Any:
    """Return a CSV or Parquet file as a DataFrame of text, None for other formats."""
    kind = _format_of(path)
    with _errors_of(path):
        if kind == "csv":
            return _read_csv(path, text=True).fillna("")
        return _read_parquet(path).astype(str) if kind == "parquet" else None


@contextmanager
def _errors_of(file: Path) -> Iterator[None]:
    """Put the name of the file before what is wrong with it."""
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise DataError(f"the data file {str(file)!r} {what}; check the path.")
    try:
        yield
    except ValueError as error:
        raise DataError(f"{file.name}: {error}") from error
    except (EOFError, MemoryError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{file.name} cannot be read: {error!r}.") from error


def _format_of(file: Path) -> Format:
    name = file.with_suffix("") if file.suffix.lower() in COMPRESSIONS else file
    kinds = [kind for kind, endings in ENDINGS.items() if name.suffix.lower() in endings]
    if not kinds:
        raise DataError(
            f"{file.name}: the ending does not tell the format; use one of "
            f"{', '.join(sum(ENDINGS.values(), ()))}, or pass format=."
        )
    return kinds[0]


def read_bytes(path: Path, suffix: str | None = None) -> bytes:
    """Return a file's content, decompressed if its ending (or `suffix`) says so."""
    suffix = path.suffix.lower() if suffix is None else suffix
    if suffix not in COMPRESSIONS:
        return path.read_bytes()
    try:
        with COMPRESSIONS[suffix](path) as file:
            content: bytes = file.read(_size_limit(path) + 1)
    except (lzma.LZMAError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"not a whole {suffix[1:]} file ({error})") from error
    _check_size(path, "the content", len(content))
    return content


def _size_limit(path: Path) -> int:
    given = os.environ.get(EXPAND_VARIABLE, "").strip()
    if not given:
        return max(EXPANDED_LEAST, EXPANDED_RATIO * path.stat().st_size)
    if not re.fullmatch(r"\d*\.?\d+", given):
        raise ValueError(message(EXPAND_VARIABLE, given, "a positive number of megabytes"))
    return int(float(given) * 1e6)


def _check_size(path: Path, what: str, size: int) -> None:
    """Refuse a small file that would fill the memory."""
    limit = _size_limit(path)
    if size > limit:
        raise ValueError(
            f"{what} takes more than {limit / 1e6:,.0f} MB in memory, which is out of proportion "
            f"to the file; if it is meant to, set {EXPAND_VARIABLE} to the megabytes it may take."
        )


# -- CSV and Parquet --------------------------------------------------------------------------


def _read_csv(path: Path, text: str | bool | None = None) -> Any:
    """Return a CSV file as a DataFrame; cells of the column `text`, True for all, stay text."""
    pd: Any = require("pandas", extra="data", purpose=f"reading {path.name} (CSV)")
    content = read_bytes(path)
    first = re.search(rb"\S.*", content)
    if first is None:
        raise ValueError("the file is empty; it needs a header and data rows.")
    options = {"encoding": "utf-8-sig", "index_col": False, "keep_default_na": False}
    options |= {
        "low_memory": False,
        "sep": max(",;\t", key=lambda sep: first[0].count(sep.encode())),
    }
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # newer releases always are exact
    try:
        head = pd.read_csv(io.BytesIO(content), header=None, nrows=1, dtype=str, **options)
        columns = [str(cell).strip() for cell in head.iloc[0]]
        options |= {"names": columns, "dtype": str if text is True else {text: str}}
        if "" in columns or np.isfinite([_to_number(name) for name in columns]).all():
            raise ValueError(f"the first line must name every column, but has {columns[:4]}.")
        _check_names(columns)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(io.BytesIO(content), header=0, **options)
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise ValueError(
            f"not a table ({str(error).strip()}); save it as UTF-8 text with a header line and as "
            "many cells in every row."
        ) from error


def _read_parquet(path: Path) -> Any:
    purpose = f"reading {path.name} (Parquet)"
    pd: Any = require("pandas", extra="data", purpose=purpose)
    parquet: Any = require("pyarrow.parquet", extra="data", purpose=purpose)
    shape = parquet.read_metadata(path)
    what = f"a table of {shape.num_rows:,} rows and {shape.num_columns:,} columns"
    _check_size(path, what, 8 * shape.num_rows * shape.num_columns)
    return pd.read_parquet(path).rename(columns=str)


def _from_columns(columns: Any, label: Name, features: Names, sample_weight: Name) -> Table:
    """Return a table from a DataFrame or a dict of arrays."""
    used = _choose_features(tuple(columns), label, features, sample_weight)
    if len(columns[used[0]]) == 0:
        raise ValueError("the table has no rows, only the names of its columns.")
    X = np.column_stack([_numbers(columns[name], name) for name in used])
    y = None if label is None else _labels(columns[label], label)
    weights = None if sample_weight is None else _numbers(columns[sample_weight], sample_weight)
    if weights is not None and ((weights < 0).any() or not weights.any()):
        got = f"weights in {sample_weight!r} go from {weights.min():g} to {weights.max():g}"
        raise ValueError(f"{got}; none may be negative, and one must be positive.")
    return Table(X, y, used, len(X), weights)


def _floats(cells: NDArray[Any]) -> NDArray[np.float64]:
    """Return cells as numbers, NaN where there is none."""
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    return np.array([_to_number(cell) for cell in cells], dtype=np.float64)


def _numbers(column: Any, name: str) -> NDArray[np.float64]:
    """Return a column as numbers, or name the first cell that is none."""
    cells = np.asarray(column)
    values = _floats(cells)
    bad = np.flatnonzero(~np.isfinite(values))
    if not bad.size:
        return values
    shown = _text(cells[bad[0]])[:40]
    remedy = "encode text as numbers first, or leave the column out of 'features'"
    if shown.lower().lstrip("+-") in ("", "nan", "inf", "infinity"):
        shown, remedy = shown or "an empty cell", "fill it in or remove the row"
    raise ValueError(f"row {bad[0] + 1}, column {name!r}: {shown!r} is not a number; {remedy}.")


def _labels(column: Any, name: str) -> NDArray[Any]:
    """Return labels as numbers if every one of them is a number, else as text."""
    cells = np.asarray(column)
    values = _floats(cells)
    if cells.dtype.kind != "b" and np.isfinite(values).all():
        return values
    texts = np.array([_text(cell) for cell in cells], dtype=np.str_)
    missing = np.isin(np.char.lower(texts), ["", "nan", "inf", "-inf"])
    if missing.any():
        place = f"row {np.argmax(missing) + 1}, column {name!r}"
        raise ValueError(f"{place}: the label is missing; put such rows in a file of their own.")
    return texts


def _text(cell: Any) -> str:
    return "" if cell is None or type(cell).__name__ in ("NAType", "NaTType") else str(cell).strip()


def _to_number(cell: Any) -> float:
    """Return a cell as a number, NaN if it is none."""
    try:
        # Python's digit grouping is not a number in a data file.
        return math.nan if "_" in str(cell) else float(cell)
    except (TypeError, ValueError):
        return math.nan


def _choose_features(
    columns: Sequence[str], label: Name, features: Names, sample_weight: Name
) -> tuple[str, ...]:
    """Return the feature columns; refuse names that are absent or asked for twice."""
    _check_names(columns)
    shown = ", ".join(map(repr, columns[:20])) + (" …" if len(columns) > 20 else "")
    if isinstance(features, str):
        raise ValueError(f"features={features!r} is one string: give a list of column names.")
    chosen = () if features is None else as_list("features", features, "a list of column names")
    asked = [("label", label), ("sample_weight", sample_weight)]
    asked = [pair for pair in asked if pair[1] is not None]
    seen = set[str]()
    for argument, name in [*asked, *(("features", name) for name in chosen)]:
        if not isinstance(name, str):
            raise TypeError(message(argument, name, "the name of a column, as text"))
        if name not in columns:
            near = difflib.get_close_matches(name, columns, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"no column {name!r} ({argument}).{hint} The columns are {shown}.")
        if name in seen:
            raise ValueError(f"the column {name!r} is asked for twice: name it once.")
        seen.add(name)
    used = tuple(chosen) if features is not None else tuple(n for n in columns if n not in seen)
    if not used:
        raise ValueError(f"no feature column is left of {shown}.")
    return used


def _check_names(columns: Sequence[str]) -> None:
    name, count = Counter(columns).most_common(1)[0]
    if count > 1:
        raise ValueError(f"the column {name!r} appears twice; rename one of them.")


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


def _read_svmlight(
    file: Path, label: Name, features: Names, sample_weight: Name, n_features: int | None
) -> Table:
    if label is not None or sample_weight is not None:
        what = f"label={label!r} and sample_weight={sample_weight!r}"
        raise ValueError(f"{what} do not apply to svmlight, whose lines begin with the label.")
    X, y = parse_svmlight(read_bytes(file), n_features)
    # One large index makes a table of any width.
    _check_size(file, f"a table of {X.shape[1]:,} columns", NAME_BYTES * X.shape[1])
    names = _numbered_names(X)
    used = _choose_features(names, None, features, None)
    X = X if features is None else X[:, [names.index(name) for name in used]]
    return Table(X, y, used, int(X.shape[0]))


def _read_npz(path: Path, label: Name, features: Names, sample_weight: Name) -> Table:
    with zipfile.ZipFile(path) as archive:
        _check_size(path, "its arrays", sum(info.file_size for info in archive.infolist()))
    with np.load(path, allow_pickle=False) as found:
        held = list(found.files)
        wanted = {"X", "y", "feature_names", label, sample_weight}
        arrays = {name: found[name] for name in held if name in wanted}
    label = "y" if label is None and "y" in arrays else label
    for argument, name in (("X", "X"), ("label", label), ("sample_weight", sample_weight)):
        if name is not None and name not in arrays:
            raise ValueError(f"no array {name!r} ({argument}); arrays: {', '.join(held)}.")
    X = arrays["X"]
    if X.ndim != 2 or X.dtype.kind not in "biuf" or 0 in X.shape:
        what = f"'X' has shape {X.shape} and type {X.dtype}"
        raise ValueError(f"{what}; a non-empty table of numbers (2 dimensions) is needed.")
    names = tuple(map(str, arrays.get("feature_names", ()))) or _numbered_names(X)
    if len(names) != X.shape[1]:
        raise ValueError(f"{len(names)} feature_names for {X.shape[1]} columns of 'X'.")
    _check_names(names)
    columns = dict(zip(names, X.T, strict=True))
    for name in filter(None, (label, sample_weight)):
        array = arrays[name]
        if array.shape != X.shape[:1]:
            raise ValueError(f"{name!r} has shape {array.shape}, 'X' has {len(X)} rows.")
        columns[name] = array.astype(np.float64) if array.dtype.kind == "b" else array
    return _from_columns(columns, label, features, sample_weight)


def _numbered_names(X: Any) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(1, X.shape[1] + 1))
