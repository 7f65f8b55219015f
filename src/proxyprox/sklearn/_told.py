"""What a person or a program answered: labels, and rows without an answer."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from proxyprox._checks import message
from proxyprox.sklearn._marks import is_mark, is_missing, mark_of


def answers_of(labels: Any, estimator: Any) -> list[Any]:
    """Return answers as plain values, None where there is no label.

    Parameters
    ----------
    labels : label or sequence of labels
        What was told.
    estimator : estimator
        For whom: a classifier's mark of unlabelled rows and empty strings are no labels; for a
        regressor only numbers are.
    """
    classifier, mark = is_classifier(estimator), mark_of(getattr(estimator, "unlabelled", None))
    found: list[Any] = []
    marked = False
    for answer in _listed(labels):
        if is_missing(answer) or (classifier and isinstance(answer, str) and not answer.strip()):
            found.append(None)
        elif classifier and is_mark(answer, mark):
            marked = True
            found.append(None)
        elif not classifier and not _finite(answer):
            remedy = "Answer None if there is no label."
            raise ValueError(message("labels", answer, "finite numbers for a regressor", remedy))
        else:
            found.append(answer)
    if marked:
        warnings.warn(
            f"The answer {mark!r} marks a row without a label: such rows count as declined. If it "
            "is a class, give LabelBudget an estimator with unlabelled=None.",
            UserWarning,
            stacklevel=3,
        )
    return found


def label_fault(label: Any, estimator: Any, classes: Any = None) -> str | None:
    """Return what keeps a value from being a label, in words; None if nothing does.

    Parameters
    ----------
    label : object
        A plain value.
    estimator : estimator
        For whom.
    classes : sequence, optional
        The labels that are allowed.
    """
    text = isinstance(label, str)
    if not text and not _finite(label):
        return "which is neither text nor a finite number"
    if text and not is_classifier(estimator):
        return "which is no number, as a regressor needs"
    if isinstance(classes, (list, tuple)) and label not in classes:
        return f"which is none of the classes {', '.join(map(repr, classes))}"
    return None


def _listed(labels: Any) -> list[Any]:
    """Return one label or several as a list; numpy would make text of numbers among text."""
    if labels is None or isinstance(labels, (str, bytes)):
        return [labels]
    if not isinstance(labels, (list, tuple)):
        labels = np.atleast_1d(np.asarray(labels)).tolist()
    return [answer.item() if isinstance(answer, np.generic) else answer for answer in labels]


def _finite(answer: Any) -> bool:
    try:
        return isinstance(answer, (bool, int, float)) and math.isfinite(answer)
    except OverflowError:
        return False
