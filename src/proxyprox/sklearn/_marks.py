"""Which rows have no label: the mark for them, and None among labels of any kind."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from proxyprox._checks import INSTEAD, Words, message, to_plain

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
