"""Does ``X_proxy`` look like ``X``? If not, somebody forgot to transform it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse

FEWEST = 10
"""Rows of X below which nothing can be told."""

SAMPLE = 1000
"""Rows, evenly spaced, that are looked at."""

RATIO = 3.0
"""Median ratio of the columns' spreads up to which two samples look alike."""

SHIFT = 3.0
"""Median distance of the columns' centres up to which they do, in standard deviations."""

NORMAL_IQR = 1.349
"""Distance of a normal distribution's quartiles, in standard deviations."""

NORMAL_MEAN = 1.253
"""A normal distribution's standard deviation, in mean deviations."""

TRANSFORM_BOTH = (
    "A Pipeline transforms X only; Pipeline(..., transform_input=['X_proxy']) transforms both, "
    "after sklearn.set_config(enable_metadata_routing=True) and with set_fit_request(X_proxy=True)."
)

Array = Any


class ProxyWarning(UserWarning):
    """The proxy's rows do not look as if they were meant that way."""


def warn_if_suspicious(X: Any, X_proxy: Any) -> None:
    """Warn of the two ways in which scikit-learn's tools handle ``X_proxy`` unlike ``X``."""
    if X.shape[0] == X_proxy.shape[0]:
        warnings.warn(
            f"X_proxy has as many rows as X ({X.shape[0]}): scikit-learn's cross-validation tools "
            "would take it for one value a row and split it along with X. Pass another number of "
            "rows, or give the unlabelled rows in X with y = -1 and unlabelled=-1.",
            ProxyWarning,
            stacklevel=3,
        )
    if min(X.shape[0], X_proxy.shape[0]) < FEWEST:
        return
    ratio, shift = difference(_some(X), _some(X_proxy))
    # Ten rows of one column may differ by more though they are alike.
    entries = min(X.shape[0], X_proxy.shape[0]) * min(X.shape[1], 5)
    slack = RATIO ** (1 + 1.5 / np.sqrt(entries))
    found = ""
    if not 1 / slack <= ratio <= slack:
        found = f"the median column's spread is {ratio:.2g} times that of X"
    elif shift > SHIFT:
        found = f"the median column lies {shift:.2g} standard deviations away"
    if found:
        text = f"X_proxy does not look like X: {found}. {TRANSFORM_BOTH}"
        warnings.warn(text, ProxyWarning, stacklevel=3)


def difference(X: Any, other: Any) -> tuple[float, float]:
    """Return the columns' median ratio of spreads, and the median distance of their centres.

    Quartiles tell the spread of a column; where half of its entries are zero or all but a few the
    same, as in text, the size of the entries does, and nothing is said about a distance.

    Parameters
    ----------
    X, other : arrays or sparse matrices
        Two samples with the same columns.

    Returns
    -------
    ratio, shift
        One and zero where no column tells.
    """
    if scipy.sparse.issparse(X) or scipy.sparse.issparse(other):
        return _median(_sizes(other) / _sizes(X), 1.0), 0.0
    here, there = np.percentile(X, [25, 50, 75], axis=0), np.percentile(other, [25, 50, 75], axis=0)
    # Quartiles jump where values are few, mean deviations where tails are long: the milder counts.
    pairs = [
        ((here[2] - here[0]) / NORMAL_IQR, (there[2] - there[0]) / NORMAL_IQR),
        (_deviation(X, here[1]), _deviation(other, there[1])),
    ]
    spreads = np.all([(one > 0) & (two > 0) for one, two in pairs], axis=0)
    means = np.abs(other.mean(axis=0) - X.mean(axis=0))
    distance = np.minimum(np.abs(there[1] - here[1]), means)[spreads]
    shift = np.min([distance / np.minimum(*pair)[spreads] for pair in pairs], axis=0)
    logs = np.log([two[spreads] / one[spreads] for one, two in pairs])
    milder = np.where(logs[0] * logs[1] > 0, np.sign(logs[0]) * np.abs(logs).min(axis=0), 0.0)
    # Some columns by their spread, the others by the size of their entries.
    ratio = _sizes(other) / _sizes(X)
    ratio[spreads] = np.exp(milder)
    most = 2 * int(spreads.sum()) >= len(spreads)
    return _median(ratio, 1.0), _median(shift, 0.0) if most else 0.0


def _deviation(X: Array, centre: Array) -> Array:
    return NORMAL_MEAN * np.abs(X - centre).mean(axis=0)


def _some(X: Any) -> Any:
    step = -(-X.shape[0] // SAMPLE)
    return X[::step]


def _sizes(X: Any) -> Array:
    """Return the mean size of each column's entries that are not zero; NaN if it has none."""
    if scipy.sparse.issparse(X):
        total = np.asarray(abs(X).sum(axis=0)).ravel()
        count = np.asarray((X != 0).sum(axis=0)).ravel()
    else:
        total, count = np.abs(X).sum(axis=0), np.count_nonzero(X, axis=0)
        middle = np.median(np.abs(X), axis=0)
        # A rare value must not hide what all others are.
        total = np.where(middle > 0, middle * count, total)
    return np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)


def _median(values: Array, default: float) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else default
