"""How sure: standard errors against textbook formulas, and the coverage of intervals."""

from __future__ import annotations

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
from proxyprox.sklearn.inference import tuned_power

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
def test_collinear_columns_are_named_and_have_the_shortest_coefficients(classes, unit):
    rng = np.random.default_rng(3)
    group, number = rng.integers(3, size=300), rng.normal(size=300)
    scores = np.outer(number, [0.5, 0.0, -0.5]) + 0.5 * np.eye(3)[group]
    y = (scores + rng.gumbel(size=(300, 3)))[:, :classes].argmax(axis=1)
    names = ["red", "green", "blue", "size"]
    table = pd.DataFrame(np.column_stack([np.eye(3)[group], number * unit]), columns=names)
    settings = {"cv": 2}
    fit = ProxyLogisticRegression(**settings).fit(table, y)
    assert all(name in fit.inference_note_ for name in ("red, green, blue", "the constant"))
    assert "size" not in fit.inference_note_
    with pytest.warns(UserWarning, match="sums of others: red"):
        found = fit.confidence_interval()
    # As with one column of the group left out, which determines the rest.
    exact = ProxyLogisticRegression(**settings).fit(table.drop(columns="red"), y)
    want = exact.confidence_interval()
    assert exact.inference_note_ == ""
    np.testing.assert_allclose(found.low[..., 3], want.low[..., 2], rtol=1e-4)
    np.testing.assert_allclose(found.high[..., 3], want.high[..., 2], rtol=1e-4)
    # Levels are differences from their mean.
    levels = np.column_stack([np.zeros(len(want.estimate)), want.estimate[:, :2]])
    levels = levels - levels.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found.estimate[:, :3], levels, rtol=1e-3, atol=1e-4)
    assert np.isfinite(fit.mean_prediction(table).high).all()
    # Standard errors are those of the design whose levels are coded as such differences.
    coded = np.column_stack([np.vstack([np.eye(2), -np.ones(2)])[group], number * unit])
    direct = ProxyLogisticRegression(**settings).fit(coded, y).coef_std_
    np.testing.assert_allclose(fit.coef_std_[:, :2], direct[:, :2], rtol=1e-3)


def test_what_only_the_labelled_rows_leave_open_has_no_interval():
    rng = np.random.default_rng(0)
    X, others = rng.normal(size=(80, 4)), rng.normal(size=(400, 4))
    X[:, 1], X[:, 2] = X[:, 0] * 2, 5.0
    y = X[:, 0] + rng.normal(size=80)
    fit = ProxyRidge(cv=2).fit(X, y, X_proxy=others)
    with pytest.warns(UserWarning, match="infinite.*do not determine 0, 1, 2"):
        found = fit.confidence_interval()
    assert np.isinf(found.high).tolist() == [True, True, True, False]
    # Where the others agree that one column is twice the other, there is a shortest answer.
    others[:, 1] = 2 * others[:, 0]
    fit = ProxyRidge(cv=2).fit(X[:, :2], y, X_proxy=others[:, :2])
    with pytest.warns(UserWarning, match="sums of others: 0, 1"):
        found = fit.confidence_interval()
    single = ProxyRidge(cv=2).fit(X[:, :1], y).confidence_interval()
    for end, want in zip(found, single, strict=True):
        np.testing.assert_allclose(end, want * np.array([0.2, 0.4]), rtol=1e-6)


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


@pytest.mark.slow
def test_mean_prediction_covers_even_where_the_model_is_wrong():
    hits = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1100, 2))
        y = X[:, 0] ** 2 + rng.normal(size=1100)
        fit = ProxyRidge(cv=3).fit(X[:100], y[:100], X_proxy=X[100:])
        found = fit.mean_prediction(X[100:])
        hits += found.low <= 1.0 <= found.high
    assert 0.88 <= hits / 50 <= 1.0


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
    for weights, bound in ((None, 0.03), (np.where(np.arange(100) < 10, 1.0, 1e-3), 0.3)):
        fit = ProxyPoissonRegressor(**settings).fit(X[:100], np.zeros(100), weights, X[100:])
        with pytest.warns(UserWarning, match="No event was seen"):
            assert np.isinf(fit.confidence_interval().high).all()
        with pytest.warns(UserWarning, match="All 100 labelled counts are zero.*rule of three"):
            found = fit.mean_prediction(X[100:])
        assert found.low == 0.0
        assert found.high == pytest.approx(bound, rel=0.05)
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


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, EXACT])
def test_mean_prediction_covers_where_every_label_is_right(settings):
    hits = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1000, 2))
        y = (X.sum(axis=1) > 1.5).astype(int)
        if y[:30].any():
            fit = ProxyLogisticRegression(**settings).fit(X[:30], y[:30], X_proxy=X[30:])
            found = fit.mean_prediction(X[30:])
            hits.append(found.low <= y[30:].mean() <= found.high)
    assert len(hits) > 25
    assert np.mean(hits) > 0.92


# -- the power of a teacher ------------------------------------------------------------------------


def test_tuned_power_has_the_least_variance():
    rng = np.random.default_rng(1)
    proxy = rng.normal(size=(50_000, 3))
    target = 0.6 * proxy + rng.normal(size=(50_000, 3))
    best = tuned_power(target, proxy)
    assert best == pytest.approx(0.6, abs=0.02)

    def spread(power):
        return np.var(target - power * proxy, axis=0).sum()

    assert spread(best) <= min(spread(best - 0.1), spread(best + 0.1))


def test_few_proxy_rows_lower_the_power():
    g = np.random.default_rng(2).normal(size=(500, 2))
    assert tuned_power(g, g, ratio=1.0) == pytest.approx(0.5)


def test_metric_decides_which_directions_count():
    rng = np.random.default_rng(4)
    proxy = rng.normal(size=(20_000, 2))
    target = proxy * [1.0, 0.0] + rng.normal(size=(20_000, 2))
    assert tuned_power(target, proxy, metric=np.diag([1.0, 0.0])) == pytest.approx(1.0, abs=0.03)
    assert tuned_power(target, proxy, metric=np.diag([0.0, 1.0])) == pytest.approx(0.0, abs=0.03)


def test_what_is_known_from_below_cuts_an_interval():
    assert Interval(0.1, -0.2, 0.4).at_least(0.0) == (0.1, 0.0, 0.4)
    cut = Interval(*np.array([[0.5, -1.0], [-0.5, -2.0], [1.0, 0.5]])).at_least(0.0)
    np.testing.assert_array_equal(cut, [[0.5, 0.0], [0.0, 0.0], [1.0, 0.5]])
