import math

import numpy as np
import pytest

from proxyprox import Problem, ProxyProx, Quadratic, minimize
from proxyprox.problems import Zero


def random_symmetric(seed, size=6):
    root = np.random.default_rng(seed).normal(size=(size, size))
    return (root + root.T) / 2


def array(x):
    return x if isinstance(x, np.ndarray) else x.numpy()


@pytest.fixture(params=["numpy", "torch"])
def library(request):
    return pytest.importorskip("torch").tensor if request.param == "torch" else np.array


def test_value_and_derivatives_are_the_sums_they_stand_for(library):
    P, (b, w, v) = random_symmetric(0), np.random.default_rng(1).normal(size=(3, 6))
    loss = Quadratic(library(P), library(b))
    value = sum(P[i, j] * w[i] * w[j] / 2 for i in range(6) for j in range(6)) + sum(b * w)
    gradient = [sum(P[i, j] * w[j] for j in range(6)) + b[i] for i in range(6)]
    assert loss.value(library(w)) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(array(loss.gradient(library(w))), gradient, rtol=1e-12)
    np.testing.assert_allclose(array(loss.hessian(library(w))), P, atol=0)
    np.testing.assert_allclose(array(loss.hvp(library(w), library(v))), P @ v, rtol=1e-12)


def test_constants_are_the_extreme_eigenvalues_and_never_negative():
    rotation = np.linalg.qr(random_symmetric(2, 3))[0]
    loss = Quadratic(rotation @ np.diag([0.5, 2.0, 7.0]) @ rotation.T)
    assert loss.smoothness == pytest.approx(7.0, rel=1e-12)
    assert loss.strong_convexity == pytest.approx(0.5, rel=1e-12)
    assert Quadratic(np.diag([-1.0, 3.0])).strong_convexity == 0.0
    assert Quadratic(-np.eye(2)).smoothness == 0.0


@pytest.mark.parametrize("size", [1, 2, 9])
def test_shifted_solve_inverts_the_shifted_matrix(library, size):
    P = random_symmetric(3, size) @ random_symmetric(3, size)
    loss, v = Quadratic(library(P)), np.random.default_rng(0).normal(size=size)
    # Back and forth: the inverse kept for one η must not answer for another.
    for eta in (0.1, 3.0, 0.1):
        got = array(loss.solve_shifted(library(v), eta))
        np.testing.assert_allclose((P + np.eye(size) / eta) @ got, v, atol=1e-11)


def test_indefinite_matrix_is_solved_where_the_shift_suffices(library):
    indefinite = Quadratic(library(np.diag([-1.0, 2.0])))
    got = array(indefinite.solve_shifted(library(np.ones(2)), 0.5))
    np.testing.assert_allclose(got, [1.0, 0.25])
    with pytest.raises(ValueError, match="Choose a smaller eta"):
        indefinite.solve_shifted(indefinite.P[0], 2.0)


def test_minimiser_has_no_gradient(library):
    P, b = random_symmetric(4) @ random_symmetric(4) + np.eye(6), np.arange(6.0)
    loss = Quadratic(library(P), library(b))
    np.testing.assert_allclose(P @ array(loss.minimiser()) + b, 0.0, atol=1e-12)


def test_noise_has_the_variance_it_is_given(library):
    loss = Quadratic(library(np.eye(5)), noise=3.0)
    rng = np.random.default_rng(0)
    w = library(np.ones(5))
    draws = np.array([array(loss.gradient(w, loss.sample(rng))) - 1.0 for _ in range(6_000)])
    assert np.mean(np.sum(draws**2, axis=1)) == pytest.approx(9.0, rel=0.03)
    assert np.abs(draws.mean(axis=0)).max() < 0.07
    assert loss.everything() is None
    assert loss.samples(None) == 1
    assert Quadratic(np.eye(2)).sample(rng) is None


@pytest.mark.parametrize("matrix", [np.eye(2), np.eye(2, dtype=np.float32)])
def test_linear_term_takes_the_kind_of_the_matrix(matrix, library):
    w = library(np.ones(2, dtype=matrix.dtype))
    for b in ([1, 2], np.array([1.0, 2.0])):
        got = Quadratic(library(matrix), b=b).gradient(w)
        assert got.dtype == w.dtype
        np.testing.assert_array_equal(array(got), [2.0, 3.0])


def test_slightly_asymmetric_matrix_is_symmetrised_and_worse_is_refused():
    P = np.array([[2.0, 1.0], [1.0 + 1e-9, 2.0]])
    np.testing.assert_array_equal(Quadratic(P).P, Quadratic(P).P.T)
    with pytest.raises(ValueError, match="symmetric"):
        Quadratic(np.array([[2.0, 1.0], [1.1, 2.0]]))


@pytest.mark.parametrize("seed", range(2))
def test_outer_step_is_the_preconditioned_gradient_step(seed, library):
    rng = np.random.default_rng(seed)
    A, P = (random_symmetric(seed + s, 8) @ random_symmetric(seed + s, 8) for s in (1, 2))
    b, w, eta = rng.normal(size=8), rng.normal(size=8), 10.0 ** rng.uniform(-2, 2)
    problem = Problem(Quadratic(library(A), library(b)), Quadratic(library(P)))
    got = minimize(problem, library(w), method=ProxyProx(eta=eta), steps=1).last
    want = w - eta * np.linalg.solve(np.eye(8) + eta * P, A @ w + b)
    np.testing.assert_allclose(array(got), want, atol=1e-10, rtol=1e-10)


def test_zero_proxy_knows_nothing(library):
    w, v = library(np.ones(3)), library(np.arange(3.0))
    zero = Zero()
    assert zero.value(w) == 0.0
    for nothing in (zero.gradient(w), zero.hvp(w, v), zero.hessian(w)):
        assert type(nothing) is type(w)
        assert not array(nothing).any()
    assert zero.hessian(w).shape == (3, 3)
    np.testing.assert_array_equal(array(zero.solve_shifted(v, 0.5)), [0.0, 0.5, 1.0])
    assert zero.smoothness == zero.strong_convexity == 0.0


def test_infinite_shift_means_no_shift():
    loss = Quadratic(np.diag([2.0, 4.0]))
    np.testing.assert_allclose(loss.solve_shifted(np.ones(2), math.inf), [0.5, 0.25])
