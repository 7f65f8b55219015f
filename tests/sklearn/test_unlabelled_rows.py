"""Rows without a label: their marks in y, in scores and among text."""

from __future__ import annotations

import importlib
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyprox.sklearn import ProxyLogisticRegression, ProxyRidge, ProxyWarning, labelled_only

QUICK = {"cv": 2, "max_steps": 10}
MARKED = {"unlabelled": -1, **QUICK}


@pytest.fixture
def marked(binary):
    X, y, _ = binary
    return X, np.where(np.arange(len(y)) < 90, y, -1)


def test_score_skips_rows_without_a_label(marked):
    X, y = marked
    model = ProxyLogisticRegression(**MARKED).fit(X, y)
    assert model.score(X, y) == model.score(X[:90], y[:90])
    weights = np.arange(1.0, len(y) + 1)
    assert model.score(X, y, weights) == model.score(X[:90], y[:90], weights[:90])
    # One class besides the mark is a score like any other.
    assert model.score(X, np.where(y == 1, 1, -1)) <= 1
    with pytest.raises(ValueError, match="only rows without a label"):
        model.score(X[90:], y[90:])


def test_a_search_scores_labelled_rows(marked):
    X, y = marked
    pipe = make_pipeline(StandardScaler(), ProxyLogisticRegression(**MARKED))
    assert cross_val_score(pipe, X, y, cv=3).min() > 0.6
    scorer = pickle.loads(pickle.dumps(labelled_only("neg_log_loss")))
    losses = cross_val_score(pipe, X, y, cv=3, scoring=scorer)
    assert (losses > -0.75).all()
    assert "unlabelled=-1" in repr(labelled_only("neg_log_loss", unlabelled=-1))
    weighted = scorer(pipe.fit(X, y), X, y, sample_weight=np.ones(len(y)))
    assert weighted == pytest.approx(scorer(pipe, X[:90], y[:90]))


@pytest.mark.parametrize("mark", ["", "?"])
@pytest.mark.parametrize("kind", [str, object])
def test_text_labels_have_a_mark_of_their_own(marked, mark, kind):
    X, y = marked
    names = np.array(["no", "yes", mark]).astype(kind)[y]
    model = ProxyLogisticRegression(unlabelled=mark, **QUICK).fit(X, names)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.n_labels_ == 90
    numbers = ProxyLogisticRegression(**MARKED).fit(X, y)
    np.testing.assert_array_equal(model.coef_, numbers.coef_)
    assert model.score(X, names) == numbers.score(X, y)


@pytest.mark.parametrize("mark", [None, np.nan, -1])
@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1)])
def test_none_among_objects_is_no_label(marked, mark, classes):
    X, y = marked
    given = [mark if label < 0 else classes[label] for label in y]
    reference = ProxyLogisticRegression(**MARKED).fit(X, y)
    for form in (given, np.array(given, dtype=object)):
        if isinstance(form, list) and mark is np.nan and classes == (0, 1):
            continue  # numpy makes floats of them, in which NaN is refused
        model = ProxyLogisticRegression(**MARKED).fit(X, form)
        assert model.classes_.tolist() == list(classes)
        np.testing.assert_array_equal(model.coef_, reference.coef_)
    with pytest.raises(ValueError, match="unlabelled=None takes every value for a class"):
        ProxyLogisticRegression(unlabelled=None).fit(X, np.array([None, *given[1:]], dtype=object))


def test_nan_may_be_the_mark(marked):
    X, y = marked
    model = ProxyLogisticRegression(unlabelled=np.nan, **QUICK)
    assert model.fit(X, np.where(y < 0, np.nan, y)).n_labels_ == 90


def test_missing_numbers_name_their_mark(marked):
    pandas = importlib.import_module("pandas")
    X, y = marked
    floats = np.where(y < 0, np.nan, y)
    for form in (floats, pandas.Series(floats), floats.tolist()):
        with pytest.raises(ValueError, match=r"NaN.*unlabelled=np\.nan"):
            ProxyLogisticRegression().fit(X, form)
        assert ProxyRidge(**QUICK).fit(X, form).n_labels_ == 90
    for kind in ("Int64", "Float64"):
        form = pandas.Series(floats).astype("Int64").astype(kind)
        assert ProxyLogisticRegression(unlabelled=np.nan, **QUICK).fit(X, form).n_labels_ == 90
        assert ProxyRidge(**QUICK).fit(X, form).n_labels_ == 90


