"""The closed form against the linear system it solves."""

import math

import numpy as np
import pytest

from proxyprox import ClosedForm, Quadratic, Residual, Subproblem


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("eta", [1e-3, 1.0, 1e4, math.inf])
def test_solution_of_the_linear_system(library, eta, solve):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(7, 7))
    P = root @ root.T + 0.1 * np.eye(7)
    b, linear, centre, start = rng.normal(size=(4, 7))
    make = pytest.importorskip("torch").tensor if library == "torch" else np.array
    phi = Subproblem(Quadratic(make(P), make(b)), make(linear), make(centre), eta)
    want = np.linalg.solve(P + np.eye(7) / eta, centre / eta - b - linear)
    for begin in (centre, start):
        w, progress = solve(ClosedForm(), phi, Residual(1e-10), start=make(begin))
        np.testing.assert_allclose(np.asarray(w), want, atol=1e-10)
        assert progress.residual <= 1e-10
        assert progress.steps in (1, 2)


def test_ill_conditioned_answers_are_refined(solve):
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    P = rotation @ np.diag(np.logspace(-2, 8, 20)) @ rotation.T
    phi = Subproblem(Quadratic((P + P.T) / 2), rng.normal(size=20), np.zeros(20), 1.0)
    once = solve(ClosedForm(), phi, Residual(1e3)).progress
    twice = solve(ClosedForm(), phi, Residual(1e-300)).progress
    assert once.steps == 1
    assert twice.residual <= once.residual


def test_residual_is_reported_as_it_is(solve):
    phi = Subproblem(Quadratic(np.diag([1.0, 1e6])), np.ones(2), np.ones(2), 3.0)
    w, progress = solve(ClosedForm(), phi, Residual(1e-300))
    assert progress.residual == np.linalg.norm(phi.gradient(w))
