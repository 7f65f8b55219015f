"""Losses of outputs: gradients, Gauss and Newton's curvature, errors of parameters."""

import numpy as np
import pytest
import scipy.optimize

from proxyprox import LeastSquares, Outputs, ValueObjective, ValueProxy
from proxyprox.problems import counts, huber, uncertainty, weighted
from proxyprox.testing import check_objective, check_proxy

T = np.linspace(0.0, 3.0, 31)
W = np.array([2.0, 0.7, 0.5])


def decay(w):
    return w[0] * np.exp(-w[1] * T) + w[2]


def slopes(w):
    falling = np.exp(-w[1] * T)
    return np.stack([falling, -w[0] * T * falling, np.ones_like(T)], axis=1)


def euler(w):
    # The same decay in steps of 0.1.
    return w[0] * (1 - 0.1 * w[1]) ** np.arange(31) + w[2]


DATA = decay(np.array([3.0, 1.1, 0.2])) + 0.05 * np.random.default_rng(0).normal(size=31)


def fine(w):
    return decay(w) - DATA


def coarse(w):
    return euler(w) - DATA


@pytest.mark.parametrize(("jacobian", "error", "calls"), [(None, 1e-6, 4), (slopes, 1e-13, 2)])
def test_gradient_and_curvature_are_those_of_the_exact_jacobian(jacobian, error, calls):
    loss = LeastSquares(fine, jacobian=jacobian)
    J, r, v = slopes(W), fine(W), np.array([1.0, -1.0, 2.0])
    value, gradient = loss.value_and_gradient(W)
    assert value == pytest.approx(r @ r / 2, rel=1e-14)
    np.testing.assert_allclose(gradient, J.T @ r, atol=20 * error)
    np.testing.assert_allclose(loss.gradient(W), gradient)
    np.testing.assert_allclose(loss.hessian(W), J.T @ J, atol=20 * error)
    np.testing.assert_allclose(loss.hvp(W, v), J.T @ J @ v, atol=20 * error)
    np.testing.assert_array_equal(loss.curvature(W), loss.hessian(W))
    assert loss.evaluations == calls


@pytest.mark.parametrize(
    ("residuals", "jacobian", "match"),
    [
        (lambda w: 1.0, None, r"residuals\(w\) must be a vector"),
        (fine, lambda w: np.ones((2, 3)), r"jacobian\(w\) must be"),
    ],
)
def test_answers_of_other_shapes_are_refused(residuals, jacobian, match):
    with pytest.raises((TypeError, ValueError), match=match):
        LeastSquares(residuals, jacobian=jacobian).gradient(W, None)


def test_differences_that_fail_are_an_error_of_the_target_and_nan_of_the_proxy():
    loss = LeastSquares(lambda w: fine(w) if w[1] == W[1] else fine(w) + np.nan)
    with pytest.raises(RuntimeError, match=r"residuals .* w\[1\]"):
        loss.gradient(W, None)
    assert np.isnan(loss.gradient(W)).all()


