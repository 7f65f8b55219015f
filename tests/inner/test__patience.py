"""When first-order solvers give up."""

import numpy as np

from proxyprox import Quadratic, Subproblem
from proxyprox.inner.base import Patience, next_to_rounding


def steps_borne(patience, residual):
    patience.lost(residual)
    return next(n for n in range(1, 1000) if patience.lost(residual))


def test_patience_lasts_as_long_as_asked_and_a_tenth_of_it_next_to_rounding():
    assert steps_borne(Patience(200), 1e-20) == 200
    assert steps_borne(Patience(200, rounding=1e-12), 1e-11) == 200
    assert steps_borne(Patience(200, rounding=1e-12), 1e-13) == 20


def test_a_new_low_renews_it():
    patience = Patience(3)
    assert not any(patience.lost(1 / (t + 1)) for t in range(50))


def test_rounding_scales_with_the_problem():
    phi = Subproblem(Quadratic(np.eye(3), np.ones(3)), np.full(3, 2.0), np.zeros(3), 1.0)
    small = next_to_rounding(phi, np.zeros(3), 2.0)
    assert 1e-13 < small / np.linalg.norm(phi.linear) < 1e-11
    larger = Subproblem(phi.proxy, 1e6 * phi.linear, phi.centre, 1.0)
    np.testing.assert_allclose(next_to_rounding(larger, np.zeros(3), 2.0), 1e6 * small)
    assert next_to_rounding(phi, np.ones(3), 1e9) > 1e6 * small
