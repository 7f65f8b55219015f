"""The quadratic model in closed form against simulated runs, and weights against searches."""

from __future__ import annotations

import numpy as np
import pytest

from proxyprox.diagnostics.curvature import best_scale
from proxyprox.diagnostics.rehearsal import STEPS, ErrorCurve, QuadraticModel

A = np.diag([1.0, 0.3, 0.01])
P = np.diag([0.8, 0.35, 0.0])
GRADIENT = np.array([1.0, -1.0, 0.05])


def model(noise, **options):
    residuals = noise * np.random.default_rng(0).standard_normal((4000, 3))
    return QuadraticModel(A, GRADIENT, np.zeros(3), residuals - residuals.mean(axis=0), **options)


@pytest.mark.parametrize(("eta", "proxy"), [(0.7, None), (20.0, P)])
def test_closed_forms_agree_with_many_simulated_runs(eta, proxy):
    quadratic = model(0.1)
    curves = ErrorCurve.of(quadratic).excess(eta)
    if proxy is not None:
        curves = ErrorCurve.of(quadratic, proxy + np.eye(3) / eta).excess(1.0)
    rng = np.random.default_rng(1)
    inverse = np.linalg.inv((0 if proxy is None else proxy) + np.eye(3) / eta)
    error = np.tile(np.linalg.solve(A, GRADIENT), (20000, 1))
    mean = np.zeros_like(error)
    for k in range(1, 51):
        error = error - (error @ A + 0.1 * rng.standard_normal(error.shape)) @ inverse
        mean += (error - mean) / k
        for at in np.flatnonzero(k == STEPS) if k in (1, 10, 50) else ():
            for row, e in enumerate((error, mean)):
                simulated = float(np.mean(np.sum(e @ A * e, axis=1))) / 2
                assert curves[row, at] == pytest.approx(simulated, rel=0.03)


def test_the_start_is_where_newton_says():
    quadratic = model(0.0)
    assert quadratic.start_excess == pytest.approx(GRADIENT @ np.linalg.solve(A, GRADIENT) / 2)
    # The noise of an averaged gradient is no distance.
    residuals = np.random.default_rng(3).standard_normal((16, 3))
    residuals -= residuals.mean(axis=0)
    noise = np.sqrt(np.sum(residuals**2, axis=0) / 15 / 16)
    assert QuadraticModel(A, 0.5 * noise, np.zeros(3), residuals, averaged=16).start_excess == 0.0


def positive_matrix(rng, size=8):
    root = rng.standard_normal((size, size))
    return root @ root.T / size


def test_the_best_scale_agrees_with_a_grid_and_is_never_negative():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        A, P = positive_matrix(rng), 30 * positive_matrix(rng)
        found = np.linalg.norm(A - best_scale(A, P) * P, 2)
        grid = [np.linalg.norm(A - s * P, 2) for s in np.linspace(0, 0.2, 2000)]
        assert found <= min(grid) + 1e-9
        for factor in (1e-3, 1e3):
            assert best_scale(A, factor * A) == pytest.approx(1 / factor, rel=1e-6)
    zero, eye = np.zeros((3, 3)), np.eye(3)
    for one, other in ((2 * eye, -eye), (zero, eye), (eye, zero)):
        assert best_scale(one, other) == 0.0
