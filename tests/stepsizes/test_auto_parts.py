"""The parts of ``eta="auto"`` against their formulas: δ, noise, gain, damping and horizon."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.stepsizes import auto
from proxyprox.stepsizes.base import Signals


def signals(k=1, **changed):
    zero = np.zeros(2)
    given = {"k": k, "w": zero, "gradient": zero, "difference": zero, "noise": None}
    return Signals(**{**given, **changed})


def fresh(**changed):
    return {**auto.begin(np.zeros(2), None), **changed}


def test_delta_is_the_mean_curvature_or_its_fading_peak():
    memory = fresh()
    for curvature in (1.0, 3.0, 0.5, 0.5):
        memory = auto.with_curvature(memory, curvature)
    mean = (0.8**3 * 1 + 0.8**2 * 3 + 0.8 * 0.5 + 0.5) / (0.8**3 + 0.8**2 + 0.8 + 1)
    assert memory["delta"] == pytest.approx(max(mean, 0.9**2 * 3))
    assert memory["delta"] >= mean


def test_a_proxy_that_is_too_curved_limits_nothing_but_its_change_is_seen():
    memory = auto.with_curvature(fresh(), -4.0)
    assert memory["delta"] == 0
    assert memory["rate"] == 4.0


def test_the_gain_is_one_over_k_where_nothing_drifts():
    memory, errors = fresh(noise=1.0), []
    for k in range(30):
        memory = auto.with_gain(memory, k)
        errors.append(memory["error"])
    assert memory["gain"] == pytest.approx(3 / 32)
    assert errors[-1] < 0.1
    assert all(b < a for a, b in itertools.pairwise(errors))


def test_the_gain_is_one_while_the_iterate_runs_and_for_exact_gradients():
    running = auto.with_gain(fresh(noise=1e-6, rate=1.0, moved=1.0), 50)
    assert running["gain"] > 0.99
    assert auto.with_gain(fresh(noise=0.0), 50)["gain"] == 1.0


def test_the_gain_minimises_the_mean_squared_error():
    memory = fresh(noise=0.7, error=0.2, rate=0.5, moved=0.4)
    before, a = (math.sqrt(0.2) + 0.2) ** 2, auto.with_gain(memory, 10**6)["gain"]
    errors = [(1 - b) ** 2 * before + b**2 * 0.7 for b in (a - 0.01, a, a + 0.01)]
    assert min(errors) == errors[1]


def test_half_batches_and_two_batches_at_one_point_estimate_the_noise_without_bias():
    rng = np.random.default_rng(1)
    loss = pp.Quadratic(np.eye(4), noise=2.0)
    found = []
    for _ in range(4000):
        first, second = (loss.gradient(np.ones(4), loss.sample(rng)) for _ in range(2))
        memory = fresh(last=first)
        memory = auto.with_noise(memory, signals(before=second), None)
        found.append(memory["noise"])
    assert np.mean(found) == pytest.approx(4.0, rel=0.05)


def test_the_halves_of_a_batch_make_up_its_gradient_and_show_its_noise(target):
    rng = np.random.default_rng(2)
    w, exact, seen, true = np.ones(8), target.gradient(np.ones(8)), [], []
    for _ in range(3000):
        batch = target.sample(rng)
        one, other = (target.gradient(w, half) for half in target.halves(batch))
        assert np.allclose((one + other) / 2, target.gradient(w, batch))
        seen.append(((one - other) ** 2).sum() / 4)
        true.append((((one + other) / 2 - exact) ** 2).sum())
    assert np.mean(seen) == pytest.approx(np.mean(true), rel=0.1)
    assert target.halves(None) is None
    assert target.halves(np.arange(3)) is None


def test_the_damping_of_a_quadratic_proxy_is_its_formula():
    P, u, eta = np.diag([0.0, 1.0, 100.0]), np.array([1.0, 2.0, 3.0]), 0.7
    shift = pp.Quadratic(P).solve_shifted(-u, eta)
    found = auto.with_damping(fresh(), shift, u, eta)
    expected = u @ np.linalg.solve(np.eye(3) + eta * P, u) / (u @ u)
    assert found["damping"] == pytest.approx(expected)
    assert found["shaken"] == 1
    alone = auto.with_damping(fresh(), -eta * u, u, eta)
    assert alone["damping"] == 1.0


def test_noise_adds_up_over_all_the_time_unless_h_drifts():
    assert auto.horizon(fresh(eta=1.0, time=50.0)) == 50.0
    assert auto.horizon(fresh(eta=1.0, time=50.0, rate=0.1)) == 10.0
    assert auto.horizon(fresh(eta=20.0, time=50.0, rate=0.1)) == 20.0


def test_steps_are_shaken_ever_more_seldom_and_never_without_a_proxy(target):
    assert [k for k in range(14) if auto.due(k)] == [1, 2, 3, 4, 5, 6, 7, 9, 11, 13]
    assert sum(auto.due(k) for k in range(1000)) < 40
    for method, shaken in ((pp.ProxyProx("auto"), True), (pp.SGD("auto"), False)):
        run = pp.Run(pp.Problem(target, target.label_free()), method=method, rng=0)
        for _ in range(5):
            query = run.ask()
            halves = tuple(target.gradient(query.points[0], half) for half in query.halves)
            rest = [target.gradient(point, query.batch) for point in query.points[1:]]
            run.tell([sum(halves) / 2, *rest], halves=halves)
        assert (run._state.rule["shaken"] > 0) is shaken
        assert (run._state.rule["damping"] < 1) is shaken
