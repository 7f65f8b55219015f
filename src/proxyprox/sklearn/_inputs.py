"""What ``fit`` is given, checked and sorted into labelled rows and the proxy's rows."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight, _get_feature_names, validate_data

from proxyprox._arrays import to_numpy
from proxyprox._checks import Words, message, real_array, to_plain
from proxyprox.problems.design import Design, require_squares
from proxyprox.sklearn._moment import Moment, moment_of, pooled
from proxyprox.sklearn._resemblance import TRANSFORM_BOTH

Array = Any

FLOATS = [np.float64, np.float32]


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


@contextmanager
def named(argument: str) -> Iterator[None]:
    """Name the argument in what NumPy says of values that are no numbers."""
    try:
        yield
    except (TypeError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{argument} must be numbers: {error}") from error
    except ValueError as error:
        if not str(error).startswith(("could not convert", "setting an array element")):
            raise
        raise ValueError(f"{argument} must be numbers: {error}") from error


def validated(estimator: Any, X: Any, *y: Any, reset: bool = False, **options: Any) -> Any:
    """Return inputs, and labels if given, checked by scikit-learn and for what a fit needs."""
    X, y = to_plain("X", X), tuple(to_plain("y", each) for each in y)
    with named("X" if not y else "X and y"):
        found = validate_data(
            estimator, X, *y, accept_sparse="csr", dtype=FLOATS, reset=reset, **options
        )
    require_squares("X", found[0] if y else found)
    return found


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
        weights = checked_weights(sample_weight, X)
        # A row of weight zero must not even reach a fold.
        keep = labelled & (weights > 0)
        if not keep.any():
            got = "zero for every labelled row"
            raise ValueError(message("sample_weight", got, "positive for some labelled row"))
    rows = np.flatnonzero(keep)
    part = (X if keep.all() else X[rows]).astype(np.float64, copy=False)
    own = None if weights is None else weights[rows]
    return Labelled(part, y[rows], own, y[labelled], keep[labelled])


def checked_weights(sample_weight: Any, X: Any) -> Array:
    """Return weights of the rows, at most one where their sum might overflow."""
    if not isinstance(sample_weight, numbers.Number):
        allowed = "one weight for each row"
        sample_weight = to_numpy(real_array("sample_weight", sample_weight, allowed))
    with named("sample_weight"):
        weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
    weights = weights.astype(np.float64, copy=False)
    largest = weights.max()
    return weights if largest < 1e150 else weights / largest


def proxy_rows(
    X_proxy: Any, columns: int, name: str = "X_proxy", *, names: Array | None = None
) -> Any:
    """Return the unlabelled inputs as a matrix, uncopied where they are one already.

    Parameters
    ----------
    X_proxy : array-like
        What the user passed.
    columns : int
        How many columns X has.
    name : str
        What it is called in errors.
    names : array, optional
        What X's columns are called; if these have names, too, they must be the same.
    """
    X_proxy = to_plain(name, X_proxy)
    if not scipy.sparse.issparse(X_proxy):
        with named(name):
            shape = np.shape(X_proxy)
        if len(shape) == 2 and shape[1] != columns:
            raise ValueError(_columns_message(name, shape[1], columns))
    if names is not None:
        _refuse_other_names(name, _get_feature_names(X_proxy), names)
    with named(name):
        checked = check_array(X_proxy, accept_sparse="csr", dtype=FLOATS, input_name=name)
    if checked.shape[1] != columns:
        raise ValueError(_columns_message(name, checked.shape[1], columns))
    require_squares(name, checked)
    return checked


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
    new_X = new.X
    if scipy.sparse.issparse(X):
        rows = scipy.sparse.vstack([X, scipy.sparse.csr_array(new_X)], format="csr")
    else:
        rows = np.vstack([X, new_X.toarray() if scipy.sparse.issparse(new_X) else new_X])
    if weights is not None or new.weights is not None:
        old = np.ones(len(y)) if weights is None else weights
        added = np.ones(len(new.y)) if new.weights is None else new.weights
        weights = np.concatenate([old, added])
    return (rows, np.concatenate([y, new.y]), weights)


def merged(known: Any, more: Moment | None, width: int) -> tuple[Any, ...] | None:
    """Return an earlier moment of unlabelled rows with that of further ones, as plain values.

    Parameters
    ----------
    known : tuple or None
        The fields of a moment.
    more : Moment or None
        To be added.
    width : int
        Columns, the constant included.
    """
    if known is not None and known[0].shape[0] != width:
        remedy = "Set it back, or fit all rows at once."
        raise ValueError(message("fit_intercept", "another value", "as in the last fit", remedy))
    if more is None:
        return None if known is None else tuple(known)
    both = more if known is None else pooled(Moment(*known), more)
    return (both.vectors, both.values, both.rest, both.weight)


def _refuse_other_names(name: str, got: Array | None, wanted: Array) -> None:
    """Refuse columns of other names or in another order, as ``predict`` does."""
    if got is None or np.array_equal(got, wanted):
        return
    allowed = "of the columns of X by name, in the same order"
    if set(got) == set(wanted):
        raise ValueError(
            message(name, Words("them in another order"), allowed, f"Pass {name}[X.columns].")
        )
    strange = next(column for column in got if column not in set(wanted))
    remedy = f"X's columns are {', '.join(map(str, wanted[:10]))}{', …' * (len(wanted) > 10)}."
    raise ValueError(message(name, Words(f"the column {strange!r}"), allowed, remedy))


def _columns_message(name: str, got: int, wanted: int) -> str:
    return message(name, f"{got} columns", f"of X's {wanted} columns", TRANSFORM_BOTH)
