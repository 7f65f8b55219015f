"""Labels and row weights of a generalised linear model, checked and encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from proxyprox._arrays import Vector, to_numpy
from proxyprox._checks import Words, message, real_array
from proxyprox.problems.design import Design
from proxyprox.problems.families import Family, Poisson, label_array

Array = np.ndarray[Any, Any]


def encoded(family: Family, y: Any, rows: int) -> Array:
    """Return labels as the family's targets, one for each row."""
    y = label_array(y)
    if y.ndim != 1 or len(y) != rows:
        got = Words(f"an array of shape {tuple(y.shape)}")
        remedy = "Use y.ravel()." if y.ndim == 2 and y.size == rows else ""
        raise ValueError(message("y", got, f"one label for each of the {rows} rows", remedy))
    targets: Array = family.encode(y)
    return targets


def as_targets(design: Design, family: Family, codes: Array) -> Any:
    """Return encoded labels in the shape of A'(z): one-hot rows for softmax."""
    if family.outputs == 1:
        return design.asarray(codes)
    return design.asarray(np.eye(family.outputs)[codes])


def pulled_targets(design: Design, family: Family, targets: Array | None, weights: Array) -> Vector:
    """Return ``Xᵀ(s·t)/n``: labels enter every full gradient through this vector alone."""
    if targets is None:
        one = to_numpy(design.pull(design.asarray(weights * family.neutral)))
        pulled = one[:, None] * np.ones(family.outputs)
    elif family.outputs == 1:
        with np.errstate(over="ignore", invalid="ignore"):
            pulled = to_numpy(design.pull(design.asarray(weights * targets)))
    else:
        # Class by class: a dense one-hot matrix could outweigh the data.
        shape = (design.rows, family.outputs)
        onehot = scipy.sparse.csc_array((weights, (np.arange(design.rows), targets)), shape=shape)
        columns = [onehot[:, [c]].toarray().ravel() for c in range(family.outputs)]
        pulled = np.stack([to_numpy(design.pull(design.asarray(c))) for c in columns], axis=1)
    return design.asarray(np.ravel(pulled) / design.rows)


def random_labels(family: Family, rows: int, rng: np.random.Generator) -> Any:
    """Return labels that mean nothing, as in the paper's experiment."""
    classes = getattr(family, "classes", None)
    if classes is not None:
        return np.asarray(classes)[rng.integers(len(classes), size=rows)]
    return rng.poisson(size=rows) if isinstance(family, Poisson) else rng.normal(size=rows)


def row_weights(sample_weight: Any | None, rows: int) -> Array:
    """Return weights with mean one."""
    if sample_weight is None:
        return np.broadcast_to(np.float64(1.0), (rows,))
    allowed = f"one weight for each of the {rows} rows"
    weights: Array = to_numpy(real_array("sample_weight", sample_weight, allowed))
    with np.errstate(over="ignore"):
        weights = weights.astype(np.float64, copy=False)
    if weights.shape != (rows,):
        got = Words(f"an array of shape {weights.shape}")
        raise ValueError(message("sample_weight", got, allowed))
    largest = weights.max()
    if not np.isfinite(weights).all() or (weights < 0).any() or not largest > 0:
        got = Words(f"weights from {weights.min():g} to {largest:g}")
        raise ValueError(message("sample_weight", got, "finite, zero or more, not all zero"))
    if not rows / np.finfo(np.float64).max < largest < np.finfo(np.float64).max / rows:
        # Their sum would overflow, or its inverse.
        weights = weights / largest
    scaled: Array = weights * (rows / weights.sum())
    return scaled
