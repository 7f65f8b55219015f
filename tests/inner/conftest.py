"""Subproblems with known minimisers, and one way to call a solver."""

import numpy as np
import pytest
from scipy.special import expit

from proxyprox import logistic_regression
from proxyprox.inner import Subproblem
from proxyprox.stopping import Residual


def logistic_subproblem(seed, rows=60, columns=5):
    """A subproblem and its minimiser, by Newton steps on the formulas written out."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    y = rng.integers(2, size=rows)
    linear, centre = rng.normal(size=(2, columns))
    eta = 10.0 ** rng.uniform(-1, 1.5)
    w = centre
    for _ in range(60):
        p = expit(X @ w)
        gradient = X.T @ (p - y) / rows + linear + (w - centre) / eta
        hessian = (X.T * (p * (1 - p))) @ X / rows + np.eye(columns) / eta
        step, t = np.linalg.solve(hessian, gradient), 1.0
        # φ is strongly convex: short steps first, until the full one is safe.
        if np.linalg.norm(step) > 1:
            t = 1 / np.linalg.norm(step)
        w = w - t * step
    assert np.linalg.norm(gradient) < 1e-12
    return Subproblem(logistic_regression(X, y), linear, centre, eta), w


def solved(solver, phi, stop=None, start=None, memory=None, seed=0):
    rng = np.random.default_rng(seed)
    stop = Residual(1e-8) if stop is None else stop
    return solver.solve(phi, phi.centre if start is None else start, stop,
                        {} if memory is None else memory, rng)  # fmt: skip


@pytest.fixture
def logistic_case():
    return logistic_subproblem


@pytest.fixture
def solve():
    return solved
