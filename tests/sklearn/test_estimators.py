"""The estimators against scikit-learn's own, and what scikit-learn's tools ask of an estimator."""

import importlib

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import proxyprox as pp
from proxyprox.inner.exact import minimise_exactly
from proxyprox.sklearn import (
    ProxyGammaRegressor,
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
    labelled_only,
)
from proxyprox.sklearn.fitting import best_strength

QUICK = {"cv": 2}
EVERY = [ProxyLogisticRegression, ProxyRidge, ProxyPoissonRegressor, ProxyGammaRegressor]
CLASH = "classes {-1, 1} are refused by design: -1 may mark unlabelled rows"


def clashes(estimator):
    auto = getattr(estimator, "unlabelled", None) == "auto"
    return {"check_classifiers_classes": CLASH} if auto else {}


@parametrize_with_checks([each(**QUICK) for each in EVERY[:2]], expected_failed_checks=clashes)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


OTHERS = [ProxyLogisticRegression(unlabelled=None, **QUICK), *(each(**QUICK) for each in EVERY[2:])]


@pytest.mark.slow
@parametrize_with_checks(OTHERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_scikit_learn_checks_of_the_others(estimator, check):
    check(estimator)


def test_converged_fits_are_scikit_learns(binary, three):
    X, y, w = binary
    rng = np.random.default_rng(0)
    line, counts = X @ w + rng.normal(size=len(X)), rng.poisson(np.exp(X @ w / 3))
    amounts, n = rng.gamma(2.0, np.exp(X @ w / 3) / 2), len(X)
    exact = {"tol": 1e-10, "max_iter": 10_000}
    for kind, theirs, rows, labels in (
        (ProxyLogisticRegression, LogisticRegression(C=10 / n, **exact), X, y),
        (ProxyLogisticRegression, LogisticRegression(C=10 / 600, **exact), *three),
        (ProxyRidge, Ridge(alpha=0.1 * n), X, line),
        (ProxyPoissonRegressor, PoissonRegressor(alpha=0.1, **exact), X, counts),
        (ProxyGammaRegressor, GammaRegressor(alpha=0.1, **exact), X, amounts),
    ):
        ours = kind(alpha=0.1).fit(rows, labels)
        assert ours.alpha_ == 0.1
        theirs.fit(rows, labels)
        assert np.shape(ours.coef_) == theirs.coef_.shape
        assert np.shape(ours.intercept_) == np.shape(theirs.intercept_)
        np.testing.assert_allclose(ours.predict(rows), theirs.predict(rows), atol=1e-4)
        assert ours.score(rows, labels) == pytest.approx(theirs.score(rows, labels), abs=1e-5)
        if hasattr(theirs, "predict_proba"):
            np.testing.assert_allclose(
                ours.predict_proba(rows), theirs.predict_proba(rows), atol=3e-5
            )
            np.testing.assert_allclose(
                np.exp(ours.predict_log_proba(rows)), ours.predict_proba(rows)
            )
        else:
            np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    free = ProxyRidge(alpha=0.0).fit(X, line)
    np.testing.assert_allclose(free.coef_, LinearRegression().fit(X, line).coef_, atol=1e-7)


def test_strengths_lead_from_the_constant_model_to_the_minimiser(binary):
    X, y, _ = binary
    none = ProxyLogisticRegression(alpha=1e9).fit(X[:100], y[:100])
    assert np.abs(none.coef_).max() < 1e-6
    assert none.predict_proba(X[:1])[0, 1] == pytest.approx(y[:100].mean())
    # More columns than rows: the fit is made in the rows' span.
    wide = np.random.default_rng(0).normal(size=(40, 300))
    ours = ProxyLogisticRegression(alpha=0.1).fit(wide, y[:40])
    theirs = LogisticRegression(C=1 / 4, tol=1e-10, max_iter=10_000).fit(wide, y[:40])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_few_labels_average_strengths_by_held_out_likelihood(binary):
    X, y, _ = binary
    X, y, folds = X[:60], y[:60], KFold(4)
    alphas, likelihoods, fits = [1.0, 0.1, 0.01], [], []
    for alpha in alphas:
        total = 0.0
        for train, test in folds.split(X):
            model = LogisticRegression(C=1 / (alpha * len(train)), tol=1e-10).fit(
                X[train], y[train]
            )
            total += model.predict_log_proba(X[test])[np.arange(len(test)), y[test]].sum()
        likelihoods.append(np.exp(total))
        fits.append(LogisticRegression(C=1 / (alpha * 60), tol=1e-10).fit(X, y).coef_)
    found = ProxyLogisticRegression(alpha=alphas, cv=folds).fit(X, y)
    average = np.average(np.ravel(fits).reshape(3, -1), axis=0, weights=likelihoods)
    np.testing.assert_allclose(found.coef_.ravel(), average, rtol=1e-3, atol=1e-4)
    assert found.alpha_ == alphas[int(np.argmax(likelihoods))]


@pytest.mark.parametrize("kind", EVERY)
def test_sparse_and_marked_rows_give_the_same_fit(binary, kind):
    X, y, _ = binary
    y, X, known = y + 1.0, np.where(np.abs(X) > 0.8, X, 0.0), np.arange(len(y)) % 7 == 0
    apart = kind(**QUICK).fit(X[known], y[known], X_proxy=X[~known])
    csr, csc = scipy.sparse.csr_array(X[known]), scipy.sparse.csc_array(X[~known])
    sparse = kind(**QUICK).fit(csr, y[known], X_proxy=csc)
    np.testing.assert_allclose(sparse.coef_, apart.coef_, rtol=1e-7, atol=1e-9)
    marks = {"unlabelled": np.nan} if kind is ProxyLogisticRegression else {}
    y[~known] = np.nan
    for given in (y, [None if np.isnan(value) else value for value in y]):
        marked = kind(**marks, **QUICK).fit(X, given)
        np.testing.assert_allclose(marked.coef_, apart.coef_, rtol=1e-8)
        assert marked.n_labels_ == 100
        assert marked.score(X, y) == pytest.approx(apart.score(X[known], y[known]))
    if not marks:
        scoring = labelled_only("neg_mean_absolute_error")
        assert np.isfinite(cross_val_score(marked, X, y, cv=3, scoring=scoring)).all()
    with pytest.raises(ValueError, match="label"):
        kind(**marks).fit(X, np.full(len(y), np.nan))


@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_averages_know_the_dispersion(binary, unit):
    """Whether noise is large or small, the average is about as good as the best strength."""
    X, _, w = binary
    rng = np.random.default_rng(0)
    line = X @ w + unit * rng.normal(size=len(X))
    amounts = rng.gamma(1 / unit, np.exp(X @ w / 3) * unit)
    for kind, y in ((ProxyRidge, line), (ProxyGammaRegressor, amounts)):
        rows = X[:60], y[:60], None, X[60:]
        fit = kind(cv=3).fit(*rows)
        one = kind(alpha=fit.alpha_).fit(*rows)
        assert fit.score(X[60:], y[60:]) > one.score(X[60:], y[60:]) - 0.02
        assert 0 < np.abs(fit.coef_ - one.coef_).max() < 0.2 * np.sqrt(unit)


# -- tools of scikit-learn ----------------------------------------------------------------------


def test_pipeline_and_search_route_the_proxy(binary):
    X, y, _ = binary
    raw, more = 5 * X[:80] + 3, 5 * X[80:] + 3
    with sklearn.config_context(enable_metadata_routing=True):
        model = ProxyLogisticRegression(**QUICK).set_fit_request(X_proxy=True)
        steps = [("scale", StandardScaler()), ("fit", model)]
        pipeline = Pipeline(steps, transform_input=["X_proxy"])
        search = GridSearchCV(pipeline, {"fit__alpha": [0.1, 1.0]}, cv=2)
        search.fit(raw, y[:80], X_proxy=more)
    scaler = StandardScaler().fit(raw)
    direct = ProxyLogisticRegression(alpha=search.best_params_["fit__alpha"], **QUICK)
    direct.fit(scaler.transform(raw), y[:80], X_proxy=scaler.transform(more))
    np.testing.assert_allclose(search.best_estimator_[-1].coef_, direct.coef_, rtol=1e-10)


@pytest.mark.parametrize("kind", [ProxyLogisticRegression, ProxyRidge])
def test_names_of_columns(binary, kind):
    X, y, _ = binary
    frame = pd.DataFrame(X, columns=list("abcdef"))
    turned, strange = frame[list("fedcba")], frame.rename(columns={"a": "z"})
    model = clone(kind(alpha=0.1, cv=2))
    model.fit(frame[:90], y[:90], X_proxy=frame[90:])
    assert model.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(strange)
    for other in (turned, strange):
        with pytest.raises(ValueError, match=r"X_proxy must be "):
            model.fit(frame[:90], y[:90], X_proxy=other[90:])
    # Names on one side only say nothing.
    model.fit(frame[:90], y[:90], X_proxy=X[90:])
    model.fit(X[:90], y[:90], X_proxy=turned[90:])


def test_skops_round_trip(binary, tmp_path):
    io, path = importlib.import_module("skops.io"), tmp_path / "model.skops"
    X, y, _ = binary
    model = ProxyLogisticRegression(**QUICK).fit(X[:80], y[:80], X_proxy=X[80:])
    io.dump(model, path)
    trusted = io.get_untrusted_types(file=path)
    assert trusted == ["proxyprox.sklearn.estimators.ProxyLogisticRegression"]
    again = io.load(path, trusted=trusted)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.coef_std_, model.coef_std_)


