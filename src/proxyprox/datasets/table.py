"""One's own data from a file: CSV, Parquet, svmlight or npz."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from proxyprox._checks import file_path
from proxyprox.datasets._arrays import read_npz, read_parquet, select_features
from proxyprox.datasets._columns import Table
from proxyprox.datasets._csv import read_csv
from proxyprox.datasets._errors import DataError
from proxyprox.datasets._svmlight import (
    COMPRESSIONS,
    expansion_limit,
    parse,
    read_bytes,
    too_large,
)

__all__ = ["Format", "Table", "read_table"]

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
