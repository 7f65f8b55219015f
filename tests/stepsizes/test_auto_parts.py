"""The parts of ``eta="auto"`` against their formulas: δ, noise, gain, damping and horizon."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.problems.problem import halves_of
from proxyprox.stepsizes.auto import AutoStep, Point
from proxyprox.stepsizes.base import Observation


def test_half_batches_and_two_batches_at_one_point_estimate_the_noise_without_bias():
    rng = np.random.default_rng(1)
    loss = pp.Quadratic(np.eye(4), noise=2.0)
    found = []
    for _ in range(1500):
        first, second = (loss.gradient(np.ones(4), loss.sample(rng)) for _ in range(2))
        here, there = np.ones(4), np.zeros(4)
        state = AutoStep().init(there, None)
        state = dataclasses.replace(state, previous=Point(here, there, first), eta=1e-3)
        seen = Observation(1, there, there, there, elsewhere=((here, second, None),))
        found.append(AutoStep().observe(state, seen).noise.recent)
    assert np.mean(found) == pytest.approx(4.0, rel=0.08)


def test_the_halves_of_a_batch_make_up_its_gradient_and_show_its_noise(target):
    rng = np.random.default_rng(2)
    w, exact, seen, true = np.ones(8), target.gradient(np.ones(8)), [], []
    for _ in range(1500):
        batch = target.sample(rng)
        one, other = (target.gradient(w, half) for half in halves_of(target.facts, batch))
        assert np.allclose((one + other) / 2, target.gradient(w, batch))
        seen.append(((one - other) ** 2).sum() / 4)
        true.append((((one + other) / 2 - exact) ** 2).sum())
    assert np.mean(seen) == pytest.approx(np.mean(true), rel=0.1)
    assert halves_of(target.facts, None) is None
    assert halves_of(target.facts, np.arange(3)) is None