# -- weights of classes ---------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["balanced", {0: 1.0, 1: 5.0}])
def test_class_weight_is_a_weight_of_the_rows(given):
    rng = np.random.default_rng(0)
    X, others = rng.normal(size=(120, 3)), rng.normal(size=(300, 3))
    y = (X[:, 0] + rng.normal(size=120) > 1.0).astype(int)
    counts = np.bincount(y)
    factors = 120 / (2 * counts) if given == "balanced" else np.array([1.0, 5.0])
    fit = ProxyLogisticRegression(class_weight=given).fit(X, y, X_proxy=others)
    same = ProxyLogisticRegression().fit(X, y, sample_weight=factors[y], X_proxy=others)
    np.testing.assert_allclose(fit.coef_, same.coef_, rtol=1e-9)
    np.testing.assert_allclose(fit.coef_std_, same.coef_std_, rtol=1e-9)
    # The classes' weights are no weights of the population: its mean is still that of the labels.
    plain = ProxyLogisticRegression().fit(X, y, X_proxy=others)
    found, want = (each.mean_prediction(others) for each in (fit, plain))
    assert abs(found.estimate - want.estimate) < (want.high - want.low) / 3
    assert fit.predict_proba(others)[:, 1].mean() > plain.predict_proba(others)[:, 1].mean() + 0.05


