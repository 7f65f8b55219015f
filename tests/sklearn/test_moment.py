"""The factorised moment, the label-free proxy and the reduction, against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from proxyprox import GLM, softmax_regression
from proxyprox.problems.families import Linear, Logistic, Poisson, Softmax
from proxyprox.problems.glm import Design
from proxyprox.sklearn import ProxyLogisticRegression
from proxyprox.sklearn import fitting as _reduce
from proxyprox.sklearn import moments as _moment
from proxyprox.sklearn.moments import label_free, mixture, moment_of, pooled


def dense(moment):
    return moment @ np.eye(moment.vectors.shape[0])


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(50, 4)) * [1, 2, 0.5, 1]


def test_moment_is_the_second_moment(X):
    weights = np.arange(50.0)
    found = moment_of(Design(X, intercept=True), weights)
    A = np.hstack([X, np.ones((50, 1))])
    np.testing.assert_allclose(dense(found), (A * weights[:, None]).T @ A / weights.sum())
    assert found.weight == weights.sum()


def test_pooled_moments_are_the_moment_of_both(X):
    parts = [moment_of(Design(X[:20])), moment_of(Design(X[20:]))]
    np.testing.assert_allclose(dense(pooled(*parts)), X.T @ X / 50)
    half = mixture(*parts, 0.5)
    np.testing.assert_allclose(dense(half), (dense(parts[0]) + dense(parts[1])) / 2)
    np.testing.assert_allclose(dense(mixture(*parts, 1.0)), dense(parts[0]))


def test_wide_moments_keep_the_leading_directions(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 40)) * np.geomspace(10, 0.01, 40)
    exact = moment_of(Design(X))
    monkeypatch.setattr(_moment, "EXACT_WIDTH", 10)
    monkeypatch.setattr(_moment, "RANK", 12)
    monkeypatch.setattr(_moment, "BLOCK", 100)
    for design in (Design(X), Design(scipy.sparse.csr_array(X))):
        rough = moment_of(design)
        assert rough.vectors.shape == (40, 12)
        top = np.sort(exact.values)[-6:]
        np.testing.assert_allclose(np.sort(rough.values)[-6:], top, rtol=1e-3)
        # Never less than the truth by more than what was left out.
        assert np.linalg.eigvalsh(dense(rough) - dense(exact)).min() > -0.1 * rough.rest


@pytest.mark.parametrize(
    ("family", "y"),
    [
        (Linear(), np.linspace(-1, 3, 50)),
        (Logistic((0, 1)), np.arange(50) % 3 == 0),
        (Poisson(), np.arange(50) % 4),
        (Softmax((0, 1, 2)), np.arange(50) % 3),
    ],
)
def test_proxy_is_the_label_free_loss_to_second_order(X, family, y):
    design = Design(X, intercept=True)
    loss = GLM(design, np.asarray(y, dtype=int) if family != Linear() else y, family)
    proxy = label_free(loss, moment_of(design))
    exact = GLM(design, None, family).hessian(proxy.w0)
    v = np.random.default_rng(2).normal(size=proxy.dim)
    np.testing.assert_allclose(proxy.hvp(proxy.w0, v), exact @ v, rtol=1e-9, atol=1e-12)
    assert proxy.smoothness == pytest.approx(np.linalg.eigvalsh(exact)[-1])
    solved = proxy.solve_shifted(v, eta=2.0)
    np.testing.assert_allclose(exact @ solved + solved / 2.0, v, rtol=1e-9, atol=1e-12)
    w = proxy.w0 + v
    assert proxy.value(w) == pytest.approx(v @ exact @ v / 2)
    np.testing.assert_allclose(proxy.gradient(w), exact @ v, rtol=1e-9, atol=1e-12)


def test_low_rank_proxy_solves_exactly(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 20))
    monkeypatch.setattr(_moment, "EXACT_WIDTH", 5)
    monkeypatch.setattr(_moment, "RANK", 6)
    loss = softmax_regression(X, np.arange(60) % 3)
    proxy = label_free(loss, moment_of(loss.design))
    v = rng.normal(size=60)
    solved = proxy.solve_shifted(v, eta=0.7)
    np.testing.assert_allclose(proxy.hvp(v, solved) + solved / 0.7, v, rtol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("teacher", [False, True])
def test_reduction_changes_nothing(monkeypatch, classes, teacher):
    rng = np.random.default_rng(4)
    X = scipy.sparse.csr_array(rng.random((150, 130)) * (rng.random((150, 130)) < 0.1))
    y = rng.integers(classes, size=150)
    monkeypatch.setattr(_moment, "EXACT_WIDTH", 50)
    monkeypatch.setattr(_moment, "RANK", 10)
    proxy = {"X_proxy": X[30:], "y_proxy": y if teacher else None}
    used = []
    plain = _reduce.reduced
    monkeypatch.setattr(
        "proxyprox.sklearn.fitting.reduced", lambda *a, **k: used.append(plain(*a, **k)) or used[-1]
    )
    small = ProxyLogisticRegression(n_steps=25, cv=2).fit(X[:30], y[:30], **proxy)
    assert used[-1] is not None
    monkeypatch.setattr("proxyprox.sklearn.fitting.reduced", lambda *a, **k: None)
    whole = ProxyLogisticRegression(n_steps=25, cv=2).fit(X[:30], y[:30], **proxy)
    np.testing.assert_allclose(small.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(small.intercept_, whole.intercept_, rtol=1e-6, atol=1e-9)
