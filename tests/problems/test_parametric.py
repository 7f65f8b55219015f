"""Proxies with free parameters: what is found, how surely, and what cannot be told apart."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import proxyprox as pp
from proxyprox.problems.parametric import Parametric, identify
from tests.runs import assert_resumes, logistic

T = np.linspace(0, 2, 40)


def model(theta):
    return theta[0] * np.exp(-theta[1] * T)


def test_intervals_cover_as_often_as_they_say():
    rng, inside, true = np.random.default_rng(0), 0, np.array([2.0, 1.5])
    for _ in range(200):
        seen = model(true) + 0.1 * rng.normal(size=T.size)
        found = identify(lambda p, seen=seen: model(p) - seen, [1.0, 1.0], (0, 10))
        inside += (np.array(found.low) <= true) & (true <= np.array(found.high))
    # Of 200 draws 190 on average, with a standard error of 3.
    assert ((inside >= 180) & (inside <= 199)).all()


def test_intervals_are_those_of_curve_fit_and_of_the_sandwich():
    t, rng = np.linspace(0, 2, 36), np.random.default_rng(3)
    seen = 2 * np.exp(-1.5 * t) + 0.1 * rng.normal(size=36)

    def misfit(p):
        return p[0] * np.exp(-p[1] * t) - seen

    best, covariance = scipy.optimize.curve_fit(
        lambda t, a, b: a * np.exp(-b * t), t, seen, [1.0, 1.0]
    )
    blocks, falling = np.arange(36) // 4, np.exp(-best[1] * t)
    J = np.stack([falling, -best[0] * t * falling], axis=1)
    scores = np.array([J[blocks == b].T @ misfit(best)[blocks == b] for b in range(9)])
    inverse = np.linalg.inv(J.T @ J)
    sandwich = inverse @ scores.T @ scores @ inverse * 9 / 7
    for own, spread, freedom in ((None, covariance, 34), (blocks, sandwich, 7)):
        found = identify(misfit, [1.0, 1.0], (0, 10), blocks=own, confidence=0.9)
        np.testing.assert_allclose(found.values, best, rtol=1e-5)
        half = np.sqrt(np.diag(spread)) * scipy.stats.t.ppf(0.95, freedom)
        np.testing.assert_allclose(found.low, best - half, rtol=1e-3)
        np.testing.assert_allclose(found.high, best + half, rtol=1e-3)
    few = identify(lambda p: p - np.array([1.0, 2.0]), [0.0, 0.0], (-9, 9))
    np.testing.assert_array_equal(few.high, np.inf)
    assert few.undetermined == ()


def test_intervals_of_blocks_cover_if_noise_depends_on_itself():
    rng, true, blocks = np.random.default_rng(0), np.array([2.0, 1.5]), np.arange(120) // 6
    t, inside = np.linspace(0, 2, 120), np.zeros((2, 2))
    for _ in range(100):
        seen = true[0] * np.exp(-true[1] * t) + 0.1 * (1 + t) * rng.normal(size=20)[blocks]
        for row, own in enumerate((None, blocks)):
            found = identify(
                lambda p, s=seen: p[0] * np.exp(-p[1] * t) - s, [1.0, 1.0], (0, 10), blocks=own
            )
            inside[row] += (np.array(found.low) <= true) & (true <= np.array(found.high))
    # Those that take noise for independent are too narrow.
    assert inside[0].max() < 88
    assert (inside[1] >= 88).all()


def test_what_cannot_be_told_apart_is_named():
    found = identify(lambda p: p[0] * p[1] * T - 6 * T + 0 * p[2], [1.0, 1.0, 1.0], (0, 10))
    assert set(found.undetermined) == {0, 1, 2}
    assert found.values[0] * found.values[1] == pytest.approx(6)
    assert np.isinf(found.high).all()
    broken = identify(lambda p: np.where(p[0] > 5, np.nan, p[0] - 2) * T, [9.0], (0, 10))
    assert len(broken.values) == 1


ROOT = np.random.default_rng(1).normal(size=(2, 7, 7))
ONE, TWO = (root @ root.T + np.eye(7) for root in ROOT)
LEAST = np.arange(7.0)


def build(theta):
    P = theta[0] * ONE + theta[1] * TWO
    return pp.Quadratic(P, b=-P @ LEAST)


TARGET = build([2.0, 0.5])


def test_the_parameters_are_found_on_the_way(tmp_path):
    proxy = Parametric(build, [1.0, 1.0], ([0.1, 0.1], [10.0, 10.0]))
    problem = pp.Problem(TARGET, proxy)
    result = pp.minimize(problem, tol=1e-8)
    fixed = pp.minimize(pp.Problem(TARGET, build([1.0, 1.0])), tol=1e-8)
    assert result.steps <= 4
    np.testing.assert_allclose(result.w, LEAST, atol=1e-6)
    np.testing.assert_allclose(fixed.w, LEAST, atol=1e-6)
    assert "theta[0] = 2 " in result.message
    assert "theta[1] = 0.5 " in result.message
    assert_resumes(tmp_path / "run", problem, np.ones(7), at=1, steps=3)


def test_the_run_says_what_it_cannot_tell_apart():
    proxy = Parametric(lambda p: build([p[0] * p[1], 0.5]), [1.0, 1.0], (0.1, 10.0))
    result = pp.minimize(pp.Problem(TARGET, proxy), tol=1e-8)
    np.testing.assert_allclose(result.w, LEAST, atol=1e-5)
    assert "theta[0], theta[1] apart" in result.message


def test_arguments_are_checked():
    for kind, name, make in (
        (ValueError, "theta0", lambda: Parametric(build, [1.0, 20.0], (0.1, 10.0))),
        (ValueError, "theta0", lambda: Parametric(build, [1.0, 1.0], (2.0, 0.0))),
        (ValueError, "theta0", lambda: Parametric(build, [1.0, 1.0], (1.0, 1.0))),
        (TypeError, "build", lambda: Parametric(lambda p: 3.0, [1.0])),
        (TypeError, "build", lambda: Parametric("build", [1.0])),
    ):
        with pytest.raises(kind, match=name):
            make()


def test_the_outputs_of_a_model_are_fitted_to():
    seen = model([3.0, 0.7]) + 0.1 * np.cos(9 * T)
    fine = pp.LeastSquares(lambda w: model(w) - seen)

    def coarse(theta):
        rate = np.exp(-theta[0])
        return pp.LeastSquares(lambda w: w[0] * rate ** (w[1] * T) - seen)

    result = pp.minimize(pp.Problem(fine, Parametric(coarse, [1.6], (0.1, 3.0))), np.ones(2))
    assert result.status is pp.Status.CONVERGED
    assert "theta[0] = 1 " in result.message


def test_parameters_stay_where_the_last_gradients_are_small():
    target = logistic(2000, 6, np.geomspace(1, 0.1, 6), l2=1e-3)
    part = target.subsample(300, rng=1)
    found = []
    pp.minimize(
        pp.Problem(target, Parametric(lambda theta: theta[0] * part, [2.0], (0.1, 5.0))), tol=1e-8,
        callback=lambda step: found.append(step.state.learning.numbers[0]),
    )  # fmt: skip
    assert 0.8 < found[-1] < 1.25
