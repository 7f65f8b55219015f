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


BAD_X = [
    (np.ma.array(X, mask=X > 1), ValueError, "masked"),
    (X + 0j, TypeError, "complex"),
    (np.column_stack([DAYS, DAYS]), TypeError, "datetime64"),
    (X.astype(object), TypeError, "object"),
    ([[None, 1.0]] * 6, TypeError, "None"),
    (X.astype(np.float16), TypeError, "float16"),
    (X * 1e160, ValueError, "1.1e+160"),
    (sp.csr_array(np.full((6, 2), np.nan)), ValueError, "NaN"),
    (sp.coo_array(np.ones(6)), ValueError, "two-dimensional"),
    (np.ones((6, 0)), ValueError, "column"),
    (sp.csr_array((0, 2)), ValueError, "row"),
    (
        pd.DataFrame({"a": pd.array([1, None, 3, 4, 5, 6], dtype="Int64"), "b": 1.0}),
        TypeError,
        "NA",
    ),
    (pd.DataFrame({"a": DAYS, "b": 1.0}), TypeError, "Timestamp"),
    (torch.arange(12).reshape(6, 2), TypeError, "int64"),
    (torch.tensor(X).bfloat16(), TypeError, "bfloat16"),
    (torch.tensor(X).to_sparse(), TypeError, "sparse_coo"),
]


def test_inputs_that_cannot_be_used_are_named():
    target = pp.softmax_regression(X, Y)
    for given, error, word in BAD_X:
        refused("X", error, lambda g=given: pp.softmax_regression(g, Y), word)
        if given is not None:
            refused("X", error, lambda g=given: target.label_free(g), word)


SAME_X = [
    np.ma.array(X),
    X.tolist(),
    X.view(np.matrix) if hasattr(np, "matrix") else X,
    X.astype(">f8"),
    np.broadcast_to(X, X.shape),
    np.asfortranarray(X),
    pd.DataFrame(X),
    pd.DataFrame({"a": pd.array(X[:, 0], dtype="Float64"), "b": X[:, 1]}),
    sp.csr_array(
        (X.ravel(), np.tile(np.array([0, 1], np.int64), 6), np.arange(0, 13, 2, dtype=np.int64))
    ),
    torch.tensor(X, requires_grad=True),
]


def test_inputs_of_other_kinds_give_the_same_loss():
    plain = pp.softmax_regression(X, Y)
    w = np.linspace(-1, 1, plain.dim)
    for given in SAME_X:
        tensor = isinstance(given, torch.Tensor)
        gradient = pp.softmax_regression(given, Y).gradient(torch.tensor(w) if tensor else w)
        assert not getattr(gradient, "requires_grad", False)
        np.testing.assert_allclose(gradient, plain.gradient(w), rtol=1e-13)


def test_extreme_but_finite_scales_work(regression):
    for scale in (1e150, 1e-160, 1e-310):
        loss = regression(X * scale, Y)
        result = pp.minimize(pp.Problem(loss, loss.label_free()), steps=2, rng=0)
        assert np.isfinite(result.w).all()


ODD_LABELS = [
    (np.ma.array(Y, mask=MASK), ValueError, "masked"),
    (Y + 0j, TypeError, "complex"),
    (DAYS, TypeError, "datetime64"),
    ([0, 1, None, 1, 1, 0], TypeError, "None at row 2"),
    (
        pd.Series(pd.Categorical(["a", None, *"abab"])), TypeError, "row 1",
    ),
    ([0, "1", 0, 1, 1, 0], TypeError, "'1' at row 1"),
    (Y[:, None], ValueError, "ravel"),
    (Y[:3], ValueError, "6 rows"),
    ("010110", TypeError, "array"),
    (sp.csr_array(Y[:, None]), TypeError, "sparse"),
    ([10**400, 1, 0, 1, 0, 0], ValueError, "float64"),
]  # fmt: skip


def test_labels_that_cannot_be_used_are_named(regression):
    for given, error, word in ODD_LABELS:
        refused("y", error, lambda g=given: regression(X, g), word)


BAD_CLASSES = [
    ((), ValueError),
    ((0, 0), ValueError),
    (2, TypeError),
    ((0, "a"), TypeError),
    ((0, np.nan), TypeError),
    (np.ma.array([0, 1], mask=[1, 0]), ValueError),
]


@pytest.mark.parametrize("make", [pp.logistic_regression, pp.softmax_regression])
def test_classes_are_checked(make):
    for classes, error in BAD_CLASSES:
        refused("classes", error, lambda c=classes: make(X, Y, classes=c))
        refused("classes", error, lambda c=classes: make(X, classes=c))
    refused("y", ValueError, lambda: make(X, list("010110"), classes=(0, 1)), "text", "[0, 1]")
    refused("y", ValueError, lambda: make(X, Y, classes=("0", "1")), "text", "'0'")
    if make is pp.logistic_regression:
        refused("classes", ValueError, lambda: make(X, Y, classes=(0, 1, 2)), "softmax_regression")
    else:
        assert make(X, Y, classes=(0, 1, 2)).dim == 6


BAD_WEIGHTS = [
    ([-1, 1, 1, 1, 1, 1], ValueError, "-1"),
    (np.zeros(6), ValueError, "not all zero"),
    ([1, 1], ValueError, "6 rows"),
    ("balanced", TypeError, "balanced"),
    (np.ma.array(np.ones(6), mask=MASK), ValueError, "masked"),
    (pd.array([1, None, 1, 1, 1, 1], dtype="Int64"), (TypeError, ValueError), "weight"),
    (sp.csr_array(np.ones((6, 1))), TypeError, "sparse"),
]


def test_weights_are_checked_and_their_scale_means_nothing(regression):
    for given, error, word in BAD_WEIGHTS:
        refused("sample_weight", error, lambda g=given: regression(X, Y, sample_weight=g), word)
    w = np.linspace(-1, 1, regression(X, Y).dim)
    for scale in (1e308, 1e-300, 5e-324, np.float16(2), True, 10**30):
        loss = regression(X, Y, sample_weight=[scale] * 6)
        assert loss.value(w) == pytest.approx(regression(X, Y).value(w), rel=1e-14)


SETTINGS = {
    "l2": [-1, np.nan, np.inf, "1", None, np.ones(2), True, 1j, 10**400, [0.1]],
    "intercept": ["yes", 2, 1, 0, None, [True], 1.5],
    "batch_size": [0, -1, 2.5, True, np.nan, np.inf, "3", 10**18, 10**30, [2], np.array(3)],
}


def test_settings_are_checked():
    for name, values in SETTINGS.items():
        for value in values:
            options = {name: value}
            refused(
                name, (TypeError, ValueError), lambda o=options: pp.linear_regression(X, Y, **o)
            )
    for size in (2.0, np.int32(2), np.float64(2), 100):
        loss = pp.linear_regression(X, Y, batch_size=size)
        assert len(loss.sample(np.random.default_rng(0))) == size
