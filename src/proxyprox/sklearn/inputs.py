"""What a user gives an estimator: settings, marks of missing labels, rows and answers, checked."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight, _get_feature_names, validate_data

from proxyprox._util.arrays import to_numpy
from proxyprox._util.validation import (
    INSTEAD,
    Words,
    flag,
    message,
    nonnegative,
    real_array,
    require_finite,
    to_plain,
    whole,
)
from proxyprox.problems.families import Family, Logistic
from proxyprox.problems.glm import Design, require_squares
from proxyprox.sklearn.moments import Moment, moment_of, pooled


class Settings(NamedTuple):
    """Parameters of a fit, in the form the fitting code wants them.

    Attributes
    ----------
    alphas : tuple of float or None
        Strengths to try; None for a grid made from the data.
    l1_ratio : float
        Share of the L1 norm.
    steps : int, "cv" or "converged"
        How far to walk.
    max_steps : int
        Longest walk that cross-validation tries.
    power : float or None
        λ of the paired correction; None tunes it, and cross-validation decides whether to use it.
    cv, seed
        How the labelled rows are split.
    intercept : bool
        Whether a constant is fitted.
    average : bool
        Whether points of the walk are averaged by their held-out likelihood.
    """

    alphas: tuple[float, ...] | None
    l1_ratio: float
    steps: int | str
    max_steps: int
    power: float | None
    cv: Any
    seed: Any
    intercept: bool
    average: bool


def settings_of(estimator: Any) -> Settings:
    """Check an estimator's parameters.

    Parameters
    ----------
    estimator : ProxyGLM
        The estimator.
    """
    ratio = nonnegative("l1_ratio", estimator.l1_ratio)
    if ratio > 1:
        raise ValueError(message("l1_ratio", ratio, "a number in [0, 1]"))
    steps = estimator.n_steps
    if isinstance(steps, str):
        if steps not in ("cv", "converged"):
            raise ValueError(message("n_steps", steps, 'a whole number, "cv" or "converged"'))
    else:
        steps = whole("n_steps", steps, 0)
    flag("warm_start", estimator.warm_start)
    power = estimator.power
    if isinstance(power, str):
        if power != "tuned":
            raise ValueError(message("power", power, 'a number in [0, 1] or "tuned"'))
        power = None
    elif nonnegative("power", power) > 1:
        raise ValueError(message("power", power, 'a number in [0, 1] or "tuned"'))
    return Settings(
        _checked_alphas(estimator.alpha),
        ratio,
        steps,
        whole("max_steps", estimator.max_steps),
        power,
        estimator.cv,
        estimator.random_state,
        flag("fit_intercept", estimator.fit_intercept),
        flag("average", estimator.average),
    )


def _checked_alphas(alpha: Any) -> tuple[float, ...] | None:
    if isinstance(alpha, str):
        if alpha != "auto":
            allowed = 'zero or more, a sequence of such numbers, or "auto"'
            raise ValueError(message("alpha", alpha, allowed))
        return None
    if isinstance(alpha, Sequence) or np.ndim(alpha) > 0:
        if len(alpha) == 0:
            raise ValueError(message("alpha", alpha, "one strength at least"))
        return tuple(nonnegative("alpha", each) for each in alpha)
    return (nonnegative("alpha", alpha),)


Array = Any

TEXT = "UST"
"""Kinds of numpy arrays that hold text."""


AUTO = "auto"
"""−1 marks a row without a label where nothing speaks for a class of that name."""


def mark_of(unlabelled: Any) -> Any:
    """Return the mark that an estimator's setting stands for."""
    if unlabelled is not None and not np.isscalar(unlabelled) and not is_missing(unlabelled):
        allowed = 'a number, a text, None or "auto"'
        raise ValueError(message("unlabelled", unlabelled, allowed))
    return -1 if isinstance(unlabelled, str) and unlabelled == AUTO else unlabelled


