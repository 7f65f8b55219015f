"""What estimators need of Dask collections: labelled rows, and the squares of the others."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from proxyprox._util.validation import Words, message
from proxyprox.dask.tables import (
    CLUSTER,
    Engine,
    as_table,
    column_fault,
    open_partition,
    read_blocks,
)
from proxyprox.sklearn.inference import mean_squares
from proxyprox.sklearn.inputs import read_labels, stack_rows

Array = Any


class Fetched(NamedTuple):
    """Labelled rows in memory, how many rows of y have no label, and the others' mean squares."""

    X: Any
    y: Array
    weights: Array | None
    unlabelled: int
    squares: tuple[Array, float] | None
    names: list[str] | None


class Part(NamedTuple):
    """What partitions hold: numbers of rows, sums of squares of unlabelled ones, labelled ones."""

    labelled: int
    unlabelled: int
    squares: Any
    rows: list[tuple[Any, Array, Array]]


def fetch_partition(number: int, part: Any, job: Any) -> Part:
    """Return the labelled rows of a partition and the squares of the others."""
    mark, columns = job
    found, data = [Part(0, 0, np.zeros(len(columns)), [])], open_partition(part)
    if fault := column_fault(*data, columns):
        raise ValueError(f"Partition {number} has {fault}.")
    for X, y, s in read_blocks(*data):
        labelled: Array = read_labels(y, mark)[1]
        kept, count = np.flatnonzero(labelled), int((~labelled).sum())
        squares = count * mean_squares(X, ~labelled)[0] if count else 0.0
        own = X[kept], y[kept], np.ones(len(kept)) if s is None else s[kept]
        found.append(Part(len(kept), count, squares, [own]))
    return merge_parts(found)


def merge_parts(parts: list[Part]) -> Part:
    """Return what several partitions hold; more labelled rows than may be fetched are left out."""
    *sums, rows = zip(*parts, strict=True)
    labelled, unlabelled, squares = map(sum, sums)
    kept = [*chain.from_iterable(rows)] if labelled <= CLUSTER.rows else []
    return Part(labelled, unlabelled, squares, kept)


def fetch_labelled(X: Any, y: Any, weights: Any, X_proxy: Any, mark: Any) -> Fetched:
    """Return the labelled rows of collections, and the others' mean squares, in one pass."""
    engine, found, columns = Engine(), list[Part](), list[str]()
    for inputs, labels, s in [(X, y, weights)] + [(X_proxy, None, None)] * (X_proxy is not None):
        table = as_table(inputs, labels, s, None)
        names = [name for name, _ in table.columns]
        columns = columns or names
        if names != columns:
            raise ValueError(message("X_proxy", Words(f"columns {names}"), f"like X: {columns}"))
        job = np.nan if labels is None else mark, table.columns
        found.append(engine.run("labels", table, fetch_partition, job, merge_parts))
    labelled, unlabelled, squares, rows = merge_parts(found)
    if not 0 < labelled <= CLUSTER.rows:
        remedy = "Minimise proxyprox.dask.logistic_regression or its like for more."
        allowed = f"of 1 to {CLUSTER.rows:,} labels"
        raise ValueError(message("y", Words(f"{labelled:,} labels"), allowed, remedy))
    if bad := [name for name, x in zip(columns, squares, strict=True) if not np.isfinite(x)]:
        raise ValueError(message("X", Words(f"gaps in the columns {bad}"), "finite numbers"))
    parts, targets, own = zip(*rows, strict=True)
    return Fetched(
        stack_rows(*parts), np.concatenate(targets),
        None if weights is None else np.concatenate(own), found[0].unlabelled,
        (squares / unlabelled, float(unlabelled)) if unlabelled else None,
        columns if hasattr(X, "dtypes") else None,
    )  # fmt: skip
