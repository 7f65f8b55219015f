"""Private rows as numbers: each entry is read by itself, and none raises, warns or runs its code.

An array, a frame or a list has one type for all of its entries only if they agree. An odd entry
may have turned its neighbours into text, complex numbers or objects: they are read as what they
were, so that one row never changes how another is read.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse
from array_api_compat import is_array_api_obj, is_numpy_array, is_torch_array

from proxyprox._util import validation as check
from proxyprox._util.arrays import to_numpy
from proxyprox._util.validation import LARGEST_WHOLE, Words, message
from proxyprox.problems.families import Family

Array = Any

PLAIN = frozenset((bool, int, float, complex, str))


# -- entries --------------------------------------------------------------------------------------


def plain(entry: Any) -> Any:
    """Return an entry as a number or text of Python, None for what is neither.

    Only methods of Python's and NumPy's own types are called: an entry that has a class of its own
    cannot raise, warn or take its time.
    """
    kind = type(entry)
    if kind in PLAIN:
        return entry
    if issubclass(kind, np.ndarray) and entry.ndim == 0:
        entry = entry[()]
        kind = type(entry)
    if kind.__module__ == "numpy" and issubclass(kind, (np.number, np.bool_, np.str_)):
        found = float(entry) if issubclass(kind, np.longdouble) else entry.item()
        return found if type(found) in PLAIN else None
    if issubclass(kind, bytes):
        return bytes.decode(entry, "utf-8", "replace")
    for base, read in ((str, str.__str__), (float, float.__float__), (int, int.__int__)):
        if issubclass(kind, base):
            return read(entry)
    if kind is Decimal or kind is Fraction:
        return float(entry)
    return to_numpy(entry).item() if is_torch_array(entry) and entry.ndim == 0 else None


def number(entry: Any) -> float:
    """Return an entry as a float, NaN for what is no number."""
    try:
        found = plain(entry)
        if type(found) is str and found in ("True", "False"):
            # So booleans are written in an array of text.
            return float(found == "True")
        if type(found) is complex:
            # One complex entry makes the others of its column complex, without imaginary parts.
            return found.real if found.imag == 0 else math.nan
        return math.nan if found is None else float(found)
    except Exception:  # whatever an entry does, it is no number
        return math.nan


def numbers(values: Any, argument: str = "X") -> Array:
    """Return an array of floats with NaN for what is no number."""
    if hasattr(values, "iloc"):
        if values.ndim == 2:
            columns = [numbers(values.iloc[:, place]) for place in range(values.shape[1])]
            return np.stack(columns, axis=1) if columns else np.empty(values.shape)
        if getattr(values.dtype, "kind", "O") in "biuf":
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    array = entries(values, argument)
    if array.dtype.kind == "m":
        # Whole numbers beside one time difference became time differences.
        return np.where(np.isnat(array), np.nan, array.view(np.int64).astype(np.float64))
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    flat = [e if type(e) is float else number(e) for e in array.ravel().tolist()]
    return np.array(flat, dtype=np.float64).reshape(array.shape)


def entries(values: Any, argument: str = "X") -> Array:
    """Return an array in which no entry changes the type of another."""
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.filled(values.astype(object), None)
    if hasattr(values, "iloc"):
        return np.asarray(values.to_numpy(dtype=object))
    if is_array_api_obj(values) and not is_numpy_array(values):
        return np.asarray(to_numpy(check.real_array(argument, values)))
    if hasattr(type(values), "__array__"):
        return np.asarray(values)
    if not hasattr(values, "__len__") or isinstance(values, (str, bytes, dict)):
        # What it holds must not be shown.
        got = Words(f"a {type(values).__name__}")
        raise TypeError(message(argument, got, "an array, a DataFrame or a list"))
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


# -- rows -----------------------------------------------------------------------------------------


def read_rows(X: Any, columns: int | None, scaling: Scaling) -> tuple[Any, Array]:
    """Return scaled rows with zeros in place of those that cannot be used, and which can."""
    with np.errstate(all="ignore"):
        if isinstance(X, (list, tuple)):
            X = _table(X, columns)
        if scipy.sparse.issparse(X):
            X = scipy.sparse.coo_array(X)
            X = scipy.sparse.coo_array((numbers(X.data), X.coords), shape=X.shape).tocsr()
            X.sum_duplicates()
        else:
            X = numbers(X)
        if X.ndim != 2:
            raise ValueError(message("X", Words(f"{X.ndim} dimensions"), "two-dimensional"))
        if columns is not None and X.shape[1] != columns:
            raise ValueError(message("X", Words(f"{X.shape[1]} columns"), f"of {columns} columns"))
        X, valid = _without_odd_rows(X)
        X, finite = _without_odd_rows(scaling(X))
        return X, valid & finite


def _table(rows: Any, columns: int | None) -> Array:
    """Return a list of rows as a table; a row of another length than the columns is all None."""
    read = [_row(row) for row in rows]
    # The usual length, which one row does not change.
    usual = Counter(len(row) for row in read if row is not None).most_common(1)
    width = columns if columns is not None else usual[0][0] if usual else 0
    array = np.full((len(read), width), None, dtype=object)
    for place, row in enumerate(read):
        if row is not None and len(row) == width:
            array[place] = entries(row)
    return array


def _row(row: Any) -> list[Any] | None:
    """Return the entries of one row, None if it is none; the types are those of :func:`plain`."""
    try:
        kind = type(row)
        for base in (list, tuple):
            if issubclass(kind, base):
                return list(base.__iter__(row))
        if issubclass(kind, np.ndarray) or is_torch_array(row):
            row = np.ma.filled(row.astype(object), None) if np.ma.isMA(row) else to_numpy(row)
            return list(np.asarray(row).tolist()) if row.ndim == 1 else None
        if kind.__module__.partition(".")[0] == "pandas" and hasattr(row, "iloc"):
            return list(row.to_numpy(dtype=object).tolist())
    except Exception:  # it is no row, and says no more than that
        return None
    return None


def _without_odd_rows(X: Any) -> tuple[Any, Array]:
    """Return a table with zeros in place of rows that are not finite, and which are."""
    if not scipy.sparse.issparse(X):
        valid = np.isfinite(X).all(axis=1)
        return np.where(valid[:, None], X, 0.0), valid
    X = X.tocsr()
    bad = ~np.isfinite(X.data)
    valid = np.ones(X.shape[0], dtype=bool)
    valid[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[bad]] = False
    X.data = np.where(bad, 0.0, X.data)
    return X, valid


@dataclass(frozen=True)
class Scaling:
    """What is done to each row, in fits and predictions: ``(cut(shorten(x)) − centre)/spread``.

    Nothing depends on other rows than public ones.

    Parameters
    ----------
    bound : float, optional
        The largest norm of a row; longer ones are shortened to it first.
    low, high : float or array of shape (p,)
        Entries are cut to lie between them.
    centre, spread : float or array of shape (p,)
        What is taken off columns, and what they are divided by.

    Examples
    --------
    >>> Scaling(low=np.zeros(2), high=np.ones(2))(np.array([[0.5, 7.0]]))
    array([[0.5, 1. ]])
    """

    bound: float | None = None
    low: Any = -math.inf
    high: Any = math.inf
    centre: Any = 0.0
    spread: Any = 1.0

    @classmethod
    def of(cls, X: Any, bound: float | None, tail: float) -> Scaling:
        """Return the scaling that public rows show, whose rows then have length one, usually.

        Dense columns are centred at their median. Entries that differ from it are cut at their
        quantiles, and their root mean square is the unit. A column that is constant shows no
        quantiles: it may hold what lies between zero and its value, or within the longest row.
        """
        X = X if bound is None else project_rows(X, bound)
        sparse, width = scipy.sparse.issparse(X), X.shape[1]
        X = X.toarray() if sparse else X
        centre = np.zeros(width) if sparse else np.median(X, axis=0)
        longest = float(row_norms(X).max()) or 1.0
        low, high, spread = np.zeros(width), np.zeros(width), np.ones(width)
        for j, column in enumerate((X - centre).T):
            column = column[column != 0]
            if len(column):
                low[j], high[j] = np.quantile(column, [tail, 1 - tail])
                spread[j] = math.sqrt(np.mean(np.clip(column, low[j], high[j]) ** 2))
            else:
                low[j], high[j] = (-centre[j], -centre[j]) if centre[j] else (-longest, longest)
                spread[j] = abs(centre[j]) or longest
        low, high = centre + np.minimum(low, 0.0), centre + np.maximum(high, 0.0)
        found = cls(bound, low, high, centre, spread)
        usual = math.sqrt(float(np.mean(row_norms(found(X)) ** 2))) or 1.0
        return replace(found, spread=spread * usual)

    def __call__(self, X: Any) -> Any:
        """Return rows, scaled."""
        X = self.cut(X)
        if not scipy.sparse.issparse(X):
            return (X - self.centre) / self.spread
        units = scipy.sparse.diags_array(np.broadcast_to(1 / self.spread, X.shape[1]))
        return (X @ units).tocsr()

    def cut(self, X: Any) -> Any:
        """Return rows that are shortened and cut; sparse ones only if zeros stay zeros."""
        X = X if self.bound is None else project_rows(X, self.bound)
        if scipy.sparse.issparse(X) and np.any(self.centre):
            X = X.toarray()
        if not scipy.sparse.issparse(X):
            return np.clip(X, self.low, self.high)
        X = X.tocsr(copy=True)
        ends = (np.broadcast_to(end, X.shape[1])[X.indices] for end in (self.low, self.high))
        X.data = np.clip(X.data, *ends)
        return X


def row_units(X: Any) -> tuple[Any, Array]:
    """Return rows in units of their largest entry, so that no square overflows, and the units."""
    if not all(X.shape):
        return X, np.zeros(X.shape[0])
    largest = abs(X).max(axis=1)
    largest = largest.toarray().ravel() if scipy.sparse.issparse(X) else largest
    # Subnormal numbers have no reciprocal.
    largest = np.where(largest > np.finfo(np.float64).tiny, largest, 1.0)
    return scale_rows(X, 1 / largest), largest


def row_norms(X: Any) -> Array:
    """Return the norm of each row."""
    squares = X.multiply(X) if scipy.sparse.issparse(X) else X * X
    return np.sqrt(np.asarray(squares.sum(axis=1)).ravel())


def project_rows(X: Any, bound: float) -> Any:
    """Return finite rows, those that are longer than the bound scaled to it."""
    units, largest = row_units(X)
    norms = row_norms(units)
    with np.errstate(over="ignore"):
        inside = norms * largest <= bound
    return scale_rows(units, np.where(inside, largest, bound / np.maximum(norms, 1.0)))


def scale_rows(X: Any, factors: Array) -> Any:
    """Return each row times its factor."""
    if scipy.sparse.issparse(X):
        return (scipy.sparse.diags_array(factors) @ X).tocsr()
    return X * factors[:, None]


# -- public rows that are none --------------------------------------------------------------------


def share_memory(one: Any, other: Any) -> bool:
    """Tell whether two tables are one, or share rows; no value is looked at.

    A copy is not noticed: to compare values would be a question about private rows.
    """
    if one is None or other is None:
        return False
    own, others = _buffers(one), _buffers(other)
    # Columns are the same in both, in one order.
    pairs = zip(own, others, strict=True) if len(own) == len(others) else product(own, others)
    shared = any(a.size and b.size and np.shares_memory(a, b) for a, b in pairs)
    return one is other or shared or not _row_places(one).isdisjoint(_row_places(other))


def _buffers(table: Any) -> list[Array]:
    """Return the arrays that hold a table's entries."""
    if hasattr(table, "iloc"):
        columns = [table] if table.ndim == 1 else [table.iloc[:, j] for j in range(table.shape[1])]
        return [column.to_numpy() for column in columns]
    if scipy.sparse.issparse(table):
        parts = (getattr(table, name, None) for name in ("data", "indices", "row", "col"))
        return [part for part in parts if isinstance(part, np.ndarray)]
    arrays = isinstance(table, np.ndarray) or is_torch_array(table)
    return [np.asarray(to_numpy(table))] if arrays else []


