from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize

import proxyprox as pp
from proxyprox.advice.curvature import best_weights
from proxyprox.advice.rehearsal import STEPS, ErrorCurve, QuadraticModel, rehearse

A = np.diag([1.0, 0.3, 0.01])
P = np.diag([0.8, 0.35, 0.0])
GRADIENT = np.array([1.0, -1.0, 0.05])


def model(noise: float) -> QuadraticModel:
    residuals = noise * np.random.default_rng(0).standard_normal((4000, 3))
    return QuadraticModel(A, GRADIENT, np.zeros(3), residuals - residuals.mean(axis=0))


@pytest.mark.parametrize(("eta", "proxy"), [(0.7, None), (20.0, P)])
def test_closed_forms_agree_with_many_simulated_runs(eta: float, proxy: np.ndarray | None) -> None:
    quadratic = model(0.1)
    if proxy is None:
        curves = ErrorCurve.of(quadratic).excess(eta)
    else:
        curves = ErrorCurve.of(quadratic, proxy + np.eye(3) / eta).excess(1.0)
    rng = np.random.default_rng(1)
    inverse = np.linalg.inv((0 if proxy is None else proxy) + np.eye(3) / eta)
    error = np.tile(np.linalg.solve(A, GRADIENT), (20000, 1))
    mean = np.zeros_like(error)
    at = {int(k): j for j, k in enumerate(STEPS)}
    for k in range(1, 51):
        error = error - (error @ A + 0.1 * rng.standard_normal(error.shape)) @ inverse
        mean += (error - mean) / k
        if k in (1, 10, 50) and k in at:
            for row, e in enumerate((error, mean)):
                simulated = float(np.mean(np.sum(e @ A * e, axis=1))) / 2
                assert curves[row, at[k]] == pytest.approx(simulated, rel=0.03)


def test_the_start_is_where_newton_says() -> None:
    quadratic = model(0.0)
    assert quadratic.start_excess == pytest.approx(GRADIENT @ np.linalg.solve(A, GRADIENT) / 2)
    assert quadratic.start_distance == pytest.approx(np.linalg.norm(np.linalg.solve(A, GRADIENT)))
    moved = QuadraticModel(A, np.zeros(3), np.ones(3), np.zeros((2, 3)))
    assert moved.start_distance == pytest.approx(math.sqrt(3))


def test_rehearsed_steps_come_true() -> None:
    rng = np.random.default_rng(2)
    quadratic = model(0.01)
    target = pp.Quadratic(A, b=GRADIENT, noise=0.01 * math.sqrt(3))
    best = target.value(target.minimiser())
    found = rehearse(quadratic, [P], 1e-3)
    averaging = pp.averaging.Uniform() if found.averaged else pp.averaging.Last()
    ends = [
        pp.minimize(
            pp.Problem(target, pp.Quadratic(P)), method=pp.ProxyProx(found.eta),
            steps=int(found.steps), averaging=averaging, rng=rng,
        ).w
        for _ in range(20)
    ]  # fmt: skip
    mean = np.mean([target.value(w) - best for w in ends])
    assert mean == pytest.approx(found.excess, rel=0.5)


def test_a_hostile_proxy_leaves_small_step_sizes() -> None:
    found = rehearse(model(0.0), [-A], 1e-3)
    assert math.isfinite(found.steps)
    assert found.steps > rehearse(model(0.0), None, 1e-3).steps


def test_larger_batches_need_fewer_steps() -> None:
    quadratic = model(0.3)
    steps = [
        rehearse(quadratic.with_noise_divided_by(f), [P], 1e-3).steps for f in (0.25, 1.0, 4.0)
    ]
    assert steps[0] > steps[1] > steps[2]


def test_noise_of_an_averaged_gradient_is_no_distance() -> None:
    residuals = np.random.default_rng(3).standard_normal((16, 3))
    residuals -= residuals.mean(axis=0)
    noise = np.sqrt(np.sum(residuals**2, axis=0) / 15 / 16)
    quadratic = QuadraticModel(A, 0.5 * noise, np.zeros(3), residuals, averaged=16)
    assert quadratic.start_excess == 0.0


def test_the_best_of_a_fixed_number_of_steps() -> None:
    quadratic = model(0.1)
    few, many = (rehearse(quadratic, [P], 1.0, steps=k) for k in (3, 300))
    assert many.excess < few.excess
    assert few.steps == 3


