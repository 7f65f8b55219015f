"""Scorers that leave out rows without a label."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.utils import _safe_indexing

from proxyprox._checks import message
from proxyprox.sklearn._marks import read_labels

Array = Any


def labelled_part(X: Any, y: Any, sample_weight: Any, mark: Any) -> tuple[Any, Any, Any]:
    """Return the rows that have a label, and refuse rows of which none has.

    Parameters
    ----------
    X, y, sample_weight
        Inputs, labels and perhaps weights.
    mark : scalar or None
        The value of y that marks a row without a label.
    """
    labels, labelled = read_labels(y, mark)
    if labelled is None or labelled.all():
        return X, labels, sample_weight
    if not labelled.any():
        remedy = "Score on rows that have one; in a search, use fewer folds."
        raise ValueError(message("y", "only rows without a label", "labels", remedy))
    rows = np.flatnonzero(labelled)
    weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
    return _safe_indexing(X, rows), np.asarray(labels).ravel()[rows], weights


class LabelledOnly:
    """A scorer that shows another one the labelled rows only; see :func:`labelled_only`."""

    def __init__(self, scoring: Any, unlabelled: Any) -> None:
        self.scorer = get_scorer(scoring)
        self.unlabelled = unlabelled

    def __repr__(self) -> str:
        """Return how the scorer was made."""
        return f"labelled_only({self.scorer!r}, unlabelled={self.unlabelled!r})"

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score a fitted estimator on the labelled rows."""
        X, y, weights = labelled_part(X, y, sample_weight, self.unlabelled)
        extra = {} if weights is None else {"sample_weight": weights}
        return float(self.scorer(estimator, X, y, **extra))


def labelled_only(scoring: Any, unlabelled: Any = -1) -> LabelledOnly:
    """Return a scorer for data in which some rows have no label.

    Parameters
    ----------
    scoring : str or callable
        A scorer or the name of one, as scikit-learn's searches take them.
    unlabelled : scalar
        The value of y that marks a row without a label.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from proxyprox.sklearn import ProxyLogisticRegression, labelled_only
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = np.where(np.arange(300) < 60, X[:, 0] + rng.normal(size=300) > 0, -1)
    >>> scoring = labelled_only("neg_log_loss")
    >>> scores = cross_val_score(ProxyLogisticRegression(), X, y, cv=3, scoring=scoring)
    >>> bool((scores > -0.8).all())
    True
    """
    return LabelledOnly(scoring, unlabelled)
