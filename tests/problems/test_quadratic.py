import numpy as np
import pytest

from proxyprox import Quadratic


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
    for found in (loss.gradient(library(w)), loss.value_and_gradient(library(w))[1]):
        np.testing.assert_allclose(array(found), gradient, rtol=1e-12)
    assert loss.value_and_gradient(library(w))[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(array(loss.hessian(library(w))), P, atol=0)
    np.testing.assert_allclose(array(loss.hvp(library(w), library(v))), P @ v, rtol=1e-12)
    np.testing.assert_array_equal(array(loss.zeros()), np.zeros(6))


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


def test_slightly_asymmetric_matrix_is_symmetrised_and_worse_is_refused():
    P = np.array([[2.0, 1.0], [1.0 + 1e-9, 2.0]])
    np.testing.assert_array_equal(Quadratic(P).P, Quadratic(P).P.T)
    with pytest.raises(ValueError, match="symmetric"):
        Quadratic(np.array([[2.0, 1.0], [1.1, 2.0]]))
