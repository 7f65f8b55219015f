"""Malformed inputs, labels and weights of the estimators are refused by name."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from proxyprox.sklearn import (
    ProxyLogisticRegression,
    ProxyPoissonRegressor,
    ProxyRidge,
    ProxyWarning,
)
from proxyprox.sklearn.inputs import warn_if_suspicious

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore:X_proxy has as many rows")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2))
Y = np.arange(24) % 2
QUICK = {"cv": 2, "max_steps": 3}
ESTIMATORS = [ProxyLogisticRegression(**QUICK), ProxyPoissonRegressor(**QUICK), ProxyRidge(**QUICK)]
EVERY = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
MASK = np.arange(24) == 3


def refused(name, call):
    with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b"):
        call()


BAD_X = {
    "masked": np.ma.array(X, mask=X > 1),
    "complex tensor": torch.tensor(X) * 1j,
    "sparse tensor": torch.tensor(X).to_sparse(),
    "bfloat16": torch.tensor(X).bfloat16(),
    "too large": X * 1e160,
    "too large, sparse": sp.csr_array(X * 1e160),
    "text": "abc",
    "beyond float64": [[10**400, 1]] * 24,
    "table of text": pd.DataFrame({"a": list("ab") * 12, "b": 1.0}),
}


@EVERY
@pytest.mark.parametrize("case", BAD_X)
def test_inputs(estimator, case):
    fitted = clone(estimator).set_params(n_steps=1).fit(X, Y)
    given = BAD_X[case]
    name = "(X|X_proxy|Complex data not supported)"
    refused(name, lambda: clone(estimator).fit(given, Y))
    refused(name, lambda: fitted.predict(getattr(given, "to_numpy", lambda: given)()))
    refused(
        "(X_proxy|Complex data not supported)", lambda: clone(estimator).fit(X, Y, X_proxy=given)
    )


BAD_Y = {
    "masked": np.ma.array(Y, mask=MASK),
    "complex": Y + 0j,
    "dates": Y.astype("M8[D]"),
    "durations": Y.astype("m8[D]"),
    "sparse tensor": torch.tensor(Y).to_sparse(),
    "bfloat16": torch.tensor(Y).bfloat16(),
    "NA": pd.array([True, None] * 12, dtype="boolean"),
}


@EVERY
@pytest.mark.parametrize("case", BAD_Y)
def test_labels(estimator, case):
    given = BAD_Y[case]
    if case != "NA":
        refused("y", lambda: clone(estimator).fit(X, given))
        refused("y", lambda: clone(estimator).partial_fit(X, given))
    refused("y_proxy", lambda: clone(estimator).fit(X, Y, X_proxy=X + 0.1, y_proxy=given))


@pytest.mark.parametrize("estimator", ESTIMATORS[1:], ids=lambda e: type(e).__name__)
def test_regressors_take_numbers_only(estimator):
    for given in (list("01") * 12, np.array([b"0", b"1"] * 12)):
        refused("y", lambda g=given: clone(estimator).fit(X, g))
        refused("y_proxy", lambda g=given: clone(estimator).fit(X, Y, X_proxy=X + 0.1, y_proxy=g))


BAD_WEIGHTS = {
    "masked": np.ma.array(np.ones(24), mask=MASK),
    "complex": np.ones(24) + 0j,
    "text": ["1"] * 24,
    "durations": np.ones(24, "m8[D]"),
    "None inside": [None] * 24,
    "negative": -np.ones(24),
    "NaN": np.full(24, np.nan),
}


@EVERY
@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_weights(estimator, case):
    given = BAD_WEIGHTS[case]
    fitted = clone(estimator).set_params(n_steps=1).fit(X, Y)
    refused("[Ss]ample_?.?weight", lambda: clone(estimator).fit(X, Y, sample_weight=given))
    refused("[Ss]ample_?.?weight", lambda: fitted.score(X, Y, given))


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


@EVERY
def test_settings(estimator):
    odd = {
        "cv": ["", "x", -1, 1, np.ones(2), object()],
        "alpha": ["x", None, -1, np.nan, object(), {}, 1j],
        "fit_intercept": ["no", None, 2],
        "average": ["no", None],
        "warm_start": ["no", None],
        "unlabelled": [[], {}, np.ones(2), object(), int],
    }
    for name in odd.keys() & estimator.get_params():
        for value in odd[name]:
            changed = clone(estimator).set_params(**{name: value})
            refused(name, lambda model=changed: model.fit(X, Y))


def test_counts_that_do_not_differ_have_no_score():
    fitted = ProxyPoissonRegressor(**QUICK).fit(X, Y)
    refused("y", lambda: fitted.score(X, np.ones(24)))


# An X_proxy that was not transformed is warned of, and no other.


@pytest.mark.parametrize(("rows", "columns"), [(10, 4), (10, 30), (40, 1), (40, 30)])
@pytest.mark.parametrize(
    "change",
    [
        lambda Z: 100 * Z,
        lambda Z: 10 * Z,
        lambda Z: Z / 10,
        lambda Z: 5 + 3 * Z,
        lambda Z: 3 * (Z + 5),
        lambda Z: Z + 20,
    ],
)
def test_another_scale_or_place_is_warned_of(change, rows, columns):
    Z = np.random.default_rng(1).normal(size=(800, columns))
    with pytest.warns(ProxyWarning, match=r"X_proxy .*like X.*routing"):
        warn_if_suspicious(Z[:rows], change(Z[rows:]))


DRAWS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "lognormal": lambda rng, shape: np.exp(rng.normal(size=shape)),
    "student": lambda rng, shape: rng.standard_t(3, size=shape),
    "uniform": lambda rng, shape: rng.random(shape),
    "counts": lambda rng, shape: rng.poisson(1.0, shape).astype(float),
    "coin": lambda rng, shape: (rng.random(shape) < 0.5).astype(float),
    "rare": lambda rng, shape: (rng.random(shape) < 0.02).astype(float),
    "scaled": lambda rng, shape: ((rng.random(shape) < 0.1) - 0.1) / 0.3,
    "same": lambda rng, shape: np.outer(rng.normal(size=shape[0]), np.ones(shape[1])),
}


@pytest.mark.parametrize("columns", [3, 20])
@pytest.mark.parametrize("rows", [10, 20, 40])
@pytest.mark.parametrize("kind", DRAWS)
def test_random_splits_are_alike(kind, rows, columns):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(50):
            Z = DRAWS[kind](np.random.default_rng(seed), (400, columns))
            warn_if_suspicious(Z[:rows], Z[rows:])


def words(seed):
    """Return sparse counts of words, some common and most rare."""
    rng = np.random.default_rng(seed)
    chance = np.minimum(0.5, 5 / np.arange(1, 801))
    counts = rng.poisson(chance, size=(300, 800)) * rng.uniform(0.5, 2.0, size=(300, 1))
    return sp.csr_array(counts)


@pytest.mark.parametrize("rows", [10, 40])
def test_sparse_text_is_alike_unless_it_was_scaled(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(10):
            Z = words(seed)
            warn_if_suspicious(Z[:rows], Z[rows:])
            warn_if_suspicious(Z[:rows].toarray(), Z[rows:].toarray())
    with pytest.warns(ProxyWarning, match="spread is"):
        warn_if_suspicious(Z[:rows], 10 * Z[rows:])


def test_constant_columns_tell_nothing():
    warn_if_suspicious(np.zeros((20, 3)), np.zeros((30, 3)))
    warn_if_suspicious(sp.csr_array((20, 3)), sp.csr_array((30, 3)))
