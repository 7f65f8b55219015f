from __future__ import annotations

import math

import numpy as np
import pytest

from proxyprox.advice.sampling import noise_level
from proxyprox.intervals import Interval


def test_membership_includes_both_limits() -> None:
    found = Interval(2.0, 1.0, 3.0)
    assert 1.0 in found
    assert 3.0 in found
    assert 3.0001 not in found


def test_a_known_lower_limit_cuts_the_interval() -> None:
    assert Interval(-1.0, -2.0, 3.0).at_least(0.0) == Interval(0.0, 0.0, 3.0)
    assert Interval(1.0, 0.5, 2.0).at_least(-math.inf) == Interval(1.0, 0.5, 2.0)


@pytest.mark.parametrize("n", [8, 16])
@pytest.mark.parametrize("kind", ["isotropic", "one direction", "decaying", "heavy tails"])
def test_intervals_hold_the_true_variance(kind: str, n: int) -> None:
    rng = np.random.default_rng(0)
    scales = {
        "isotropic": np.ones(30),
        "one direction": np.array([1.0] + [1e-6] * 29),
        "decaying": 0.7 ** np.arange(30),
        "heavy tails": 0.9 ** np.arange(30),
    }[kind]
    held = 0
    for _ in range(200):
        if kind == "heavy tails":
            noise = rng.standard_t(6, size=(n, 30)) * np.sqrt(4 / 6)
        else:
            noise = rng.standard_normal((n, 30))
        held += float(np.sum(scales**2)) in noise_level(5.0 + noise * scales, 0.95)
    assert held >= 180


def test_the_estimate_is_the_summed_sample_variance() -> None:
    gradients = np.random.default_rng(1).standard_normal((9, 4))
    expected = gradients.var(axis=0, ddof=1).sum()
    assert noise_level(gradients).estimate == pytest.approx(expected)


def test_more_gradients_make_it_narrower() -> None:
    rng = np.random.default_rng(2)
    few = noise_level(rng.standard_normal((6, 20)))
    many = noise_level(rng.standard_normal((60, 20)))
    assert many.high / many.low < few.high / few.low


def test_equal_gradients_have_no_noise() -> None:
    found = noise_level(np.tile(np.linspace(1, 2, 7), (5, 1)))
    assert found.estimate == 0.0
    assert found.high < 1e-20
    assert noise_level(np.zeros((4, 3))).high == 0.0
