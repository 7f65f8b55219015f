"""A teacher as proxy: agreement with ppi_py, help from good ones, no harm from bad ones."""

from __future__ import annotations

import importlib
import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss

from proxyprox.sklearn import (
    Choice,
    ProxyGammaRegressor,
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
)


@pytest.fixture(scope="module")
def ppi():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("ppi_py")


def answers(rng, y, flip):
    return np.where(rng.random(len(y)) < flip, 1 - y, y)


def with_constant(X):
    return np.hstack([X, np.ones((len(X), 1))])


@pytest.mark.filterwarnings("ignore")
def test_logistic_at_full_power_is_ppi(binary, ppi):
    X, y, _ = binary
    X = X[:, :3] * [1, 1, 0.5]
    f = answers(np.random.default_rng(0), y, 0.15).astype(float)
    ours = ProxyLogisticRegression(n_steps="converged", alpha=0.0, power=1.0)
    ours.fit(X[:200], y[:200], X_proxy=X[200:], y_proxy=f)
    A, B = with_constant(X[:200]), with_constant(X[200:])
    w = np.append(ours.coef_, ours.intercept_)
    theirs = ppi.ppi_logistic_pointestimate(A, y[:200], f[:200], B, f[200:], lam=1.0)
    np.testing.assert_allclose(w, theirs, atol=1e-6)
    # Theirs stops where the loss no longer changes; the estimating equation itself is exact.
    slope = B.T @ (expit(B @ w) - f[200:]) / len(B) - A.T @ (y[:200] - f[:200]) / len(A)
    assert np.abs(slope).max() < 1e-9


@pytest.mark.filterwarnings("ignore")
def test_intervals_at_full_power_are_ppis(binary, ppi):
    X, y, _ = binary
    X = X[:, :3] * [1, 1, 0.5]
    f = answers(np.random.default_rng(5), y, 0.15).astype(float)
    ours = ProxyLogisticRegression(n_steps="converged", alpha=0.0, power=1.0)
    ours.fit(X[:200], y[:200], X_proxy=X[200:400], y_proxy=f[:400])
    A, B = with_constant(X[:200]), with_constant(X[200:400])
    low, high = ppi.ppi_logistic_ci(A, y[:200], f[:200], B, f[200:400], lam=1.0, alpha=0.05)
    # Theirs takes the Hessian from labelled and other rows, and the normal law instead of t.
    std = (high - low)[:-1] / 2 / 1.959964
    np.testing.assert_allclose(ours.coef_std_.ravel(), std, rtol=0.1)


@pytest.mark.filterwarnings("ignore")
def test_least_squares_at_full_power_is_ppi(binary, ppi):
    X, _, w = binary
    rng = np.random.default_rng(1)
    y = X @ w + rng.normal(size=len(X))
    f = y + 0.3 * rng.normal(size=len(X)) + 0.2
    ours = ProxyRidge(n_steps="converged", alpha=0.0, power=1.0)
    ours.fit(X[:150], y[:150], X_proxy=X[150:], y_proxy=f)
    theirs = ppi.ppi_ols_pointestimate(
        with_constant(X[:150]), y[:150], f[:150], with_constant(X[150:]), f[150:], lam=1.0
    )
    np.testing.assert_allclose(np.append(ours.coef_, ours.intercept_), theirs, atol=1e-6)


def excess(fit, X, w, b):
    p, q = expit(X @ w + b), fit.predict_proba(X)[:, 1]
    return np.mean(-(p * np.log(q / p) + (1 - p) * np.log((1 - q) / (1 - p))))


@pytest.fixture(scope="module")
def contest():
    """Return mean excess losses of labels alone and with three teachers."""
    losses = {"alone": [], "good": [], "random": [], "model": []}
    w, b = np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.3, 0.0, 0.0]), 0.4
    for seed in range(5):
        rng = np.random.default_rng(100 + seed)
        X = rng.normal(size=(2000, 8))
        p = expit(X @ w + b)
        y = (rng.random(2000) < p).astype(int)
        teachers = {
            "alone": None,
            "good": answers(rng, y, 0.05),
            "random": rng.integers(2, size=2000),
            "model": expit(X @ (w + 0.1 * rng.normal(size=8)) + b),
        }
        for name, f in teachers.items():
            fit = ProxyLogisticRegression(alpha=0.0, cv=4, max_steps=30)
            fit.fit(X[:80], y[:80], X_proxy=X[80:], y_proxy=f)
            losses[name].append(excess(fit, X, w, b))
    return {name: float(np.mean(values)) for name, values in losses.items()}


