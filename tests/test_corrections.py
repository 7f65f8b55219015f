"""Corrections against their formulas; the paired one, its bias and its best power."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.corrections import EMA, Mean, Storm

RNG = np.random.default_rng(0)
DIFFERENCES = RNG.normal(size=(7, 3))
BEFORE = RNG.normal(size=(7, 3))


def run(correction, differences=DIFFERENCES, before=BEFORE):
    """All estimates of a run whose batches gave these differences."""
    made, estimate = [], None
    for k, (difference, earlier) in enumerate(zip(differences, before, strict=True)):
        earlier = earlier if correction.two_points and k > 0 else None
        estimate = correction(difference, earlier, estimate, k)
        made.append(estimate)
    return made


def test_storm_tracks_a_noiseless_difference_exactly():
    # The same function at w_k and w_{k−1}, without noise: the estimate has no lag.
    path = np.cumsum(DIFFERENCES, axis=0)
    before = np.vstack([path[:1], path[:-1]])
    np.testing.assert_allclose(run(Storm(0.1), path, before), path, atol=1e-14)
    lag = np.abs(np.array(run(EMA(0.1), path, before)) - path).max()
    assert lag > 0.5


def test_estimates_are_new_arrays():
    estimate, difference = np.ones(2), np.zeros(2)
    for correction in (EMA(0.5), Mean(), Storm(0.5)):
        correction(difference, np.zeros(2), estimate, 1)
        np.testing.assert_array_equal(estimate, [1.0, 1.0])
        np.testing.assert_array_equal(difference, [0.0, 0.0])


def test_an_estimate_of_another_shape_is_refused_and_a_wrong_signature_named():
    class Short:
        two_points = False

        def __call__(self, difference, before, estimate, k):
            return difference[:1]

    class Lacking:
        two_points = False

        def __call__(self, difference):
            return difference

    problem = pp.Problem(pp.Quadratic(np.eye(2), b=np.ones(2)), pp.Quadratic(np.eye(2)))
    with pytest.raises(ValueError, match=r"correction.*shape"):
        pp.minimize(problem, method=pp.ProxyProx(1.0, correction=Short()), steps=1)
    with pytest.raises(TypeError, match=r"correction.*estimate"):
        pp.ProxyProx(1.0, correction=Lacking())
