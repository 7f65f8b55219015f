"""One odd private row changes nothing about the others: no error, no warning, no other bits."""

import datetime
import math
import warnings
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy.sparse

from proxyprox.private import Metric, PrivateRows
from proxyprox.private.reading import Scaling, read_labels, read_rows
from proxyprox.problems.families import Linear, Logistic, Softmax


class Raises:
    """An entry of which everything raises."""

    def _raise(self, *_):
        raise RuntimeError("secret")

    __float__ = __int__ = __index__ = __hash__ = __eq__ = __bool__ = __array__ = _raise
    __len__ = __iter__ = __getitem__ = __repr__ = __str__ = _raise


class Warns:
    """An entry that warns when it is read."""

    def __float__(self):
        warnings.warn("secret", UserWarning, stacklevel=1)
        return 1.0

    def __hash__(self):
        warnings.warn("secret", UserWarning, stacklevel=1)
        return hash(1)

    def __eq__(self, other):
        return True


class Text(str):
    __slots__ = ()

    def __hash__(self):
        raise RuntimeError("secret")

    def __eq__(self, other):
        raise RuntimeError("secret")


class Number(float):
    __slots__ = ()

    def __float__(self):
        raise RuntimeError("secret")


class List(list):
    def __len__(self):
        return 2

    def __iter__(self):
        raise RuntimeError("secret")


ODD = {
    "nan": math.nan, "inf": math.inf, "huge": 1e308, "1e155": 1e155, "-huge": -1e308,
    "tiny": 5e-324, "complex": 1 + 2j, "real complex": 2 + 0j, "numpy complex": np.complex128(3j),
    "sNaN": Decimal("sNaN"), "decimal": Decimal("1.5"), "huge decimal": Decimal("1e400"),
    "fraction": Fraction(1, 3), "big int": 2**53 + 1, "bigger": 2**64, "no float": 10**400,
    "true": True, "numpy bool": np.True_, "none": None, "text": "text", "empty": "",
    "spelled": "1.5", "written true": "True", "long text": "9" * 10_000, "subclass": Text("1"),
    "float subclass": Number(1.0), "bytes": b"1", "odd bytes": b"\xff",
    "date": datetime.date(2020, 1, 1),
    "datetime": np.datetime64("2020-01-01"), "timedelta": np.timedelta64(3, "s"),
    "NaT": np.datetime64("NaT", "s"),
    "list": [1.0], "nested": [[1.0, [2]]], "dict": {"a": 1}, "set": {1}, "array": np.ones(1),
    "zero-dimensional": np.array(1.0), "masked": np.ma.masked, "object": object(), "type": int,
    "raises": Raises(), "warns": Warns(), "longdouble": np.longdouble(1) / 3,
    "float16": np.float16(0.1),
}  # fmt: skip

X = np.random.default_rng(0).uniform(-1, 1, size=(7, 2))
Y = [0, 1, 1, 0, 1, 0, 1]
OTHERS = np.arange(8) != 3
W, METRIC = np.array([1.0, -0.5]), Metric(np.diag([1.0, 0.01]), damping=0.05)
METHODS = [
    *(lambda rows, m=m: rows.clipped_sum(W, clip=0.3, metric=m) for m in (None, METRIC)),
    *(lambda rows, kind=kind: rows.clipped_moments(clip=0.2, kind=kind)
      for kind in ("squares", "means", "products")),
]  # fmt: skip


def planted(values, odd):
    """Return a list with an odd value as its fourth."""
    values = list(values)
    return [*values[:3], odd, *values[3:]]


def as_list(values):
    return values


def as_objects(values):
    shape = (len(values), 2) if isinstance(values[0], list) else (len(values),)
    table = np.full(shape, None, dtype=object)
    for place in np.ndindex(shape):
        table[place] = values[place[0]][place[1]] if len(place) > 1 else values[place[0]]
    return table


