"""A teacher as proxy: agreement with ppi_py, help from good ones, no harm from bad ones."""

import importlib
import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from proxyprox.sklearn import (
    ProxyGammaRegressor,
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
)


def answers(rng, y, flip):
    return np.where(rng.random(len(y)) < flip, 1 - y, y)


@pytest.mark.filterwarnings("ignore")
def test_paired_estimates_and_intervals_are_ppis(binary):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ppi = importlib.import_module("ppi_py")
    X, y, w = binary
    rng, A = np.random.default_rng(5), np.hstack([X[:, :3], np.ones((700, 1))])
    f = answers(rng, y, 0.15).astype(float)
    ours = ProxyLogisticRegression(cv=2)
    ours.fit(X[:200, :3], y[:200], X_proxy=X[200:, :3], y_proxy=f)
    assert 0 < ours.power_ < 1
    found, power = np.append(ours.coef_debiased_, ours.intercept_debiased_), {"lam": ours.power_}
    rows = A[:200], y[:200], f[:200], A[200:], f[200:]
    theirs = ppi.ppi_logistic_pointestimate(*rows, **power)
    np.testing.assert_allclose(found, theirs, atol=1e-5)
    # Theirs takes the Hessian from labelled and other rows, and the normal law instead of t.
    low, high = ppi.ppi_logistic_ci(*rows, **power, alpha=0.05)
    np.testing.assert_allclose(ours.coef_std_.ravel(), (high - low)[:-1] / 3.919928, rtol=0.15)
    # Theirs stops where the loss no longer changes; the estimating equation itself is exact.
    same, other = (A[part].T @ (expit(A[part] @ found) - f[part]) / len(A[part])
                   for part in (slice(200), slice(200, None)))  # fmt: skip
    own = A[:200].T @ (expit(A[:200] @ found) - y[:200]) / 200
    assert np.abs(own + ours.power_ * (other - same)).max() < 1e-7
    line = X @ w + rng.normal(size=700)
    g = line + 0.3 * rng.normal(size=700) + 0.2
    ours = ProxyRidge(cv=2).fit(X[:200, :3], line[:200], X_proxy=X[200:, :3], y_proxy=g)
    rows = A[:200], line[:200], g[:200], A[200:], g[200:]
    theirs = ppi.ppi_ols_pointestimate(*rows, lam=ours.power_)
    found = np.append(ours.coef_debiased_, ours.intercept_debiased_)
    np.testing.assert_allclose(found, theirs, atol=1e-6)


def test_forms_of_answers_agree(binary):
    X, y, _ = binary
    f, names = answers(np.random.default_rng(3), y, 0.1), np.array(["no", "yes"])
    settings, proxy = {"cv": 2}, {"X_proxy": X[99:]}
    labels = ProxyLogisticRegression(**settings).fit(X[:99], y[:99], y_proxy=f, **proxy)
    table = np.stack([1 - f, f], axis=1).astype(float)
    marked = np.where(np.arange(len(y)) < 99, y, -1)
    for rows, own, given, options in (
        (X[:99], names[y[:99]], names[f], proxy),
        (X[:99], y[:99], table, proxy),
        (X, marked, f, {}),
    ):
        other = ProxyLogisticRegression(unlabelled=-1 if not options else "auto", **settings)
        other.fit(rows, own, y_proxy=given, **options)
        np.testing.assert_allclose(other.coef_, labels.coef_, rtol=1e-6)


def test_answers_help_every_family(binary, three):
    X, y = three
    quick = {"cv": 3}
    fit = ProxyLogisticRegression(**quick).fit(X[:60], y[:60], X_proxy=X[60:], y_proxy=y[60:])
    assert fit.choice_.way != "labels alone"
    whole = ProxyLogisticRegression(**quick).fit(X, y)
    assert fit.score(X[60:], y[60:]) >= 0.9 * whole.score(X, y)
    X, _, w = binary
    rng, mean = np.random.default_rng(4), np.exp(X @ w / 2)
    for kind, counts in (
        (ProxyPoissonRegressor, rng.poisson(mean)),
        (ProxyGammaRegressor, rng.gamma(2.0, mean / 2)),
    ):
        helped = kind(**quick).fit(X[:80], counts[:80], X_proxy=X[80:], y_proxy=counts)
        alone = kind(**quick).fit(X[:80], counts[:80], X_proxy=X[80:])
        assert helped.score(X, counts) >= alone.score(X, counts)


