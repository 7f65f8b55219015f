"""Curves and calibration against slow integrals and another library's numbers."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from proxyprox.private import Guarantee, gaussian_epsilon, noise_multiplier
from proxyprox.private.accounting import gaussian_delta, gaussian_mu, total_epsilon


@pytest.mark.parametrize(("epsilon", "mu"), [(0.1, 0.05), (1.0, 0.27), (3.0, 2.0), (0.0, 1.0)])
def test_delta_is_the_integral_of_the_excess_density(epsilon, mu):
    def excess(x):
        return max(norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), 0.0)

    slow = quad(excess, -10, mu + 12, points=[epsilon / mu + mu / 2], limit=200)[0]
    assert gaussian_delta(epsilon, mu) == pytest.approx(slow, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_full_batch_calibration_is_exact(epsilon):
    for releases in (1, 6, 100):
        sigma = noise_multiplier(epsilon, 1e-5, releases)
        mu = math.sqrt(releases) / sigma
        assert total_epsilon([sigma] * releases, 1e-5) == pytest.approx(epsilon, rel=1e-9)
        assert gaussian_delta(epsilon, mu) == pytest.approx(1e-5, rel=1e-6)


def test_releases_compose_by_the_sum_of_squares_as_another_accountant_says():
    together = total_epsilon([3.0, 4.0], 1e-5)
    assert together == pytest.approx(gaussian_epsilon(math.hypot(1 / 3, 1 / 4), 1e-5), rel=1e-12)
    # dp-accounting 0.4: PLDAccountant, six Gaussian events of σ = 9.
    assert total_epsilon([9.0] * 6, 1e-5) == pytest.approx(1.0168706718, abs=1e-6)


CURVES = {
    gaussian_delta: {"epsilon": 1.0, "mu": 0.3},
    gaussian_epsilon: {"mu": 0.3, "delta": 1e-5},
    gaussian_mu: {"epsilon": 1.0, "delta": 1e-5},
    noise_multiplier: {"epsilon": 1.0, "delta": 1e-5, "releases": 3},
}
NONSENSE = [-1, np.nan, np.inf, -np.inf, "1", None, True, 1j, [1.0], 10**400]


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.__name__)
def test_every_number_of_a_curve_is_checked_by_name(curve):
    given = CURVES[curve]
    more = {"delta": [0.0, 1.0, 2.0], "releases": [0, 2.5]}
    for name, value in ((n, v) for n in given for v in NONSENSE + more.get(n, [])):
        with pytest.raises((TypeError, ValueError), match=name):
            curve(**{**given, name: value})


def test_releases_that_are_none_are_refused():
    for sigma in (math.nan, 0.0, -1.0, math.inf):
        with pytest.raises(ValueError, match="sigma"):
            total_epsilon([sigma], 1e-5)
    with pytest.raises(ValueError, match="delta"):
        Guarantee.of([], 2.0)
    with pytest.raises(ValueError, match="epsilon"):
        noise_multiplier(0.0, 1e-5, 1)


def test_curves_hold_at_the_ends_of_floats():
    assert total_epsilon([1e-200], 1e-5) == math.inf
    assert total_epsilon([1e200], 1e-5) == 0.0
    assert gaussian_mu(1e308, 1e-5) > 1e100
    # δ ≈ μ(φ(t) − tΦ(−t)) at t = ε/μ, for a small μ.
    epsilon, delta = 1e-9, 1e-60
    mu = gaussian_mu(epsilon, delta)
    t = epsilon / mu
    slow = math.log(mu) + norm.logpdf(t) - 2 * math.log(t)
    assert slow == pytest.approx(math.log(delta), abs=0.2)
    for epsilon in (1e-3, 1e4):
        assert gaussian_epsilon(gaussian_mu(epsilon, 1e-5), 1e-5) == pytest.approx(epsilon)
