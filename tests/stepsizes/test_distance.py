"""``SGD("auto")``: the distance over the gradients, its parts and how good it is."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp


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


def test_a_penalty_is_minimised_too(target):
    problem = pp.Problem(target, penalty=pp.L1(0.02))
    result = pp.minimize(problem, method=pp.SGD("auto"), steps=500, rng=0)
    exact = pp.Problem(target.with_batch_size(None), penalty=pp.L1(0.02))
    best = pp.minimize(exact, method=pp.SGD(1 / target.smoothness), steps=300)
    fall = problem.value(np.zeros(8)) - problem.value(best.w)
    assert problem.value(result.w) - problem.value(best.w) < 0.03 * fall


# -- losses that are nearly linear ---------------------------------------------------------


def hinge(margin):
    short = np.clip(1 - margin, 0, 0.5)
    return np.where(margin < 0.5, 0.75 - margin, short**2), np.where(margin < 0.5, -1, -2 * short)


def test_bounded_gradients_do_not_let_steps_run_away():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 10)) + 1
    y = 3 * X.sum(1) + rng.standard_t(2, size=500)
    X *= np.where(y > np.median(y), 1.0, -1.0)[:, None]

    def value(w):
        return hinge(X @ w)[0].mean() + 5e-3 * w @ w

    def gradient(w, rows=slice(None)):
        return X[rows].T @ hinge(X[rows] @ w)[1] / len(X[rows]) + 1e-2 * w

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