def test_wrong_answers_are_named(binary):
    X, y, _ = binary
    for bad in (
        np.zeros(5),
        np.full(700, 7),
        np.full(700, 1.5),
        np.full((700, 3), 1 / 3),
        np.full((700, 2), 1 / 3),
        np.r_[np.zeros(9), np.nan, np.ones(690)],
        np.array(["no"] * 700),
    ):
        with pytest.raises(ValueError, match="y_proxy"):
            ProxyLogisticRegression().fit(X[:90], y[:90], X_proxy=X[90:], y_proxy=bad)
    with pytest.raises(ValueError, match="X_proxy"):
        ProxyLogisticRegression().fit(X, y, y_proxy=y)


# -- which way the labels preferred -------------------------------------------------------------


def linear_rows(shift=0.0, noise=1.0, rows=700, seed=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    return X, X @ [1.0, -1.0, 0.5, shift] + shift + noise * rng.normal(size=rows)


def test_good_answers_are_imitated_and_opposite_ones_are_not():
    X, y = linear_rows(noise=2.0)
    truth = X @ [1.0, -1.0, 0.5, 0.0]
    fit = ProxyRidge(cv=3).fit(X[:25], y[:25], X_proxy=X[25:], y_proxy=truth)
    assert (fit.choice_.way, fit.choice_.weight) == ("mixed", 0.01)
    assert fit.score(X, truth) > 0.9
    X, y = linear_rows()
    fit = ProxyRidge(cv=3).fit(X[:60], y[:60], X_proxy=X[60:], y_proxy=-y)
    alone = ProxyRidge(cv=3).fit(X[:60], y[:60], X_proxy=X[60:])
    assert (fit.choice_.way, fit.choice_.weight) == ("labels alone", 1.0)
    assert set(fit.choice_.losses) == {"labels alone", "mixed", "fine-tuned"}
    assert fit.score(X, y) >= alone.score(X, y) - 0.01


@pytest.mark.parametrize("flipped", [False, True])
def test_other_data_help_if_alike_and_do_no_harm_if_not(binary, flipped):
    X, y, _ = binary
    own, others, rest = slice(80), slice(100, 400), slice(400, None)
    other = 1 - y[others] if flipped else y[others]
    quick = {"cv": 3}
    fit = ProxyLogisticRegression(**quick).fit(X[own], y[own], X_proxy=X[others], y_proxy=other)
    alone = ProxyLogisticRegression(**quick).fit(X[own], y[own], X_proxy=X[others])
    assert "corrected" not in fit.choice_.losses
    assert (fit.choice_.way == "labels alone") == flipped
    losses = [log_loss(y[rest], model.predict_proba(X[rest])) for model in (fit, alone)]
    assert losses[0] <= (1.01 if flipped else 0.98) * losses[1]


@pytest.mark.parametrize("kind", [ProxyLogisticRegression, ProxyRidge])
def test_rows_made_from_the_labels_are_recognised(kind):
    rng = np.random.default_rng(9)
    X = rng.normal(size=(150, 12))
    z = X @ rng.normal(size=12) + rng.normal(size=150)
    y, again = (z > 0) * 1 if kind is ProxyLogisticRegression else z, rng.integers(0, 50, 1500)
    copies = {"X_proxy": X[again] + 0.1 * rng.normal(size=(1500, 12)), "y_proxy": y[again]}
    model = kind(cv=3)
    with pytest.warns(UserWarning, match="y_proxy.*made from"):
        assert model.fit(X[:50], y[:50], **copies).choice_.way == "labels alone"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X[50:], y[50:], **copies)


# -- several other tables -------------------------------------------------------------------------


def drifted(rng, w, rows):
    X = rng.normal(size=(rows, len(w)))
    return X, X @ w + rng.logistic(size=rows)


