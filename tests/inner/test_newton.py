"""Newton steps in closed form, with a matrix, with products and with a kept inverse."""

import math

import numpy as np
import pytest

from proxyprox import FunctionProxy, Quadratic, logistic_regression
from proxyprox.inner import ClosedForm, Newton, QuasiNewton, Subproblem
from proxyprox.inner.base import SolverPolicy
from proxyprox.inner.newton import add_secant
from proxyprox.stopping import Residual


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("eta", [1e-3, 1.0, 1e4, math.inf])
def test_solution_of_the_linear_system(library, eta, solve):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(7, 7))
    P = root @ root.T + 0.1 * np.eye(7)
    b, linear, centre, start = rng.normal(size=(4, 7))
    make = pytest.importorskip("torch").tensor if library == "torch" else np.array
    phi = Subproblem(Quadratic(make(P), make(b)), make(linear), make(centre), eta)
    want = np.linalg.solve(P + np.eye(7) / eta, centre / eta - b - linear)
    for begin in (centre, start):
        w, progress = solve(ClosedForm(), phi, Residual(1e-10), start=make(begin))
        np.testing.assert_allclose(np.asarray(w), want, atol=1e-10)
        assert progress.residual <= 1e-10
        assert progress.steps in (1, 2)


RNG = np.random.default_rng(0)


def solve(solver, phi, start=None, memory=None, tol=1e-9):
    start = phi.centre if start is None else start
    return solver.solve(
        phi, start, Residual(tol), {} if memory is None else memory, np.random.default_rng(0)
    )


def counted(proxy, calls):
    return FunctionProxy(
        proxy.value, proxy.gradient, hessian=lambda w: calls.append(1) or proxy.hessian(w)
    )


def check(phi, memory, tol=1e-9):
    """Solve with the carried memory and compare with Newton's method from scratch."""
    w, progress = solve(QuasiNewton(), phi, memory=memory, tol=tol)
    assert progress.residual <= tol
    assert progress.residual == pytest.approx(np.linalg.norm(phi.gradient(w)), rel=1e-9, abs=1e-16)
    exact = solve(Newton(), phi, tol=tol).w
    np.testing.assert_allclose(w, exact, atol=2.1 * tol * phi.eta, rtol=1e-7)
    return w


@pytest.fixture
def logistic():
    X = RNG.normal(size=(80, 6))
    return logistic_regression(X, np.arange(80) % 2, l2=0.01)


def test_a_run_of_like_subproblems_needs_one_hessian(logistic):
    rng, memory, calls, w = np.random.default_rng(1), {}, [], np.zeros(6)
    for _ in range(60):
        linear = 0.05 * rng.normal(size=6)
        phi = Subproblem(counted(logistic, calls), linear, w, 3.0)
        w, progress = solve(QuasiNewton(), phi, memory=memory, tol=1e-8)
        assert progress.residual <= 1e-8
        exact = solve(Newton(), Subproblem(logistic, linear, phi.centre, 3.0)).w
        np.testing.assert_allclose(w, exact, atol=1e-7)
    assert 1 <= len(calls) <= 3


def test_eta_that_changes_needs_another_factor_and_no_hessian(logistic):
    rng, memory, calls, w = np.random.default_rng(2), {}, [], np.zeros(6)
    proxy = counted(logistic, calls)
    for _ in range(40):
        eta = 10.0 ** rng.uniform(-3, 1)
        w = check(Subproblem(logistic, 0.01 * rng.normal(size=6), w, eta), memory)
        assert memory["eta"] == eta
    memory = {}
    for eta in (1.0, 4.0, 0.5, 8.0):
        phi = Subproblem(proxy, 0.01 * rng.normal(size=6), w, eta)
        solve(QuasiNewton(), phi, memory=memory)
    assert len(calls) == 1


def test_secants_are_the_newest_and_have_curvature():
    for s, y in [([1.0, 0.0], [-1.0, 0.0]), ([1.0, 0.0], [0.0, 1.0]), ([0.0, 0.0], [0.0, 0.0])]:
        assert add_secant((), np.array(s), np.array(y)) == ()
    secants = ()
    for k in range(SolverPolicy.secants + 5):
        secants = add_secant(secants, np.full(2, 1.0 + k), np.ones(2))
    S, changes = secants
    assert S.shape == changes.shape == (SolverPolicy.secants, 2)
    assert S[-1, 0] == SolverPolicy.secants + 5


def test_an_inverse_that_has_gone_stale_is_rebuilt_early():
    # Curvatures that were all alike become a hundred different ones: secants alone crawl.
    flat = FunctionProxy(lambda w: w @ w / 2, lambda w: w, hessian=lambda w: np.eye(100))
    D = np.diag(np.geomspace(1.0, 1e4, 100))
    steep = FunctionProxy(lambda w: w @ D @ w / 2, lambda w: D @ w, hessian=lambda w: D)
    memory = {}
    for proxy in (flat, steep):
        phi = Subproblem(proxy, np.ones(100), np.ones(100), 1.0)
        progress = solve(QuasiNewton(), phi, memory=memory).progress
    assert progress.residual <= 1e-9
    assert progress.steps <= 5


def test_no_step_leads_uphill_to_a_flat_place():
    """Next to a maximum of the slope the Hessian is about zero, and a step as long as it likes."""

    def value(w):
        return float(-w[0] * np.exp(-(w[0] ** 2) / 2) + 2.5 * (1 + np.tanh(5 * (w[0] - 10))))

    def gradient(w):
        return -(1 - w**2) * np.exp(-(w**2) / 2) + 12.5 / np.cosh(5 * (w - 10)) ** 2

    def hessian(w):
        wall = 125 * np.tanh(5 * (w - 10)) / np.cosh(5 * (w - 10)) ** 2
        return np.diag(w * (3 - w**2) * np.exp(-(w**2) / 2) - wall)

    proxy, start = FunctionProxy(value, gradient, hessian=hessian), np.array([-1e-3])
    phi = Subproblem(proxy, np.zeros(1), np.zeros(1), math.inf)
    found = solve(Newton(), phi, start)
    assert found.progress.steps > 1
    assert value(found.w) < value(start)
