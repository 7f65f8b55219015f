"""What ``fit`` is given, checked and sorted into labelled rows and the proxy's rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight

from proxyprox._checks import message
from proxyprox.problems.design import Design
from proxyprox.sklearn._moment import Moment, moment_of, pooled

Array = Any

FLOATS = [np.float64, np.float32]


class ProxyWarning(UserWarning):
    """The proxy's rows do not look as if they were meant that way."""


@dataclass(frozen=True)
class Labelled:
    """The rows that have a label.

    Attributes
    ----------
    X, y, weights
        Inputs, labels and weights.
    all_y : array
        The labels of rows of weight zero, too: what a user's splitter is shown.
    kept : bool array
        Which of those have a weight.
    """

    X: Any
    y: Array
    weights: Array | None
    all_y: Array
    kept: Array


def labelled_rows(X: Any, y: Array, sample_weight: Any, labelled: Array) -> Labelled:
    """Return the labelled rows whose weight is not zero, as float64.

    Parameters
    ----------
    X, y : arrays
        Validated data.
    sample_weight : array or None
        Weights of all rows of X.
    labelled : bool array
        Which rows have a label.
    """
    weights = None
    keep = labelled
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        # A row of weight zero must not even reach a fold.
        keep = labelled & (weights > 0)
        if not keep.any():
            got = "zero for every labelled row"
            raise ValueError(message("sample_weight", got, "positive for some labelled row"))
    rows = np.flatnonzero(keep)
    part = (X if keep.all() else X[rows]).astype(np.float64, copy=False)
    own = None if weights is None else weights[rows]
    return Labelled(part, y[rows], own, y[labelled], keep[labelled])


def proxy_rows(X_proxy: Any, columns: int, name: str = "X_proxy") -> Any:
    """Return the unlabelled inputs as a matrix, uncopied where they are one already."""
    if not scipy.sparse.issparse(X_proxy):
        shape = np.shape(X_proxy)
        if len(shape) == 2 and shape[1] != columns:
            raise ValueError(_columns_message(name, shape[1], columns))
    checked = check_array(X_proxy, accept_sparse="csr", dtype=FLOATS, input_name=name)
    if checked.shape[1] != columns:
        raise ValueError(_columns_message(name, checked.shape[1], columns))
    return checked


def warn_if_suspicious(X: Any, X_proxy: Any) -> None:
    """Warn of the two ways in which scikit-learn's tools handle ``X_proxy`` unlike ``X``."""
    if X.shape[0] == X_proxy.shape[0]:
        warnings.warn(
            f"X_proxy has as many rows as X ({X.shape[0]}): scikit-learn's cross-validation tools "
            "would take it for one value a row and split it along with X. Pass another number of "
            "rows, or give the unlabelled rows in X with y = -1.",
            ProxyWarning,
            stacklevel=4,
        )
    some = X_proxy[: 1 << 14]
    n = min(X.shape[0], 1 << 14)
    (mean, spread), (other, _) = _profile(X[:n]), _profile(some)
    # A word that no labelled row holds says nothing.
    varies = spread > 0
    away = np.abs(other - mean) > 20 * spread * (1 + 1 / np.sqrt(n))
    if n >= 10 and varies.any() and away[varies].mean() > 0.5:
        warnings.warn(
            "X_proxy does not look like X: most columns lie more than 20 standard deviations "
            "apart. A Pipeline transforms X only; Pipeline(..., transform_input=['X_proxy']) "
            "transforms both.",
            ProxyWarning,
            stacklevel=4,
        )


def unlabelled_moment(
    X: Any, unlabelled: Array, X_proxy: Any | None, *, intercept: bool
) -> Moment | None:
    """Return the moment of all rows without a label; None if there are none."""
    found = None
    if unlabelled.any():
        # By weights: a copy of the unlabelled rows would double the memory.
        found = moment_of(Design(X, intercept=intercept, checked=True), unlabelled.astype(float))
    if X_proxy is not None:
        more = moment_of(Design(X_proxy, intercept=intercept, checked=True))
        found = more if found is None else pooled(found, more)
    return found


def joined(known: Any, new: Labelled) -> tuple[Any, Array, Array | None]:
    """Return earlier labelled rows with new ones below them.

    Parameters
    ----------
    known : tuple or None
        Inputs, labels and weights so far.
    new : Labelled
        The rows to add.
    """
    if known is None:
        return (new.X, new.y, new.weights)
    X, y, weights = known
    sparse = scipy.sparse.issparse(X)
    stack = scipy.sparse.vstack if sparse else np.vstack
    new_X = new.X.toarray() if scipy.sparse.issparse(new.X) and not sparse else new.X
    if weights is not None or new.weights is not None:
        old = np.ones(len(y)) if weights is None else weights
        added = np.ones(len(new.y)) if new.weights is None else new.weights
        weights = np.concatenate([old, added])
    return (stack([X, new_X]), np.concatenate([y, new.y]), weights)


def _profile(X: Any) -> tuple[Array, Array]:
    mean = np.asarray(X.mean(axis=0)).ravel()
    square = X.multiply(X) if scipy.sparse.issparse(X) else X * X
    second = np.asarray(square.mean(axis=0)).ravel()
    return mean, np.sqrt(np.maximum(second - mean**2, 0.0))


def _columns_message(name: str, got: int, wanted: int) -> str:
    remedy = (
        "A Pipeline transforms X only; Pipeline(..., transform_input=['X_proxy']) transforms both."
    )
    return message(name, f"{got} columns", f"of X's {wanted} columns", remedy)
