"""Synthetic rows from noisy second moments: the proxy if there are no public rows.

One Gaussian release of ``Σ aaᵀ`` over rows ``a = (x, ½)`` with ‖x‖ ≤ 1. A row that is added changes
it by ``‖aaᵀ‖ = ‖a‖² ≤ 1¼`` in the Frobenius norm, so that noise of ``1¼σ`` on each entry is the
Gaussian mechanism with noise σ over sensitivity, and composes with the gradients exactly. What
follows is arithmetic with the released matrix and costs nothing: the mean of it and its transpose,
the eigenvalues that exceed the noise's, and rows that are drawn with those moments.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any


def synthetic_rows(moments: Array | None, noise: float, columns: int, rows: int) -> Array:
    """Return Gaussian rows with released moments, the same ones for the same moments.

    Parameters
    ----------
    moments : array of shape (columns + 1, columns + 1), optional
        The noisy mean of ``aaᵀ``; without it rows are of length one in directions that are alike.
    noise : float
        The standard deviation of each of its entries.
    columns, rows : int
        The shape of what is drawn.

    Examples
    --------
    >>> a = np.array([[0.6, 0.0, 0.5], [0.0, 0.6, 0.5]])
    >>> found = synthetic_rows(a.T @ a / 2, 0.0, 2, rows=1000)
    >>> found.mean(axis=0).round(1), np.cov(found.T).round(1)
    (array([0.3, 0.3]), array([[ 0.1, -0.1],
           [-0.1,  0.1]]))
    """
    drawn = np.random.default_rng(0).normal(size=(rows, columns))
    if moments is None:
        return drawn / math.sqrt(columns)
    moments, edge = (moments + moments.T) / 2, noise_edge(noise, columns)
    mean = np.clip(2 * moments[:-1, -1], -1.0, 1.0)
    covariance = moments[:-1, :-1] - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance)
    known = np.maximum(values - edge, 0.0)
    # What is not resolved is taken to be the same in all the other directions.
    rest = max(float(values.sum() - known.sum()), 0.0) / max(int((known == 0).sum()), 1)
    return mean + (drawn * np.sqrt(np.where(known > 0, known, rest))) @ vectors.T


def noise_edge(noise: float, columns: int) -> float:
    """Return the largest eigenvalue of noise alone.

    Off the diagonal the mean of two entries has noise of σ/√2: eigenvalues end at σ√(2p).
    """
    return noise * math.sqrt(2 * columns)