# -- strengths: one, and cross-validated ones of many rows, against fits one by one --------------


def rows(n=900, d=6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d), rng


@pytest.mark.parametrize("name", ["linear", "logistic", "softmax", "poisson", "gamma"])
def test_folds_that_share_passes_find_what_fits_one_by_one_do(name):
    X, z, rng = rows(400, 4)
    labels = {
        "linear": z + rng.normal(size=len(z)), "logistic": z + rng.logistic(size=len(z)) > 0,
        "softmax": np.digitize(z + rng.normal(size=len(z)), [-1, 1]),
        "poisson": rng.poisson(np.exp(z / 3)), "gamma": rng.gamma(2, np.exp(z / 3)),
    }  # fmt: skip
    make = getattr(pp, f"{name}_regression")
    weights = rng.random(len(z)) + 0.5
    loss = make(X, labels[name], intercept=True, sample_weight=weights)
    strengths, folds = [1.0, 1e-1, 1e-2, 1e-4], list(KFold(4).split(X))
    w, trial = best_strength(loss, strengths, folds)
    place, curve = trial.place, trial.curve
    np.testing.assert_allclose(w, minimise_exactly(loss.with_l2(strengths[place]), w), atol=1e-4)
    for strength, found in zip(strengths, curve, strict=True):
        total = 0.0
        for train, test in folds:
            own = loss.rows(train).with_l2(strength)
            fit = minimise_exactly(own, own.zeros())
            total += loss.rows(test).value(fit) * weights[test].sum()
        assert found == pytest.approx(total / weights.sum(), rel=1e-3)


@pytest.mark.parametrize(("rows", "seed"), [(260, 2), (300, 3), (350, 3)])
def test_folds_that_can_be_separated_do_not_choose_a_strength_too_weak_to_be_fitted(rows, seed):
    X, y = load_breast_cancer(return_X_y=True)
    X, order = StandardScaler().fit_transform(X), np.random.default_rng(seed).permutation(len(y))
    fitted, tested = order[:rows], order[rows:]

    def loss(model):
        model.fit(X[fitted], y[fitted])
        return log_loss(y[tested], model.predict_proba(X[tested]))

    assert loss(ProxyLogisticRegression()) < 1.5 * loss(LogisticRegression())


def test_many_labels_choose_a_strength():
    X, z, rng = rows()
    for kind, y in (
        (ProxyLogisticRegression, z + rng.logistic(size=len(z)) > 0),
        (ProxyPoissonRegressor, rng.poisson(np.exp(z / 3))),
        (ProxyGammaRegressor, rng.gamma(2, np.exp(z / 3))),
    ):
        model = kind().fit(X, y)
        assert len(model.cv_curve_) == 12
        assert model.cv_curve_.min() < 0.99 * model.cv_curve_.max()
        assert model.score(X, y) > 0.2


def test_tables_of_few_rows_and_many_columns_are_the_same_in_every_form():
    X, z, _ = rows(30, 70)
    X, y = X * (abs(X) > 1), z > 0
    forms = X, scipy.sparse.csr_array(X), scipy.sparse.csr_matrix(X)
    expected, *others = (ProxyLogisticRegression().fit(form, y).coef_ for form in forms)
    for found in others:
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_numbers_that_are_all_alike_are_predicted():
    X, *_ = rows(20, 3)
    np.testing.assert_allclose(ProxyRidge().fit(X, np.full(20, 7.0)).predict(X), 7.0)
