"""Tables from binary files: Parquet and npz."""

from __future__ import annotations

import importlib
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyprox._extras import require
from proxyprox.datasets._columns import Table, as_labels, assign_roles, check_weights
from proxyprox.datasets._errors import DataError
from proxyprox.datasets._svmlight import expansion_limit, too_large

__all__ = ["read_npz", "read_parquet", "select_features"]


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
