"""What estimators need of Dask collections: labelled rows, a moment of the others, a minimum."""

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
from proxyprox.problems.glm import Design
from proxyprox.sklearn.inference import Moment, moment_of
from proxyprox.sklearn.inputs import read_labels, stack_rows

Array = Any


class Fetched(NamedTuple):
    """Labelled rows in memory, how many rows of y have no label, the others' moment."""

    X: Any
    y: Array
    weights: Array | None
    unlabelled: int
    moment: Moment | None
    names: list[str] | None


class Part(NamedTuple):
    """What partitions hold: numbers of rows, sums of products of unlabelled ones, labelled ones."""

    labelled: int
    unlabelled: int
    gram: Any
    rows: list[tuple[Any, Array, Array]]


def fetch_partition(number: int, part: Any, job: Any) -> Part:
    """Return the labelled rows of a partition and the second moment of the others."""
    mark, intercept, columns = job
    found, data = [Part(0, 0, 0.0, [])], open_partition(part)
    if fault := column_fault(*data, columns):
        raise ValueError(f"Partition {number} has {fault}.")
    for X, y, s in read_blocks(*data):
        labelled: Array = read_labels(y, mark)[1]
        gram: Any = 0.0
        if not labelled.all():
            moment = moment_of(Design(X, intercept=intercept, checked=True), ~labelled)
            gram = moment.matrix * moment.weight
        kept = np.flatnonzero(labelled)
        own = X[kept], y[kept], np.ones(len(kept)) if s is None else s[kept]
        found.append(Part(len(kept), len(y) - len(kept), gram, [own]))
    return merge_parts(found)


def merge_parts(parts: list[Part]) -> Part:
    """Return what several partitions hold; more labelled rows than may be fetched are left out."""
    *sums, rows = zip(*parts, strict=True)
    labelled, unlabelled, gram = map(sum, sums)
    kept = [*chain.from_iterable(rows)] if labelled <= CLUSTER.rows else []
    return Part(labelled, unlabelled, gram, kept)


def fetch_labelled(
    X: Any, y: Any, weights: Any, X_proxy: Any, mark: Any, intercept: bool
) -> Fetched:
    """Return the labelled rows of collections, and the others' moment, in one pass."""
    engine, found, columns = Engine(), list[Part](), list[str]()
    for inputs, labels, s in [(X, y, weights)] + [(X_proxy, None, None)] * (X_proxy is not None):
        table = as_table(inputs, labels, s, None)
        names = [name for name, _ in table.columns]
        columns = columns or names
        if names != columns:
            raise ValueError(message("X_proxy", Words(f"columns {names}"), f"like X: {columns}"))
        job = np.nan if labels is None else mark, intercept, table.columns
        found.append(engine.run("labels", table, fetch_partition, job, merge_parts))
    labelled, unlabelled, gram, rows = merge_parts(found)
    if not 0 < labelled <= CLUSTER.rows:
        remedy = "Minimise proxyprox.dask.logistic_regression or its like for more."
        allowed = f"of 1 to {CLUSTER.rows:,} labels"
        raise ValueError(message("y", Words(f"{labelled:,} labels"), allowed, remedy))
    sizes = np.diag(gram) if np.ndim(gram) == 2 else np.atleast_1d(gram)
    if bad := [name for name, x in zip(columns, sizes, strict=False) if not np.isfinite(x)]:
        raise ValueError(message("X", Words(f"gaps in the columns {bad}"), "finite numbers"))
    moment = Moment(gram / unlabelled, float(unlabelled)) if unlabelled else None
    parts, targets, own = zip(*rows, strict=True)
    inputs, named = stack_rows(*parts), columns if hasattr(X, "dtypes") else None
    given = None if weights is None else np.concatenate(own)
    return Fetched(inputs, np.concatenate(targets), given, found[0].unlabelled, moment, named)