@pytest.mark.parametrize("teacher", ["good", "model"])
def test_a_good_teacher_saves_a_quarter_of_the_excess_loss(contest, teacher):
    assert contest[teacher] <= 0.75 * contest["alone"]


def test_a_random_teacher_does_no_harm(contest):
    assert contest["random"] <= 1.02 * contest["alone"]


def test_forms_of_answers_agree(binary):
    X, y, _ = binary
    f = answers(np.random.default_rng(3), y, 0.1)
    names = np.array(["no", "yes"])
    settings = {"n_steps": 8, "power": 0.6, "cv": 2}
    labels = ProxyLogisticRegression(**settings).fit(X[:99], y[:99], X_proxy=X[99:], y_proxy=f)
    words = ProxyLogisticRegression(**settings).fit(
        X[:99], names[y[:99]], X_proxy=X[99:], y_proxy=names[f]
    )
    table = ProxyLogisticRegression(**settings).fit(
        X[:99], y[:99], X_proxy=X[99:], y_proxy=np.stack([1 - f, f], axis=1).astype(float)
    )
    marked = ProxyLogisticRegression(unlabelled=-1, **settings).fit(
        X, np.where(np.arange(len(y)) < 99, y, -1), y_proxy=f
    )
    for other in (words, table, marked):
        np.testing.assert_allclose(other.coef_, labels.coef_, rtol=1e-6)


def test_answers_on_the_proxy_alone_are_enough(three):
    X, y = three
    quick = {"cv": 3, "max_steps": 15}
    fit = ProxyLogisticRegression(**quick).fit(X[:60], y[:60], X_proxy=X[60:], y_proxy=y[60:])
    assert fit.taught_
    assert fit.score(X[60:], y[60:]) >= 0.9 * np.mean(
        ProxyLogisticRegression(**quick).fit(X, y).score(X, y)
    )


@pytest.mark.parametrize("kind", [ProxyPoissonRegressor, ProxyGammaRegressor])
def test_teachers_of_regressors(binary, kind):
    X, _, w = binary
    rng = np.random.default_rng(4)
    mean = np.exp(X @ w / 2)
    y = rng.poisson(mean) if kind is ProxyPoissonRegressor else rng.gamma(2.0, mean / 2)
    fit = kind(cv=3).fit(X[:80], y[:80], X_proxy=X[80:], y_proxy=y)
    alone = kind(cv=3).fit(X[:80], y[:80], X_proxy=X[80:])
    assert fit.score(X, y) >= alone.score(X, y)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (np.zeros(5), "one answer for each"),
        (np.full(700, 7), "y_proxy must be among"),
        (np.full(700, 1.5), "y_proxy.*probabilities.*1.5 in row 0"),
        (np.full((700, 3), 1 / 3), "y_proxy.*a column for each"),
        (np.full((700, 2), 1 / 3), "y_proxy.*sum to one"),
        (np.r_[np.zeros(9), np.nan, np.ones(690)], "y_proxy.*nan in row 9"),
        (np.array(["no"] * 700), "y_proxy.*'no'"),
    ],
)
def test_wrong_answers_are_named(binary, bad, match):
    X, y, _ = binary
    with pytest.raises(ValueError, match=match):
        ProxyLogisticRegression().fit(X[:90], y[:90], X_proxy=X[90:], y_proxy=bad)


def test_a_teacher_needs_unlabelled_rows(binary):
    X, y, _ = binary
    with pytest.raises(ValueError, match="X_proxy"):
        ProxyLogisticRegression().fit(X, y, y_proxy=y)


def test_labelled_rows_among_the_proxys_are_warned_of(binary):
    X, y, _ = binary
    with pytest.warns(UserWarning, match="X_proxy holds all rows of X"):
        ProxyLogisticRegression(n_steps=2).fit(X[:90], y[:90], X_proxy=X, y_proxy=y)


# -- which way the labels preferred -------------------------------------------------------------


