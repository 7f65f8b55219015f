"""Malformed inputs, labels, weights and settings are refused by name; marks of missing labels."""

import itertools
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyprox.sklearn import (
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
    labelled_only,
)

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2))
Y = np.arange(24) % 2
QUICK = {"cv": 2}
ESTIMATORS = [ProxyLogisticRegression(**QUICK), ProxyPoissonRegressor(**QUICK), ProxyRidge(**QUICK)]
EVERY = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
MASK = np.arange(24) == 3


def refused(name, call):
    with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b"):
        call()


BAD_X = [
    np.ma.array(X, mask=X > 1),
    torch.tensor(X) * 1j,
    torch.tensor(X).to_sparse(),
    torch.tensor(X).bfloat16(),
    X * 1e160,
    sp.csr_array(X * 1e160),
    "abc",
    [[10**400, 1]] * 24,
    pd.DataFrame({"a": list("ab") * 12, "b": 1.0}),
    SimpleNamespace(__dask_graph__={}),  # of which scikit-learn would fetch all rows
]
BAD_Y = [
    np.ma.array(Y, mask=MASK),
    Y + 0j,
    Y.astype("M8[D]"),
    Y.astype("m8[D]"),
    torch.tensor(Y).to_sparse(),
    torch.tensor(Y).bfloat16(),
]
BAD_NUMBERS = [list("01") * 12, np.array([b"0", b"1"] * 12)]
BAD_WEIGHTS = [
    np.ma.array(np.ones(24), mask=MASK),
    np.ones(24) + 0j,
    ["1"] * 24,
    np.ones(24, "m8[D]"),
    [None] * 24,
    -np.ones(24),
    np.full(24, np.nan),
    np.zeros(24),
]


@EVERY
def test_rows_labels_and_weights(estimator):
    fitted = clone(estimator).set_params().fit(X, Y)
    other, proxy = "Complex data not supported", {"X_proxy": X + 0.1}
    for given in BAD_X:
        refused(f"(X|{other})", lambda g=given: clone(estimator).fit(g, Y))
        array = getattr(given, "to_numpy", lambda g=given: g)()
        refused(f"(X|{other})", lambda g=array: fitted.predict(g))
        refused(f"(X_proxy|{other})", lambda g=given: clone(estimator).fit(X, Y, X_proxy=g))
    numbers = [] if hasattr(estimator, "unlabelled") else BAD_NUMBERS
    for given in (*BAD_Y, *numbers):
        refused("y", lambda g=given: clone(estimator).fit(X, g))
        refused("y_proxy", lambda g=given: clone(estimator).fit(X, Y, y_proxy=g, **proxy))
    gaps = pd.array([True, None] * 12, dtype="boolean")
    refused("y_proxy", lambda: clone(estimator).fit(X, Y, y_proxy=gaps, **proxy))
    for given in BAD_WEIGHTS:
        refused("[Ss]ample.weights?", lambda g=given: clone(estimator).fit(X, Y, sample_weight=g))
    for given in BAD_WEIGHTS[:-1]:
        refused("[Ss]ample.weights?", lambda g=given: fitted.score(X, Y, g))


def test_labels_that_the_family_does_not_have():
    fitted = ProxyPoissonRegressor(**QUICK).fit(X, Y)
    refused("y", lambda: fitted.score(X, np.ones(24)))
    refused("y", lambda: ProxyPoissonRegressor().fit(X, Y - 3))
    for labels in (np.ones(24, dtype=int), 2 * Y - 1, np.where(Y, -1, 0), np.full(24, -1)):
        refused("(y|unlabelled)", lambda y=labels: ProxyLogisticRegression().fit(X, y))


@EVERY
def test_weights_and_tensors_that_mean_the_same(estimator):
    plain = clone(estimator).fit(X, Y)
    huge = clone(estimator).fit(X, Y, sample_weight=np.full(24, 1e308))
    np.testing.assert_allclose(huge.coef_, plain.coef_, rtol=1e-6)
    tensor = clone(estimator).fit(
        torch.tensor(X, requires_grad=True),
        torch.tensor(Y, dtype=torch.float64).requires_grad_(),
        sample_weight=torch.ones(24, requires_grad=True),
    )
    np.testing.assert_allclose(tensor.coef_, plain.coef_, rtol=1e-6)


def test_settings():
    odd = {
        "cv": ["", "x", -1, 1, np.ones(2), object()],
        "alpha": ["x", None, -1, np.nan, object(), {}, 1j, []],
        "fit_intercept": ["no", None, 2],
        "unlabelled": [[], {}, np.ones(2), object(), int],
        "class_weight": ["balance", {"a": 1.0, "z": 2.0}, {0: -1.0, 1: 1.0}, {0: 0}, 3],
    }
    for name, values in odd.items():
        for value in values:
            changed = clone(ESTIMATORS[0]).set_params(**{name: value})
            refused(name, lambda model=changed: model.fit(X, Y))


def test_a_proxy_of_other_columns(binary):
    rows, y, _ = binary
    model = ProxyLogisticRegression(**QUICK)
    with pytest.raises(ValueError, match=r"X_proxy must be .*6 features.*transform_input"):
        model.fit(rows[:50], y[:50], X_proxy=rows[50:, :3])