COUNTS = np.random.default_rng(1).poisson(20 * decay(W))
LOSSES = {
    "weighted": weighted(DATA, 0.2),
    "huber": huber(DATA, 0.05),
    "counts": counts(COUNTS),
    "a vector of the user's": lambda z: np.arctan(z - DATA),
    "a number of the user's": lambda z: float(np.sum(np.log(np.cosh(z - DATA)))),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_outputs_have_the_gradients_and_curvature_of_their_value(name):
    loss = Outputs(lambda w: 20 * decay(w) if name == "counts" else decay(w), LOSSES[name])
    exact = ValueProxy(loss.value)
    size = np.abs(exact.gradient(W)).max()
    np.testing.assert_allclose(loss.gradient(W), exact.gradient(W), atol=2e-6 * size)
    np.testing.assert_allclose(loss.hvp(W, W), loss.hessian(W) @ W)
    assert np.linalg.eigvalsh(loss.hessian(W)).min() >= -1e-9 * size
    if name == "a number of the user's":
        exact = (slopes(W).T / np.cosh(decay(W) - DATA) ** 2) @ slopes(W)
        np.testing.assert_allclose(loss.hessian(W), exact, rtol=1e-3)
    check_objective(loss, W)


def test_residuals_of_counts_are_the_poisson_likelihood_and_hubers_are_hubers():
    means = np.array([1.0, 19.999, 20.0, 20.001, 400.0])
    for seen in (np.zeros(5), np.full(5, 20.0)):
        likelihood = means - seen * np.log(means)
        found = counts(seen)(means) ** 2 / 2
        np.testing.assert_allclose(np.diff(found), np.diff(likelihood), atol=1e-11)
    # Next to the count the likelihood cancels: 2(t − log(1 + t)) = t² − 2t³/3 + t⁴/2 − 2t⁵/5.
    for t in (-2e-3, -5e-4, 1e-6, 9e-4, 2e-3):
        exact = np.sqrt(20 * (1 - 2 * t / 3 + t**2 / 2 - 0.4 * t**3)) * t
        assert counts([20.0])(np.array([20 * (1 + t)]))[0] == pytest.approx(exact, rel=1e-8)
    r = np.linspace(-5, 5, 11)
    exact = np.where(np.abs(r) <= 1.345, r**2 / 2, 1.345 * (np.abs(r) - 1.345 / 2))
    np.testing.assert_allclose(huber(0 * r)(r) ** 2 / 2, exact)


def test_standard_errors_are_those_of_curve_fit():
    def curve(t, a, b, c):
        return a * np.exp(-b * t) + c

    w, covariance = scipy.optimize.curve_fit(curve, T, DATA, W, sigma=np.full(31, 0.1))
    known = scipy.optimize.curve_fit(curve, T, DATA, W, np.full(31, 0.1), absolute_sigma=True)[1]
    found = uncertainty(slopes(w) / 0.1, float(fine(w) @ fine(w)) / 0.02)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-4)
    np.testing.assert_allclose(found.errors, np.sqrt(np.diag(covariance)), rtol=1e-4)
    np.testing.assert_allclose(found.known_noise, np.sqrt(np.diag(known)), rtol=1e-4)
    sizes = np.outer(found.errors, found.errors)
    np.testing.assert_allclose(found.correlations, covariance / sizes, rtol=1e-4)
    assert str(found).startswith(f"standard errors {found.errors[0]:.3g}, ")


def test_what_the_data_cannot_tell_apart_is_named():
    one, two = slopes(W)[:, :1], slopes(W)[:, 1:2]
    blind = uncertainty(np.hstack([one, 2 * one, two, 0 * one]), 1.0)
    np.testing.assert_array_equal(np.isinf(blind.errors), [True, True, False, True])
    assert "w[0], w[1], w[3]" in blind.words
    assert "w[0] and w[1]" in uncertainty(np.hstack([one, one + 1e-3 * two]), 1.0).words


def test_a_concave_loss_of_outputs_has_no_curvature_and_a_saddle_half_of_it():
    for signs in (-np.ones(3), np.array([2.0, -1.0, 0.5])):
        loss = Outputs(lambda w: w, lambda z, s=signs: float(s @ z**2) / 2)
        want = np.diag(np.maximum(signs, 0.0))
        np.testing.assert_allclose(loss.hessian(W), want, atol=1e-4)


def test_bad_settings_of_losses_are_refused():
    for make, name in (
        (lambda: weighted([1.0], 0.0), "sigma"),
        (lambda: weighted([np.nan]), "data"),
        (lambda: huber([1.0], width=-1.0), "width"),
        (lambda: counts([-1.0]), "data"),
        (lambda: Outputs(decay, 3.0), "loss"),
        (lambda: Outputs(decay, lambda: 1.0), "loss"),
        (lambda: Outputs(decay, timeout=0.0), "timeout"),
        (lambda: Outputs(decay, lambda z: np.ones((2, 2))).value(W), "loss"),
    ):
        with pytest.raises((TypeError, ValueError), match=name):
            make()


def test_the_contracts_of_objectives_and_proxies_hold():
    check_objective(LeastSquares(fine), W)
    check_proxy(LeastSquares(coarse), W)
    check_objective(ValueObjective(lambda w: float(fine(w) @ fine(w)) / 2), W)
    check_proxy(ValueProxy(lambda w: float(coarse(w) @ coarse(w)) / 2), W)


def test_measurements_of_another_number_than_the_outputs_are_named():
    for loss in (weighted(DATA[:-1], 0.05), huber(DATA[:-1]), counts(np.ones(30))):
        fitted = Outputs(decay, loss)
        with pytest.raises(
            ValueError, match=r"data must be one number for each .* \(31,\).* \(30,\)"
        ):
            fitted.loss_of(decay(W))
    with pytest.raises(ValueError, match="sigma must be a number, or one for each of the data"):
        weighted(DATA, np.ones(3))
    assert weighted(1.0)(np.array([1.0, 3.0])).tolist() == [0.0, 2.0]
