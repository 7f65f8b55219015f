"""What a user gives an estimator, checked: settings, labels and missing ones, rows, answers."""

from __future__ import annotations

import contextlib
import math
import numbers
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import is_regressor
from sklearn.metrics import get_scorer
from sklearn.utils import _safe_indexing, compute_class_weight
from sklearn.utils.validation import _check_sample_weight, validate_data

from proxyprox._util import validation as check
from proxyprox._util.arrays import to_numpy
from proxyprox._util.validation import AS_NUMBERS, Words, message
from proxyprox.problems.families import Family, label_array
from proxyprox.problems.glm import GLM, Design, require_squares

Array = Any

FLOATS = [np.float64, np.float32]


# -- settings -----------------------------------------------------------------------------------


def settings_of(estimator: Any) -> SimpleNamespace:
    """Return an estimator's parameters, checked; None in place of "auto"."""
    given = SimpleNamespace(**estimator.get_params(deep=False))
    given.fit_intercept = check.flag("fit_intercept", given.fit_intercept)
    alpha = given.alpha
    if isinstance(alpha, str) and alpha in ("auto",):
        given.alpha = None
        return given
    several = isinstance(alpha, (list, tuple)) or np.ndim(alpha) > 0
    if isinstance(alpha, str) or (several and len(alpha) == 0):
        raise ValueError(message("alpha", alpha, 'a number, numbers or "auto"'))
    given.alpha = tuple(
        check.nonnegative("alpha", each) for each in (alpha if several else [alpha])
    )
    return given


# -- labels, and rows without one ---------------------------------------------------------------


# Values that may be meant as marks are refused.
ASK = "auto"


def mark_of(unlabelled: Any) -> Any:
    """Return the mark that an estimator's setting stands for; None if every value is a class."""
    if not (np.isscalar(unlabelled) or is_missing(unlabelled)):
        raise ValueError(message("unlabelled", unlabelled, 'a number, a text, None or "auto"'))
    return None if is_mark(unlabelled, ASK) else unlabelled


