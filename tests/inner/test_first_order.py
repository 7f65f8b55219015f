"""Gradient descent, plain and sampled: formulas, rates, and when it gives up."""

import numpy as np
import pytest

from proxyprox import Quadratic
from proxyprox.inner import GradientDescent, StochasticGradient, Subproblem
from proxyprox.inner.base import Patience
from proxyprox.stopping import Relative, Steps, StronglyConvex
from proxyprox.theory import inner_steps_sgd


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


RNG = np.random.default_rng(0)
DIAGONAL = np.array([0.0, 0.5, 1.0, 2.0])
LINEAR, CENTRE = RNG.normal(size=(2, 4))


def subproblem(noise, eta=2.0):
    return Subproblem(Quadratic(np.diag(DIAGONAL), noise=noise), LINEAR, CENTRE, eta)


def results(solver, phi, seeds, stop=None):
    stop = Relative(1e-9) if stop is None else stop
    return [
        solver.solve(phi, phi.centre, stop, {}, np.random.default_rng(seed))
        for seed in range(seeds)
    ]


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_theorys_number_of_steps_meets_the_rule_in_expectation(noise):
    mu, G, eta = 0.2, 0.1, 2.0
    phi = subproblem(noise, eta)
    T = inner_steps_sgd(H=2.0, eta=eta, mu=mu, rho=noise, G=G)
    solved = results(StochasticGradient(T), phi, 20 if noise else 1)
    squared = np.mean([np.sum(phi.gradient(r.w) ** 2) for r in solved])
    allowed = np.mean([mu / (4 * eta) * np.sum((r.w - CENTRE) ** 2) for r in solved]) + G**2
    assert squared <= allowed
    assert np.mean([StronglyConvex(mu, G).threshold(r.progress) ** 2 for r in solved]) == (
        pytest.approx(allowed, rel=1e-12)
    )


def test_error_shrinks_as_one_over_the_steps():
    phi = subproblem(noise=2.0)
    squared = {
        T: np.mean([r.progress.residual**2 for r in results(StochasticGradient(T), phi, 40)])
        for T in (100, 400)
    }
    # A mean of 40 draws: the ratio 4 is seen within a factor of two.
    assert 2 < squared[100] / squared[400] < 8


def steps_borne(patience, residual):
    patience.is_exhausted(residual)
    return next(n for n in range(1, 1000) if patience.is_exhausted(residual))


def test_patience_lasts_as_long_as_asked_and_a_tenth_of_it_next_to_rounding():
    assert steps_borne(Patience(200), 1e-20) == 200
    assert steps_borne(Patience(200, rounding=1e-12), 1e-11) == 200
    assert steps_borne(Patience(200, rounding=1e-12), 1e-13) == 20
