"""Fits of simulators: what the benchmark and the page on few exact gradients rely on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

from experiments import simulators


@pytest.fixture(scope="module", params=simulators.SIMULATORS, ids=lambda make: make.__name__)
def fit(request):
    return request.param()


def test_the_coarse_model_resembles_the_fine_one(fit):
    fine, coarse = fit.fine_residuals(fit.w0), fit.coarse_residuals(fit.w0)
    assert fine.shape == coarse.shape
    assert np.linalg.norm(fine - coarse) < np.linalg.norm(fine)
    assert fit.fine(fit.w0) == pytest.approx(float(fine @ fine) / 2)
    assert fit.coarse(fit.w0) == pytest.approx(float(coarse @ coarse) / 2)


def test_enough_is_about_one_per_cent_above_the_least_loss(fit):
    least = scipy.optimize.least_squares(fit.fine_residuals, fit.w0).cost
    assert 1.005 < fit.enough / least < 1.015


def test_one_of_the_simulators_has_many_parameters():
    assert max(len(make().w0) for make in simulators.SIMULATORS) >= 20


def test_lotka_volterra_against_scipys_solver():
    fit = simulators.lotka_volterra()
    a, b, c, d = np.exp(fit.w0)
    exact = scipy.integrate.solve_ivp(
        lambda t, z: [z[0] * (a - b * z[1]), z[1] * (d * z[0] - c)],
        (0, 10), (1.0, 0.5), t_eval=np.linspace(0.5, 10, 20), rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    measured = -np.sqrt(40) * (fit.fine_residuals(fit.w0).reshape(20, 2) - exact.y.T / np.sqrt(40))
    again = -np.sqrt(40) * fit.fine_residuals(np.log([0.7, 0.5, 0.6, 0.3])).reshape(20, 2)
    exact = scipy.integrate.solve_ivp(
        lambda t, z: [z[0] * (0.7 - 0.5 * z[1]), z[1] * (0.3 * z[0] - 0.6)],
        (0, 10), (1.0, 0.5), t_eval=np.linspace(0.5, 10, 20), rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(measured, exact.y.T + again, atol=1e-7)
