"""Sums of squares: gradients, Gauss–Newton curvature, and Jacobians by secants."""

import numpy as np
import pytest
import scipy.optimize

from proxyprox import DANE, LeastSquares, Problem, ValueObjective, ValueProxy, minimize
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


def minimum():
    found = scipy.optimize.least_squares(fine, W, jac=slopes, xtol=1e-15, ftol=1e-15, gtol=1e-15)
    return found.x, found.cost


@pytest.mark.parametrize(
    ("jacobian", "error", "calls"),
    [("auto", 1e-6, 4), ("3-point", 1e-8, 7), ("complex", 1e-13, 4), (slopes, 1e-13, 2)],
)
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


def test_curvature_is_known_only_where_it_was_paid_for():
    loss = LeastSquares(fine)
    assert loss.curvature(W) is None
    loss.value(W)
    assert loss.curvature(W) is None
    assert loss.evaluations == 1


def test_torch_and_jax_jacobians():
    torch = pytest.importorskip("torch")
    t, data = torch.tensor(T), torch.tensor(DATA)
    loss = LeastSquares(lambda w: w[0] * torch.exp(-w[1] * t) + w[2] - data)
    point = torch.tensor(W)
    np.testing.assert_allclose(loss.gradient(point).numpy(), slopes(W).T @ fine(W), rtol=1e-12)
    np.testing.assert_allclose(loss.hessian(point).numpy(), slopes(W).T @ slopes(W), rtol=1e-12)
    assert loss.gradient_source == "torch's autograd"
    jnp = pytest.importorskip("jax").numpy
    loss = LeastSquares(lambda w: w[0] * jnp.exp(-w[1] * T) + w[2] - DATA)
    np.testing.assert_allclose(loss.hessian(W), slopes(W).T @ slopes(W), rtol=1e-12)


@pytest.mark.parametrize(
    ("residuals", "jacobian", "match"),
    [
        (lambda w: 1.0, "auto", r"residuals\(w\) must be a vector"),
        (fine, lambda w: np.ones((2, 3)), r"jacobian\(w\) must be"),
        (fine, LeastSquares(lambda w: fine(w)[:4]), "jacobian must be"),
    ],
)
def test_answers_of_other_shapes_are_refused(residuals, jacobian, match):
    with pytest.raises((TypeError, ValueError), match=match):
        LeastSquares(residuals, jacobian=jacobian).gradient(W, None)


def test_jacobians_of_other_kinds_are_refused():
    with pytest.raises(TypeError, match="jacobian must be"):
        LeastSquares(fine, jacobian=np.ones(3))
    with pytest.raises(ValueError, match="jacobian must be"):
        LeastSquares(fine, jacobian="5-point")


def test_differences_that_fail_are_an_error_of_the_target_and_nan_of_the_proxy():
    loss = LeastSquares(lambda w: fine(w) if w[1] == W[1] else fine(w) + np.nan)
    with pytest.raises(RuntimeError, match=r"residuals .* w\[1\]"):
        loss.gradient(W, None)
    assert np.isnan(loss.gradient(W)).all()


def test_residuals_that_are_not_finite_cost_one_call():
    loss = LeastSquares(lambda w: fine(w) / 0.0 if w[0] < 0 else fine(w))
    with np.errstate(divide="ignore"):
        assert np.isnan(loss.gradient(-W)).all()
    assert loss.evaluations == 1


def test_a_fit_ends_at_the_minimum():
    problem = Problem(LeastSquares(fine), LeastSquares(coarse))
    found = minimize(problem, W, method=DANE(eta=1.0), steps=20)
    np.testing.assert_allclose(found.w, minimum()[0], atol=1e-5)


# -- secants --------------------------------------------------------------------------------------


def gauss_newton(loss, w, steps):
    """Take Gauss–Newton steps, halved until the loss falls; return the point."""
    (value, g), t = loss.value_and_gradient(w), 1.0
    H = loss.curvature(w)
    for _ in range(steps):
        trial = w - t * np.linalg.solve(H, g)
        found, slope = loss.value_and_gradient(trial)
        if found < value:
            w, value, g, H, t = trial, found, slope, loss.curvature(trial), 1.0
        else:
            t /= 2
    return w, value


def test_secants_take_one_evaluation_a_gradient_until_they_show_an_error():
    proxy = LeastSquares(coarse)
    loss = LeastSquares(fine, jacobian=proxy)
    J, r = proxy.derivatives.linearise(W)[1], fine(W)
    np.testing.assert_allclose(loss.gradient(W), J.T @ r)
    assert loss.evaluations == 1
    # The residuals of the second point are all that Broyden's update needs.
    step = -0.01 * loss.gradient(W)
    loss.gradient(W + step)
    assert loss.evaluations == 2
    correction = (
        loss.derivatives.known_derivative(W + step) - proxy.derivatives.linearise(W + step)[1]
    )
    change = (fine(W + step) - coarse(W + step)) - (fine(W) - coarse(W))
    np.testing.assert_allclose(correction @ step, change, atol=1e-12)


@pytest.mark.parametrize("units", [np.ones(3), np.array([1e3, 1e-4, 1.0])])
def test_secants_arrive_at_the_minimum_with_fewer_evaluations(units):
    best, cost = minimum()
    start = scipy.optimize.least_squares(coarse, W).x

    def scaled(residuals):
        return lambda w: residuals(w / units)

    proxy = LeastSquares(scaled(coarse), scales=units)
    counts = {}
    for name, jacobian in (("secants", proxy), ("differences", "auto")):
        loss = LeastSquares(scaled(fine), jacobian=jacobian, scales=units)
        w, value = gauss_newton(loss, start * units, 6)
        np.testing.assert_allclose(w / units, best, atol=1e-5)
        assert value == pytest.approx(cost, rel=1e-9)
        counts[name] = loss.evaluations
    assert counts["secants"] < counts["differences"]


def test_the_gradient_at_a_minimum_is_by_differences_however_wrong_the_coarse_model():
    best, _ = minimum()
    # The coarse Jacobian has another sign in one parameter, and the wrong size in another.
    proxy = LeastSquares(lambda w: coarse(w * np.array([1.0, 3.0, -1.0])))
    loss = LeastSquares(fine, jacobian=proxy)
    loss.gradient(W)
    loss.gradient(best + 1e-7)
    assert np.linalg.norm(loss.gradient(best)) < 1e-6


def test_secants_resume_from_their_state():
    points = [W, W + 0.1, W + np.array([0.1, 0.2, 0.0]), W - 0.05]
    whole, first, second = (LeastSquares(fine, jacobian=LeastSquares(coarse)) for _ in range(3))
    expected = [whole.gradient(w) for w in points]
    for w in points[:2]:
        first.gradient(w)
    second.load_state_dict(first.state_dict())
    for w, gradient in zip(points[2:], expected[2:], strict=True):
        np.testing.assert_array_equal(second.gradient(w), gradient)
    assert LeastSquares(fine).state_dict() == {}


def test_the_contracts_of_objectives_and_proxies_hold():
    check_objective(LeastSquares(fine), W)
    check_proxy(LeastSquares(coarse), W)
    check_objective(ValueObjective(lambda w: float(fine(w) @ fine(w)) / 2), W)
    check_proxy(ValueProxy(lambda w: float(coarse(w) @ coarse(w)) / 2), W)
