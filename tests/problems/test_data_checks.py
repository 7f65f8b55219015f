"""Inputs, labels, weights and settings of the regressions are used rightly or refused by name."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import proxyprox as pp

torch = pytest.importorskip("torch")

X = np.arange(12.0).reshape(6, 2) / 10
Y = np.array([0, 1, 0, 1, 1, 0])
REGRESSIONS = {
    "linear": pp.linear_regression,
    "logistic": pp.logistic_regression,
    "softmax": pp.softmax_regression,
    "poisson": pp.poisson_regression,
}
MASK = [True] + [False] * 5
DAYS = np.array(["2020-01-01", "2020-01-02"] * 3, dtype="M8[D]")
unsorted = sp.csr_array((np.array([2.0, 1.0]), np.array([1, 0]), np.array([0, 2, 2, 2, 2, 2, 2])))


@pytest.fixture(params=REGRESSIONS)
def regression(request):
    return REGRESSIONS[request.param]


def refused(argument, error, call, *words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error) as caught:
            call()
    text = str(caught.value)
    assert text.startswith(f"{argument} must be "), text
    assert ", got " in text
    for word in words:
        assert word in text, text


BAD_X = {
    "masked": (np.ma.array(X, mask=X > 1), ValueError, "masked"),
    "complex": (X + 0j, TypeError, "complex"),
    "complex list": ([[1j, 0]] * 6, TypeError, "real"),
    "complex sparse": (sp.csr_array(X * 1j), TypeError, "complex"),
    "complex tensor": (torch.tensor(X) * 1j, TypeError, "complex"),
    "dates": (np.column_stack([DAYS, DAYS]), TypeError, "datetime64"),
    "durations": (np.ones((6, 2), "m8[D]"), TypeError, "timedelta64"),
    "objects": (X.astype(object), TypeError, "object"),
    "None": (None, TypeError, "None"),
    "None inside": ([[None, 1.0]] * 6, TypeError, "None"),
    "numbers as text": ([["1", "2"]] * 6, TypeError, "'1'"),
    "text array": (np.array([["1", "2"]] * 6), TypeError, "<U1"),
    "half precision": (X.astype(np.float16), TypeError, "float16"),
    "too large": (X * 1e160, ValueError, "1.1e+160"),
    "too large, float32": ((X * 1e25).astype(np.float32), ValueError, "1.1e+25"),
    "too large, sparse": (sp.csr_array(X * 1e160), ValueError, "1.1e+160"),
    "too large, torch": (torch.tensor(X * 1e160), ValueError, "1.1e+160"),
    "whole numbers beyond float64": ([[10**400, 1]] * 6, TypeError, "too large"),
    "sparse NaN": (sp.csr_array(np.full((6, 2), np.nan)), ValueError, "NaN"),
    "sparse 1-D": (sp.coo_array(np.ones(6)), ValueError, "two-dimensional"),
    "no rows": (np.ones((0, 2)), ValueError, "row"),
    "no columns": (np.ones((6, 0)), ValueError, "column"),
    "sparse without rows": (sp.csr_array((0, 2)), ValueError, "row"),
    "scalar": (3.0, ValueError, "two-dimensional"),
    "text": ("X", TypeError, "'X'"),
    "dict": ({"a": 1}, TypeError, "matrix"),
    "records": (np.zeros(6, dtype=[("a", float)]), TypeError, "dtype"),
    "ragged": ([[1.0], [1.0, 2.0]], TypeError, "matrix"),
    "table with NA": (
        pd.DataFrame({"a": pd.array([1, None, 3, 4, 5, 6], dtype="Int64"), "b": 1.0}),
        TypeError,
        "NA",
    ),
    "table of text": (pd.DataFrame({"a": list("123456"), "b": 1.0}), TypeError, "'1'"),
    "table of dates": (pd.DataFrame({"a": DAYS, "b": 1.0}), TypeError, "Timestamp"),
    "whole tensor": (torch.arange(12).reshape(6, 2), TypeError, "int64"),
    "bfloat16": (torch.tensor(X).bfloat16(), TypeError, "bfloat16"),
    "sparse tensor": (torch.tensor(X).to_sparse(), TypeError, "sparse_coo"),
    "meta tensor": (torch.ones(6, 2, device="meta"), TypeError, "meta"),
}


@pytest.mark.skipif(np.finfo(np.longdouble).bits == 64, reason="long doubles are doubles here")
def test_long_doubles_are_not_rounded_unasked(regression):
    long = X.astype(np.longdouble)
    refused("X", TypeError, lambda: regression(long, Y), str(long.dtype))
    refused("X", TypeError, lambda: regression(sp.csr_array(long), Y), str(long.dtype))
    refused("P", TypeError, lambda: pp.Quadratic(long[:2]), str(long.dtype))
    weights = np.full(6, np.longdouble(1e300) * 1e200)
    refused("sample_weight", ValueError, lambda: regression(X, Y, sample_weight=weights), "inf")


@pytest.mark.parametrize("case", BAD_X)
def test_inputs_that_cannot_be_used_are_named(case):
    regression = pp.softmax_regression
    given, error, word = BAD_X[case]
    refused("X", error, lambda: regression(given, Y), word)
    if given is not None:
        refused("X", error, lambda: regression(X, Y).label_free(given), word)


SAME_X = {
    "mask that hides nothing": np.ma.array(X),
    "list": X.tolist(),
    "matrix": X.view(np.matrix) if hasattr(np, "matrix") else X,
    "other byte order": X.astype(">f8"),
    "read-only": np.broadcast_to(X, X.shape),
    "columns": np.asfortranarray(X),
    "table": pd.DataFrame(X),
    "nullable table": pd.DataFrame({"a": pd.array(X[:, 0], dtype="Float64"), "b": X[:, 1]}),
    "64-bit sparse": sp.csr_array(
        (X.ravel(), np.tile(np.array([0, 1], np.int64), 6), np.arange(0, 13, 2, dtype=np.int64))
    ),
    "tensor with a graph": torch.tensor(X, requires_grad=True),
}


@pytest.mark.parametrize("case", SAME_X)
def test_inputs_of_other_kinds_give_the_same_loss(case):
    regression = pp.softmax_regression
    w = np.linspace(-1, 1, regression(X, Y).dim)
    loss = regression(SAME_X[case], Y)
    gradient = loss.gradient(torch.tensor(w) if "tensor" in case else w)
    assert not getattr(gradient, "requires_grad", False)
    np.testing.assert_allclose(gradient, regression(X, Y).gradient(w), rtol=1e-13)


def test_sparse_duplicates_are_summed_and_order_does_not_matter():
    w = np.array([0.5, -1.0])
    doubled = sp.coo_array(
        (np.r_[X.ravel(), X.ravel()], tuple(np.tile(np.indices((6, 2)).reshape(2, -1), 2)))
    )
    expected = pp.linear_regression(2 * X, Y)
    loss = pp.linear_regression(doubled, Y)
    np.testing.assert_allclose(loss.gradient(w), expected.gradient(w))
    np.testing.assert_allclose(loss.hessian(w), expected.hessian(w))
    loss, dense = pp.linear_regression(unsorted, Y), pp.linear_regression(unsorted.toarray(), Y)
    np.testing.assert_allclose(loss.gradient(w), dense.gradient(w))


@pytest.mark.parametrize("scale", [1e150, 1e-160, 1e-310])
def test_extreme_but_finite_scales_work(scale, regression):
    loss = regression(X * scale, Y)
    result = pp.minimize(pp.Problem(loss, loss.label_free()), steps=2, rng=0)
    assert np.isfinite(result.w).all()


ODD_LABELS = {
    "masked": (np.ma.array(Y, mask=MASK), ValueError, "masked"),
    "complex": (Y + 0j, TypeError, "complex"),
    "complex list": ([0j, 1, 0, 1, 1, 0], TypeError, "complex"),
    "complex tensor": (torch.tensor(Y) * 1j, TypeError, "complex"),
    "dates": (DAYS, TypeError, "datetime64"),
    "date series": (pd.Series(DAYS), TypeError, "datetime64"),
    "durations": (Y.astype("m8[D]"), TypeError, "timedelta64"),
    "None inside": ([0, 1, None, 1, 1, 0], TypeError, "None at row 2"),
    "NaN": ([0, 1, np.nan, 1, 1, 0], ValueError, "nan at row 2"),
    "infinite": ([0, 1, np.inf, 1, 1, 0], ValueError, "inf at row 2"),
    "nullable with NA": (pd.array([0, 1, None, 1, 1, 0], dtype="Int64"), ValueError, "row 2"),
    "categories with NA": (
        pd.Series(pd.Categorical(["a", None, *"abab"])), TypeError, "row 1",
    ),
    "missing dates": ([pd.NaT] * 6, (TypeError, ValueError), "got"),
    "text and numbers": ([0, "1", 0, 1, 1, 0], TypeError, "'1' at row 1"),
    "text and numbers, array": (np.array(["a", 1, "a", 1, 1, 1], object), TypeError, "1 at row 1"),
    "objects": ([object()] * 6, TypeError, "object"),
    "column": (Y[:, None], ValueError, "ravel"),
    "table": (pd.DataFrame({"y": Y}), ValueError, "ravel"),
    "short": (Y[:3], ValueError, "6 rows"),
    "empty": ([], ValueError, "got"),
    "scalar": (3, TypeError, "array"),
    "text": ("010110", TypeError, "array"),
    "dict": ({}, TypeError, "array"),
    "sparse": (sp.csr_array(Y[:, None]), TypeError, "sparse"),
    "ragged": ([[1], [1, 2], 0, 0, 0, 0], TypeError, "array"),
    "records": (np.zeros(6, dtype=[("a", float)]), TypeError, "dtype"),
    "beyond float64": ([10**400, 1, 0, 1, 0, 0], ValueError, "float64"),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD_LABELS)
def test_labels_that_cannot_be_used_are_named(case, regression):
    given, error, word = ODD_LABELS[case]
    refused("y", error, lambda: regression(X, given), word)


NUMBERS_ONLY = {
    "numbers as text": (list("010110"), TypeError, "<U1"),
    "bytes": (np.array([b"0", b"1"] * 3), TypeError, "S1"),
    "categories": (pd.Series(pd.Categorical(list("ababab"))), TypeError, "dtype"),
    "too large": ([1e308] * 6, ValueError, "1e+308"),
}


@pytest.mark.parametrize("case", NUMBERS_ONLY)
@pytest.mark.parametrize("regression", ["linear", "poisson"])
def test_numeric_labels_must_be_numbers(case, regression):
    given, error, word = NUMBERS_ONLY[case]
    refused("y", error, lambda: REGRESSIONS[regression](X * 10, given), word)


SAME_Y = {
    "bool": Y.astype(bool),
    "bools": Y.astype(bool).tolist(),
    "objects": Y.astype(object),
    "nullable": pd.array(Y, dtype="Int64"),
    "nullable bool": pd.array(Y.astype(bool), dtype="boolean"),
    "float16": Y.astype(np.float16),
    "extended": Y.astype(np.longdouble),
    "tensor": torch.tensor(Y),
    "tensor with a graph": torch.tensor(Y, dtype=torch.float64).requires_grad_(),
    "mask that hides nothing": np.ma.array(Y),
    "other byte order": Y.astype(">i4"),
}


@pytest.mark.parametrize("case", SAME_Y)
def test_labels_of_other_kinds_give_the_same_loss(case, regression):
    w = np.linspace(-1, 1, regression(X, Y).dim)
    assert regression(X, SAME_Y[case]).value(w) == regression(X, Y).value(w)


@pytest.mark.parametrize(
    "labels",
    [list("ababab"), pd.Series(list("ababab"), dtype="string"), np.array([b"a", b"b"] * 3)],
)
def test_classes_may_be_text(labels):
    loss = pp.logistic_regression(X, labels)
    assert loss.value(np.ones(2)) == pp.logistic_regression(X, [0, 1] * 3).value(np.ones(2))


BAD_CLASSES = {
    "none": ((), ValueError),
    "one": ((0,), ValueError),
    "twice the same": ((0, 0), ValueError),
    "equal": ((1, True), ValueError),
    "text": ("01", TypeError),
    "number": (2, TypeError),
    "text and number": ((0, "a"), TypeError),
    "None inside": ((0, None), TypeError),
    "NaN": ((0, np.nan), TypeError),
    "infinite": ((0, np.inf), ValueError),
    "complex": ((0, 1j), TypeError),
    "dates": (tuple(DAYS[:2]), TypeError),
    "masked": (np.ma.array([0, 1], mask=[1, 0]), ValueError),
    "nested": (((0,), (1,)), TypeError),
}


@pytest.mark.parametrize("case", BAD_CLASSES)
@pytest.mark.parametrize("regression", ["logistic", "softmax"])
def test_classes_are_checked(case, regression):
    classes, error = BAD_CLASSES[case]
    refused("classes", error, lambda: REGRESSIONS[regression](X, Y, classes=classes))
    refused("classes", error, lambda: REGRESSIONS[regression](X, classes=classes))


def test_three_classes_are_too_many_for_two():
    refused(
        "classes", ValueError, lambda: pp.logistic_regression(X, Y, classes=(0, 1, 2)),
        "two classes", "softmax_regression",
    )  # fmt: skip
    assert pp.softmax_regression(X, Y, classes=(0, 1, 2)).dim == 6


@pytest.mark.parametrize("regression", ["logistic", "softmax"])
def test_labels_and_classes_must_be_of_one_kind(regression):
    make = REGRESSIONS[regression]
    refused("y", ValueError, lambda: make(X, list("010110"), classes=(0, 1)), "text", "[0, 1]")
    refused("y", ValueError, lambda: make(X, Y, classes=("0", "1")), "text", "'0'")


BAD_WEIGHTS = {
    "negative": ([-1, 1, 1, 1, 1, 1], ValueError, "-1"),
    "NaN": ([np.nan, 1, 1, 1, 1, 1], ValueError, "nan"),
    "infinite": ([np.inf, 1, 1, 1, 1, 1], ValueError, "inf"),
    "zero": (np.zeros(6), ValueError, "not all zero"),
    "short": ([1, 1], ValueError, "6 rows"),
    "column": (np.ones((6, 1)), ValueError, "(6, 1)"),
    "scalar": (1.0, ValueError, "()"),
    "text": ("balanced", TypeError, "balanced"),
    "numbers as text": (["1"] * 6, TypeError, "'1'"),
    "complex": (np.ones(6) + 0j, TypeError, "complex"),
    "masked": (np.ma.array(np.ones(6), mask=MASK), ValueError, "masked"),
    "durations": (np.ones(6, "m8[D]"), TypeError, "timedelta64"),
    "None inside": ([None] * 6, TypeError, "None"),
    "with NA": (pd.array([1, None, 1, 1, 1, 1], dtype="Int64"), (TypeError, ValueError), "weight"),
    "sparse": (sp.csr_array(np.ones((6, 1))), TypeError, "sparse"),
    "dict": ({}, TypeError, "weight"),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_weights_that_cannot_be_used_are_named(case):
    regression = pp.softmax_regression
    given, error, word = BAD_WEIGHTS[case]
    refused("sample_weight", error, lambda: regression(X, Y, sample_weight=given), word)


@pytest.mark.parametrize(
    "scale", [1e308, 1e-300, 5e-324, np.float16(2), True, 10**30], ids=lambda s: str(s)
)
def test_weights_of_any_scale_mean_the_same(scale, regression):
    w = np.linspace(-1, 1, regression(X, Y).dim)
    loss = regression(X, Y, sample_weight=[scale] * 6)
    assert loss.value(w) == pytest.approx(regression(X, Y).value(w), rel=1e-14)


SETTINGS = {
    "l2": [-1, np.nan, np.inf, "1", None, np.ones(2), True, 1j, 10**400, [0.1]],
    "intercept": ["yes", 2, 1, 0, None, [True], 1.5],
    "batch_size": [0, -1, 2.5, True, np.nan, np.inf, "3", 10**18, 10**30, [2], np.array(3)],
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_are_checked(name, regression):
    for value in SETTINGS[name]:
        refused(name, (TypeError, ValueError), lambda v=value: regression(X, Y, **{name: v}))


@pytest.mark.parametrize("size", [2.0, np.int32(2), np.float64(2), 100])
def test_whole_batch_sizes_of_any_type_will_do(size):
    loss = pp.linear_regression(X, Y, batch_size=size)
    assert len(loss.sample(np.random.default_rng(0))) == size


def test_draws_are_checked():
    loss = pp.linear_regression(X, Y)
    for rng in ("a", -1, 1.5, True, [1], object()):
        refused("rng", (TypeError, ValueError), lambda r=rng: loss.subsample(2, rng=r))
        refused("rng", (TypeError, ValueError), lambda r=rng: loss.label_free(rng=r))
    assert loss.label_free(rng=0).value(np.ones(2)) == loss.label_free(rng=0).value(np.ones(2))
    for n in (0, 7, 2.5, "a", None, True, np.nan):
        refused("n", (TypeError, ValueError), lambda n=n: loss.subsample(n))


def test_the_family_of_a_model_is_checked():
    for family in ("logistic", None, pp.GLM):
        refused("family", TypeError, lambda f=family: pp.GLM(X, Y, f))


BAD_P = {
    "masked": (np.ma.array(np.eye(2), mask=np.eye(2)), ValueError, "masked"),
    "complex": (np.eye(2) + 0j, TypeError, "complex"),
    "text": ([["1", "0"], ["0", "1"]], TypeError, "'1'"),
    "sparse": (sp.eye_array(2), TypeError, "sparse"),
    "None": (None, TypeError, "None"),
    "too large": (np.full((2, 2), 1.7e308), ValueError, "1.7e+308"),
    "asymmetric, small": (np.array([[0, 1e-9], [0, 0]]), ValueError, "symmetric"),
    "meta": (torch.ones(2, 2, device="meta"), TypeError, "meta"),
}


@pytest.mark.parametrize("case", BAD_P)
def test_matrices_of_quadratics_are_checked(case):
    given, error, word = BAD_P[case]
    refused("P", error, lambda: pp.Quadratic(given), word)


def test_a_quadratic_of_lists_and_of_tensors_with_a_graph():
    assert pp.Quadratic([[1.0, 0.0], [0.0, 2.0]]).smoothness == 2
    loss = pp.Quadratic(torch.eye(2, requires_grad=True))
    assert not loss.gradient(torch.ones(2)).requires_grad
