"""What the columns of a table are for, and the table they become."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyprox._checks import listed, message
from proxyprox.datasets._errors import DataError

__all__ = ["Roles", "Table", "as_labels", "assign_roles", "check_weights", "to_number"]


@dataclass(frozen=True)
class Table:
    """Rows read from a file, ready for a model.

    Parameters
    ----------
    X : array of float64 or csr matrix, shape (rows, features)
        Inputs; sparse for svmlight files.
    y : array or None
        Labels: float64 if every label is a number, otherwise text. None without a label column.
    feature_names : tuple of str
        One name for each column of `X`.
    rows : int
        Number of rows.
    sample_weight : array of float64 or None
        Weights, when a weight column was asked for.
    """

    X: Any
    y: NDArray[Any] | None
    feature_names: tuple[str, ...]
    rows: int
    sample_weight: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Roles:
    """Column names by what they are used for."""

    features: tuple[str, ...]
    label: str | None
    sample_weight: str | None


def assign_roles(
    columns: Sequence[str],
    *,
    where: str,
    label: str | None,
    features: Sequence[str] | None,
    sample_weight: str | None,
) -> Roles:
    """Decide which column is what, or say which one is missing.

    Parameters
    ----------
    columns : sequence of str
        Columns the file has.
    where : str
        File name for messages.
    label, sample_weight : str or None
        Columns asked for.
    features : sequence of str or None
        Input columns; None takes every column that is not label or weight.

    Raises
    ------
    DataError
        For a duplicate, missing or doubly used column.
    """
    repeated = [name for name, count in Counter(columns).items() if count > 1]
    if repeated:
        raise DataError(f"{where}: the column {repeated[0]!r} appears twice; rename one of them.")
    if isinstance(features, str):
        raise DataError(f"features={features!r} is one string: give a list of column names.")
    names = columns if features is None else listed("features", features, "a list of column names")
    given = [("label", label), ("sample_weight", sample_weight)]
    for argument, name in [*given, *(("features", name) for name in names)]:
        if name is not None and not isinstance(name, str):
            raise TypeError(message(argument, name, "the name of a column, as text"))
    for argument, name in given:
        if name is not None and name not in columns:
            raise DataError(missing_column(where, argument, name, columns))
    others = (label, sample_weight)
    if features is None:
        chosen = tuple(name for name in columns if name not in others)
    else:
        chosen = tuple(names)
        for name in chosen:
            if name not in columns:
                raise DataError(missing_column(where, "features", name, columns))
            if name in others or chosen.count(name) > 1:
                raise DataError(
                    f"{where}: the column {name!r} is asked for twice (label={label!r}, "
                    f"sample_weight={sample_weight!r}, features={list(chosen)}): name it once."
                )
    if label is not None and label == sample_weight:
        raise DataError(f"{where}: label and sample_weight are both {label!r}: name two columns.")
    if not chosen:
        raise DataError(f"{where}: no feature column is left; the columns are {_listed(columns)}.")
    return Roles(chosen, label, sample_weight)


def missing_column(where: str, argument: str, name: str, columns: Sequence[str]) -> str:
    """Word the message for a column that is not there."""
    near = difflib.get_close_matches(name, columns, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{where}: no column {name!r} ({argument}).{hint} The columns are {_listed(columns)}."


def _listed(columns: Sequence[str], limit: int = 20) -> str:
    shown = ", ".join(repr(name) for name in columns[:limit])
    more = len(columns) - limit
    return f"{shown} and {more} more" if more > 0 else shown


def to_number(cell: str) -> float | None:
    """Read a cell as a number, None if it is text.

    Examples
    --------
    >>> to_number(" 2.5 "), to_number("red"), to_number("1_000")
    (2.5, None, None)
    """
    if "_" in cell:  # Python's digit grouping is not a number in a data file
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def as_labels(cells: Sequence[str]) -> NDArray[Any]:
    """Turn label cells into numbers when every one of them is a number, else keep the text.

    Examples
    --------
    >>> as_labels(["1", "-1"]).tolist(), as_labels(["yes", "1"]).tolist()
    ([1.0, -1.0], ['yes', '1'])
    """
    numbers = [to_number(cell) for cell in cells]
    if all(number is not None and np.isfinite(number) for number in numbers):
        return np.array(numbers, dtype=np.float64)
    return np.array(cells, dtype=np.str_)


def check_weights(
    weights: NDArray[np.float64] | None, where: str, name: str | None
) -> NDArray[np.float64] | None:
    """Return `weights` if none is negative or not finite and one is positive."""
    if weights is None:
        return None
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        row = int(bad[0])
        raise DataError(
            f"{where}: row {row + 1}, column {name!r}: the weight {weights[row]} is not allowed; "
            "weights are finite and at least 0."
        )
    if not weights.any():
        raise DataError(f"{where}: every weight in {name!r} is 0; at least one must be positive.")
    return weights
