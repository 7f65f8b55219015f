"""Gradient descent, plain and accelerated, against its formulas and rates."""

import math

import numpy as np
import pytest

from proxyprox import GradientDescent, Nesterov, Quadratic, Residual, Steps, Subproblem


@pytest.mark.parametrize("gamma", [0.05, 0.4])
def test_implicit_step_is_the_stated_formula(gamma, solve, logistic_case):
    phi, _ = logistic_case(7)
    w, c, eta = phi.centre, phi.centre, phi.eta
    for _ in range(5):
        slope = phi.proxy.gradient(w) + phi.linear
        w = (w / gamma + c / eta - slope) / (1 / gamma + 1 / eta)
    got = solve(GradientDescent(step_size=gamma, implicit=True), phi, Steps(5)).w
    np.testing.assert_allclose(got, w, rtol=1e-12)


def test_explicit_step_is_plain_descent(solve, logistic_case):
    phi, _ = logistic_case(7)
    w = phi.centre
    for _ in range(5):
        w = w - 0.03 * (phi.proxy.gradient(w) + phi.linear + (w - phi.centre) / phi.eta)
    got = solve(GradientDescent(step_size=0.03), phi, Steps(5)).w
    np.testing.assert_allclose(got, w, rtol=1e-12)


def test_default_steps_suit_the_smoothness(solve, logistic_case):
    phi, _ = logistic_case(7)
    H = np.linalg.norm(phi.proxy.design.X, 2) ** 2 / 60 / 4
    for solver in (GradientDescent(), GradientDescent(implicit=True)):
        w = solve(solver, phi, Steps(1)).w
        want = phi.centre - phi.gradient(phi.centre) / (H + 1 / phi.eta)
        np.testing.assert_allclose(w, want, rtol=1e-6)


def test_implicit_step_is_stable_for_any_eta(solve, logistic_case):
    phi, _ = logistic_case(7)
    gamma = 1 / phi.proxy.smoothness
    tight = Subproblem(phi.proxy, phi.linear, phi.centre, 1e-6)
    implicit = solve(GradientDescent(step_size=gamma, implicit=True), tight, Residual(1e-8))
    assert implicit.progress.steps <= 3
    explicit = GradientDescent(step_size=gamma, max_steps=3)
    assert solve(explicit, tight).progress.residual > 1e3


def test_linear_rate_is_that_of_the_condition_number(solve):
    P = np.diag([0.0, 99.0])
    phi = Subproblem(Quadratic(P), np.array([1.0, 0.0]), np.zeros(2), 1.0)
    # κ = 100: the slow coordinate loses 1 % of its gradient a step.
    progress = solve(GradientDescent(), phi, Residual(1e-6)).progress
    assert progress.steps == math.ceil(math.log(1e-6) / math.log(0.99))


def test_nesterov_needs_the_root_of_the_steps(solve):
    P = np.diag(np.linspace(0.0, 9999.0, 30))
    phi = Subproblem(Quadratic(P), np.ones(30), np.zeros(30), 1.0)
    fast = solve(Nesterov(), phi, Residual(1e-6)).progress.steps
    slow = solve(GradientDescent(), phi, Residual(1e-6)).progress.steps
    # κ = 10⁴: about √κ·ln(√n·κ/tol) against κ·ln(1/tol).
    assert fast < 100 * math.log(math.sqrt(30) * 1e4 / 1e-6)
    assert slow > 50 * fast
