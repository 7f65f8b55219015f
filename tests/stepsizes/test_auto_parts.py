"""The parts of ``eta="auto"`` against their formulas: δ, noise, gain, damping and horizon."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.problems.protocols import halves_of
from proxyprox.stepsizes import auto
from proxyprox.stepsizes.base import Observation


def fresh(**changed):
    state = auto.AutoStep().init(np.zeros(2), None, uses_proxy=True)
    return dataclasses.replace(state, **changed)


def gain_of(k, **known):
    state = fresh(**known)
    auto.update_gain(state, k)
    return state.gain


def test_delta_is_the_mean_curvature_or_its_fading_peak():
    state = fresh()
    for curvature in (1.0, 3.0, 0.5, 0.5):
        auto.add_curvature(state, curvature)
    mean = (0.8**3 * 1 + 0.8**2 * 3 + 0.8 * 0.5 + 0.5) / (0.8**3 + 0.8**2 + 0.8 + 1)
    assert state.delta == pytest.approx(max(mean, 0.9**2 * 3))
    assert state.delta >= mean


def test_a_proxy_that_is_too_curved_limits_nothing_but_its_change_is_seen():
    state = fresh()
    auto.add_curvature(state, -4.0)
    assert state.delta == 0
    assert state.rate == 4.0


def test_the_gain_is_one_over_k_where_nothing_drifts():
    state, errors = fresh(noise=1.0), []
    for k in range(30):
        auto.update_gain(state, k)
        errors.append(state.error)
    assert state.gain == pytest.approx(6 / 35)
    assert errors[-1] < 0.15
    assert all(b < a for a, b in itertools.pairwise(errors))


def test_the_gain_is_one_while_the_iterate_runs_and_for_exact_gradients():
    assert gain_of(50, noise=1e-6, rate=1.0, moved=1.0) > 0.99
    assert gain_of(50, noise=0.0) == 1.0


def test_the_gain_minimises_the_mean_squared_error():
    a = gain_of(10**6, noise=0.7, error=0.2, rate=0.5, moved=0.4)
    before = (math.sqrt(0.2) + 0.2) ** 2
    errors = [(1 - b) ** 2 * before + b**2 * 0.7 for b in (a - 0.01, a, a + 0.01)]
    assert min(errors) == errors[1]


def test_half_batches_and_two_batches_at_one_point_estimate_the_noise_without_bias():
    rng = np.random.default_rng(1)
    loss = pp.Quadratic(np.eye(4), noise=2.0)
    found = []
    for _ in range(4000):
        first, second = (loss.gradient(np.ones(4), loss.sample(rng)) for _ in range(2))
        here, there = np.ones(4), np.zeros(4)
        state = fresh(last=first, previous=here, previous_anchor=there, eta=1.0)
        seen = Observation(1, there, there, there, elsewhere=((here, second, None),))
        found.append(auto.AutoStep().observe(state, seen).noise)
    assert np.mean(found) == pytest.approx(4.0, rel=0.05)


def test_the_halves_of_a_batch_make_up_its_gradient_and_show_its_noise(target):
    rng = np.random.default_rng(2)
    w, exact, seen, true = np.ones(8), target.gradient(np.ones(8)), [], []
    for _ in range(3000):
        batch = target.sample(rng)
        one, other = (target.gradient(w, half) for half in halves_of(target, batch))
        assert np.allclose((one + other) / 2, target.gradient(w, batch))
        seen.append(((one - other) ** 2).sum() / 4)
        true.append((((one + other) / 2 - exact) ** 2).sum())
    assert np.mean(seen) == pytest.approx(np.mean(true), rel=0.1)
    assert halves_of(target, None) is None
    assert halves_of(target, np.arange(3)) is None


def test_the_damping_of_a_quadratic_proxy_is_its_formula():
    P, u, eta = np.diag([0.0, 1.0, 100.0]), np.array([1.0, 2.0, 3.0]), 0.7
    shift = pp.Quadratic(P).solve_shifted(-u, eta)
    found, alone = fresh(), fresh()
    auto.add_damping(found, shift, u, eta)
    expected = u @ np.linalg.solve(np.eye(3) + eta * P, u) / (u @ u)
    assert found.damping == pytest.approx(expected)
    assert found.damping_count == 1
    auto.add_damping(alone, -eta * u, u, eta)
    assert alone.damping == 1.0


def test_noise_adds_up_over_all_the_time_unless_h_drifts():
    assert auto.horizon(fresh(eta=1.0, time=50.0)) == 50.0
    assert auto.horizon(fresh(eta=1.0, time=50.0, rate=0.1)) == 10.0
    assert auto.horizon(fresh(eta=20.0, time=50.0, rate=0.1)) == 20.0


def test_steps_are_perturbed_ever_more_seldom_and_never_without_a_proxy(target):
    assert [k for k in range(14) if auto.is_due(k, 4)] == [1, 2, 3, 4, 5, 6, 7, 9, 11, 13]
    assert sum(auto.is_due(k, 4) for k in range(1000)) < 40
    for method, perturbed in ((pp.ProxyProx("auto"), True), (pp.SGD("auto"), False)):
        run = pp.Run(pp.Problem(target, target.label_free()), method=method, rng=0)
        for _ in range(5):
            query = run.ask()
            halves = tuple(target.gradient(query.points[0], half) for half in query.halves)
            rest = [target.gradient(point, query.batch) for point in query.points[1:]]
            run.tell([sum(halves) / 2, *rest], halves=halves)
        learnt = run.state.step_size
        assert (learnt.damping_count > 0) is perturbed
        assert (learnt.damping < 1) is perturbed
