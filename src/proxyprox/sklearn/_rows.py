"""Losses and slopes of single rows, for scores on held-out rows and for standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from proxyprox.problems.design import Design
from proxyprox.problems.families import Family
from proxyprox.problems.glm import GLM
from proxyprox.problems.labels import as_targets

Array = Any


def predictors(design: Design, family: Family, w: Array) -> Array:
    """Return the linear predictors of each row, shape (n, C)."""
    z = np.asarray(design.predict(w.reshape(design.width, family.outputs)))
    return z.reshape(design.rows, family.outputs)


def means(design: Design, family: Family, w: Array) -> Array:
    """Return ``A'(z)`` of each row, shape (n, C)."""
    z = predictors(design, family, w)
    if family.outputs > 1:
        return np.asarray(family.mean(z))
    return np.asarray(family.mean(z[:, 0]))[:, None]


def targets_of(loss: GLM) -> Array:
    """Return the labels in the shape of the means, (n, C)."""
    labels: Array = loss.targets
    targets = np.asarray(as_targets(loss.design, loss.family, labels), dtype=np.float64)
    return targets.reshape(loss.design.rows, loss.family.outputs)


def row_losses(loss: GLM, w: Array) -> Array:
    """Return ``A(z_i) − t_i z_i`` of each row, plus the part that makes a perfect fit zero."""
    z = predictors(loss.design, loss.family, w)
    with np.errstate(over="ignore"):
        partition = loss.family.log_partition(z if loss.family.outputs > 1 else z[:, 0])
    losses: Array = partition - np.sum(targets_of(loss) * z, axis=1)
    return losses + np.asarray(loss.family.constant(loss.targets))


def row_gradients(design: Design, residuals: Array) -> Array:
    """Return ``x_i ⊗ r_i`` of each row as a dense (n, d · C) matrix."""
    X = dense_rows(design)
    return (X[:, :, None] * residuals[:, None, :]).reshape(design.rows, -1)


def dense_rows(design: Design) -> Array:
    """Return the rows as a dense (n, d) matrix, with the constant if there is one."""
    X = design.X.toarray() if design.sparse else np.asarray(design.X, dtype=np.float64)
    return np.hstack([X, np.ones((design.rows, 1))]) if design.intercept else X


def centred(w: Array, outputs: int) -> Array:
    """Return softmax parameters whose classes sum to zero; a shift of all changes no prediction."""
    if outputs == 1:
        return w
    matrix = w.reshape(-1, outputs)
    return (matrix - matrix.mean(axis=1, keepdims=True)).ravel()
