"""From ``y_proxy`` to a teacher: which answers belong to which rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from proxyprox._checks import message
from proxyprox.problems.design import Design
from proxyprox.problems.families import Family, label_array
from proxyprox.sklearn._answers import encoded_answers
from proxyprox.sklearn._inputs import Labelled
from proxyprox.sklearn._moment import Moment
from proxyprox.sklearn._settings import Settings
from proxyprox.sklearn._teacher import Teacher, taught

Array = Any


def teacher_of(
    settings: Settings,
    family: Family,
    rows: Labelled,
    parts: tuple[Any, Array, Array, Any],
    y_proxy: Any,
    others: Moment | None,
) -> Teacher:
    """Sort a teacher's answers and distil them.

    Parameters
    ----------
    settings : Settings
        The estimator's parameters.
    family : Family
        The exponential family.
    rows : Labelled
        The labelled rows that are fitted.
    parts : tuple
        X, which of its rows have a label, which of those have a weight, and X_proxy or None.
    y_proxy : array
        Answers for the rows of X and then of X_proxy, or of X_proxy alone.
    others : Moment or None
        Second moment of the unlabelled inputs.
    """
    X, labelled, kept, X_proxy = parts
    n, N = X.shape[0], 0 if X_proxy is None else X_proxy.shape[0]
    if others is None:
        remedy = "Pass X_proxy, or mark rows of X as unlabelled."
        raise ValueError(message("y_proxy", "no unlabelled rows", "answers on some", remedy))
    given = np.atleast_1d(label_array(y_proxy, "y_proxy"))
    unlabelled = ~labelled
    alone = len(given) == N and N > 0 and not unlabelled.any()
    answers = encoded_answers(family, given, N if alone else n + N)
    design = Design(rows.X, intercept=settings.intercept, checked=True)
    own = None if alone else answers[:n][kept]
    weights = None
    if X_proxy is None:
        # By weights: a copy of the unlabelled rows would double the memory.
        where, there, weights = X, answers, unlabelled.astype(np.float64)
    elif not unlabelled.any():
        where, there = X_proxy, answers if alone else answers[n:]
    else:
        stack = scipy.sparse.vstack if scipy.sparse.issparse(X) else np.vstack
        where = stack([X[unlabelled], X_proxy])
        there = np.vstack([answers[:n][unlabelled], answers[n:]])
    proxy = Design(where, intercept=settings.intercept, checked=True)
    return taught(proxy, family, there, (design, own), scale=others.top, weights=weights)
