"""The walk: its closed form is DANE's step, and it never goes up."""

from __future__ import annotations

import numpy as np
import pytest

from proxyprox import DANE, Problem, Quadratic, logistic_regression, minimize
from proxyprox.problems.glm import Design
from proxyprox.sklearn.fitting import Walk
from proxyprox.sklearn.moments import label_free, moment_of


@pytest.fixture
def problem(binary):
    X, y, _ = binary
    loss = logistic_regression(X[:80], y[:80], intercept=True)
    return Problem(loss, label_free(loss, moment_of(Design(X, intercept=True))))


def test_a_step_is_danes(problem):
    walk = Walk(problem, problem.proxy.w0)
    for _ in range(5):
        before, eta = walk.w, 1 / walk.pull
        core = minimize(problem, before, method=DANE(eta=eta), steps=1).last
        np.testing.assert_allclose(walk.advance(), core, rtol=1e-9, atol=1e-12)


def test_it_goes_down_to_the_minimiser(problem):
    walk = Walk(problem, problem.proxy.w0)
    values = [problem.value(walk.advance()) for _ in range(150)]
    assert (np.diff(values) <= 1e-12).all()
    assert np.linalg.norm(problem.objective.gradient(walk.w)) < 1e-6


def test_a_step_that_would_go_up_is_shortened(problem):
    # A proxy that promises far too much, and steps that trust it.
    flat = Problem(problem.objective, Quadratic(1e-3 * np.eye(problem.objective.dim)))
    walk = Walk(flat, problem.proxy.w0)
    walk.k = 80
    before = flat.value(walk.w)
    assert flat.value(walk.advance()) < before
