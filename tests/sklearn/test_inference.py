"""How sure: standard errors against textbook formulas, and the coverage of intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from proxyprox.sklearn import (
    Interval,
    ProxyGammaRegressor,
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
)

EXACT = {"alpha": 0.0}


def test_standard_errors_are_the_sandwich_with_leverage(binary):
    X, y, _ = binary
    fit = ProxyLogisticRegression(**EXACT).fit(X, y)
    A = np.hstack([X, np.ones((len(X), 1))])
    p = fit.predict_proba(X)[:, 1]
    bread = np.linalg.inv((A * (p * (1 - p))[:, None]).T @ A)
    leverage = np.sum((A @ bread) * A, axis=1) * p * (1 - p)
    rows = A * ((y - p) / (1 - leverage))[:, None]
    meat = np.cov(rows.T) * len(X)
    expected = np.sqrt(np.diag(bread @ meat @ bread))
    np.testing.assert_allclose(fit.coef_std_.ravel(), expected[:-1], rtol=1e-4)
    np.testing.assert_allclose(fit.intercept_std_, expected[-1:], rtol=1e-4)


def test_intervals_surround_the_unregularised_estimate(binary):
    X, y, _ = binary
    fit = ProxyLogisticRegression(cv=2).fit(X[:150], y[:150], X_proxy=X[150:])
    exact = ProxyLogisticRegression(**EXACT).fit(X[:150], y[:150])
    np.testing.assert_allclose(fit.coef_debiased_, exact.coef_, rtol=1e-3)
    wide, narrow = fit.confidence_interval(0.99), fit.confidence_interval(0.5)
    assert (wide.low < narrow.low).all()
    assert (wide.high > narrow.high).all()
    with pytest.raises(ValueError, match="level must be"):
        fit.confidence_interval(1.0)


def test_the_note_names_the_cause(binary):
    X, y, w = binary
    wide, plane = np.random.default_rng(0).normal(size=(700, 450)), (X @ w > 0).astype(int)
    quick = ProxyLogisticRegression(cv=2)
    ridge = ProxyRidge(alpha=0.1, cv=2)
    twice = np.vstack([wide, wide]), np.tile(y, 2)
    for model, rows, note in (
        (quick, (X[:10], y[:10], None, X[10:]), "10 labels are too few for 7 coefficients"),
        (quick, (X[:100], plane[:100], None, X[100:]), "A plane separates the labels"),
        (ridge, twice, "more than 400 parameters"),
        (ridge, (wide[:60], y[:60], None, wide[60:]), "60 labels are too few for 451"),
    ):
        fit = model.fit(*rows)
        assert np.isinf(fit.coef_std_).all()
        assert np.isinf(fit.excess_)
        with pytest.warns(UserWarning, match=note):
            assert np.isinf(fit.confidence_interval().high).all()
    assert ridge.fit(X, y).inference_note_ == ""


@pytest.mark.parametrize(("classes", "unit"), [(2, 1e3), (3, 1.0)])
def test_columns_that_are_sums_of_others_are_named_and_leave_the_rest_alone(classes, unit):
    rng = np.random.default_rng(3)
    group, number = rng.integers(3, size=300), rng.normal(size=300)
    scores = np.outer(number, [0.5, 0.0, -0.5]) + 0.5 * np.eye(3)[group]
    y = (scores + rng.gumbel(size=(300, 3)))[:, :classes].argmax(axis=1)
    names = ["red", "green", "blue", "size"]
    table = pd.DataFrame(np.column_stack([np.eye(3)[group], number * unit]), columns=names)
    fit = ProxyLogisticRegression(cv=2).fit(table, y)
    assert "red, green, blue and the constant" in fit.inference_note_
    assert "size" not in fit.inference_note_
    with pytest.warns(UserWarning, match="infinite.*red"):
        found = fit.confidence_interval()
    assert np.isinf(found.high[..., :3]).all()
    # As with one column of the group left out, which determines the rest.
    exact = ProxyLogisticRegression(cv=2).fit(table.drop(columns="red"), y)
    want = exact.confidence_interval()
    assert exact.inference_note_ == ""
    np.testing.assert_allclose(found.low[..., 3], want.low[..., 2], rtol=1e-3)
    np.testing.assert_allclose(found.high[..., 3], want.high[..., 2], rtol=1e-3)
    assert np.isfinite(fit.mean_prediction(table).high).all()


def covered(kind, runs, *, teacher, n=120, N=600):
    """Return the share of coefficients inside their interval, over simulations."""
    w, hits, total = np.array([0.8, -0.5, 0.3]), 0, 0
    for seed in range(runs):
        rng = np.random.default_rng(10_000 + seed)
        X = rng.normal(size=(n + N, 3))
        z = X @ w + 0.2
        if kind is ProxyRidge:
            y = z + rng.normal(size=n + N)
            f = y + 0.5 * rng.normal(size=n + N)
        elif kind is ProxyPoissonRegressor:
            y = rng.poisson(np.exp(z / 2))
            f = y + rng.integers(2, size=n + N)
        elif kind is ProxyGammaRegressor:
            y = rng.gamma(2.0, np.exp(z / 2) / 2)
            f = 1.3 * y * np.exp(0.2 * rng.normal(size=n + N))
        else:
            y = (rng.random(n + N) < expit(z)).astype(int)
            f = np.where(rng.random(n + N) < 0.1, 1 - y, y)
        truth = w / 2 if kind in (ProxyPoissonRegressor, ProxyGammaRegressor) else w
        proxy = {"X_proxy": X[n:], "y_proxy": f} if teacher else {}
        fit = kind(alpha=0.0, cv=2).fit(X[:n], y[:n], **proxy)
        found = fit.confidence_interval(0.95)
        hits += int(((found.low.ravel() <= truth) & (truth <= found.high.ravel())).sum())
        total += 3
    return hits / total


@pytest.mark.slow
@pytest.mark.parametrize("teacher", [False, True])
@pytest.mark.parametrize(
    "kind", [ProxyRidge, ProxyLogisticRegression, ProxyPoissonRegressor, ProxyGammaRegressor]
)
def test_intervals_cover(kind, teacher):
    # 60 × 3 coefficients: the binomial spread of the share is about 0.016.
    assert 0.91 <= covered(kind, 60, teacher=teacher) <= 0.99


@pytest.mark.slow
def test_intervals_of_three_classes_cover():
    truth = np.array([[0.6, -0.4], [-0.4, 0.6], [-0.2, -0.2]])  # the classes sum to zero
    hits = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(150, 2))
        y = (X @ truth.T + rng.gumbel(size=(150, 3))).argmax(axis=1)
        found = ProxyLogisticRegression(**EXACT).fit(X, y).confidence_interval(0.95)
        hits.append((found.low <= truth) & (truth <= found.high))
    assert 0.90 <= np.mean(hits) <= 0.99


def test_a_teacher_narrows_the_intervals(binary):
    X, y, _ = binary
    f = np.where(np.random.default_rng(0).random(len(y)) < 0.05, 1 - y, y)
    alone = ProxyLogisticRegression(**EXACT).fit(X[:120], y[:120])
    helped = ProxyLogisticRegression(**EXACT).fit(X[:120], y[:120], X_proxy=X[120:], y_proxy=f)
    assert 0 < helped.power_ < 1
    assert helped.coef_std_.mean() < 0.8 * alone.coef_std_.mean()


@pytest.mark.parametrize("settings", [{}, EXACT])
def test_counts_without_an_event_say_so(binary, settings):
    X, _, _ = binary
    # Ten rows count as much as a hundred of which ninety hardly do.
    for weights, bound in ((None, 0.028), (np.where(np.arange(100) < 10, 1.0, 1e-3), 0.28)):
        fit = ProxyPoissonRegressor(**settings).fit(X[:100], np.zeros(100), weights, X[100:])
        with pytest.warns(UserWarning, match="No event was seen"):
            assert np.isinf(fit.confidence_interval().high).all()
        found = fit.mean_prediction(X[100:])
        assert found.low == 0.0
        assert found.high == pytest.approx(bound, rel=0.1)
        assert 0 <= found.estimate < found.high


def test_mean_prediction_is_rectified():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 2))
    y = X[:, 0] ** 2 + rng.normal(size=1100)
    fit = ProxyRidge(alpha=[1e9, 1e10], cv=4).fit(X[:100], y[:100], X_proxy=X[100:])
    found = fit.mean_prediction(X[100:], 0.95)
    assert found.estimate == pytest.approx(y[:100].mean(), abs=1e-9)
    error = y[:100].std() / 10
    assert found.high - found.estimate == pytest.approx(1.984 * error, rel=0.03)
    # With every label right a classifier's spread is that of two wrong answers.
    sure = (X[:, 0] > 0).astype(int)
    share = ProxyLogisticRegression(**EXACT).fit(X[:30], sure[:30]).mean_prediction(X[100:])
    assert (share.high - share.low) / 2 == pytest.approx(2.045 * 2**0.5 / 30, rel=0.1)


def squared(rng, X):
    return X[:, 0] ** 2 + rng.normal(size=len(X))


def certain(rng, X):
    return (X.sum(axis=1) > 1.5).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "draw", "n", "least"),
    [
        (ProxyRidge(cv=3), squared, 100, 0.88),
        (ProxyLogisticRegression(), certain, 30, 0.92),
        (ProxyLogisticRegression(**EXACT), certain, 30, 0.92),
    ],
    ids=["the model is wrong", "every label is right", "no penalty"],
)
def test_mean_prediction_covers(model, draw, n, least):
    hits = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1100, 2))
        y = draw(rng, X)
        if y[:n].any():
            found = model.fit(X[:n], y[:n], X_proxy=X[n:]).mean_prediction(X[n:])
            hits.append(found.low <= (1.0 if draw is squared else y[n:].mean()) <= found.high)
    assert len(hits) > 32
    assert np.mean(hits) > least


def test_what_is_known_from_below_cuts_an_interval():
    assert Interval(0.1, -0.2, 0.4).at_least(0.0) == (0.1, 0.0, 0.4)
    cut = Interval(*np.array([[0.5, -1.0], [-0.5, -2.0], [1.0, 0.5]])).at_least(0.0)
    np.testing.assert_array_equal(cut, [[0.5, 0.0], [0.0, 0.0], [1.0, 0.5]])
