"""minimize(target): a loss of a table without a proxy, against the exact minimum."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import proxyprox as pp
from proxyprox.inner.exact import minimise_exactly
from tests.runs import assert_resumes


def table(n=6000, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 1:] = 0.7 * X[:, :-1] + 0.5 * X[:, 1:]
    z = X @ rng.normal(size=d) / 2
    return X, z, rng


def gap(loss, w):
    """Return what is left of the gap at zero."""
    least = loss.value(minimise_exactly(loss, w, tol=1e-13))
    return (loss.value(w) - least) / (loss.value(loss.zeros()) - least)


def hard_tables():
    X, z, rng = table()
    y = (z + rng.logistic(size=len(z)) > 0).astype(int)
    order, twice = np.argsort(y, kind="stable"), np.hstack([X, X[:, :2], np.ones((len(X), 1))])
    counts = rng.poisson(np.exp(np.clip(z, None, 5)))
    rare = np.zeros(len(y), dtype=int)
    rare[np.argsort(-z)[:6]] = 1
    yield "sorted", pp.logistic_regression(X[order], y[order], l2=1e-6)
    yield "weights", pp.logistic_regression(X, y, l2=1e-6, sample_weight=rng.random(len(y)) ** 6)
    yield "columns twice", pp.logistic_regression(twice, y, l2=1e-6, intercept=True)
    yield "separable", pp.logistic_regression(X, z > 0, l2=1e-5)
    yield "rare", pp.logistic_regression(X, rare, l2=1e-6, intercept=True)
    yield "scaled", pp.logistic_regression(X * np.logspace(4, -4, X.shape[1]), y)
    for rows in (800, 6000):
        wild = X[:rows] * np.logspace(6, -6, X.shape[1])
        yield f"scaled, {rows}", pp.logistic_regression(wild, y[:rows])
    yield "far from zero", pp.logistic_regression(X + 1e4, y, intercept=True)
    yield "sparse", pp.logistic_regression(scipy.sparse.csr_array(X * (abs(X) > 1)), y, l2=1e-6)
    yield "counts", pp.poisson_regression(X, counts, l2=1e-6, intercept=True)
    # Trial points overflow.
    yield "large amounts", pp.gamma_regression(X, rng.gamma(0.3, np.exp(5 * z)), l2=1e-6)
    yield "amounts", pp.gamma_regression(X, rng.gamma(2, np.exp(z)), l2=1e-6)
    yield "classes", pp.softmax_regression(X, np.digitize(z, [-0.5, 0.5]), l2=1e-6)
    yield "line", pp.linear_regression(X * np.logspace(0, -4, X.shape[1]), z, l2=1e-10)
    yield "wide", pp.logistic_regression(rng.normal(size=(1200, 700)), y[:1200], l2=1e-4)
    # Its curvature changes by orders of magnitude on the way, and trial points overflow.
    X, z, rng = table(2000, 200, 1)
    many = rng.poisson(np.exp(np.clip(6 + 3 * z / z.std(), None, 15)))
    yield "wide, counts", pp.poisson_regression(X, many, l2=1e-6, intercept=True)
    yield "few rows", pp.logistic_regression(X[:50, :12], y[:50], l2=1e-3)


def test_a_loss_alone_is_minimised_to_a_billionth_of_its_gap_or_so():
    for name, loss in hard_tables():
        result = pp.minimize(loss)
        assert result.status is pp.Status.CONVERGED, name
        assert gap(loss, result.w) < 1e-7, name
        assert "ProxyBFGS" in result.method, name


def test_units_of_columns_change_nothing_if_there_is_no_hessian():
    # L-BFGS alone sees the large columns, and called a run done at two thirds of the gap.
    X, z, rng = table(900, 100)
    y, scales = z + rng.logistic(size=900) > 0, np.logspace(6, -6, 100)
    alike, wild = (pp.minimize(pp.logistic_regression(x, y)) for x in (X, X * scales))
    assert wild.status is pp.Status.CONVERGED
    np.testing.assert_allclose(wild.w * scales, alike.w, rtol=1e-5, atol=1e-7)
    assert gap(pp.logistic_regression(X, y), wild.w * scales) < 1e-8


def test_narrow_tables_take_few_passes_and_the_result_says_of_how_many_rows():
    X, z, rng = table(20_000, 10)
    loss = pp.logistic_regression(X, z + rng.logistic(size=len(z)) > 0, l2=1e-6)
    result = pp.minimize(loss)
    assert result.ledger.target_gradients <= 10
    assert "of its rows are the proxy" in result.method


def test_float32_tables_are_fitted_as_well_and_are_not_copied():
    X, z, rng = table()
    y = z + rng.logistic(size=len(z)) > 0
    small = pp.logistic_regression(X.astype(np.float32), y, l2=1e-6)
    exact = pp.logistic_regression(X.astype(np.float32).astype(np.float64), y, l2=1e-6)
    assert small.design.X.dtype == np.float32
    np.testing.assert_allclose(pp.minimize(small).w, pp.minimize(exact).w, rtol=1e-6)


def test_a_run_of_a_loss_alone_resumes_bit_for_bit(tmp_path):
    X, z, rng = table()
    loss = pp.logistic_regression(X, z + rng.logistic(size=len(z)) > 0, l2=1e-6)
    assert_resumes(tmp_path / "run", loss, at=2, steps=None)


def test_offsets_are_columns_whose_parameter_is_one():
    X, z, rng = table(3000, 4)
    known = rng.normal(size=3000)
    both, away = np.column_stack([X, known]), np.column_stack([known, -known, 0 * known])
    classes = np.argmax(np.column_stack([z, -z, 0 * z]) + away + rng.gumbel(size=(3000, 3)), axis=1)
    for make, y, offset in (
        (pp.logistic_regression, z + known + rng.logistic(size=3000) > 0, known),
        (pp.poisson_regression, rng.poisson(np.exp(z + known)), known),
        (pp.gamma_regression, rng.gamma(2, np.exp(z + known)), known),
        (pp.softmax_regression, classes, away),
    ):
        loss = make(X, y, l2=1e-3, offset=offset)
        assert gap(loss, pp.minimize(loss).w) < 1e-7
        assert loss.fingerprint() != make(X, y, l2=1e-3).fingerprint()
        part, w = loss.rows(np.arange(100)), rng.normal(size=loss.dim)
        np.testing.assert_allclose(part.gradient(w), loss.gradient(w, np.arange(100)))
        if offset is known:
            wide = make(both, y)
            point = np.append(w, 1.0)
            assert abs(wide.value(point) + 5e-4 * w @ w - loss.value(w)) < 1e-9
            bent = wide.hessian(point)[:4, :4] + 1e-3 * np.eye(4)
            np.testing.assert_allclose(loss.hessian(w), bent)
    for wrong in (known[:-1], np.nan * known, "two"):
        with pytest.raises((TypeError, ValueError), match="offset"):
            pp.poisson_regression(X, classes, offset=wrong)