# -- marks of rows without a label ----------------------------------------------------------------

MARKED = {"unlabelled": -1, **QUICK}


@pytest.fixture
def marked(binary):
    rows, y, _ = binary
    return rows, np.where(np.arange(len(y)) < 90, y, -1)


@pytest.fixture
def reference(marked):
    return ProxyLogisticRegression(**MARKED).fit(*marked)


def test_scores_skip_rows_without_a_label(marked, reference):
    rows, y = marked
    weights, known = np.arange(1.0, len(y) + 1), y >= 0
    assert reference.score(rows, y) == reference.score(rows[known], y[known])
    assert reference.score(rows, y, weights) == reference.score(rows[:90], y[:90], weights[:90])
    # One class besides the mark is a score like any other.
    assert reference.score(rows, np.where(y == 1, 1, -1)) <= 1
    with pytest.raises(ValueError, match="only rows without a label"):
        reference.score(rows[90:], y[90:])
    # A mark that the fit did not see.
    apart = ProxyLogisticRegression(**MARKED).fit(rows[known], y[known])
    assert apart.score(rows, y) == apart.score(rows[known], y[known])


def test_searches_score_labelled_rows(marked):
    rows, y = marked
    pipe = make_pipeline(StandardScaler(), ProxyLogisticRegression(**MARKED))
    assert cross_val_score(pipe, rows, y, cv=3).min() > 0.6
    scorer = pickle.loads(pickle.dumps(labelled_only("neg_log_loss")))
    assert (cross_val_score(pipe, rows, y, cv=3, scoring=scorer) > -0.75).all()
    assert "unlabelled=-1" in repr(labelled_only("neg_log_loss", unlabelled=-1))
    weighted = scorer(pipe.fit(rows, y), rows, y, sample_weight=np.ones(len(y)))
    assert weighted == pytest.approx(scorer(pipe, rows[:90], y[:90]))
    named = np.where(y >= 0, np.array(["no", "yes", ""])[y], "")
    model = ProxyLogisticRegression(unlabelled="", **QUICK).fit(rows, named)
    expected = labelled_only("neg_log_loss", unlabelled="")(model, rows, named)
    assert expected == pytest.approx(scorer(pipe, rows, y), rel=0.2)
    assert scorer(LogisticRegression().fit(rows[:90], y[:90]), rows, y) < 0


def test_marks_of_text_and_objects(marked, reference):
    rows, y = marked
    for mark, kind in itertools.product(["", "?"], [str, object]):
        names = np.array(["no", "yes", mark]).astype(kind)[y]
        model = ProxyLogisticRegression(unlabelled=mark, **QUICK).fit(rows, names)
        assert model.classes_.tolist() == ["no", "yes"]
        np.testing.assert_array_equal(model.coef_, reference.coef_)
        assert model.score(rows, names) == reference.score(rows, y)
    for mark, classes in itertools.product([None, np.nan, -1], [("no", "yes"), (0, 1)]):
        given = [mark if label < 0 else classes[label] for label in y]
        for form in (given, np.array(given, dtype=object)):
            if isinstance(form, list) and mark is np.nan and classes == (0, 1):
                continue  # numpy makes floats of them, in which NaN is refused
            model = ProxyLogisticRegression(**MARKED).fit(rows, form)
            assert model.classes_.tolist() == list(classes)
            np.testing.assert_array_equal(model.coef_, reference.coef_)
        with pytest.raises(ValueError, match="unlabelled=None takes every value for a class"):
            ProxyLogisticRegression(unlabelled=None).fit(
                rows, np.array([None, *given[1:]], dtype=object)
            )


def test_missing_numbers_name_their_mark(marked):
    rows, y = marked
    floats = np.where(y < 0, np.nan, y)
    for form in (floats, pd.Series(floats), floats.tolist()):
        with pytest.raises(ValueError, match=r"NaN.*unlabelled=np\.nan"):
            ProxyLogisticRegression().fit(rows, form)
    for form in (floats, pd.Series(floats).astype("Int64")):
        for model in (ProxyLogisticRegression(unlabelled=np.nan, **QUICK), ProxyRidge(**QUICK)):
            assert model.fit(rows, form).n_labels_ == 90
    with pytest.raises(TypeError, match="y must be labels of one kind"):
        ProxyLogisticRegression().fit(rows[:90], ["a", 3, *["b"] * 88])


def test_marks_that_may_be_classes_are_asked_about(marked, three):
    rows, y = marked
    signs = np.arange(90) % 3 - 1
    for given, mark in (
        (y, -1), (np.array(["no", "yes", ""])[y], ""), (["no", "yes", ""] * 30, ""),
        (signs.astype(float), -1), (signs.tolist(), -1), (2 * signs + 1, -1),
    ):  # fmt: skip
        own = rows[: len(given)]
        with pytest.raises(ValueError, match="unlabelled"):
            ProxyLogisticRegression(**QUICK).fit(own, given)
        for chosen, kept in ((None, True), (mark, False)):
            model = ProxyLogisticRegression(unlabelled=chosen, **QUICK).fit(own, given)
            assert (mark in model.classes_) == kept
