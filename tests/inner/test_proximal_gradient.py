import math

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from proxyprox import L1, FunctionProxy, Quadratic, linear_regression, logistic_regression
from proxyprox.inner import ProximalGradient, Subproblem
from proxyprox.stopping import Residual, StronglyConvex

RNG = np.random.default_rng(0)
SMALLEST = Residual(1e-300)
X = RNG.normal(size=(100, 12))
Y = X[:, :3] @ np.array([2.0, -1.0, 0.5]) + 0.1 * RNG.normal(size=100)


def solve(phi, stop=None, memory=None, start=None, max_steps=20_000):
    return ProximalGradient(max_steps).solve(
        phi,
        phi.centre if start is None else start,
        Residual(1e-9) if stop is None else stop,
        {} if memory is None else memory,
        np.random.default_rng(0),
    )


def without_smoothness(proxy):
    return FunctionProxy(proxy.value, proxy.gradient)


def brute_residual(phi, w, alpha, ratio=1.0):
    """The distance to the subdifferential, one coordinate after the other."""
    gradient = phi.gradient(w) + alpha * (1 - ratio) * w
    total = 0.0
    for slope, u in zip(gradient, w, strict=True):
        signs = [np.sign(u)] if u else np.clip([-slope / (alpha * ratio)], -1, 1)
        total += min((slope + alpha * ratio * s) ** 2 for s in signs)
    return np.sqrt(total)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_lasso_is_scikit_learns(known, alpha):
    proxy = linear_regression(X, Y)
    phi = Subproblem(
        proxy if known else without_smoothness(proxy), np.zeros(12), np.zeros(12), np.inf, L1(alpha)
    )
    w, progress = solve(phi)
    model = Lasso(alpha=alpha, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(X, Y)
    np.testing.assert_allclose(w, model.coef_, atol=1e-8)
    assert (w == 0).tolist() == (model.coef_ == 0).tolist()
    assert (w == 0).any()
    assert progress.residual <= 1e-9
    assert progress.residual == pytest.approx(brute_residual(phi, w, alpha), abs=1e-13)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_proximal_subproblems_end_stationary(known, library):
    rng = np.random.default_rng(0)
    linear, centre = 0.3 * rng.normal(size=(2, 12))
    proxy = logistic_regression(X, Y > 0)
    phi = Subproblem(proxy, linear, centre, 2.0, L1(0.05))
    native = phi
    if library == "torch":
        torch = pytest.importorskip("torch")
        tensor = logistic_regression(torch.tensor(X), Y > 0)
        native = Subproblem(tensor, torch.tensor(linear), torch.tensor(centre), 2.0, L1(0.05))
    if not known:
        native.proxy = without_smoothness(native.proxy)
    w, progress = solve(native)
    assert progress.residual <= 1e-9
    assert brute_residual(phi, np.asarray(w), 0.05) <= 1.01e-9


@pytest.mark.parametrize("penalty", [None, L1(0.05)])
@pytest.mark.parametrize("known", [True, False])
def test_where_only_rounding_moves_it_ends_soon(penalty, known):
    """A rule relative to the distance moved is never met once a run has converged."""
    proxy = logistic_regression(X, Y > 0, l2=0.1)
    proxy = proxy if known else without_smoothness(proxy)
    phi = Subproblem(proxy, np.full(12, 0.3), np.zeros(12), 2.0, penalty)
    there = solve(phi, Residual(1e-13)).w
    calls = []
    counted = FunctionProxy(proxy.value, lambda w: calls.append(1) or proxy.gradient(w))
    again = Subproblem(counted, np.full(12, 0.3), np.zeros(12), 2.0, penalty)
    found = solve(again, SMALLEST, start=there)
    assert len(calls) < 300
    np.testing.assert_allclose(found.w, there, atol=1e-12)


def test_the_residual_is_measured_only_if_the_rule_may_hold():
    """Far from zero too: the rule is about the way from the centre."""
    proxy, centre, calls = linear_regression(X, Y), np.full(12, 50.0), []
    counted = FunctionProxy(proxy.value, lambda w: calls.append(1) or proxy.gradient(w))
    phi = Subproblem(counted, 0.1 - proxy.gradient(centre), centre, 100.0, L1(0.05))
    progress = solve(phi, StronglyConvex(1e-4)).progress
    assert progress.steps > 5
    assert len(calls) <= progress.steps + 6


@pytest.mark.parametrize("penalty", [None, L1(0.05)])
def test_steps_are_those_of_fista_with_restarts(penalty):
    proxy, centre = logistic_regression(X * np.geomspace(0.1, 1, 12), Y > 0), RNG.normal(size=12)
    phi = Subproblem(proxy, np.full(12, 0.1), centre, 100.0, penalty)
    w = y = centre
    weight, restarts = 1.0, 0
    for _ in range(60):
        w, before = y - phi.gradient(y) / phi.smoothness, w
        w = w if penalty is None else penalty.prox(w, 1 / phi.smoothness)
        if (y - w) @ (w - before) > 0:
            weight, restarts = 1.0, restarts + 1
        grown = (1 + (1 + 4 * weight**2) ** 0.5) / 2
        y, weight = w + (weight - 1) / grown * (w - before), grown
    assert 0 < restarts < 20
    found = solve(phi, SMALLEST, max_steps=60)
    assert found.progress.steps == 60
    np.testing.assert_allclose(found.w, w, rtol=1e-9)


def test_the_bound_follows_the_curvature():
    proxy = without_smoothness(Quadratic(np.diag(np.geomspace(1e-3, 1, 12))))
    for start in (1e-3, 1e3):
        memory = {"bound": start}
        phi = Subproblem(proxy, np.ones(12), np.zeros(12), math.inf)
        solve(phi, SMALLEST, memory, max_steps=150)
        assert 0.2 < memory["bound"] <= 2