def is_missing(value: Any) -> bool:
    """Tell whether a value is None, NaN or pandas' NA: no label whatever the mark."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def is_mark(value: Any, mark: Any) -> bool:
    """Tell whether a value is a mark; a text marks no number, and a number no text."""
    return isinstance(value, str) == isinstance(mark, str) and bool(value == mark)


def read_labels(y: Any, mark: Any) -> tuple[Any, Array | None]:
    """Return labels that can be validated, and which rows have one.

    Rows without a label hold some other row's where theirs is of another kind. The second is None
    for a y that is no list of labels; whoever validates it will say so.
    """
    y = check.to_plain("y", y)
    # numpy would turn the number -1 among strings into the string "-1".
    mixed = isinstance(y, (list, tuple)) and any(isinstance(value, str) for value in y)
    try:
        values = np.asarray(y, dtype=object if mixed else None)
    except ValueError:
        return y, None
    if values.ndim == 2 and values.size == len(values) and values.dtype.kind != "O":
        values = values.ravel()
    if values.dtype.kind == "c":
        # The first words are scikit-learn's, which its own checks of estimators look for.
        raise ValueError(f"Complex data not supported: y must be real. {AS_NUMBERS}")
    if values.ndim != 1:
        return y, None
    values = values if values.dtype.kind == "O" else label_array(values)
    kind = values.dtype.kind
    if kind in "biuf":
        missing = np.isnan(values)
    else:
        missing = np.array([is_missing(value) for value in values.tolist()], dtype=bool)
    if missing.any() and (mark is None or (kind == "f" and not is_missing(mark))):
        # The first words are scikit-learn's, which its own checks of estimators look for.
        raise ValueError(
            f"Input y contains NaN or None in {int(missing.sum())} rows. Pass them as X_proxy, or "
            "set unlabelled=np.nan; unlabelled=None takes every value for a class."
        )
    if kind in "biuf":
        # A text marks no number.
        marked = missing if is_missing(mark) or isinstance(mark, str) else values == mark
    else:
        marked = np.array([is_mark(value, mark) for value in values.tolist()], dtype=bool)
    labelled = ~(missing | marked)
    if kind != "O" and not missing.any():
        return y, labelled
    if not labelled.any():
        return np.zeros(len(values), dtype=int), labelled
    known = label_array(values[labelled])
    # A number that marks rows is kept, so that it can be asked whether it is a class.
    filled = np.where(missing if known.dtype.kind in "biuf" else ~labelled, known[0], values)
    return np.array(filled.tolist()), labelled


def labelled_part(X: Any, y: Any, sample_weight: Any, mark: Any) -> tuple[Any, Any, Any]:
    """Return the rows that have a label, and refuse rows of which none has."""
    labels, labelled = read_labels(y, mark)
    if labelled is None or labelled.all():
        return X, labels, sample_weight
    if not labelled.any():
        raise ValueError(message("y", "only rows without a label", "labels", "Use fewer folds."))
    rows = np.flatnonzero(labelled)
    weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
    return _safe_indexing(X, rows), np.asarray(labels).ravel()[rows], weights


def _score_labelled(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, *, scorer: Any, unlabelled: Any
) -> float:
    if unlabelled is None:
        unlabelled = np.nan if is_regressor(estimator) else -1
    X, y, weights = labelled_part(X, y, sample_weight, unlabelled)
    extra = {} if weights is None else {"sample_weight": weights}
    return float(scorer(estimator, X, y, **extra))


def labelled_only(scoring: Any, unlabelled: Any = None) -> Callable[..., float]:
    """Return a scorer for data in which some rows have no label.

    Parameters
    ----------
    scoring : str or callable
        A scorer or the name of one, as scikit-learn's searches take them.
    unlabelled : scalar
        The value of y that marks a row without a label; by default −1, for regressors NaN.

    Returns
    -------
    callable
        A scorer, called as ``scorer(estimator, X, y)``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from proxyprox.sklearn import ProxyLogisticRegression, labelled_only
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = np.where(np.arange(300) < 60, X[:, 0] + rng.normal(size=300) > 0, -1)
    >>> scoring = labelled_only("neg_log_loss")
    >>> model = ProxyLogisticRegression(unlabelled=-1)
    >>> scores = cross_val_score(model, X, y, cv=3, scoring=scoring)
    >>> bool((scores > -0.8).all())
    True
    """
    return partial(_score_labelled, scorer=get_scorer(scoring), unlabelled=unlabelled)


def encode_answers(family: Family, given: Array, rows: int) -> Array:
    """Return a teacher's answers in the shape of the family's means, (rows, C).

    They are labels, or probabilities: of the second class for two classes, of every class
    otherwise; numbers for regressors.
    """
    shape, classes = Words(f"an array of shape {given.shape}"), getattr(family, "classes", None)
    if given.ndim > 2 or len(given) != rows or (classes is None and given.size != rows):
        raise ValueError(message("y_proxy", shape, f"one answer for each of {rows} rows"))
    if classes is None:
        try:
            return np.asarray(family.encode(given.ravel()))[:, None]
        except (TypeError, ValueError) as error:
            raise type(error)(f"y_proxy: {error}") from error
    # Of two classes the family predicts the second only.
    kept, known = slice(len(classes) - family.outputs, None), np.isin(given, np.asarray(classes))
    if given.ndim == 1 and known.all():
        return np.asarray(np.eye(len(classes))[family.encode(given).astype(int)][:, kept])
    if given.dtype.kind != "f" or (given.ndim == 1 and family.outputs > 1):
        got, allowed = Words(repr(given[~known].tolist()[0])), f"among {classes} or probabilities"
        raise ValueError(message("y_proxy", got, allowed))
    answers = np.stack([1 - given, given], axis=1) if given.ndim == 1 else given
    if answers.shape[1] != len(classes):
        raise ValueError(message("y_proxy", shape, f"a column for each of {classes}"))
    wrong = ~((answers >= 0).all(axis=1) & (abs(answers.sum(axis=1) - 1) <= 1e-3))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        got = Words(f"{given[row].tolist()} in row {row}, and {wrong.sum()} such rows")
        several = f", of all of {classes}, that sum to one" if given.ndim == 2 else ""
        remedy = "Turn scores into probabilities; leave out rows without an answer."
        raise ValueError(message("y_proxy", got, f"probabilities from 0 to 1{several}", remedy))
    return np.asarray(answers[:, kept], dtype=np.float64)


# -- rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labelled:
    """The rows that have a label; ``all_y`` and ``kept`` count those of weight zero, too.

    ``population`` are the weights without those of the classes, if there are such.
    """

    X: Any
    y: Array
    weights: Array
    all_y: Array
    kept: Array
    population: Array | None = None

    def evidence(self, family: Family) -> float:
        """How many labels these count for: as many of equal classes tell as much.

        The variance of what they tell of the classes' difference is the sum of 1/n over classes.
        """
        if not family.classifier:
            return float(self.weights.sum())
        _, codes = np.unique(self.y, return_inverse=True)
        counts = np.bincount(codes, weights=self.weights)
        return float(len(counts) ** 2 / (1 / counts).sum())

    def loss(self, family: Family, intercept: bool) -> GLM:
        """Return the labels' mean loss."""
        same = (self.weights == self.weights[0]).all()
        design = Design(self.X, intercept=intercept, checked=True)
        return GLM(design, self.y, family, sample_weight=None if same else self.weights)

    def weigh_classes(self, given: Any, family: Family) -> Labelled:
        """Return the rows with the weights of their classes, as scikit-learn defines them."""
        if given is None:
            return self
        classes, factors = np.asarray(family.classes), np.zeros(0)  # type: ignore[attr-defined]
        with contextlib.suppress(ValueError, TypeError):
            factors = compute_class_weight(given, classes=classes, y=self.y)
        if (given != "balanced" and not isinstance(given, Mapping)) or not (factors > 0).any():
            factors = np.zeros(0)
        if not len(factors) or not (np.isfinite(factors) & (factors > 0)).all():
            allowed = '"balanced", a dict of classes and positive weights, or None'
            raise ValueError(message("class_weight", given, allowed))
        weights = self.weights * factors[np.searchsorted(classes, self.y)]
        return replace(self, weights=weights, population=self.weights)