def linear_rows(shift=0.0, noise=1.0, rows=700, seed=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    return X, X @ [1.0, -1.0, 0.5, shift] + shift + noise * rng.normal(size=rows)


def test_a_mixture_is_the_weighted_least_squares_of_both():
    X, y = linear_rows()
    X_other, y_other = linear_rows(shift=0.6, seed=7)
    # One step of the other ways leads nowhere.
    fit = ProxyRidge(cv=3, average=False, alpha=0.0, max_steps=1)
    fit.fit(X[:60], y[:60], X_proxy=X_other, y_proxy=y_other)
    assert fit.choice_.way == "mixed"
    theta = fit.choice_.weight
    weights = np.r_[np.full(60, theta / 60), np.full(700, (1 - theta) / 700)]
    exact = LinearRegression().fit(np.vstack([X[:60], X_other]), np.r_[y[:60], y_other], weights)
    np.testing.assert_allclose(fit.coef_, exact.coef_, rtol=1e-5)
    assert fit.intercept_ == pytest.approx(exact.intercept_, rel=1e-5)


def test_the_teacher_alone_is_its_imitation():
    X, y = linear_rows(noise=2.0)
    answers = X @ [1.0, -1.0, 0.5, 0.0]
    fit = ProxyRidge(cv=3, average=False).fit(X[:25], y[:25], X_proxy=X[25:], y_proxy=answers)
    assert fit.choice_.way == "teacher alone"
    assert fit.choice_.weight == 0.0
    np.testing.assert_allclose(fit.coef_, [1.0, -1.0, 0.5, 0.0], atol=1e-8)


def test_labels_against_their_opposite_stand_alone():
    X, y = linear_rows()
    fit = ProxyRidge(cv=3).fit(X[:60], y[:60], X_proxy=X[60:], y_proxy=-y)
    alone = ProxyRidge(cv=3).fit(X[:60], y[:60], X_proxy=X[60:])
    assert fit.choice_.way == "labels alone"
    assert fit.choice_.weight == 1.0
    assert set(fit.choice_.losses) > {"mixed", "fine-tuned", "corrected", "teacher alone"}
    assert fit.score(X, y) >= alone.score(X, y) - 0.01


def test_the_choice_is_readable():
    X, y = linear_rows(noise=0.5)
    fit = ProxyRidge(cv=3).fit(X[:40], y[:40], X_proxy=X[40:], y_proxy=y[40:] + 0.3 * X[40:, 3])
    choice, text = fit.choice_, str(fit.choice_)
    assert text.startswith(choice.way.capitalize())
    assert all(way in text for way in choice.losses if way != choice.way)
    assert ("undecided" in text) == bool(choice.rivals)
    assert choice.errors[choice.way] == 0.0
    alone = ProxyRidge(n_steps="converged", alpha=0.0).fit(X[:40], y[:40])
    assert alone.choice_ == Choice("labels alone", 1.0, {}, {})


@pytest.mark.parametrize("flipped", [False, True])
def test_other_data_help_if_alike_and_do_no_harm_if_not(binary, flipped):
    X, y, _ = binary
    own, others, rest = slice(80), slice(100, 400), slice(400, None)
    other = 1 - y[others] if flipped else y[others]
    quick = {"cv": 3, "max_steps": 30}
    fit = ProxyLogisticRegression(**quick).fit(X[own], y[own], X_proxy=X[others], y_proxy=other)
    alone = ProxyLogisticRegression(**quick).fit(X[own], y[own], X_proxy=X[others])
    assert "corrected" not in fit.choice_.losses
    assert fit.taught_ == (fit.choice_.way != "labels alone") != flipped
    losses = [log_loss(y[rest], model.predict_proba(X[rest])) for model in (fit, alone)]
    assert losses[0] <= (1 + 1e-9 if flipped else 0.98) * losses[1]


@pytest.mark.parametrize("shift", [0.1, 0.6])
def test_few_labels_that_cannot_tell_a_gain_from_chance_stand_alone(shift):
    X, y = linear_rows()
    X_other, y_other = linear_rows(shift=shift, seed=7)
    fit = ProxyRidge(cv=3, max_steps=30).fit(X[:40], y[:40], X_proxy=X_other, y_proxy=y_other)
    losses, errors = fit.choice_.losses, fit.choice_.errors
    gain = losses["labels alone"] - min(losses.values())
    other = "labels alone" if fit.taught_ else min(losses, key=losses.get)
    assert fit.taught_ == (gain > errors[other])


@pytest.mark.parametrize("kind", [ProxyLogisticRegression, ProxyRidge])
def test_rows_made_from_the_labels_are_recognised(kind):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(150, 12))
    z = X @ rng.normal(size=12) + rng.normal(size=150)
    y = (z > 0) * 1 if kind is ProxyLogisticRegression else z
    few = slice(0, 50)
    again = rng.integers(0, 50, 1500)
    copies = X[few][again] + 0.1 * rng.normal(size=(1500, 12)), y[few][again]
    quick = {"cv": 3, "max_steps": 20}
    with pytest.warns(UserWarning, match="y_proxy.*made from"):
        fit = kind(**quick).fit(X[few], y[few], X_proxy=copies[0], y_proxy=copies[1])
    assert fit.choice_.way == "labels alone"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(**quick).fit(X[50:], y[50:], X_proxy=copies[0], y_proxy=copies[1])
