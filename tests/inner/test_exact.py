"""The one exact solver, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.inner.exact import absolute, minimise_exactly


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


def test_the_absolute_value_of_a_matrix_has_those_of_its_eigenvalues():
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    for values in ([-2.0, 0.5, 3.0], [0.1, 1.0, 2.0]):
        found = absolute((basis * values) @ basis.T)
        np.testing.assert_allclose(found, (basis * np.abs(values)) @ basis.T, atol=1e-12)
