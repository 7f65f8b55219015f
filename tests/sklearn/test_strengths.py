"""One strength, and cross-validated ones of many rows, against fits one by one."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.model_selection import KFold

import proxyprox as pp
from proxyprox.inner.exact import minimise_exactly
from proxyprox.sklearn import (
    ProxyGammaRegressor,
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
)
from proxyprox.sklearn.fitting import best_strength


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