def doubt_of(known: Array, marked: int, labelled: int) -> str:
    """Return why −1 beside these labels may be a class; empty if it is no class."""
    if known.dtype.kind not in "biuf":
        return ""
    if (known < 0).any():
        return "other labels are negative, too"
    if marked <= labelled:
        return "these are no more than the other rows"
    return "-1, 0 and 1 may be three classes" if known.tolist() == [0, 1] else ""


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN or pandas' NA: no label whatever the mark."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def is_mark(value: Any, mark: Any) -> bool:
    """Tell whether a single value is the mark of a row without a label."""
    if mark is None or isinstance(value, str) != isinstance(mark, str):
        return False
    return (is_missing(mark) and is_missing(value)) or bool(value == mark)


def read_labels(y: Any, mark: Any) -> tuple[Any, Array | None]:
    """Return labels that can be validated, and which rows have one.

    Parameters
    ----------
    y : array-like
        What the user passed.
    mark : scalar or None
        The value of a row without a label; None if every value is a class.

    Returns
    -------
    labels, labelled
        Rows without a label hold some other row's where theirs is of another kind. The second is
        None for a y that is no list of labels; whoever validates it will say so.
    """
    y = to_plain("y", y)
    values = _array(y)
    if values is None:
        return y, None
    _require_labels(values)
    if values.dtype.kind == "O":
        return _objects(values, mark)
    if not is_missing(mark) or mark is None:
        refuse_nan(values, "If it marks rows without a label, set unlabelled=np.nan.")
    everything = np.ones(len(values), dtype=bool)
    if mark is None:
        return y, everything
    if values.dtype.kind in TEXT:
        return y, values != mark if isinstance(mark, (str, bytes)) else everything
    if isinstance(mark, (str, bytes)):
        allowed = "a number or None where the labels are numbers"
        raise ValueError(message("unlabelled", mark, allowed, "Mark the rows by that number."))
    if values.dtype.kind not in "iuf":
        return y, everything
    if not is_missing(mark):
        return y, values != mark
    labelled = ~np.isnan(values)
    return np.where(labelled, values, values[labelled][0] if labelled.any() else 0.0), labelled


def refuse_nan(y: Any, remedy: str) -> None:
    """Refuse labels of which some are missing, and say what to do with such rows.

    Parameters
    ----------
    y : array-like
        Labels; None and what is no list of labels is left to whoever validates it.
    remedy : str
        What to do.
    """
    values = None if y is None else _array(to_plain("y", y))
    if values is not None:
        _require_labels(values)
    if values is None or values.dtype.kind not in "fO":
        return
    if values.dtype.kind == "f":
        missing = np.isnan(values)
    else:
        missing = np.array([is_missing(value) for value in values], dtype=bool)
    if missing.any():
        # The first words are scikit-learn's, which its own checks of estimators look for.
        where = f"{int(missing.sum())} of {len(values)} rows"
        raise ValueError(f"Input y contains NaN or None, in {where}. {remedy}")


def _require_labels(values: Array) -> None:
    if values.dtype.kind in "cmMV":
        got, remedy = Words(f"dtype {values.dtype}"), INSTEAD.get(values.dtype.kind, "")
        text = message("y", got, "labels that are numbers or text", remedy)
        # The first words are scikit-learn's, which its own checks of estimators look for.
        raise ValueError(
            f"Complex data not supported: {text}" if values.dtype.kind == "c" else text
        )


def _array(y: Any) -> Array | None:
    """Return labels as a flat array; None for what is none."""
    if isinstance(y, (list, tuple)) and any(isinstance(value, str) for value in y):
        # numpy would turn the number -1 among strings into the string "-1".
        values = np.empty(len(y), dtype=object)
        values[:] = y
        return values
    try:
        values = np.asarray(y)
    except ValueError:
        return None
    if values.ndim == 2 and values.size == len(values) and values.dtype.kind != "O":
        return values.ravel()
    return values if values.ndim == 1 else None


