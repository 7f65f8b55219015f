"""``SGD("auto")``: the distance over the gradients, its parts and how good it is."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.stepsizes.auto import Averages
from proxyprox.stepsizes.base import Observation
from proxyprox.stepsizes.distance import DistanceStep


def fresh(average=(0.0, 0.0), lag=0.0, **changed):
    """Return the state of the rule without a proxy, with some of it set."""
    average = np.array(average)
    averages = Averages(average, average, lag)
    return dataclasses.replace(DistanceStep().init(np.zeros(2), None), averages=averages, **changed)


def after(state, k=1, w=None, gradient=None):
    """Return the state after a gradient has been observed."""
    zero = np.zeros(2)
    seen = Observation(k, zero if w is None else w, zero if gradient is None else gradient, zero)
    state = dataclasses.replace(state, eta=state.eta or 1.0)
    return DistanceStep().observe(state, seen)


@pytest.fixture(scope="module")
def separable():
    rng = np.random.default_rng(1)
    X = (rng.random((2000, 40)) < 0.3).astype(float)
    return pp.logistic_regression(X, X @ rng.normal(size=40) > 0, l2=1e-6, batch_size=64)


# -- the parts ------------------------------------------------------------------------------


def test_the_limit_is_the_distance_over_the_root_of_the_summed_squares():
    known = {"square": 0.25, "proven": 2.0, "average": (3.0, 4.0)}
    expected, limit = 1.2 * 5 / math.sqrt(8 * 0.25), DistanceStep().limit
    assert limit(fresh(**known), 7) == pytest.approx(expected)
    assert limit(fresh(lag=1e-9, **known), 7) == pytest.approx(2 * expected)
    assert limit(fresh(), 7) == math.inf


def test_the_mean_of_squares_is_that_of_equal_gradients_and_forgets_a_steep_start():
    state = fresh()
    for k in range(50):
        g = np.array([100.0, 0.0]) if k < 3 else np.array([0.6, 0.8])
        state = dataclasses.replace(state, square=after(state, k, gradient=g).square)
    # A plain mean would still be 600.
    assert 1 <= state.square < 5


def test_the_lag_is_positive_if_the_average_stands_higher_than_the_iterates():
    # One-dimensional descent: the gradient at w points back to where the average still is.
    here = {"w": np.array([0.5, 0.0]), "gradient": np.array([0.1, 0.0])}
    path = {"previous": np.array([0.6, 0.0]), "linear": np.array([0.1, 0.0]), "eta": 1.0}
    assert after(fresh((1.0, 0.0), **path), **here).averages.lag > 0
    assert after(fresh((0.0, 0.0), **path), **here).averages.lag < 0


def test_a_penaltys_pull_is_read_off_the_last_step():
    # Soft thresholding from w = 1 with η = 1/2, g = 0 and λ = 0.4 leads to 0.8: the pull is 0.4.
    at, before = np.array([0.8, 0.0]), np.array([1.0, 0.0])
    state = fresh((1.8, 0.0), eta=0.5, linear=np.zeros(2), previous=before)
    found = after(state, 1, at, np.array([0.3, 0.0]))
    # <0.3 + 0.4, 1.8 - 0.8>, with the share of the second of all.
    assert found.averages.lag == pytest.approx(0.7 * 16 / 17)
    assert found.square == pytest.approx(0.09 * 4 / 5)


def test_the_answer_is_the_short_mean_only_if_the_average_lags():
    short, long = np.full(2, 2.0), np.full(2, 1.0)
    assert Averages(long, short, 0.1).answer is short
    assert Averages(long, short, -0.1).answer is long


# -- runs -----------------------------------------------------------------------------------


def test_it_costs_one_gradient_more(target):
    result = pp.minimize(pp.Problem(target), method=pp.SGD("auto"), steps=200, rng=0)
    assert result.ledger.target_gradients == 201
    assert result.ledger.target_samples == 200 * 32


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_loss_does_not_matter(target, scale):
    def run(factor):
        objective = pp.FunctionObjective(
            lambda w, batch: factor * target.gradient(w, batch), sample=target.sample
        )
        call = {"method": pp.SGD("auto"), "steps": 60, "rng": 0}
        return pp.minimize(pp.Problem(objective), np.zeros(8), **call).w

    assert np.allclose(run(scale), run(1.0), rtol=1e-6)


def test_exact_gradients_keep_the_rule_that_curvature_limits():
    target = pp.Quadratic(np.diag([1.0, 50.0]), b=np.array([-1.0, -1.0]))
    result = pp.minimize(pp.Problem(target), method=pp.SGD("auto"), steps=400)
    assert np.allclose(result.w, target.minimiser(), atol=1e-6)


def test_a_noisy_quadratic_is_left_stable():
    target = pp.Quadratic(np.diag([1.0, 100.0]), b=np.array([-1.0, -1.0]), noise=0.3)
    losses = []
    for seed in range(3):
        result = pp.minimize(pp.Problem(target), method=pp.SGD("auto"), steps=500, rng=seed)
        losses.append(target.value(result.w) - target.value(target.minimiser()))
    start = target.value(np.zeros(2)) - target.value(target.minimiser())
    assert max(losses) < 0.1 * start


@pytest.mark.slow
def test_nearly_separable_data_are_fitted_about_as_by_the_best_step_size():
    """A rule that stays within the curvature ends at about four times the tuned loss."""
    X, y = pytest.importorskip("sklearn.datasets").load_digits(return_X_y=True)
    rows = (y == 3) | (y == 8)
    digits = pp.logistic_regression(X[rows] / 16, y[rows] == 8, l2=1e-5, batch_size=32)
    problem, seeds, H = pp.Problem(digits), range(3), digits.smoothness

    def loss(method):
        runs = [pp.minimize(problem, method=method, steps=300, rng=seed) for seed in seeds]
        return np.median([digits.value(run.w) for run in runs])

    tuned = min(loss(pp.SGD(eta / H)) for eta in (5, 25, 125))
    assert loss(pp.SGD("auto")) < 2 * tuned


def test_a_penalty_is_minimised_too(target):
    problem = pp.Problem(target, penalty=pp.L1(0.02))
    result = pp.minimize(problem, method=pp.SGD("auto"), steps=500, rng=0)
    exact = pp.Problem(target.with_batch_size(None), penalty=pp.L1(0.02))
    best = pp.minimize(exact, method=pp.SGD(1 / target.smoothness), steps=300)
    fall = problem.value(np.zeros(8)) - problem.value(best.w)
    assert problem.value(result.w) - problem.value(best.w) < 0.03 * fall


@pytest.mark.parametrize(("penalty", "stopped"), [(None, 1), (None, 33), (pp.L1(0.01), 2)])
def test_a_saved_run_goes_on_bit_for_bit(separable, tmp_path, penalty, stopped):
    problem = pp.Problem(separable, penalty=penalty)
    call = {"problem": problem, "method": pp.SGD("auto"), "rng": 5}
    answers = []
    whole = pp.minimize(**call, steps=50, callback=lambda step: answers.append(step.answer))
    first = pp.minimize(**call, steps=stopped, checkpoint=tmp_path / "run")
    assert first.w.tobytes() == answers[stopped - 1].tobytes()
    resumed = pp.minimize(**call, steps=50, checkpoint=tmp_path / "run")
    assert resumed.w.tobytes() == whole.w.tobytes()
    assert resumed.last.tobytes() == whole.last.tobytes()


# -- losses that are nearly linear ---------------------------------------------------------


def hinge(margin):
    short = np.clip(1 - margin, 0, 0.5)
    return np.where(margin < 0.5, 0.75 - margin, short**2), np.where(margin < 0.5, -1, -2 * short)


def deviation(residual):
    size = np.sqrt(1e-4 + residual**2)
    return size, residual / size


@pytest.mark.parametrize("loss", [hinge, pytest.param(deviation, marks=pytest.mark.slow)])
def test_bounded_gradients_do_not_let_steps_run_away(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 10)) + 1
    y = 3 * X.sum(1) + rng.standard_t(2, size=500)
    signs = np.where(y > np.median(y), 1.0, -1.0)
    if loss is hinge:
        X, y = signs[:, None] * X, np.zeros(500)

    def value(w):
        return loss(X @ w - y)[0].mean() + 5e-3 * w @ w

    def gradient(w, rows=slice(None)):
        return X[rows].T @ loss(X[rows] @ w - y[rows])[1] / len(y[rows]) + 1e-2 * w

    target = pp.FunctionObjective(gradient, value=value, sample=lambda r: r.integers(500, size=32))
    problem, start = pp.Problem(target), np.zeros(10)

    def end(method, steps, seed=0):
        return value(pp.minimize(problem, start, method=method, steps=steps, rng=seed).w)

    least = value(
        pp.minimize(pp.Problem((value, gradient)), start, method=pp.SGD(3e-2), steps=1500).w
    )
    for steps in (25, 200):
        best = min(end(pp.SGD(eta), steps) for eta in (0.01, 0.03, 0.1, 0.3)) - least
        ours = np.median([end(pp.SGD("auto"), steps, seed) for seed in range(3)]) - least
        assert ours < value(start) - least
        assert ours < 3 * best + 0.2 * (value(start) - least)
