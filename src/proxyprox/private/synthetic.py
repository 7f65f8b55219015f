"""Synthetic rows from noisy moments: the proxy if there are no public rows.

One Gaussian release of a sum over rows with ‖x‖ ≤ 1: of ``(x/2, x²)``, or of ``aaᵀ`` for
``a = (x, ½)``. Each row's part is clipped at :data:`LARGEST_MOMENT`, so that a row that is added
changes the sum by that at most: noise of σ times it on each entry is the Gaussian mechanism with
noise σ over sensitivity, and composes with the gradients exactly. What follows is arithmetic with
the released numbers and costs nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any

# ‖aaᵀ‖ = ‖a‖² is 1¼ at most. ‖(x/2, x²)‖ is √½ if four entries are equal, less if more are.
LARGEST_MOMENT = {"products": 1.25, "means": math.sqrt(0.5)}


def synthetic_rows(moments: Array | None, noise: float, columns: int, rows: int = 1000) -> Array:
    """Return Gaussian rows with released moments, the same ones for the same moments.

    Parameters
    ----------
    moments : array, optional
        The noisy mean of ``(x/2, x²)`` or of ``aaᵀ``; without it rows are of length one in
        directions that are alike.
    noise : float
        The standard deviation of each of its entries.
    columns, rows : int
        The shape of what is drawn.

    Examples
    --------
    >>> x = np.array([[0.6, 0.0], [0.0, 0.6]])
    >>> found = synthetic_rows(np.hstack([x / 2, x**2]).mean(axis=0), 0.0, 2)
    >>> found.mean(axis=0).round(1), found.var(axis=0).round(2)
    (array([0.3, 0.3]), array([0.09, 0.09]))
    """
    generator = np.random.default_rng(0)
    drawn = generator.normal(size=(rows, columns))
    if moments is None:
        return drawn / math.sqrt(columns)
    products = moments.size > 2 * columns
    if products:
        square = moments.reshape(columns + 1, columns + 1)
        square = (square + square.T) / 2
        mean, variance = 2 * square[:-1, -1], np.diag(square)[:-1]
    else:
        mean, variance = 2 * moments[:columns], moments[columns:]
    # Means are shrunk by their noise, variances towards the usual one.
    mean = mean * np.maximum(0.0, 1 - (2 * noise) ** 2 / np.maximum(mean**2, 1e-300))
    variance, shared = variance - mean**2, 0.0
    if products:
        # Directions that exceed the noise are known; the rest has a variance for each column.
        values, vectors = np.linalg.eigh(square[:-1, :-1] - np.outer(mean, mean))
        known = np.maximum(values - noise_edge(noise, columns), 0.0)
        variance = variance - vectors**2 @ known
        shared = (generator.normal(size=(rows, columns)) * np.sqrt(known)) @ vectors.T
    usual = max(float(variance.mean()), noise / math.sqrt(columns))
    spread = max(float(variance.var()) - noise**2, 0.0)
    variance = usual + spread / max(spread + noise**2, 1e-300) * (variance - usual)
    return mean + drawn * np.sqrt(np.maximum(variance, usual / 10)) + shared


def noise_edge(noise: float, columns: int) -> float:
    """Return the largest eigenvalue of noise alone.

    Off the diagonal the mean of two entries has noise of σ/√2: eigenvalues end at σ√(2p).
    """
    return noise * math.sqrt(2 * columns)