def validate(estimator: Any, X: Any, *y: Any, name: str = "X", **options: Any) -> Any:
    """Return inputs, and labels if given, checked by scikit-learn and for what a fit needs."""
    if hasattr(X, "__dask_graph__"):
        remedy = "Compute the rows that have a label."
        raise TypeError(message(name, Words("a Dask collection"), "in memory", remedy))
    X, y = check.to_plain(name, X), tuple(check.to_plain("y", each) for each in y)
    options = {"reset": False, "accept_sparse": "csr", "dtype": FLOATS, **options}
    try:
        found = validate_data(estimator, X, *y, **options)
    except (TypeError, OverflowError, ValueError) as error:
        # NumPy does not say of which argument it speaks.
        numpys = str(error).startswith(("could not convert", "setting an array element"))
        if type(error) is ValueError and not numpys:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}{' and y' * bool(y)} must be numbers: {error}") from error
    require_squares(name, found[0] if y else found)
    return found


def proxy_rows(estimator: Any, X_proxy: Any) -> Any:
    """Return the unlabelled inputs as a matrix of X's columns, uncopied where they are one."""
    with warnings.catch_warnings():
        # Columns that are named on one side only say nothing.
        warnings.filterwarnings("ignore", ".*feature names", UserWarning)
        try:
            return validate(estimator, X_proxy, name="X_proxy")
        except ValueError as error:
            text = " ".join(str(error).split())
            hint = "A Pipeline transforms both if transform_input=['X_proxy'] says so."
            raise ValueError(f"X_proxy must be rows like those of X: {text} {hint}") from error


def join_tables(estimator: Any, X_proxy: Any, y_proxy: Any) -> tuple[Any, Any, tuple[int, ...]]:
    """Return other tables as one, their answers, and how many rows each has.

    What is no list of several tables is one, and has no such numbers.
    """
    several = isinstance(X_proxy, (list, tuple)) and any(np.ndim(X) == 2 for X in X_proxy)
    if not several:
        return None if X_proxy is None else proxy_rows(estimator, X_proxy), y_proxy, ()
    count, listed = len(X_proxy), isinstance(y_proxy, (list, tuple))
    if y_proxy is not None and not (listed and len(y_proxy) == count):
        got = Words(f"a list of {len(y_proxy)}" if listed else f"a {type(y_proxy).__name__}")
        allowed = f"a list of {count}, the answers for each table of X_proxy"
        raise ValueError(message("y_proxy", got, allowed))
    if count == 1:
        return proxy_rows(estimator, X_proxy[0]), None if y_proxy is None else y_proxy[0], ()
    tables = [proxy_rows(estimator, X) for X in X_proxy]
    sizes = tuple(int(table.shape[0]) for table in tables)
    if y_proxy is not None:
        answers = [np.atleast_1d(label_array(y, "y_proxy")) for y in y_proxy]
        for i, (given, size) in enumerate(zip(answers, sizes, strict=True)):
            if len(given) != size or given.ndim != answers[0].ndim:
                got = Words(f"an array of shape {given.shape} in y_proxy[{i}]")
                allowed = f"one answer for each of the table's {size} rows, of one form in all"
                raise ValueError(message("y_proxy", got, allowed))
        y_proxy = np.concatenate(answers)
    return stack_rows(*tables), y_proxy, sizes


def labelled_rows(X: Any, y: Array, sample_weight: Any, labelled: Array) -> Labelled:
    """Return the labelled rows whose weight is not zero."""
    weights = np.ones(len(y)) if sample_weight is None else check_weights(sample_weight, X)
    # A row of weight zero must not even reach a fold.
    keep = labelled & (weights > 0)
    if not keep.any():
        raise ValueError(message("sample_weight", 0.0, "positive for some labelled row"))
    part = X if keep.all() else X[keep]
    return Labelled(part, y[keep], weights[keep], y[labelled], keep[labelled])


def stack_rows(*blocks: Any) -> Any:
    """Return blocks of rows as one matrix, sparse if any of them is."""
    if not any(scipy.sparse.issparse(block) for block in blocks):
        return np.vstack(blocks)
    return scipy.sparse.vstack([scipy.sparse.csr_array(block) for block in blocks], format="csr")


def check_weights(sample_weight: Any, X: Any) -> Array:
    """Return weights of the rows, at most one where their sum might overflow."""
    if not isinstance(sample_weight, numbers.Number):
        sample_weight = to_numpy(check.real_array("sample_weight", sample_weight))
    weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
    weights = weights.astype(np.float64, copy=False)
    largest = weights.max()
    return weights if largest < 1e150 else weights / largest