def test_noise_that_grows_with_the_distance_is_rehearsed() -> None:
    """Batches of 16 Gaussian rows in 8 dimensions: κ = 1/16, against simulated regressions."""
    d, rows, runs = 8, 16, 2000
    scales = np.geomspace(1, 0.1, d)
    H, start = np.diag(scales**2), np.ones(d)
    quadratic = QuadraticModel(H, H @ start, np.zeros(d), np.zeros((2, d)), growth=1 / rows)
    curve = ErrorCurve.of(quadratic, H + np.eye(d) / 1e4)
    last, mean = curve.excess(0.6)[:, [int(np.flatnonzero(k == STEPS)[0]) for k in (5, 12)]]
    rng = np.random.default_rng(4)
    error, average = np.tile(start, (runs, 1)), np.zeros((runs, d))
    seen: dict[int, tuple[float, float]] = {}
    for k in range(1, 13):
        X = rng.standard_normal((runs, rows, d)) * scales
        gradient = np.einsum("rni,rn->ri", X, np.einsum("rni,ri->rn", X, error)) / rows
        error = error - 0.6 * gradient / np.diag(H)
        average += (error - average) / k
        seen[k] = tuple(float(np.mean(np.sum(e @ H * e, axis=1))) / 2 for e in (error, average))
    # Left out of the model: the part of the noise that points along the error itself.
    for j, k in enumerate((5, 12)):
        assert 0.3 < last[j] / seen[k][0] < 1.5
        assert mean[j] == pytest.approx(seen[k][1], rel=0.3)


def test_steps_too_long_for_their_batches_are_ruled_out() -> None:
    wild = QuadraticModel(A, GRADIENT, np.zeros(3), np.zeros((2, 3)), growth=1.0)
    assert np.all(np.isinf(ErrorCurve.of(wild).excess(1.9)))
    calm = rehearse(wild, [A], 1e-3)
    assert math.isfinite(calm.steps)
    assert calm.steps > rehearse(model(0.0), [A], 1e-3).steps


def test_a_bent_loss_gains_less_by_averaging() -> None:
    flat = model(0.3)
    bent = QuadraticModel(A, GRADIENT, np.zeros(3), flat.residuals, bend=0.5)
    assert rehearse(bent, [A], 1e-2).steps > rehearse(flat, [A], 1e-2).steps


def test_a_target_without_curvature_is_at_its_minimum() -> None:
    nothing = QuadraticModel(np.zeros((2, 2)), np.zeros(2), np.zeros(2), np.zeros((2, 2)))
    assert rehearse(nothing, None, 1e-3).steps == rehearse(nothing, [np.eye(2)], 1e-3).steps == 1


def test_of_several_proxy_hessians_the_worst_counts() -> None:
    A = np.diag([1.0, 10.0, 100.0])
    model = QuadraticModel(A, np.ones(3), np.zeros(3), 0.1 * np.eye(3))
    close, steep = 0.9 * A, 300 * A
    alone = [rehearse(model, [P], 1e-3).steps for P in (close, steep)]
    assert rehearse(model, [close], 1e-3).steps == alone[0]
    assert rehearse(model, [close, steep], 1e-3).steps >= max(alone) > 5 * alone[0]


def positive_matrix(rng: np.random.Generator, size: int = 8) -> np.ndarray:
    root = rng.standard_normal((size, size))
    return root @ root.T / size


@pytest.mark.parametrize("seed", range(5))
def test_one_scale_agrees_with_a_search_of_the_line(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, P = positive_matrix(rng), 30 * positive_matrix(rng)
    (scale,), delta = best_weights(A, [P])
    slow = scipy.optimize.minimize_scalar(
        lambda s: np.linalg.norm(A - s * P, 2), bounds=(0, 1), method="bounded",
        options={"xatol": 1e-10},
    )  # fmt: skip
    assert delta == pytest.approx(slow.fun, rel=2e-3)
    assert delta == pytest.approx(np.linalg.norm(A - scale * P, 2))


@pytest.mark.parametrize("seed", range(3))
def test_a_mixture_agrees_with_a_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, two = positive_matrix(rng), positive_matrix(rng)
    A = 0.7 * one + 1.6 * two + 0.05 * positive_matrix(rng)
    weights, delta = best_weights(A, [one, two])
    grid = np.linspace(0, 2.5, 60)
    slow = min(np.linalg.norm(A - a * one - b * two, 2) for a in grid for b in grid)
    assert delta <= slow + 1e-4
    assert min(weights) >= 0
    assert weights == pytest.approx((0.7, 1.6), abs=0.15)


def test_a_proxy_of_the_wrong_sign_gets_no_weight() -> None:
    A = np.diag([1.0, 2.0])
    assert best_weights(A, [-A]) == ((0.0,), pytest.approx(2.0))


@pytest.mark.parametrize("factor", [1e-3, 1e-1, 10.0, 1e3])
def test_a_wrong_size_is_undone(factor: float) -> None:
    A = positive_matrix(np.random.default_rng(9))
    (scale,), delta = best_weights(A, [factor * A])
    assert scale == pytest.approx(1 / factor, rel=1e-3)
    assert delta < 1e-3 * np.linalg.norm(A, 2)


def test_flat_losses_are_no_trouble() -> None:
    zero = np.zeros((3, 3))
    assert best_weights(zero, [np.eye(3)]) == ((0.0,), 0.0)
    assert best_weights(np.eye(3), [zero]) == ((0.0,), 1.0)
    assert best_weights(np.eye(3), [zero, np.eye(3)])[0] == pytest.approx((0.0, 1.0), abs=1e-3)
