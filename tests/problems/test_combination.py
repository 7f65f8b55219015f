"""Losses made of others, against their definition and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import FunctionProxy, Problem, Quadratic
from proxyprox.problems import MixedProxy, regularized
from proxyprox.problems.combination import Combination
from tests.runs import differences

A, B = np.diag([2.0, 0.5, 1.0]), np.diag([1.0, 3.0, 2.0]) + 0.2
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), np.arange(12) % 2
CENTRE, W, V = RNG.normal(size=(3, 3))
MU = 0.7


def near(loss, mu=MU, centre=CENTRE):
    return regularized(Problem(Quadratic(A), loss), mu, centre).proxy


@pytest.fixture
def logistic():
    return pp.logistic_regression(X, Y, batch_size=4)


def test_sums_scales_and_lines_are_the_quadratics_they_stand_for():
    one, two, line = Quadratic(A, b=np.ones(3)), Quadratic(B), np.array([1.0, -2.0, 0.5])
    for made, whole in (
        (MixedProxy([one, two], [0.5, 2.0]), Quadratic(0.5 * A + 2 * B, b=0.5 * np.ones(3))),
        (0.5 * one + 2 * two, Quadratic(0.5 * A + 2 * B, b=0.5 * np.ones(3))),
        (MixedProxy([one], [2.5]), Quadratic(2.5 * A, b=2.5 * np.ones(3))),
        (Combination([one], [1.0], tilt=line), Quadratic(A, b=1 + line)),
        (near(two), Quadratic(B + MU * np.eye(3), b=-MU * CENTRE)),
    ):
        rest = made.value(np.zeros(3))
        assert made.value(W) == pytest.approx(whole.value(W) + rest)
        np.testing.assert_allclose(made.gradient(W), whole.gradient(W))
        if made.value_and_gradient is not None:
            value, gradient = made.value_and_gradient(W)
            assert value == pytest.approx(made.value(W))
            np.testing.assert_allclose(gradient, whole.gradient(W))
        np.testing.assert_allclose(made.hvp(W, V), whole.hvp(W, V))
        np.testing.assert_allclose(made.hessian(W), whole.hessian(W))
        assert made.smoothness >= whole.smoothness * (1 - 1e-12)
        assert made.strong_convexity <= whole.strong_convexity * (1 + 1e-12)
        assert made.dim == 3
        for eta in (0.3, math.inf) if made.solve_shifted else ():
            want = np.linalg.solve(whole.P + np.eye(3) / eta, V)
            np.testing.assert_allclose(made.solve_shifted(V, eta), want)


def test_derivatives_and_batches_of_what_is_no_quadratic(logistic):
    loss = regular = near(logistic)
    np.testing.assert_allclose(loss.gradient(W), differences(loss.value, W), atol=1e-8)
    np.testing.assert_allclose(loss.hessian(W), differences(loss.gradient, W), atol=1e-8)
    np.testing.assert_allclose(loss.hvp(W, V), loss.hessian(W) @ V, atol=1e-13)
    assert loss.smoothness == logistic.smoothness + MU
    assert loss.strong_convexity == MU
    batch = np.array([0, 3, 3])
    own = logistic.gradient(W, batch)
    np.testing.assert_allclose(regular.gradient(W, batch), own + MU * (W - CENTRE), rtol=1e-13)
    assert (regular.samples(batch), regular.samples(regular.everything())) == (3, 12)
    assert len(regular.sample(np.random.default_rng(3))) == 4
    np.testing.assert_allclose(MixedProxy([logistic], [0.5]).gradient(W, (batch,)), own / 2)
    parts = [logistic, logistic.with_batch_size(2)]
    mixed = MixedProxy(parts, [1.0, 3.0])
    one, two = mixed.sample(np.random.default_rng(0))
    want = parts[0].gradient(W, one) + 3 * parts[1].gradient(W, two)
    np.testing.assert_allclose(mixed.gradient(W, (one, two)), want)


def test_capabilities_are_those_that_all_parts_share():
    poor = FunctionProxy(lambda w: 0.0, lambda w: 0 * w)
    for made in (MixedProxy([Quadratic(A), poor], [1.0, 1.0]), 3.0 * poor, near(poor)):
        lacking = made.hvp, made.hessian, made.solve_shifted, made.smoothness, made.sample
        assert lacking == (None,) * 5
    assert not hasattr(MixedProxy([poor], [3.0]), "dim")
    assert near(pp.poisson_regression(X, Y)).smoothness == math.inf

    def refuse(w):
        raise AssertionError

    weightless = MixedProxy([FunctionProxy(refuse, refuse), Quadratic(A)], [0.0, 1.0])
    np.testing.assert_allclose(weightless.gradient(W), A @ W)


def test_arguments_are_checked(logistic):
    two = [Quadratic(A), Quadratic(B)]
    for name, make in (
        ("weights", lambda: MixedProxy(two, [1.0])),
        ("weights", lambda: MixedProxy(two, [0.0, 0.0])),
        ("weights", lambda: MixedProxy(two, [-1.0, 1.0])),
        ("proxies", lambda: MixedProxy([two[0], Quadratic(np.eye(2))], [1.0, 1.0])),
        ("weights", lambda: MixedProxy([two[0]], [-1.0])),
        ("weights", lambda: MixedProxy([two[0]], [np.nan])),
        ("centre", lambda: near(logistic, MU, np.zeros(1))),
        ("mu", lambda: near(logistic, -1.0)),
    ):
        with pytest.raises(ValueError, match=name):
            make()
