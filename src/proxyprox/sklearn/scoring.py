"""Scorers that leave out rows without a label."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.utils import _safe_indexing

from proxyprox._util.validation import message
from proxyprox.sklearn.inputs import mark_of, read_labels

Array = Any

FROM_ESTIMATOR = "the estimator's"
"""The scored estimator's own mark."""


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
        try:
            self.scorer = get_scorer(scoring)
        except ValueError as error:
            allowed = "a scorer, or a name in sklearn.metrics.get_scorer_names()"
            raise ValueError(message("scoring", scoring, allowed)) from error
        self.unlabelled = unlabelled

    def __repr__(self) -> str:
        """Return how the scorer was made."""
        return f"labelled_only({self.scorer!r}, unlabelled={self.unlabelled!r})"

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score a fitted estimator on the labelled rows."""
        mark = self.unlabelled
        if isinstance(mark, str) and mark == FROM_ESTIMATOR:
            mark = _mark_of(estimator)
        X, y, weights = labelled_part(X, y, sample_weight, mark)
        extra = {} if weights is None else {"sample_weight": weights}
        return float(self.scorer(estimator, X, y, **extra))


def _mark_of(estimator: Any) -> Any:
    """Return the mark of the model inside Pipelines and searches; -1 if there is none."""
    while not hasattr(estimator, "unlabelled"):
        steps = getattr(estimator, "steps", None)
        inner = steps[-1][1] if steps else getattr(estimator, "estimator", None)
        if inner is None:
            return -1
        estimator = inner
    return mark_of(estimator.unlabelled)


def labelled_only(scoring: Any, unlabelled: Any = FROM_ESTIMATOR) -> LabelledOnly:
    """Return a scorer for data in which some rows have no label.

    Parameters
    ----------
    scoring : str or callable
        A scorer or the name of one, as scikit-learn's searches take them.
    unlabelled : scalar
        The value of y that marks a row without a label; by default the scored estimator's own
        ``unlabelled``, and −1 for one that has none.

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
    return LabelledOnly(scoring, unlabelled)
