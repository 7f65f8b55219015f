"""Runs of losses that are given by their values: what is counted, said and resumed."""

import numpy as np
import pytest

from proxyprox import (
    DANE,
    Budget,
    LeastSquares,
    Problem,
    Quadratic,
    Status,
    ValueProxy,
    audit,
    minimize,
)
from proxyprox.inner.exact import minimise_exactly

T = np.linspace(0.0, 3.0, 31)
DATA = 3 * np.exp(-1.1 * T) + 0.05 * np.random.default_rng(0).normal(size=31)
START = np.array([2.0, 0.7])


def fine(w):
    return w[0] * np.exp(-w[1] * T) - DATA


def slopes(w):
    return np.stack([np.exp(-w[1] * T), -w[0] * T * np.exp(-w[1] * T)], axis=-1)


def coarse(w):
    return w[0] * (1 - 0.1 * w[1]) ** np.arange(31) - DATA


def half_square(residuals):
    return lambda w: float(np.sum(residuals(w) ** 2)) / 2


def test_plain_functions_are_minimised_and_the_result_says_how():
    problem = Problem(half_square(fine), half_square(coarse))
    found = minimize(problem, START, method=DANE(eta=1.0), steps=15)
    exact = ValueProxy(half_square(fine))
    assert np.linalg.norm(exact.gradient(found.w)) < 1e-4
    assert found.gradients == "target: 2-point differences; proxy: 3-point differences"
    assert found.gradients in str(found)


class Watching(DANE):
    """Notes the curvature that comes with the answers."""

    seen = []  # noqa: RUF012

    def tell(self, state, answers, step):
        self.seen.append(answers.curvature)
        return super().tell(state, answers, step)


def test_methods_are_told_the_curvature_that_came_with_the_gradient():
    Watching.seen.clear()
    problem = Problem(LeastSquares(fine), LeastSquares(coarse))
    minimize(problem, START, method=Watching(eta=1.0), steps=1)
    exact = LeastSquares(fine, jacobian=slopes).hessian(START)
    np.testing.assert_allclose(Watching.seen[0], exact, rtol=1e-6)
    # The gradient's, and the value of the report.
    assert problem.objective.evaluations == 4
    problem = Problem(half_square(fine), half_square(coarse))
    minimize(problem, START, method=Watching(eta=1.0), steps=1)
    assert Watching.seen[1] is None


def test_an_audit_measures_curvature_and_does_not_take_gauss_newtons_for_it():
    residuals, values = (
        audit(Problem(wrap(fine), wrap(coarse)), START, rng=0)
        for wrap in (LeastSquares, half_square)
    )
    assert residuals.H.estimate == pytest.approx(values.H.estimate, rel=0.2)
    assert "does not explain" not in str(residuals)


@pytest.mark.parametrize("wrap", [LeastSquares, lambda f: ValueProxy(half_square(f))])
def test_solvers_do_not_go_uphill_on_a_proxy_that_is_not_convex(wrap):
    # The loss is flat far away: steps that only shrink the gradient lead there, uphill.
    def residuals(w):
        return np.array([np.arctan(5 * w[0] - 2), 0.1 * w[1]])

    found = minimise_exactly(wrap(residuals), np.ones(2), tol=1e-8)
    np.testing.assert_allclose(found, [0.4, 0.0], atol=1e-6)


def test_a_budget_of_calls_ends_a_run_and_convergence_ends_it_earlier():
    problem = Problem(half_square(fine), half_square(coarse))
    short = minimize(problem, START, budget=Budget(target_calls=7))
    assert short.status is Status.BUDGET_SPENT
    assert short.ledger.target_calls <= 7
    assert minimize(problem, START, budget=Budget(target_calls=500)).status is Status.CONVERGED
    counted = Problem(Quadratic(np.eye(2)), Quadratic(np.eye(2)))
    with pytest.raises(ValueError, match=r"Budget.target_calls .* has no evaluations"):
        minimize(counted, budget=Budget(target_calls=5))