def as_array(values):
    """Return what NumPy makes of the values, None if it refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.array(values)
    except Exception:
        return None


def as_frame(values):
    pandas = pytest.importorskip("pandas")
    try:
        if isinstance(values[0], list):
            return pandas.DataFrame({j: [row[j] for row in values] for j in range(2)})
        return pandas.Series(values)
    except Exception:
        return None


CONTAINERS = [as_list, as_objects, as_array, as_frame]
CLASSES = {
    "whole": ((0, 1), Y), "floats": ((0.0, 1.0), [float(v) for v in Y]),
    "text": (("a", "b"), ["ab"[v] for v in Y]),
    "booleans": ((np.False_, np.True_), [np.bool_(v) for v in Y]),
    "numbers": (None, [0.1, 2.5, -1.0, 4.0, 0.0, 1.0, 2.0]),
}  # fmt: skip


def read(X, y, family, bound=None, label_bound=None, columns=None):
    """Return how a table is read: rows, targets, and which can be used."""
    found, usable = read_rows(X, columns, Scaling(bound))
    targets, known = read_labels(y, family, label_bound)
    found = found.toarray() if scipy.sparse.issparse(found) else found
    return found, targets, usable & known


def check_others(name, more, few, family, **options):
    """Compare the rows but the odd one, bit for bit, with a table without it."""
    if any(part is None for part in more):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for found, expected in zip(
            read(*more, family, **options), read(*few, family, **options), strict=True
        ):
            np.testing.assert_array_equal(found[OTHERS], expected, name)
        many, others = (PrivateRows(*table, family, **options) for table in (more, few))
        for method in METHODS:
            # The row itself may count, clipped.
            assert np.linalg.norm(method(many) - method(others)) <= 0.3 + 1e-9, name


@pytest.mark.parametrize("make_rows", CONTAINERS)
def test_an_odd_feature_leaves_the_other_rows_as_they_are(make_rows):
    bound = 1.5 if make_rows in (as_objects, as_frame) else None
    for name, odd in ODD.items():
        more = make_rows(planted(X.tolist(), [odd, 0.5])), planted(Y, 1)
        check_others(name, more, (X, Y), Logistic((0, 1)), bound=bound)


@pytest.mark.parametrize("make_rows", CONTAINERS)
@pytest.mark.parametrize("classes", CLASSES)
def test_an_odd_label_leaves_the_other_rows_as_they_are(make_rows, classes):
    names, labels = CLASSES[classes]
    family, bound = (Linear(), 3.0) if names is None else (Logistic(names), None)
    for name, odd in ODD.items():
        more = planted(X.tolist(), [0.5, 0.5]), make_rows(planted(labels, odd))
        check_others(name, more, (X, labels), family, label_bound=bound)


ODD_ROWS = {
    **ODD, "short": [1.0], "long": [1.0, 2.0, 3.0], "lies": List([1.0, 2.0, 3.0]),
    "tuple": (1.0, 2.0),
    "columns": np.ones((2, 2)), "masked row": np.ma.array([1.0, 2.0], mask=[True, False]),
}  # fmt: skip


def test_what_is_no_row_leaves_the_other_rows_as_they_are():
    for (name, odd), columns in product(ODD_ROWS.items(), (None, 2)):
        more = planted(X.tolist(), odd), planted(Y, 1)
        check_others(name, more, (X, Y), Logistic((0, 1)), columns=columns)


@pytest.mark.parametrize("kind", ["csr_array", "coo_matrix", "csc_array", "lil_array"])
def test_an_odd_entry_of_a_sparse_table_leaves_the_other_rows_as_they_are(kind):
    few = scipy.sparse.csr_array(X), Y
    for odd in (math.nan, math.inf, 1e155, 1e308, -1e308, 1 + 2j, 5e-324):
        table = getattr(scipy.sparse, kind)(np.array(planted(X.tolist(), [odd, 0.0])))
        check_others(odd, (table, planted(Y, 1)), few, Logistic((0, 1)))
    # Duplicates are added up and never overflow.
    places = ([0, 1, 1], [0, 1, 1])
    table = scipy.sparse.coo_array(([1.0, 1e308, 1e308], places), shape=(2, 2))
    rows = PrivateRows(table, [1, 1], Logistic((0, 1)))
    assert rows.count() == 1


def test_columns_of_tensors_frames_and_masked_arrays_are_read():
    torch = pytest.importorskip("torch")
    pandas = pytest.importorskip("pandas")
    few = METHODS[0](PrivateRows(X, Y, Logistic((0, 1))))
    frame = pandas.DataFrame(X).convert_dtypes()
    masked = np.ma.array(X, mask=False)
    for table, labels in (
        (torch.tensor(X), torch.tensor(Y)), (frame, pandas.Series(Y, dtype="Int64")),
        (masked, np.ma.array(Y)), (list(torch.tensor(X)), list(torch.tensor(Y))),
    ):  # fmt: skip
        found = PrivateRows(table, labels, Logistic((0, 1)))
        np.testing.assert_array_equal(METHODS[0](found), few)


def test_no_row_is_longer_than_the_clip_whatever_its_size():
    sizes, clips = (1e-300, 1e-160, 1.0, 1e155, 1e300), (1e-90, 1e-3, 1.0, 1e90)
    labels = (Linear(), 1e200), (Linear(), 1e-200), (Softmax((0, 1, 2)), 2)
    for clip, size, (family, label) in product(clips, sizes, labels):
        rows = PrivateRows([[size, -size]], [label], family)
        total = rows.clipped_sum(np.zeros(rows.dim), clip=clip)
        assert np.isfinite(total).all()
        assert np.abs(total).max() <= clip * (1 + 1e-9)
        assert np.abs(rows.clipped_moments(clip=clip)).max() <= clip * (1 + 1e-9)


def test_classes_and_containers_that_cannot_be_read_are_named_without_what_they_hold():
    for classes in ((2**53 + 1, 0), (2**60, 2**60 + 1), (1, 1.0)):
        with pytest.raises(ValueError, match="classes"):
            PrivateRows(X, Y, Logistic(classes))
    for container in (5, "text", {"a": [7777]}, iter([7777]), None):
        with pytest.raises((TypeError, ValueError), match="must") as caught:
            PrivateRows(container, Y, Logistic((0, 1)))
        assert "7777" not in str(caught.value)
        with pytest.raises(TypeError, match="y must"):
            PrivateRows(X, container, Logistic((0, 1)))