@pytest.mark.parametrize("kind", [ProxyLogisticRegression, ProxyRidge])
def test_useless_tables_are_told_from_good_ones(kind):
    def encode(z):
        return (z > 0) * 1 if kind is ProxyLogisticRegression else z

    losses = []
    for seed in range(3):
        rng = np.random.default_rng([seed, 31])
        now = rng.normal(size=8)
        new = [now + 0.3 * rng.normal(size=8) for _ in range(2)]
        (X, z), *tables = (drifted(rng, w, n) for w, n in ((now, 60), (new[0], 800), (new[1], 400)))
        (Z, truth), (old, scores) = drifted(rng, now, 3000), drifted(rng, now, 500)
        for bad in (rng.permutation(scores), -scores):
            given = [*tables, (old, bad)]
            others = {"X_proxy": [T for T, _ in given], "y_proxy": [encode(t) for _, t in given]}
            fit = kind(cv=3).fit(X, encode(z), **others)
            assert (fit.tables_[:2] > 0.05).all()
            assert fit.tables_[2] == 0
            assert "X_proxy[2] says nothing" in str(fit.choice_)
            stacked = {"X_proxy": np.vstack(others["X_proxy"][:2])}
            stacked["y_proxy"] = np.concatenate(others["y_proxy"][:2])
            good = kind(cv=3).fit(X, encode(z), **stacked)
            losses.append([model.score(Z, encode(truth)) for model in (fit, good)])
    found, best = np.mean(losses, axis=0)
    assert found >= best - 0.02


def test_a_list_of_one_is_that_table_and_equal_tables_are_one(binary, three):
    X, y, _ = binary
    quick = {"cv": 3}
    model = ProxyLogisticRegression(**quick)
    for answers in (y[90:], y):
        one = model.fit(X[:90], y[:90], X_proxy=X[90:], y_proxy=answers).coef_
        assert model.tables_ is None
        other = model.fit(X[:90], y[:90], X_proxy=[X[90:]], y_proxy=[answers])
        np.testing.assert_array_equal(other.coef_, one)
    # Without answers, tables are rows without labels.
    rows = model.fit(X[:90], y[:90], X_proxy=X[90:]).coef_
    parts = model.fit(X[:90], y[:90], X_proxy=[X[90:300], X[300:]])
    np.testing.assert_array_equal(parts.coef_, rows)
    assert parts.tables_ is None
    X, y = three
    halves = {"X_proxy": [X[60:330], X[330:]], "y_proxy": [y[60:330], y[330:]]}
    fit = model.fit(X[:60], y[:60], **halves)
    assert fit.tables_ == pytest.approx([0.5, 0.5], abs=0.2)
    whole = ProxyLogisticRegression(**quick).fit(X[:60], y[:60], X_proxy=X[60:], y_proxy=y[60:])
    assert fit.score(X, y) >= whole.score(X, y) - 0.03


def test_tables_made_from_the_labels_are_left_out():
    rng = np.random.default_rng(9)
    X, z = drifted(rng, np.arange(6) / 3, 60)
    old, again = drifted(rng, np.arange(6) / 3, 900), rng.integers(0, 60, 1500)
    copies = X[again] + 0.1 * rng.normal(size=(1500, 6)), z[again]
    tables = {"X_proxy": [copies[0], old[0]], "y_proxy": [copies[1], old[1]]}
    with pytest.warns(UserWarning, match=r"y_proxy.*made from"):
        fit = ProxyRidge(cv=3).fit(X, z, **tables)
    assert fit.tables_.tolist() == [0.0, 1.0]
    with pytest.warns(UserWarning, match=r"y_proxy.*made from"):
        alone = fit.fit(X, z, X_proxy=[copies[0]] * 2, y_proxy=[copies[1]] * 2)
    assert alone.choice_.way == "labels alone"


def test_tables_and_answers_that_do_not_match_are_named(binary):
    X, y, _ = binary
    tables, answers = [X[90:200], X[200:400]], [y[90:200], y[200:400]]
    for name, inputs, given in (
        ("y_proxy", tables, answers[:1]), ("y_proxy", tables, y[90:400]),
        ("y_proxy", tables, answers[::-1]), ("X_proxy", [tables[0], X[:, :3]], answers),
        ("y_proxy", tables, [answers[0], np.eye(2)[answers[1]]]),
        ("y_proxy", tables, [answers[0], answers[1] + 7]), ("y_proxy", tables, [None, answers[1]]),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=name):
            ProxyLogisticRegression().fit(X[:90], y[:90], X_proxy=inputs, y_proxy=given)
