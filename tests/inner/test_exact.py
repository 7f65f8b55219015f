"""The one exact solver, against closed forms; within bounds, against SciPy's L-BFGS-B."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import proxyprox as pp
from proxyprox.inner.exact import (
    absolute,
    box_minimum,
    factored,
    find_minimum,
    minimise_exactly,
    minimise_in_box,
)


@pytest.fixture
def loss():
    rng = np.random.default_rng(0)
    return pp.linear_regression(rng.normal(size=(40, 3)), rng.normal(size=40))


def test_least_squares_are_solved(loss):
    exact = np.linalg.lstsq(loss.design.X, loss.targets, rcond=None)[0]
    np.testing.assert_allclose(minimise_exactly(loss, np.zeros(3)), exact, rtol=1e-10)


def test_a_penalty_is_part_of_it(loss):
    w = minimise_exactly(loss, np.zeros(3), tol=1e-10, penalty=pp.L1(0.05))
    assert pp.L1(0.05).distance(w, loss.gradient(w)) <= 1e-10


def test_a_relative_tolerance_may_stop_it_earlier():
    rng = np.random.default_rng(1)
    loss = pp.logistic_regression(rng.normal(size=(50, 4)), rng.integers(2, size=50), l2=0.1)
    start = 5 * np.ones(4)
    rough = minimise_exactly(loss, start, relative=1e-2)
    first, last = (np.linalg.norm(loss.gradient(w)) for w in (start, rough))
    assert 1e-12 < last <= 1e-2 * first


def test_values_that_are_not_finite_are_refused():
    broken = pp.Problem((lambda w: np.nan, lambda w: w), pp.problems.Zero()).objective
    with pytest.raises(pp.inner.NonFiniteError, match="value"):
        minimise_exactly(broken, np.ones(2))


@pytest.mark.parametrize(("lower", "upper"), [(-0.1, 0.2), (-30.0, 30.0), (0.0, np.inf)])
def test_the_minimum_is_that_of_scipy(lower, upper):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5)) * np.logspace(0, -1, 5)
    loss = pp.logistic_regression(X, rng.integers(0, 2, 60), l2=1e-3)
    box = pp.Box(lower, upper)
    start = box.prox(np.zeros(5), 1.0)
    found = minimise_in_box(loss, start, box, tol=1e-9)
    tight = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 10_000}
    reference = scipy.optimize.minimize(
        loss.value, start, jac=loss.gradient, bounds=[(lower, upper)] * 5, method="L-BFGS-B",
        options=tight,
    )  # fmt: skip
    np.testing.assert_allclose(found, reference.x, atol=1e-5)
    assert box.value(found) == 0
    np.testing.assert_allclose(find_minimum(loss, start, penalty=box), found, atol=1e-6)


def test_a_loss_without_a_minimum_has_none_and_one_that_begins_there_keeps_it(loss):
    rows = np.array([[-1.0, 0.5], [1.0, -2.0], [2.0, 1.0]])
    for endless in (
        pp.logistic_regression(rows, [0, 1, 1]),
        pp.Quadratic(np.zeros((2, 2)), [1, 0]),
    ):
        assert find_minimum(endless, np.zeros(2)) is None
    exact = np.linalg.lstsq(loss.design.X, loss.targets, rcond=None)[0]
    for start in (exact, exact + 1e-12, np.full(3, 1e3)):
        np.testing.assert_allclose(find_minimum(loss, start), exact, rtol=1e-9)
    np.testing.assert_allclose(find_minimum(loss, np.zeros(3), penalty=pp.L1(10.0)), 0, atol=1e-12)


def test_a_matrix_is_made_definite_and_a_singular_one_solved_with():
    rng = np.random.default_rng(2)
    Q = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    definite = (Q * [1.0, 2.0, 3.0, 4.0]) @ Q.T
    np.testing.assert_allclose(absolute((Q * [-1.0, 2.0, -3.0, 4.0]) @ Q.T), definite, atol=1e-12)
    assert absolute(definite) is definite
    q = rng.normal(size=4)
    np.testing.assert_allclose(
        factored(definite.copy(), 0.5)(q), np.linalg.solve(definite + np.eye(4) / 2, q), rtol=1e-9
    )
    # Less than nothing, but for rounding: a shift of that size is added.
    edge = np.diag([-1e-15, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(factored(edge, 0.0)([0.0, 2.0, 3.0, 4.0]), [0, 1, 1, 1], rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_minimum_in_a_box_is_scipys(seed):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(9, 9)))[0]
    B, g = (basis * np.geomspace(1e-3, 1, 9)) @ basis.T, rng.normal(size=9)
    B = (B + B.T) / 2
    low = np.where(rng.random(9) < 0.7, -rng.random(9), -np.inf)
    high = np.where(rng.random(9) < 0.7, rng.random(9) * (rng.random(9) < 0.8), np.inf)
    # A bound that rounding keeps off zero does not block the way.
    low[0] = -1e-17
    p = box_minimum(B, g, low, high)
    found = scipy.optimize.lsq_linear(
        np.linalg.cholesky(B).T, -np.linalg.solve(np.linalg.cholesky(B), g),
        (low, np.maximum(high, low + 1e-300)), tol=1e-14, method="bvls",
    )  # fmt: skip
    assert ((p >= low) & (p <= high)).all()
    np.testing.assert_allclose(p, found.x, atol=1e-6 * np.abs(p).max())


def test_a_curved_valley_takes_few_evaluations_and_none_outside():
    seen = []

    def rosenbrock(w):
        seen.append(np.array(w))
        return float(scipy.optimize.rosen(w))

    loss = pp.FunctionProxy(
        rosenbrock, lambda w: scipy.optimize.rosen_der(w),
        hessian=lambda w: scipy.optimize.rosen_hess(w),
    )  # fmt: skip
    box = pp.Box([-2.0, -2.0], [0.8, 2.0])
    found = minimise_in_box(loss, np.array([-1.2, 1.0]), box, tol=1e-9)
    # On the bound w_0 = 0.8 the least is at w_1 = 0.8².
    np.testing.assert_allclose(found, [0.8, 0.64], atol=1e-6)
    assert len(seen) < 60
    assert all(box.value(w) == 0 for w in seen)
