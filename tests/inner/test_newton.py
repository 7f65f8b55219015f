"""Newton's method with a matrix and with products: rate, work and what it refuses."""

import itertools
import math

import numpy as np
import pytest

from proxyprox import (
    FunctionProxy,
    Newton,
    NewtonCG,
    NonFiniteError,
    Residual,
    Subproblem,
    logistic_regression,
)


def test_newton_converges_quadratically(solve, logistic_case):
    phi, _ = logistic_case(8)
    residuals = [solve(Newton(max_steps=t), phi, Residual(1e-300)).progress.residual
                 for t in range(1, 8)]  # fmt: skip
    small = [r for r in residuals if 1e-13 < r < 1e-2]
    assert len(small) >= 2
    for before, after in itertools.pairwise(small):
        assert after < 50 * before**2


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_hessian_that_is_not_finite_ends_the_solve(bad, solve):
    proxy = FunctionProxy(
        lambda w: float(w @ w) / 2, lambda w: w, hessian=lambda w: np.full((2, 2), bad)
    )
    phi = Subproblem(proxy, np.ones(2), np.ones(2), 1.0)
    with np.errstate(invalid="ignore"), pytest.raises(NonFiniteError, match="Hessian"):
        solve(Newton(), phi)


def test_products_are_bounded(solve):
    calls = []
    P = np.diag(np.logspace(0, 4, 50))
    proxy = FunctionProxy(
        lambda w: w @ P @ w / 2, lambda w: P @ w, hvp=lambda w, v: calls.append(1) or P @ v
    )
    phi = Subproblem(proxy, np.ones(50), np.ones(50), 1.0)
    solve(NewtonCG(max_steps=2, max_products=3), phi, Residual(1e-12))
    assert len(calls) <= 6


def test_wide_problems_need_no_matrix(solve):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2000)) / 10
    proxy = logistic_regression(X, np.arange(100) % 2)
    proxy.hessian = None
    phi = Subproblem(proxy, 0.01 * rng.normal(size=2000), np.zeros(2000), 5.0)
    progress = solve(NewtonCG(), phi, Residual(1e-9)).progress
    assert progress.residual <= 1e-9
    assert progress.steps <= 12
