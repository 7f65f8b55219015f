"""What estimators need of Dask collections: labelled rows, a moment of the others, a minimum."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from proxyprox import L1, Problem, minimize
from proxyprox._util.extras import require
from proxyprox._util.validation import Words, message
from proxyprox.dask.objective import (
    Draw,
    Drawn,
    Engine,
    PartitionedGLM,
    Sample,
    merge_samples,
)
from proxyprox.dask.tables import as_table, column_fault, open_partition, read_blocks
from proxyprox.problems.families import Family
from proxyprox.problems.glm import Design
from proxyprox.sklearn.inputs import read_labels

Array = Any

# Labelled rows that are fetched; of more a sample is, and all are fitted where they are.
MOST = 100_000


class Fetched(NamedTuple):
    """Rows in memory, how many there are in all, and the others' second moment and number."""

    X: Any
    y: Array
    weights: Array | None
    labelled: int
    unlabelled: int
    moment: tuple[Array, float] | None
    names: list[str] | None


class Part(NamedTuple):
    """What partitions hold: numbers of rows, sums of products of unlabelled ones, labelled ones."""

    labelled: int
    unlabelled: int
    gram: Any
    samples: list[Sample]


def fetch_partition(number: int, part: Any, job: Any) -> Part:
    """Return the labelled rows of a partition and the second moment of the others."""
    mark, intercept, columns, draw = job
    labels = others = 0
    gram, drawn, data = 0.0, Drawn(number, draw), open_partition(part)
    if fault := column_fault(*data, columns):
        raise ValueError(f"Partition {number} has {fault}.")
    for X, y, s in read_blocks(*data):
        _, labelled = read_labels(y, mark)
        count = int(labelled.sum())
        labels, others = labels + count, others + len(y) - count
        if count < len(y):
            design = Design(X, intercept=intercept, checked=True)
            gram = gram + design.gram((~labelled).astype(np.float64))
        drawn.add(X, y, np.ones(len(y)) if s is None else s, labelled)
    return Part(labels, others, gram, drawn.result())


def merge_parts(parts: list[Part], size: int) -> Part:
    """Return what several partitions hold."""
    labelled, unlabelled, grams, samples = zip(*parts, strict=True)
    rows = [sample for each in samples for sample in each]
    merged = [merge_samples(rows, size)] if rows else []
    return Part(sum(labelled), sum(unlabelled), sum(grams), merged)


def fetch_labelled(
    X: Any, y: Any, weights: Any, X_proxy: Any, mark: Any, intercept: bool
) -> Fetched:
    """Return the labelled rows of collections, or a sample of many, in one pass."""
    engine, table = Engine(), as_table(X, y, weights, None)
    width, draw = len(table.columns), Draw(MOST)
    engine.require_room("the labelled rows of X", min(MOST, table.rows or MOST), width, 2)
    job = mark, intercept, table.columns, draw
    merge = partial(merge_parts, size=MOST)
    parts = list(enumerate(table.parts))
    found = engine.run("labelled rows", table.graph, parts, fetch_partition, job, merge)
    if X_proxy is not None:
        # Labels that mark every row as one without.
        blank = (
            X_proxy.map_partitions(_blank, meta=("y", float))
            if hasattr(X_proxy, "dtypes")
            else X_proxy[:, 0] * np.nan
        )
        rest = as_table(X_proxy, blank, None, None)
        job = np.nan, intercept, rest.columns, draw
        others = engine.run(
            "unlabelled rows", rest.graph, list(enumerate(rest.parts)), fetch_partition, job, merge
        )
        found = merge_parts([found, others], MOST)
    if not found.labelled:
        raise ValueError(message("y", Words("rows without a label only"), "labels"))
    if not np.isfinite(found.gram).all():
        bad = [
            name
            for (name, _), x in zip(table.columns, np.diag(found.gram), strict=False)
            if not np.isfinite(x)
        ]
        raise ValueError(message("X", Words(f"gaps in the columns {bad}"), "finite numbers"))
    rows = merge_samples(found.samples, MOST)
    moment = None
    if found.unlabelled:
        moment = found.gram / found.unlabelled, float(found.unlabelled)
    names = [name for name, _ in table.columns] if hasattr(X, "dtypes") else None
    own = None if weights is None else rows.weights
    return Fetched(rows.X, rows.y, own, found.labelled, found.unlabelled, moment, names)


def _blank(frame: Any) -> Any:
    pandas = require("pandas", extra="dask", purpose="proxyprox.dask")
    return pandas.Series(np.nan, index=frame.index, name="y")


def minimise_everywhere(
    X: Any, y: Any, weights: Any, mark: Any, family: Family, intercept: bool,
    strengths: tuple[float, float],
) -> tuple[Array, Array]:  # fmt: skip
    """Return the minimiser of the labelled rows' loss with penalties, and without."""
    classes = getattr(family, "classes", None)
    if mark is not None and classes is not None:
        labelled = y != mark
        weights = labelled.astype(float) if weights is None else weights * labelled
        array = require("dask.array", extra="dask", purpose="proxyprox.dask")
        series = hasattr(y, "known_divisions")
        y = y.where(labelled, classes[0]) if series else array.where(labelled, y, classes[0])
    found, proxy = [], None
    for l2, l1 in dict.fromkeys((strengths, (0.0, 0.0))):
        target = PartitionedGLM(
            X, y, type(family), classes=classes, l2=l2, intercept=intercept, sample_weight=weights
        )
        proxy = target.sample_rows(min(20_000, MOST))
        penalty = (
            L1(l1 * (np.arange(target.dim) < target.dim - intercept * family.outputs))
            if l1
            else None
        )
        found.append(minimize(Problem(target, proxy, penalty), steps=100).w)
    return found[0], found[-1]
