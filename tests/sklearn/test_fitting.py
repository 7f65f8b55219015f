"""The label-free proxy against dense algebra, and regularisation paths against the core's steps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from proxyprox import (
    DANE,
    GLM,
    L1,
    Problem,
    Quadratic,
    logistic_regression,
    minimize,
    softmax_regression,
)
from proxyprox.problems.families import Linear, Logistic, Poisson, Softmax
from proxyprox.problems.glm import Design
from proxyprox.sklearn import ProxyLogisticRegression, fitting
from proxyprox.sklearn.fitting import RegularisationPath, label_free, mix, moment_of, pool
from proxyprox.sklearn.policy import FittingPolicy
from proxyprox.stopping import Relative, Steps


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
    np.testing.assert_allclose(dense(pool(*parts)), X.T @ X / 50)
    half = mix(*parts, 0.5)
    np.testing.assert_allclose(dense(half), (dense(parts[0]) + dense(parts[1])) / 2)
    np.testing.assert_allclose(dense(mix(*parts, 1.0)), dense(parts[0]))


def test_wide_moments_keep_the_leading_directions(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 40)) * np.geomspace(10, 0.01, 40)
    exact = moment_of(Design(X))
    monkeypatch.setattr(fitting, "FITTING", FittingPolicy(exact_size=10, rank=12))
    monkeypatch.setattr(fitting, "BLOCK", 100)
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
    proxy = label_free(loss, moment_of(design), loss.sample_weight)
    exact = GLM(design, None, family).hessian(proxy.w0)
    v = np.random.default_rng(2).normal(size=len(proxy.w0))
    np.testing.assert_allclose(proxy.hvp(proxy.w0, v), exact @ v, rtol=1e-9, atol=1e-12)
    assert proxy.smoothness == pytest.approx(np.linalg.eigvalsh(exact)[-1])
    assert proxy.value(proxy.w0 + v) == pytest.approx(v @ exact @ v / 2)
    solved = proxy.solve_shifted(v, eta=2.0)
    np.testing.assert_allclose(exact @ solved + solved / 2.0, v, rtol=1e-9, atol=1e-12)
    w = proxy.w0 + v
    np.testing.assert_allclose(proxy.gradient(w), exact @ v, rtol=1e-9, atol=1e-12)


def test_low_rank_proxy_solves_exactly(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 20))
    monkeypatch.setattr(fitting, "FITTING", FittingPolicy(exact_size=5, rank=6))
    loss = softmax_regression(X, np.arange(60) % 3)
    proxy = label_free(loss, moment_of(loss.design), loss.sample_weight)
    v = rng.normal(size=60)
    solved = proxy.solve_shifted(v, eta=0.7)
    np.testing.assert_allclose(proxy.hvp(v, solved) + solved / 0.7, v, rtol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("teacher", [False, True])
def test_reduction_changes_nothing(monkeypatch, classes, teacher):
    rng = np.random.default_rng(4)
    X = scipy.sparse.csr_array(rng.random((150, 130)) * (rng.random((150, 130)) < 0.1))
    y = rng.integers(classes, size=150)
    monkeypatch.setattr(fitting, "FITTING", FittingPolicy(exact_size=50, rank=10))
    proxy = {"X_proxy": X[30:], "y_proxy": y if teacher else None}
    small = ProxyLogisticRegression(n_steps=25, cv=2).fit(X[:30], y[:30], **proxy)
    monkeypatch.setattr(fitting, "_subspace", lambda *parts: None)
    whole = ProxyLogisticRegression(n_steps=25, cv=2).fit(X[:30], y[:30], **proxy)
    assert (small.coef_ != whole.coef_).any()
    np.testing.assert_allclose(small.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(small.intercept_, whole.intercept_, rtol=1e-6, atol=1e-9)


@pytest.fixture
def problem(binary):
    X, y, _ = binary
    loss = logistic_regression(X[:80], y[:80], intercept=True)
    moment = moment_of(Design(X, intercept=True))
    return Problem(loss, label_free(loss, moment, loss.sample_weight))


def path_of(problem, proxy=None):
    parts = (problem.objective, proxy or problem.proxy, problem.penalty)
    return RegularisationPath(*parts, problem.proxy.w0)


@pytest.mark.parametrize("penalty", [None, L1(0.01)])
def test_a_step_is_the_cores(problem, penalty):
    problem = Problem(problem.objective, problem.proxy, penalty)
    path = path_of(problem)
    for _ in range(5):
        before, eta = path.w, 1 / path.pull
        stop = Relative(FittingPolicy().tolerance) | Steps(200)
        core = minimize(problem, before, method=DANE(eta=eta), steps=1, stop=stop).last
        np.testing.assert_allclose(path.advance(), core, rtol=1e-9, atol=1e-12)


def test_a_path_goes_down_to_the_minimiser(problem):
    path = path_of(problem)
    values = [problem.value(path.advance()) for _ in range(150)]
    assert (np.diff(values) <= 1e-12).all()
    assert np.linalg.norm(problem.objective.gradient(path.w)) < 1e-6


def test_a_step_that_would_go_up_is_shortened(problem):
    # A proxy that promises far too much, and steps that trust it.
    path = path_of(problem, Quadratic(1e-3 * np.eye(problem.objective.dim)))
    path.k = 80
    before = problem.value(path.w)
    assert problem.value(path.advance()) < before