def _row_places(table: Any) -> set[int]:
    """Return where the rows of a list are kept."""
    if not isinstance(table, (list, tuple)):
        return set()
    # A class of its own is not asked for its length.
    rows = (row for row in table if type(row) in (list, tuple, np.ndarray) and len(row))
    return {row.ctypes.data if isinstance(row, np.ndarray) else id(row) for row in rows}


# -- labels ---------------------------------------------------------------------------------------


def class_codes(classes: Any) -> dict[Any, int]:
    """Return the place of each class, by itself and by how an array of text would write it."""
    codes: dict[Any, int] = {}
    for code, label in enumerate(classes):
        value = plain(label)
        written = {value}
        if not isinstance(value, str):
            if not (isinstance(value, (int, float)) and abs(value) <= LARGEST_WHOLE):
                remedy = "One label with a decimal point rounds all the others. Use text."
                allowed = "text, or numbers up to 2**53"
                raise ValueError(message("classes", label, allowed, remedy))
            written |= {str(value), str(float(value))}
            written |= {str(int(value))} if value == int(value) else set()
        if clash := written & set(codes):
            got = Words(f"two that are written {min(map(str, clash))}")
            raise ValueError(message("classes", got, "numbers or text that can be told apart"))
        codes |= dict.fromkeys(written, code)
    return codes


def read_labels(y: Any, family: Family, bound: float | None) -> tuple[Array, Array]:
    """Return targets with zeros in place of what is no label, and which rows have one."""
    if scipy.sparse.issparse(y):
        raise TypeError(message("y", Words("a sparse matrix"), "a dense array of labels"))
    if not family.classifier:
        with np.errstate(all="ignore"):
            targets = numbers(y, "y").ravel()
        known = np.isfinite(targets)
        known &= family.valid(np.where(known, targets, 0.0))
        targets = targets if bound is None else np.clip(targets, -bound, bound)
        return np.where(known, targets, 0.0), known
    codes = class_codes(getattr(family, "classes", ()))
    given = entries(y, "y")
    if given.dtype.kind == "m":
        given = numbers(given)

    def find(label: Any) -> int:
        try:
            found = plain(label)
            return -1 if found is None else codes.get(found, -1)
        except Exception:  # whatever a label does, it is none of the classes
            return -1

    targets = np.array([find(label) for label in given.ravel().tolist()], dtype=float)
    return np.where(targets >= 0, targets, 0.0), targets >= 0