def _objects(values: Array, mark: Any) -> tuple[Array, Array | None]:
    labelled = np.array([not (is_missing(v) or is_mark(v, mark)) for v in values], dtype=bool)
    if mark is None and not labelled.all():
        row = int(np.argmin(labelled))
        remedy = (
            "unlabelled=None takes every value for a class: set another mark, or pass the rows "
            "without a label as X_proxy."
        )
        raise ValueError(message("y", values[row], "a class in every row", remedy))
    known = values[labelled].tolist()
    if not known:
        return np.zeros(len(values), dtype=int), labelled
    text = [isinstance(value, str) for value in known]
    if any(text) and not all(text):
        other = known[text.index(False)]
        remedy = "Set unlabelled to the value that marks rows without a label, or use None there."
        raise ValueError(message("y", other, "labels of one kind, text or numbers", remedy))
    if not all(text):
        if not all(isinstance(value, (numbers.Number, np.bool_)) for value in known):
            return values, labelled
        numeric = np.array(known)
        filled = np.full(len(values), numeric[0])
        filled[labelled] = numeric
        marked = np.array([not is_missing(v) and is_mark(v, mark) for v in values], dtype=bool)
        if marked.any():
            # Kept, so that it can be asked whether the mark is a class.
            filled = filled.astype(np.result_type(filled, type(mark)))
            filled[marked] = mark
        return filled, labelled
    filled = np.full(len(values), known[0], dtype=object)
    filled[labelled] = values[labelled]
    return filled, labelled


def encoded_answers(family: Family, y_proxy: Any, rows: int) -> Array:
    """Return a teacher's answers in the shape of the family's means, (rows, C).

    Parameters
    ----------
    family : Family
        The exponential family.
    y_proxy : array of shape (rows,) or (rows, n_classes)
        Labels, or probabilities: of the second class for two classes, of every class otherwise;
        numbers for regressors.
    rows : int
        How many answers are expected.
    """
    given = np.asarray(y_proxy)
    if given.ndim not in (1, 2) or len(given) != rows:
        got = f"an array of shape {given.shape}"
        raise ValueError(message("y_proxy", got, f"one answer for each of {rows} rows"))
    classes = getattr(family, "classes", None)
    if classes is None:
        if given.dtype.kind not in "biuf":
            got, remedy = Words(f"dtype {given.dtype}"), INSTEAD.get(given.dtype.kind, "")
            raise ValueError(message("y_proxy", got, "one number a row", remedy))
        answers = np.asarray(given, dtype=np.float64).reshape(rows, -1)
        if answers.shape[1] != 1:
            raise ValueError(message("y_proxy", f"shape {given.shape}", "one number a row"))
        require_finite("y_proxy", answers)
        if not family.valid(answers).all():
            raise ValueError(message("y_proxy", np.min(answers), family.labels))
        return answers
    if given.ndim == 2:
        return _probabilities(given, len(classes), binary=isinstance(family, Logistic))
    if np.isin(given, np.asarray(classes)).all():
        codes = family.encode(given)
        if isinstance(family, Logistic):
            return np.asarray(codes, dtype=np.float64)[:, None]
        onehot: Array = np.eye(len(classes))[codes]
        return onehot
    if not isinstance(family, Logistic) or given.dtype.kind != "f":
        strange = given[~np.isin(given, np.asarray(classes))][0]
        allowed = f"labels among {list(classes)}, or probabilities"
        raise ValueError(message("y_proxy", strange, allowed))
    return _probabilities(np.stack([1 - given, given], axis=1), 2, binary=True)


def _probabilities(given: Array, classes: int, *, binary: bool) -> Array:
    if given.dtype.kind not in "biuf":
        allowed = "labels, or probabilities"
        raise ValueError(message("y_proxy", Words(f"dtype {given.dtype}"), allowed))
    answers = np.asarray(given, dtype=np.float64)
    require_finite("y_proxy", answers)
    if answers.shape[1] != classes:
        got = f"{answers.shape[1]} columns"
        raise ValueError(message("y_proxy", got, f"one column for each of the {classes} classes"))
    if (answers < 0).any() or not np.allclose(answers.sum(axis=1), 1.0, atol=1e-3):
        sums = answers.sum(axis=1)
        got = f"rows that sum to {np.min(sums):g} … {np.max(sums):g}"
        raise ValueError(message("y_proxy", got, "probabilities that sum to one"))
    return answers[:, 1:] if binary else answers


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
