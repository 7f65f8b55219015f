"""The fit to bought labels: of one of our estimators, or of a Pipeline that ends in one."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_array

from proxyprox._checks import message
from proxyprox.sklearn._base import ProxyGLM
from proxyprox.sklearn._inputs import FLOATS
from proxyprox.sklearn._resemblance import ProxyWarning

Array = Any


def last_step(estimator: Any) -> Any:
    """Return the model itself: a search's best, a Pipeline's last step."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def pool_of(X: Any, estimator: Any) -> Any:
    """Return the pool as it is kept, and refuse what no fit to bought labels could use.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix
        What the user passed; a DataFrame with names stays one.
    estimator : estimator
        What will be fitted.
    """
    piped = isinstance(estimator, Pipeline)
    if not _takes_proxy(last_step(estimator)):
        remedy = (
            "Put transformers before one of them by make_pipeline, with the model as last step, "
            "or transform X first."
        )
        allowed = "one of this package's estimators, or a Pipeline that ends in one"
        got = " with ".join(type(part).__name__ for part in _nested(estimator))
        raise TypeError(message("estimator", got, allowed, remedy))
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    elif not (hasattr(X, "iloc") and (piped or all(isinstance(name, str) for name in X.columns))):
        X = np.asarray(X)
    if len(X.shape) != 2 and not piped:
        raise ValueError(message("X", f"an array of shape {X.shape}", "rows and columns"))
    if isinstance(estimator, ProxyGLM):
        # What the fit would refuse is refused before anything is paid for.
        check_array(X, accept_sparse="csr", dtype=FLOATS, input_name="X")
    return X


def fitted(estimator: Any, X: Any, bought: Array, y: Array, weights: Array | None) -> Any:
    """Return a clone fitted to the bought rows, with the rest of the pool as proxy.

    A Pipeline's transformers are fitted to the whole pool, those that need labels to the bought
    rows; the model then gets bought rows and proxy as they come out of them.

    Parameters
    ----------
    estimator : estimator
        One of ours, a search over one, or a Pipeline that ends in one.
    X : array, DataFrame or sparse matrix
        The pool.
    bought : array of int
        Rows that have a label, in order.
    y : array
        Their labels.
    weights : array or None
        Their weights.
    """
    whole = clone(estimator)
    model = whole
    if isinstance(whole, Pipeline):
        X, model = _transformed(whole, X, bought, y), last_step(whole)
    if hasattr(model, "unlabelled"):
        model.set_params(unlabelled=None)
    rest = np.setdiff1d(np.arange(X.shape[0]), bought)
    proxy = _safe_indexing(X, rest) if len(rest) and len(rest) != len(bought) else X
    with warnings.catch_warnings():
        # The pool is its own proxy, however the bought rows were chosen.
        warnings.simplefilter("ignore", ProxyWarning)
        model.fit(_safe_indexing(X, bought), y, sample_weight=weights, X_proxy=proxy)
    return whole


@contextmanager
def reachable(labels: Mapping[int, Any]) -> Iterator[None]:
    """See to it that an error loses no label that was paid for.

    Parameters
    ----------
    labels : mapping
        Labels by row number; a copy becomes the error's attribute ``labels``, and a note says so.
    """
    try:
        yield
    except BaseException as error:
        if labels and not hasattr(error, "labels"):
            vars(error)["labels"] = dict(labels)
            error.add_note(
                f"The {len(labels)} labels bought so far are not lost: they are in the attribute "
                "'labels' of the LabelBudget, by row number, and of this error."
            )
        raise


def _transformed(pipeline: Pipeline, X: Any, bought: Array, y: Array) -> Any:
    for _, step in pipeline.steps[:-1]:
        if step is None or isinstance(step, str):
            continue
        try:
            step.fit(X)
        except (TypeError, ValueError):
            # No tag tells for sure which transformers need labels.
            step.fit(_safe_indexing(X, bought), y)
        X = step.transform(X)
    return X.tocsr() if hasattr(X, "tocsr") else X


def _nested(estimator: Any) -> Iterator[Any]:
    """Return an estimator, and what is inside it, down to the model."""
    while estimator is not None:
        yield estimator
        piped = isinstance(estimator, Pipeline)
        estimator = last_step(estimator) if piped else getattr(estimator, "estimator", None)


def _takes_proxy(model: Any) -> bool:
    if isinstance(model, Pipeline) or not hasattr(model, "fit"):
        return False
    names = inspect.signature(model.fit).parameters
    if "X_proxy" in names and "sample_weight" in names:
        return True
    # A search hands on what it is given, to a model that has to take it.
    handed = any(parameter.kind is parameter.VAR_KEYWORD for parameter in names.values())
    return handed and _takes_proxy(getattr(model, "estimator", None))
