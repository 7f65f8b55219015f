import numpy as np
import pytest
from sklearn.linear_model import Lasso

from proxyprox import L1, FunctionProxy, linear_regression, logistic_regression
from proxyprox.inner import ProximalGradient, Subproblem
from proxyprox.stopping import Residual, Steps

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


@pytest.mark.parametrize("known", [True, False])
def test_giving_up_measures_where_it_stands(known):
    proxy = linear_regression(X, Y)
    phi = Subproblem(proxy if known else without_smoothness(proxy), np.zeros(12), np.ones(12),
                     1.0, L1(0.1))  # fmt: skip
    stop = Residual(1e-14)
    w, progress = solve(phi, stop, max_steps=3)
    assert progress.steps == 3
    assert not stop.holds(progress)
    assert progress.residual == pytest.approx(brute_residual(phi, w, 0.1), rel=1e-12)


def test_first_step_is_the_prox_step():
    proxy = linear_regression(X, Y)
    centre = RNG.normal(size=12)
    phi = Subproblem(proxy, np.zeros(12), centre, 1.0, L1(0.1))
    step = 1 / (np.linalg.norm(X, 2) ** 2 / 100 + 1)
    v = centre - step * (X.T @ (X @ centre - Y) / 100)
    want = np.sign(v) * np.maximum(np.abs(v) - step * 0.1, 0)
    np.testing.assert_allclose(solve(phi, Steps(1)).w, want, atol=1e-8)


def test_bound_is_remembered_for_the_next_subproblem():
    proxy = without_smoothness(linear_regression(X, Y))
    memory = {}
    phi = Subproblem(proxy, np.zeros(12), np.zeros(12), 1.0, L1(0.1))
    solve(phi, memory=memory)
    H = np.linalg.norm(X, 2) ** 2 / 100 + 1
    assert 0.05 * H < memory["bound"] <= 2 * H


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
