"""Losses given by their values: their derivatives against exact ones, and what they cost."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from proxyprox import Problem, ValueObjective, ValueProxy

W = np.array([1.3, -0.4, 0.0, 2.0])


def f(w):
    return (w[0] ** 2 * w[1] + w[3] ** 3 + w[2] * w[0] + w[1] * w[1]) * 1.0


def slope(w):
    x, y, z, t = w
    return np.array([2 * x * y + z, x**2 + 2 * y, x, 3 * t**2])


def bend(w):
    x, y, _, t = w
    H = np.diag([2 * y, 2.0, 0.0, 6 * t])
    H[0, 1] = H[1, 0] = 2 * x
    H[0, 2] = H[2, 0] = 1.0
    return H


KINDS = [ValueObjective, ValueProxy]


@pytest.mark.parametrize(("kind", "error", "calls"), [(KINDS[0], 1e-6, 5), (KINDS[1], 1e-8, 9)])
def test_schemes_agree_with_the_exact_gradient(kind, error, calls):
    loss = kind(f)
    value, gradient = loss.value_and_gradient(W)
    np.testing.assert_allclose(gradient, slope(W), atol=error)
    assert value == pytest.approx(f(W), rel=1e-15)
    assert loss.evaluations == calls


def test_values_and_gradients_share_evaluations():
    loss = ValueObjective(f)
    loss.value(W)
    loss.gradient(W)
    loss.value_and_gradient(W)
    assert loss.evaluations == 5
    for k in range(20):
        loss.value(W + k)
    assert loss.evaluations == 24
    # The start is asked for again when a run reports.
    loss.value(W)
    assert loss.evaluations == 24


def test_second_differences_agree_with_the_exact_hessian():
    proxy = ValueProxy(f)
    np.testing.assert_allclose(proxy.hessian(W), bend(W), atol=1e-5)
    v = np.array([1.0, 2.0, -1.0, 0.5])
    np.testing.assert_allclose(proxy.hvp(W, v), bend(W) @ v, atol=1e-6)
    np.testing.assert_array_equal(proxy.hvp(W, 0 * v), 0 * v)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("corner", ["lower", "upper", "narrow"])
def test_no_evaluation_leaves_the_bounds(kind, corner):
    lower, upper = {
        "lower": (W, W + 1), "upper": (W - 1, W), "narrow": (W - 1e-7, W + 2e-7)
    }[corner]  # fmt: skip
    seen = []

    def watched(w):
        seen.append(w)
        return f(w)

    settings = {"bounds": (lower, upper)}
    np.testing.assert_allclose(kind(watched, **settings).gradient(W), slope(W), atol=1e-5)
    hessian = ValueProxy(watched, **settings).hessian(W)
    assert all((lower <= w).all() and (w <= upper).all() for w in seen)
    if corner != "narrow":
        np.testing.assert_allclose(hessian, bend(W), atol=1e-2)


def test_a_parameter_that_bounds_fix_has_no_slope():
    upper = np.array([1.3, 5.0, 5.0, 5.0])
    loss = ValueObjective(f, bounds=(W, upper))
    np.testing.assert_allclose(loss.gradient(W), [0, *slope(W)[1:]], atol=1e-6)
    assert loss.evaluations == 4
    assert np.isfinite(ValueProxy(f, bounds=(W, upper)).hessian(W)).all()


def test_steps_follow_scales_and_noise():
    # A rate of the size 1e-9, in a unit that makes the loss curved at that size.
    def loss(w):
        return float(np.exp(w[0] / 1e-9))

    point = np.array([1e-9])
    exact = np.exp(1.0) / 1e-9
    assert abs(ValueObjective(loss).gradient(point)[0] / exact - 1) > 0.1
    scaled = ValueObjective(loss, scales=np.array([1e-9]))
    assert scaled.gradient(point)[0] == pytest.approx(exact, rel=1e-6)

    def noisy(w):
        return f(w) * (1 + 1e-6 * np.sin(1e12 * w.sum()))

    assert np.abs(ValueObjective(lambda w: np.float32(f(w))).gradient(W) - slope(W)).max() < 0.01
    errors = [
        np.abs(ValueObjective(noisy, noise=noise).gradient(W) - slope(W)).max()
        for noise in (None, 1e-6)
    ]
    assert errors[1] < 0.1 < errors[0]


@pytest.mark.parametrize("fault", ["raises", "nan"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_point_without_a_value_gives_way_to_the_other_side(fault, kind):
    def half(w):
        if w[0] > 1.3:
            if fault == "raises":
                raise RuntimeError("the solver did not converge")
            return np.nan
        return f(w)

    np.testing.assert_allclose(kind(half).gradient(W), slope(W), atol=1e-5)


def test_no_value_on_either_side_is_an_error_of_the_target_and_nan_of_the_proxy():
    def spike(w):
        return f(w) if w[0] == 1.3 else np.nan

    with pytest.raises(RuntimeError, match=r"objective .* w\[0\]"):
        ValueObjective(spike).gradient(W)
    assert np.isnan(ValueProxy(spike).gradient(W)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_arithmetic_that_fails_is_nan_after_the_first_point(kind):
    def root(w):
        return math.sqrt(w[0]) + 1 / w[1] if w[0] > 0 else 1 / 0

    loss = kind(root)
    with pytest.raises(ZeroDivisionError):
        loss.value(-W)
    loss.value(W)
    assert np.isnan(loss.value(-W))
    assert np.isnan(loss.gradient(-W)).all()


def test_workers_change_nothing_but_the_threads():
    alone = ValueObjective(f).gradient(W)
    with ThreadPoolExecutor(2) as pool:
        for workers in (3, pool):
            for kind in KINDS:
                loss = kind(f, workers=workers)
                np.testing.assert_allclose(loss.gradient(W), alone, atol=1e-6)
    assert loss.evaluations == 9


def test_what_is_refused():
    for answer in (np.ones(4), "1", None, 1j):
        with pytest.raises(TypeError, match=r"objective\(w\) must be a number"):
            Problem(lambda w, a=answer: a).objective.value(W)
    for name, value in (("workers", 0), ("noise", -1.0)):
        with pytest.raises(ValueError, match=name):
            ValueObjective(f, **{name: value})
    five = np.zeros(5)
    for name, values in {
        "scales": [np.ones(3), 0.0],
        "bounds": [(five, None), (None, five), (2.0, 1.0), (np.nan, 1.0)],
    }.items():
        for value in values:
            with pytest.raises(ValueError, match=name):
                ValueObjective(f, **{name: value}).gradient(W)