@pytest.mark.parametrize("kind", [str, object])
def test_empty_text_that_is_a_class_is_warned_of(marked, kind):
    X, y = marked
    names = np.array(["no", "yes", ""]).astype(kind)[y]
    with pytest.warns(ProxyWarning, match="610 rows, which is taken for a class.*unlabelled=''"):
        model = ProxyLogisticRegression(n_steps=1).fit(X, names)
    assert len(model.classes_) == 3
    with pytest.warns(ProxyWarning, match="unlabelled=''"):
        ProxyLogisticRegression(n_steps=1).partial_fit(X, names)
    assert len(ProxyLogisticRegression(n_steps=1, unlabelled=None).fit(X, names).classes_) == 3


def test_marks_of_another_kind_are_named(marked):
    X, y = marked
    with pytest.raises(TypeError, match="y must be labels of one kind"):
        ProxyLogisticRegression().fit(X[:90], ["a", 3, *["b"] * 88])
    with pytest.raises(ValueError, match="no label"):
        ProxyLogisticRegression().fit(X, np.full(len(y), None))


SIGNS = np.arange(90) % 3 - 1


@pytest.mark.parametrize(
    "labels",
    [
        SIGNS,
        SIGNS.astype(float),
        SIGNS.tolist(),
        SIGNS.astype(object),
        2 * SIGNS + 1,
        SIGNS % 4 - 1,
    ],
    ids=["int", "float", "list", "objects", "odd", "few marks"],
)
@pytest.mark.parametrize("proxy", [False, True])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_minus_one_that_looks_like_a_class_is_not_left_out(three, labels, proxy, method):
    X, more, quick = three[0][:90], {"X_proxy": three[0][90:]} if proxy else {}, {"n_steps": 1}
    with pytest.raises(ValueError, match=r"unlabelled must be -1 or None.*unlabelled=None"):
        getattr(ProxyLogisticRegression(**quick), method)(X, labels, **more)
    every = getattr(ProxyLogisticRegression(unlabelled=None, **quick), method)(X, labels, **more)
    assert -1 in every.classes_
    marked = getattr(ProxyLogisticRegression(unlabelled=-1, **quick), method)(X, labels, **more)
    assert -1 not in marked.classes_


def test_minus_one_of_most_rows_is_warned_of_once_it_may_be_a_class(marked):
    X, y = marked
    with pytest.warns(ProxyWarning, match=r"610 of 700.*unlabelled=-1.*unlabelled=None"):
        model = ProxyLogisticRegression(**QUICK).fit(X, y)
    assert model.classes_.tolist() == [0, 1]
    assert model.score(X, y) == model.score(X[:90], y[:90])
    assert issubclass(ProxyWarning, UserWarning)


@pytest.mark.parametrize("classes", [(1, 2), (0, 1, 2), (0.0, 5.0), ("no", "yes")])
def test_minus_one_that_is_no_class_needs_no_word(three, classes):
    X, y = three[0], np.arange(len(three[0])) % len(classes)
    given = [classes[code] if row < 90 else -1 for row, code in enumerate(y)]
    model = ProxyLogisticRegression(**QUICK).fit(X, given)
    assert model.classes_.tolist() == list(classes)
    assert model.n_labels_ == 90


def test_scores_skip_a_mark_that_fit_did_not_see(three):
    X, y = three[0][:90], SIGNS
    kept = y >= 0
    model = ProxyLogisticRegression(**MARKED).fit(X[kept], y[kept])
    assert model.score(X, y) == model.score(X[kept], y[kept])


def test_classes_may_not_name_the_mark(three):
    X = three[0][:90]
    for mark in ("auto", -1):
        with pytest.raises(ValueError, match=r"classes must be without -1.*unlabelled=None"):
            ProxyLogisticRegression(unlabelled=mark).partial_fit(X, SIGNS, classes=[-1, 0, 1])
    model = ProxyLogisticRegression(unlabelled=None, **QUICK)
    assert len(model.partial_fit(X, SIGNS, classes=[-1, 0, 1]).classes_) == 3


def test_scorers_know_the_estimators_mark(binary):
    X, y, _ = binary
    named = np.where(np.arange(len(y)) < 60, np.array(["no", "yes"])[y], "")
    model = ProxyLogisticRegression(cv=2, max_steps=5, unlabelled="").fit(X, named)
    scorer = labelled_only("neg_log_loss")
    expected = labelled_only("neg_log_loss", unlabelled="")(model, X, named)
    assert scorer(model, X, named) == expected
    assert scorer(make_pipeline(model), X, named) == expected
    assert scorer(LogisticRegression().fit(X, y), X, np.where(named == "", -1, y)) < 0
