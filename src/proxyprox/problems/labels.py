"""Labels and row weights of a generalised linear model, checked and encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from proxyprox._arrays import Vector, to_numpy
from proxyprox._checks import Words, message
from proxyprox.problems.design import Design
from proxyprox.problems.families import Family, Poisson

Array = np.ndarray[Any, Any]


def encoded(family: Family, y: Any, rows: int) -> Array:
    """Return labels as the family's targets, one for each row."""
    y = to_numpy(y)
    if y.ndim != 1 or len(y) != rows:
        got = Words(f"an array of shape {tuple(y.shape)}")
        raise ValueError(message("y", got, f"one label for each of the {rows} rows"))
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
    weights: Array = np.asarray(to_numpy(sample_weight), dtype=np.float64)
    if weights.shape != (rows,):
        got = Words(f"an array of shape {weights.shape}")
        raise ValueError(message("sample_weight", got, f"one weight for each of the {rows} rows"))
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        got = Words(f"weights from {weights.min():g} to {weights.max():g}")
        raise ValueError(message("sample_weight", got, "finite, zero or more, not all zero"))
    scaled: Array = weights * (rows / weights.sum())
    return scaled
