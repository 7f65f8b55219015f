"""The estimators against scikit-learn's own, and what scikit-learn asks of an estimator."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from proxyprox.sklearn import (
    ProxyGammaRegressor,
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
    labelled_only,
    mean_prediction,
)

QUICK = {"cv": 2, "max_steps": 4}
CLASH = "with -1 as the mark of unlabelled rows, classes {-1, 1} are refused by design"


def expected_failures(estimator):
    failures = {}
    if getattr(estimator, "unlabelled", None) == "auto":
        failures["check_classifiers_classes"] = CLASH
    return failures


@parametrize_with_checks(
    [
        ProxyLogisticRegression(**QUICK),
        ProxyRidge(**QUICK),
        ProxyPoissonRegressor(**QUICK),
        ProxyGammaRegressor(**QUICK),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


WITHOUT_A_MARK = [
    pytest.param(estimator, check, id=check.func.__name__)
    for estimator, check in estimator_checks_generator(
        ProxyLogisticRegression(unlabelled=None, **QUICK)
    )
    if "classif" in check.func.__name__
]


@pytest.mark.parametrize(("estimator", "check"), WITHOUT_A_MARK)
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_scikit_learn_checks_of_classes_without_a_mark(estimator, check):
    check(estimator)


def test_converged_fit_is_scikit_learns(binary):
    X, y, _ = binary
    ours = ProxyLogisticRegression(n_steps="converged", alpha=0.01).fit(X[:200], y[:200])
    theirs = LogisticRegression(C=1 / (200 * 0.01), tol=1e-10, max_iter=1000).fit(X[:200], y[:200])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert (ours.predict(X) == theirs.predict(X)).all()


def test_converged_multinomial_fit_is_scikit_learns(three):
    X, y = three
    ours = ProxyLogisticRegression(n_steps="converged", alpha=0.02).fit(X[:300], y[:300])
    theirs = LogisticRegression(C=1 / (300 * 0.02), tol=1e-10, max_iter=1000).fit(X[:300], y[:300])
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(X)), ours.predict_proba(X))


def test_converged_regressions_are_scikit_learns(binary):
    X, _, w = binary
    rng = np.random.default_rng(0)
    y = X @ w + rng.normal(size=len(X))
    ours = ProxyRidge(n_steps="converged", alpha=0.1).fit(X, y)
    theirs = Ridge(alpha=0.1 * len(X)).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    counts = rng.poisson(np.exp(X @ w / 3))
    mine = ProxyPoissonRegressor(n_steps="converged", alpha=0.1).fit(X, counts)
    other = PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=1000).fit(X, counts)
    np.testing.assert_allclose(mine.coef_, other.coef_, atol=1e-5)
    assert mine.score(X, counts) == pytest.approx(other.score(X, counts), abs=1e-5)
    amounts = rng.gamma(2.0, np.exp(X @ w / 3) / 2)
    mine = ProxyGammaRegressor(n_steps="converged", alpha=0.1).fit(X, amounts)
    other = GammaRegressor(alpha=0.1, tol=1e-10, max_iter=1000).fit(X, amounts)
    np.testing.assert_allclose(mine.coef_, other.coef_, atol=1e-5)
    assert mine.score(X, amounts) == pytest.approx(other.score(X, amounts), abs=1e-5)


def test_elastic_net_is_scikit_learns(binary):
    X, _, w = binary
    y = X @ w + np.random.default_rng(0).normal(size=len(X))
    ours = ProxyRidge(n_steps="converged", alpha=0.2, l1_ratio=0.5).fit(X, y)
    theirs = ElasticNet(alpha=0.2, l1_ratio=0.5, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    assert (ours.coef_[theirs.coef_ == 0] == 0).all()


def test_a_long_path_ends_at_the_minimiser(binary):
    X, y, _ = binary
    walked = ProxyLogisticRegression(n_steps=150).fit(X[:150], y[:150], X_proxy=X[150:])
    exact = ProxyLogisticRegression(n_steps="converged", alpha=0.0).fit(X[:150], y[:150])
    np.testing.assert_allclose(walked.coef_, exact.coef_, atol=1e-4)


def test_a_path_with_l1_ends_at_scikit_learns_elastic_net(binary):
    X, _, w = binary
    y = X @ w + np.random.default_rng(0).normal(size=len(X))
    walked = ProxyRidge(n_steps=120, alpha=0.2, l1_ratio=0.7, cv=2).fit(
        X[:200], y[:200], X_proxy=X[200:]
    )
    exact = ElasticNet(alpha=0.2, l1_ratio=0.7, tol=1e-10).fit(X[:200], y[:200])
    np.testing.assert_allclose(walked.coef_, exact.coef_, atol=2e-3)


def test_no_steps_is_the_constant_model(binary):
    X, y, _ = binary
    model = ProxyLogisticRegression(n_steps=0).fit(X[:100], y[:100])
    assert not model.coef_.any()
    share = (y[:100].sum() + 0.5) / 101
    assert model.predict_proba(X[:1])[0, 1] == pytest.approx(share)


def test_cross_validated_fit_beats_the_unregularised_one(binary):
    X, y, _ = binary
    rng = np.random.default_rng(1)
    wide = np.hstack([X, rng.normal(size=(len(X), 20))])
    fitted = ProxyLogisticRegression().fit(wide[:60], y[:60], X_proxy=wide[60:400])
    far = ProxyLogisticRegression(n_steps="converged", alpha=1e-6).fit(wide[:60], y[:60])

    def loss(model):
        p = model.predict_proba(wide[400:])[np.arange(300), y[400:]]
        return -np.mean(np.log(p))

    assert 0 < fitted.n_steps_ < 200
    assert loss(fitted) < min(loss(far), np.log(2))


def test_marked_rows_and_x_proxy_give_the_same_fit(binary):
    X, y, _ = binary
    marked = y.copy()
    marked[80:] = -1
    one = ProxyLogisticRegression(unlabelled=-1, **QUICK).fit(X, marked)
    other = ProxyLogisticRegression(**QUICK).fit(X[:80], y[:80], X_proxy=X[80:])
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-8)
    assert one.n_labels_ == other.n_labels_ == 80


@pytest.mark.parametrize(
    "estimator", [ProxyRidge, ProxyPoissonRegressor, ProxyGammaRegressor, ProxyLogisticRegression]
)
def test_sparse_and_dense_agree(binary, estimator):
    X, y, _ = binary
    y = y + 1
    X = np.where(np.abs(X) > 0.8, X, 0.0)
    dense = estimator(**QUICK).fit(X[:90], y[:90], X_proxy=X[90:])
    sparse = estimator(**QUICK).fit(
        scipy.sparse.csr_array(X[:90]), y[:90], X_proxy=scipy.sparse.csc_array(X[90:])
    )
    np.testing.assert_allclose(dense.coef_, sparse.coef_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("unit", [1.0, 1e-3])
@pytest.mark.parametrize("estimator", [ProxyRidge, ProxyGammaRegressor])
def test_averages_know_the_dispersion(binary, estimator, unit):
    """Whether noise is large or small, the average weighs by the likelihood in its units."""
    X, _, w = binary
    rng = np.random.default_rng(0)
    y = X @ w + unit * rng.normal(size=len(X))
    if estimator is ProxyGammaRegressor:
        shape = 1 / unit
        y = rng.gamma(shape, np.exp(X @ w / 3) / shape)
    fit = estimator(alpha=0.0, cv=3).fit(X[:60], y[:60], X_proxy=X[60:])
    one = estimator(alpha=0.0, cv=3, average=False).fit(X[:60], y[:60], X_proxy=X[60:])
    assert fit.score(X[60:], y[60:]) > one.score(X[60:], y[60:]) - 0.01
    assert np.abs(fit.coef_ - one.coef_).max() < 0.2 * np.sqrt(unit)


def test_unlabelled_rows_change_the_path_but_not_its_end(binary):
    X, y, _ = binary
    few = ProxyLogisticRegression(n_steps=12).fit(X[:60], y[:60])
    many = ProxyLogisticRegression(n_steps=12).fit(X[:60], y[:60], X_proxy=2 * X[60:])
    assert np.abs(few.coef_ - many.coef_).max() > 1e-3


def test_ordinary_least_squares_without_a_penalty(binary):
    X, _, w = binary
    y = X @ w + 1.0
    ours = ProxyRidge(n_steps="converged", alpha=0.0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, LinearRegression().fit(X, y).coef_, atol=1e-7)


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
    assert abs(found.estimate - want.estimate) < (want.high - want.low) / 4
    assert fit.predict_proba(others)[:, 1].mean() > plain.predict_proba(others)[:, 1].mean() + 0.05


def test_class_weight_of_text_classes_and_of_more_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 2))
    y = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 1)]
    y[::7] = "b"
    weights = {"a": 2.0, "b": 1.0, "c": 3.0}
    whole = ProxyLogisticRegression(class_weight=weights, n_steps=4).fit(X, y)
    parts = ProxyLogisticRegression(class_weight=weights, n_steps=4)
    parts.partial_fit(X[:40], y[:40], classes=["a", "b", "c"]).partial_fit(X[40:], y[40:])
    assert parts.n_labels_ == whole.n_labels_
    rows = ProxyLogisticRegression(n_steps=4).fit(X, y, [weights[label] for label in y])
    np.testing.assert_allclose(whole.coef_, rows.coef_, rtol=1e-9)


@pytest.mark.parametrize("given", ["balance", {"a": 1.0, "z": 2.0}, {0: -1.0, 1: 1.0}, {0: 0}, 3])
def test_a_wrong_class_weight_is_named(given):
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    with pytest.raises(ValueError, match="class_weight"):
        ProxyLogisticRegression(class_weight=given).fit(X, y)


@pytest.mark.parametrize("kind", [ProxyRidge, ProxyPoissonRegressor, ProxyGammaRegressor])
def test_nan_marks_a_row_without_a_label(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    known = np.arange(200) % 3 == 0
    y = np.where(known, 1.0 + rng.poisson(np.exp(0.3 * X[:, 0])), np.nan)
    marked = kind().fit(X, y)
    apart = kind().fit(X[known], y[known], X_proxy=X[~known])
    np.testing.assert_allclose(marked.coef_, apart.coef_, rtol=1e-9)
    assert marked.n_labels_ == 67
    assert marked.score(X, y) == pytest.approx(apart.score(X[known], y[known]))
    listed = [None if np.isnan(value) else value for value in y]
    np.testing.assert_array_equal(kind().fit(X, listed).coef_, marked.coef_)
    scoring = labelled_only("neg_mean_absolute_error")
    assert np.isfinite(cross_val_score(kind(n_steps=2), X, y, cv=3, scoring=scoring)).all()
    with pytest.raises(ValueError, match="labels"):
        kind().fit(X, np.full(200, np.nan))


def test_mean_prediction_through_pipelines():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) * [1.0, 50.0, 0.01] + 7
    y = np.where(np.arange(300) % 4 == 0, X[:, 0] + rng.normal(size=300), np.nan)
    scaler = StandardScaler().fit(X)
    want = ProxyRidge().fit(scaler.transform(X), y).mean_prediction(scaler.transform(X[80:]), 0.9)
    pipeline = make_pipeline(StandardScaler(), ProxyRidge()).fit(X, y)
    assert mean_prediction(pipeline, X[80:], 0.9) == want
    nested = make_pipeline(make_pipeline(StandardScaler(), ProxyRidge())).fit(X, y)
    assert mean_prediction(nested, X[80:], 0.9) == want
    assert mean_prediction(pipeline[-1], scaler.transform(X[80:]), 0.9) == want
    search = GridSearchCV(pipeline, {"proxyridge__n_steps": ["cv"]}, cv=2,
                          scoring=labelled_only("r2")).fit(X, y)  # fmt: skip
    assert mean_prediction(search, X[80:], 0.9) == want
    with pytest.raises(TypeError, match="model"):
        mean_prediction(StandardScaler(), X)
