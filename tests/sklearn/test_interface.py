"""Pipelines, searches, routing, storage, and the errors and warnings on the way."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from proxyprox.sklearn import (
    ProxyGammaRegressor,
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
    ProxyWarning,
)


def test_minus_one_that_may_be_a_class_is_refused(binary):
    X, y, _ = binary
    with pytest.raises(ValueError, match=r"-1 could be a class.*unlabelled=None"):
        ProxyLogisticRegression().fit(X, 2 * y - 1)
    for y_bad, words in (
        (np.where(y == 0, 0, -1), "one class, 0"),
        (np.full(len(y), -1), "no label"),
    ):
        with pytest.raises(ValueError, match=rf"y must .*{words}.*unlabelled=None"):
            ProxyLogisticRegression().fit(X, y_bad)
    model = ProxyLogisticRegression(unlabelled=None).fit(X[:60], 2 * y[:60] - 1, X_proxy=X[60:])
    assert model.classes_.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"alpha": -1.0}, "alpha must be"),
        ({"alpha": "much"}, "alpha must be"),
        ({"alpha": []}, "one strength at least"),
        ({"l1_ratio": 2.0}, "l1_ratio must be"),
        ({"n_steps": "many"}, "n_steps must be"),
        ({"n_steps": -2}, "n_steps must be"),
        ({"power": 2.0}, "power must be"),
        ({"power": "best"}, "power must be"),
        ({"max_steps": 0}, "max_steps must be"),
    ],
)
def test_wrong_settings_are_named(binary, settings, match):
    X, y, _ = binary
    with pytest.raises(ValueError, match=match):
        ProxyLogisticRegression(**settings).fit(X, y)


def test_proxy_of_other_columns_is_refused(binary):
    X, y, _ = binary
    with pytest.raises(ValueError, match=r"X_proxy must be .*6 features.*transform_input"):
        ProxyLogisticRegression().fit(X[:50], y[:50], X_proxy=X[50:, :3])


def test_proxy_of_equal_length_is_warned_of(binary):
    X, y, _ = binary
    with pytest.warns(ProxyWarning, match="X_proxy has as many rows"):
        ProxyLogisticRegression(cv=2).fit(X[:50], y[:50], X_proxy=X[50:100])


def test_proxy_on_another_scale_is_warned_of(binary):
    X, y, _ = binary
    with pytest.warns(ProxyWarning, match="transform_input"):
        ProxyLogisticRegression(cv=2).fit(X[:50], y[:50], X_proxy=1000 * X[60:] + 5000)


def test_rare_words_are_no_other_scale():
    rng = np.random.default_rng(0)
    X = (rng.random((400, 300)) < 0.01).astype(float)
    ProxyLogisticRegression(cv=2, max_steps=5).fit(X[:20], np.arange(20) % 2, X_proxy=X[20:])


def test_negative_counts_are_refused(binary):
    X, y, _ = binary
    with pytest.raises(ValueError, match="zero or more"):
        ProxyPoissonRegressor().fit(X, y - 3)


def test_one_class_is_refused(binary):
    X, _, _ = binary
    with pytest.raises(ValueError, match="two classes"):
        ProxyLogisticRegression().fit(X, np.ones(len(X), dtype=int))


def test_pipeline_and_search_route_the_proxy(binary):
    X, y, _ = binary
    raw, more = 5 * X[:80] + 3, 5 * X[80:] + 3
    with sklearn.config_context(enable_metadata_routing=True):
        model = ProxyLogisticRegression(cv=2, max_steps=10).set_fit_request(X_proxy=True)
        pipeline = Pipeline(
            [("scale", StandardScaler()), ("fit", model)], transform_input=["X_proxy"]
        )
        search = GridSearchCV(pipeline, {"fit__n_steps": [3, 6]}, cv=2)
        search.fit(raw, y[:80], X_proxy=more)
    scaler = StandardScaler().fit(raw)
    steps = search.best_params_["fit__n_steps"]
    direct = ProxyLogisticRegression(cv=2, max_steps=10, n_steps=steps)
    direct.fit(scaler.transform(raw), y[:80], X_proxy=scaler.transform(more))
    np.testing.assert_allclose(search.best_estimator_[-1].coef_, direct.coef_, rtol=1e-10)


def test_marked_rows_work_in_any_pipeline(binary):
    X, y, _ = binary
    marked = np.where(np.arange(len(y)) < 90, y, -1)
    last = ProxyLogisticRegression(cv=2, max_steps=10, unlabelled=-1)
    model = make_pipeline(StandardScaler(), last)
    assert model.fit(X, marked).score(X, y) > 0.6


def test_cross_val_score(binary):
    X, y, _ = binary
    scores = cross_val_score(ProxyLogisticRegression(cv=2, max_steps=10), X[:150], y[:150], cv=3)
    assert scores.mean() > 0.6


def test_clone_and_feature_names(binary):
    pandas = importlib.import_module("pandas")
    X, y, _ = binary
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    model = clone(ProxyRidge(alpha=0.1, cv=2)).fit(frame[:90], y[:90], X_proxy=frame[90:])
    assert model.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("kind", [ProxyLogisticRegression, ProxyRidge])
def test_a_proxy_of_other_names_is_refused(binary, kind):
    pandas = importlib.import_module("pandas")
    X, y, _ = binary
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    turned, strange = frame[list("fedcba")], frame.rename(columns={"a": "z"})
    model = kind(n_steps=2, alpha=0.1).fit(frame[:90], y[:90], X_proxy=frame[90:])
    for method in (model.partial_fit, model.fit):
        with pytest.raises(ValueError, match=r"X_proxy must be .*order"):
            method(frame[:90], y[:90], X_proxy=turned[90:])
        with pytest.raises(ValueError, match=r"X_proxy must be .*unseen.*- z"):
            method(frame[:90], y[:90], X_proxy=strange[90:])
    # Names on one side only say nothing.
    model.fit(frame[:90], y[:90], X_proxy=X[90:])
    model.fit(X[:90], y[:90], X_proxy=turned[90:])


def test_skops_round_trip(binary, tmp_path):
    io = importlib.import_module("skops.io")
    X, y, _ = binary
    model = ProxyLogisticRegression(cv=2, max_steps=8).partial_fit(X[:80], y[:80], X_proxy=X[80:])
    io.dump(model, tmp_path / "model.skops")
    trusted = io.get_untrusted_types(file=tmp_path / "model.skops")
    assert trusted == ["proxyprox.sklearn.estimators.ProxyLogisticRegression"]
    again = io.load(tmp_path / "model.skops", trusted=trusted)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    again.partial_fit(X[80:100], y[80:100])


def test_partial_fit_ends_where_fit_ends(binary):
    X, y, _ = binary
    streamed = ProxyLogisticRegression(n_steps=150, cv=2)
    for start in range(0, 90, 30):
        streamed.partial_fit(
            X[start : start + 30],
            y[start : start + 30],
            classes=[0, 1],
            X_proxy=X[90 + start : 121 + start],
        )
    more = np.vstack([X[90 + start : 121 + start] for start in range(0, 90, 30)])
    whole = ProxyLogisticRegression(n_steps=150, cv=2).fit(X[:90], y[:90], X_proxy=more)
    assert streamed.n_labels_ == 90
    np.testing.assert_allclose(streamed.coef_, whole.coef_, atol=1e-4)


def test_gamma_deviance_is_cross_validated(binary):
    X, _, w = binary
    y = np.random.default_rng(0).gamma(2.0, np.exp(X @ w / 3) / 2)
    quick = ProxyGammaRegressor(cv=2, max_steps=10)
    search = GridSearchCV(quick, {"alpha": [0.0, 10.0]}, cv=2, scoring="neg_mean_gamma_deviance")
    assert search.fit(X[:200], y[:200]).best_params_ == {"alpha": 0.0}
    assert cross_val_score(quick, X[:200], y[:200], cv=3).min() > 0.1


def test_partial_fit_may_begin_without_labels(binary):
    X, y, _ = binary
    model = ProxyLogisticRegression(max_steps=10)
    nothing = np.full(50, -1)
    nothing[:2] = [0, 1]
    model.partial_fit(X[:50], nothing, classes=[0, 1])
    model.partial_fit(X[50:100], y[50:100])
    assert model.n_labels_ == 52
    with pytest.raises(ValueError, match="one of the classes"):
        model.partial_fit(X[:2], np.array([5, 7]))


def test_warm_start_begins_at_the_last_fit(binary):
    X, y, _ = binary
    model = ProxyLogisticRegression(n_steps=100, warm_start=True, cv=2).fit(X[:90], y[:90])
    before = model.coef_
    model.set_params(n_steps=0).fit(X[:90], y[:90])
    np.testing.assert_array_equal(model.coef_, before)


def test_weights_of_zero_are_rows_left_out(binary):
    X, y, _ = binary
    weights = (np.arange(100) % 3 > 0).astype(float)
    with_zeros = ProxyLogisticRegression(max_steps=8).fit(X[:100], y[:100], sample_weight=weights)
    keep = weights > 0
    without = ProxyLogisticRegression(max_steps=8).fit(X[:100][keep], y[:100][keep])
    np.testing.assert_allclose(with_zeros.coef_, without.coef_, rtol=1e-10)


def test_a_fit_repeats_itself(binary):
    X, y, _ = binary
    quick = ProxyLogisticRegression(max_steps=8)
    one, two = (clone(quick).fit(X[:60], y[:60], X_proxy=X[60:]) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize(
    ("kind", "sparse"),
    [
        (ProxyLogisticRegression, False),
        (ProxyRidge, True),
        (ProxyGammaRegressor, False),
    ],
)
def test_partial_fit_resumes_from_fit(binary, kind, sparse):
    X, y, _ = binary
    y = y + 1
    given = scipy.sparse.csr_array(X) if sparse else X
    model = kind(n_steps=150, cv=2).fit(given[:40], y[:40], X_proxy=given[100:400])
    model.partial_fit(given[40:50], y[40:50]).partial_fit(given[50:70], y[50:70])
    assert model.n_labels_ == 70
    whole = kind(n_steps=150, cv=2).fit(X[:70], y[:70], X_proxy=X[100:400])
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-4)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[70:80, :3], y[70:80])
    with pytest.raises(ValueError, match="fit_intercept must be as in the last fit"):
        model.set_params(fit_intercept=False).partial_fit(X[70:80], y[70:80])
    assert model.n_labels_ == 70


def test_partial_fit_after_fit_takes_one_class_and_marked_rows(binary):
    X, y, _ = binary
    model = ProxyLogisticRegression(cv=2, max_steps=5).fit(X[:40].astype(np.float32), y[:40])
    rows = np.flatnonzero(y == 1)[-10:]
    model.partial_fit(X[rows], np.where(np.arange(10) < 5, 1, -1))
    assert model.n_labels_ == 45
    model.fit(X[:60], y[:60] + 5)
    assert model.partial_fit(X[60:70], y[60:70] + 5).classes_.tolist() == [5, 6]
    assert model.n_labels_ == 70


def test_partial_fit_takes_rows_without_any_label(binary):
    X, y, _ = binary
    model = ProxyLogisticRegression(n_steps=5, cv=2).fit(X[:60], y[:60])
    model.partial_fit(X[60:], np.full(len(X) - 60, -1))
    whole = ProxyLogisticRegression(n_steps=5, cv=2, warm_start=True)
    whole.fit(X[:60], y[:60]).fit(X[:60], y[:60], X_proxy=X[60:])
    assert model.n_labels_ == 60
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-9)


def test_fit_keeps_references_to_inputs(binary):
    X, y, _ = binary
    model = ProxyLogisticRegression(cv=2, max_steps=5).fit(X[:60], y[:60], X_proxy=X[60:])
    assert np.shares_memory(model._rows[0], X)
    kept = [part for part in (*model._rows, *model._others) if isinstance(part, np.ndarray)]
    assert max(part.shape[0] for part in kept) == 60
