"""Gradient descent: its formula, and when it gives up."""

import math

import numpy as np
import pytest

from proxyprox import FunctionProxy
from proxyprox.inner import GradientDescent, Subproblem
from proxyprox.inner.base import Patience
from proxyprox.stopping import Steps


def test_a_step_is_plain_descent_and_an_implicit_one_of_another_size(solve, logistic_case):
    phi, _ = logistic_case(7)
    w = phi.centre
    for _ in range(5):
        w = w - 0.03 * (phi.proxy.gradient(w) + phi.linear + (w - phi.centre) / phi.eta)
    got = solve(GradientDescent(step_size=0.03), phi, Steps(5)).w
    np.testing.assert_allclose(got, w, rtol=1e-12)
    # (w/γ + c/η − [∇L̂(w) + m]) / (1/γ + 1/η).
    w, c, inverse = phi.centre, phi.centre, 1 / 0.03 - 1 / phi.eta
    for _ in range(5):
        slope = phi.proxy.gradient(w) + phi.linear
        w = (inverse * w + c / phi.eta - slope) * 0.03
    np.testing.assert_allclose(got, w, rtol=1e-12)


def test_a_step_is_halved_until_the_gradient_is_finite(solve):
    proxy = FunctionProxy(lambda w: 0.0, lambda w: np.where(w < 2, w - 1, np.nan))
    phi = Subproblem(proxy, np.zeros(1), np.zeros(1), math.inf)
    # 100/64 is the first below two.
    found = solve(GradientDescent(step_size=100.0), phi, Steps(1))
    assert found.w == 100 / 64
    assert found.progress.residual == pytest.approx(0.5625)


def steps_borne(patience, residual):
    patience.is_exhausted(residual)
    return next(n for n in range(1, 1000) if patience.is_exhausted(residual))


def test_patience_lasts_as_long_as_asked_and_a_tenth_of_it_next_to_rounding():
    assert steps_borne(Patience(200), 1e-20) == 200
    assert steps_borne(Patience(200, rounding=1e-12), 1e-11) == 200
    assert steps_borne(Patience(200, rounding=1e-12), 1e-13) == 20
