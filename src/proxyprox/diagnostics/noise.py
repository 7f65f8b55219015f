"""σ² and ρ²: the variance of a stochastic gradient, from a handful of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import chdtri, stdtrit

from proxyprox._checks import Words, floating, fraction, message, real_array, require_finite
from proxyprox.diagnostics.interval import Interval


def noise_level(gradients: np.ndarray[Any, Any], confidence: float = 0.95) -> Interval:
    r"""Estimate :math:`\sigma^2 = \mathbb{E}\|g - \nabla L\|^2` from independent gradients.

    The estimate is the sample variance summed over the coordinates. For Gaussian noise with
    covariance Σ it is distributed nearly as :math:`\sigma^2\chi^2_\nu/\nu` with

    .. math:: \nu = (n-1)\,\frac{(\mathrm{tr}\,\Sigma)^2}{\mathrm{tr}\,\Sigma^2},

    Satterthwaite's degrees of freedom, whose trace is estimated without bias from the same
    gradients. Heavy tails show in the jackknife; the wider of the two intervals is returned.

    Parameters
    ----------
    gradients : array of shape (n, d)
        Gradients of n ≥ 3 independent batches at one point.
    confidence : float
        Probability with which the interval is to hold the true value.

    Returns
    -------
    Interval
        σ² with its limits.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> 4.0 in noise_level(rng.normal(scale=2 / 10**0.5, size=(20, 10)))
    True
    """
    gradients = floating("gradients", real_array("gradients", gradients, "an (n, d) array"))
    n = len(gradients) if gradients.ndim == 2 else 0
    if n < 3 or gradients.shape[1] == 0:
        got = Words(f"an array of shape {tuple(gradients.shape)}")
        raise ValueError(message("gradients", got, "n ≥ 3 gradients, of shape (n, d)"))
    require_finite("gradients", gradients)
    if fraction("confidence", confidence) == 1:
        raise ValueError(message("confidence", confidence, "below 1"))
    centred = gradients - gradients.mean(axis=0)
    gram = centred @ centred.T
    total = float(np.trace(gram)) / (n - 1)
    # Identical gradients differ by the rounding of their mean only.
    size = float(np.mean(gradients * gradients)) * gradients.shape[1]
    if total <= 1e-24 * size or total == 0.0:
        return Interval(0.0, 0.0, 1e-24 * size)
    tail = (1 - confidence) / 2
    freedom = _freedom(gram, total, gradients.shape[1])
    low = freedom * total / float(chdtri(freedom, tail))
    high = freedom * total / float(chdtri(freedom, 1 - tail))
    spread = float(stdtrit(n - 1, 1 - tail)) * _jackknife(gram)
    return Interval(total, min(low, total * math.exp(-spread)), max(high, total * math.exp(spread)))


def _freedom(gram: np.ndarray[Any, Any], total: float, size: int) -> float:
    n = len(gram)
    square = float(np.sum(gram * gram)) / (n - 1) ** 2
    # Unbiased for tr Σ² under Gaussian noise (Srivastava, 2005).
    unbiased = (n - 1) ** 2 / ((n - 2) * (n + 1)) * (square - total * total / (n - 1))
    # A rank above d or below 1 is impossible, and one far above n cannot be told from n.
    spread = max(unbiased, total * total / min(size, 4 * n))
    return (n - 1) * min(max(total * total / spread, 1.0), float(size))


def _jackknife(gram: np.ndarray[Any, Any]) -> float:
    """Return the jackknife's standard error of the logarithm of the summed variance."""
    n = len(gram)
    squares = np.diag(gram)
    # Leaving gradient i out lowers the sum of squares about the mean by n/(n − 1) ‖r_i‖².
    left = (squares.sum() - n / (n - 1) * squares) / (n - 2)
    logs = np.log(np.maximum(left, 1e-300))
    return math.sqrt((n - 1) / n * float(np.sum((logs - logs.mean()) ** 2)))
