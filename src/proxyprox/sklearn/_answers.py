"""A teacher's answers, whatever their form, as one row of means for each row of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from proxyprox._checks import INSTEAD, Words, message, require_finite
from proxyprox.problems.families import Family, Logistic

Array = Any


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
        if family.neutral > 0 and (answers < 0).any():
            raise ValueError(message("y_proxy", np.min(answers), "zero or more in every row"))
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
