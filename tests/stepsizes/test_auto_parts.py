"""The parts of ``eta="auto"`` against their formulas: δ, noise, gain, damping and horizon."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.problems.problem import halves_of
from proxyprox.stepsizes.auto import (
    AutoStep,
    AutoStepPolicy,
    Noise,
    Point,
    Similarity,
    horizon,
    is_due,
)
from proxyprox.stepsizes.base import Observation

POLICY = AutoStepPolicy()


def gain_of(k, drift=0.0, **known):
    return Noise(**known).with_gain(k, drift).gain


def test_delta_is_the_mean_curvature_or_its_fading_peak():
    found = Similarity()
    for curvature in (1.0, 3.0, 0.5, 0.5):
        found = found.with_curvature(POLICY, curvature)
    mean = (0.9**3 * 1 + 0.9**2 * 3 + 0.9 * 0.5 + 0.5) / (0.9**3 + 0.9**2 + 0.9 + 1)
    assert found.delta == pytest.approx(max(mean, 0.9**2 * 3))
    assert found.delta >= mean


def test_a_proxy_that_is_too_curved_limits_nothing_but_its_change_is_seen():
    found = Similarity().with_curvature(POLICY, -4.0)
    assert found.delta == 0
    assert found.rate == 4.0


def test_the_gain_is_one_over_k_where_nothing_drifts():
    noise, errors = Noise(recent=1.0), []
    for k in range(30):
        noise = noise.with_gain(k, drift=0.0)
        errors.append(noise.error)
    assert noise.gain == pytest.approx(6 / 35)
    assert errors[-1] < 0.15
    assert all(b < a for a, b in itertools.pairwise(errors))


def test_the_gain_is_one_while_the_iterate_runs_and_for_exact_gradients():
    assert gain_of(50, drift=1.0, recent=1e-6) > 0.99
    assert gain_of(50, recent=0.0) == 1.0


def test_the_gain_minimises_the_mean_squared_error():
    a = gain_of(10**6, drift=0.2, recent=0.7, error=0.2)
    before = (math.sqrt(0.2) + 0.2) ** 2
    errors = [(1 - b) ** 2 * before + b**2 * 0.7 for b in (a - 0.01, a, a + 0.01)]
    assert min(errors) == errors[1]


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


def test_the_damping_of_a_quadratic_proxy_is_its_formula():
    P, u, eta = np.diag([0.0, 1.0, 100.0]), np.array([1.0, 2.0, 3.0]), 0.7
    shift = pp.Quadratic(P).solve_shifted(-u, eta)
    found = Noise().with_damping(shift, u, eta)
    expected = u @ np.linalg.solve(np.eye(3) + eta * P, u) / (u @ u)
    assert found.damping == pytest.approx(expected)
    assert found.damping_count == 1
    assert Noise().with_damping(-eta * u, u, eta).damping == 1.0


def test_noise_adds_up_over_all_the_time_unless_h_drifts():
    assert horizon(1.0, time=50.0, rate=0.0) == 50.0
    assert horizon(1.0, time=50.0, rate=0.1) == 10.0
    assert horizon(20.0, time=50.0, rate=0.1) == 20.0


def test_steps_are_perturbed_ever_more_seldom_and_never_without_a_proxy(target):
    assert [k for k in range(14) if is_due(k, 4)] == [1, 2, 3, 4, 5, 6, 7, 9, 11, 13]
    assert sum(is_due(k, 4) for k in range(1000)) < 40
    for method, perturbed in ((pp.ProxyProx("auto"), True), (pp.SGD("auto"), False)):
        run = pp.Run(pp.Problem(target, target.label_free()), method=method, rng=0)
        for _ in range(5):
            query = run.ask()
            halves = tuple(target.gradient(query.points[0], half) for half in query.halves)
            rest = [target.gradient(point, query.batch) for point in query.points[1:]]
            run.tell([sum(halves) / 2, *rest], halves=halves)
        noise = getattr(run.state.step_size, "noise", None)
        assert (getattr(noise, "damping", 1.0) < 1) is perturbed
