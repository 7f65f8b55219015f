from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.advice.audit import line_search
from proxyprox.advice.curvature import (
    HessianProbe,
    Spectrum,
    Visit,
    lanczos,
    random_direction,
    relative_gap,
    similarity,
    smoothness,
    spectrum_of_matrix,
    strong_convexity,
)
from proxyprox.advice.sampling import MeteredTarget
from proxyprox.result import Ledger


def symmetric(rng: np.random.Generator, size: int) -> np.ndarray:
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    values = np.concatenate([[-3.0, 5.0], rng.uniform(-2, 4, size=size - 2)])
    matrix = basis @ np.diag(values) @ basis.T
    return (matrix + matrix.T) / 2


def test_as_many_steps_as_parameters_give_the_whole_spectrum() -> None:
    rng = np.random.default_rng(0)
    matrix = symmetric(rng, 12)
    space = lanczos(lambda v: matrix @ v, random_direction(np.zeros(12), rng), 20)
    assert space.complete
    assert len(space.basis) == 12
    np.testing.assert_allclose(space.ritz, np.linalg.eigvalsh(matrix), atol=1e-10)


def test_basis_is_orthonormal_and_images_are_products() -> None:
    rng = np.random.default_rng(1)
    matrix = symmetric(rng, 40)
    space = lanczos(lambda v: matrix @ v, rng.standard_normal(40), 15)
    basis = np.stack(space.basis)
    np.testing.assert_allclose(basis @ basis.T, np.eye(15), atol=1e-12)
    np.testing.assert_allclose(np.stack(space.images), basis @ matrix, atol=1e-12)


def test_an_invariant_space_is_found_early() -> None:
    matrix = np.diag([2.0] * 5 + [7.0] * 5)
    space = lanczos(lambda v: matrix @ v, np.random.default_rng(2).standard_normal(10), 10)
    assert space.complete
    np.testing.assert_allclose(space.ritz, [2.0, 7.0])


def test_the_zero_operator_has_a_zero_spectrum() -> None:
    space = lanczos(lambda v: 0.0 * v, np.ones(6), 4)
    assert space.complete
    found = space.spectrum(0.05)
    assert (found.below, found.above) == (0.0, 0.0)


@pytest.mark.parametrize("steps", [8, 12, 20])
def test_limits_hold_far_more_often_than_promised(steps: int) -> None:
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(60):
        matrix = symmetric(rng, 60)
        space = lanczos(lambda v, m=matrix: m @ v, random_direction(np.zeros(60), rng), steps)
        found = space.spectrum(0.025)
        missed += not (found.below <= -3.0 + 1e-9 and found.above >= 5.0 - 1e-9)
        assert space.ritz[-1] <= 5.0 + 1e-9
        assert space.ritz[0] >= -3.0 - 1e-9
    assert missed <= 3


def test_the_gap_shrinks_with_the_square_of_the_steps() -> None:
    assert relative_gap(41, 100, 0.05) < relative_gap(21, 100, 0.05) / 3.5


MATRIX = np.diag([-0.5, 1.0, 4.0])


def test_a_whole_matrix_leaves_nothing_to_guess() -> None:
    whole = spectrum_of_matrix(MATRIX)
    assert similarity(whole).estimate == pytest.approx(4.0)
    assert similarity(whole).low == similarity(whole).high
    assert similarity(spectrum_of_matrix(-MATRIX)).estimate == pytest.approx(4.0)
    assert smoothness(whole).estimate == pytest.approx(4.0)
    assert strong_convexity(whole).estimate == pytest.approx(-0.5)


def test_errors_of_the_operator_widen_every_interval() -> None:
    blurred = spectrum_of_matrix(MATRIX, error=0.25)
    assert (similarity(blurred).low, similarity(blurred).high) == pytest.approx((3.75, 4.25))
    assert (smoothness(blurred).low, smoothness(blurred).high) == pytest.approx((3.75, 4.25))
    assert strong_convexity(blurred).low == pytest.approx(-0.75)


def test_limits_beyond_the_ritz_values_become_the_upper_limit() -> None:
    partial = Spectrum(np.array([0.1, 2.0]), below=-2.5, above=2.2)
    assert similarity(partial).low == 2.0
    assert similarity(partial).high == 2.5


def test_a_stated_strong_convexity_is_believed_up_to_rounding() -> None:
    partial = Spectrum(np.array([0.3, 2.0]), below=-1.0, above=2.2)
    found = strong_convexity(partial, certified=0.1)
    assert found.low == pytest.approx(0.1)
    assert 0.1 in found
    assert found.high == pytest.approx(0.3)


def test_a_stated_strong_convexity_that_is_wrong_is_not_believed() -> None:
    assert strong_convexity(spectrum_of_matrix(MATRIX), certified=0.0).high < 0


W = np.array([50.0, 20.0])


def value(w: Any) -> float:
    """Nearly linear away from the minimum, as hinge and absolute losses are."""
    return float(np.sqrt(1 + w @ w))


def gradient(w: Any) -> Any:
    return w / np.sqrt(1 + w @ w)


def search(
    objective: Any, length: float, *, probes: int = 24, exact: bool = False
) -> tuple[Any, Ledger]:
    ledger, rng = Ledger(), np.random.default_rng(0)
    target = MeteredTarget(objective, ledger, 16, rng)
    rows = np.stack(target.gradients(W))
    mean = rows.mean(axis=0)
    used = ledger.target_gradients
    flat = spectrum_of_matrix(np.zeros((2, 2)))
    here = Visit(W, rows, mean, len(rows), flat, flat, np.zeros((2, 2)), (), None, rows - mean)
    if exact:
        objective.hvp = lambda w, v: v
    probe = HessianProbe(target, [] if exact else target.batches, [], 0.95, 1, rng)
    point = line_search(probe, here, W - length * mean, probes)
    ledger.target_gradients -= used
    return point, ledger


@pytest.mark.parametrize("length", [1e5, 3e3, 200.0, 54.0, 10.0, 1.0])
def test_a_step_of_any_length_ends_near_where_the_loss_is_least(length: float) -> None:
    point, ledger = search(pp.FunctionObjective(gradient), length)
    assert value(point) < 0.8 * value(W)
    assert ledger.target_gradients <= 24


def test_an_exact_curvature_is_only_shortened() -> None:
    short, _ = search(pp.FunctionObjective(gradient), 1.0, exact=True)
    assert np.linalg.norm(short - W) == pytest.approx(1.0, rel=1e-3)
    long, _ = search(pp.FunctionObjective(gradient), 2e3, exact=True)
    assert value(long) < value(W)


@pytest.mark.parametrize("seed", range(5))
def test_one_batch_that_points_elsewhere_does_not_decide(seed: int) -> None:
    draws = np.random.default_rng(seed)
    noise = 2.0 * draws.standard_normal((16, 2))
    # The first batch falls where all together rise: alone it would let every step pass.
    noise[0] = -3.0 * gradient(W)
    noise -= noise.mean(axis=0)
    batches = iter(noise)
    noisy = pp.FunctionObjective(lambda w, b: gradient(w) + b, sample=lambda rng: next(batches))
    point, ledger = search(noisy, 1e4)
    assert value(point) < value(W)
    assert ledger.target_gradients <= 24


def test_where_every_point_ahead_is_lost_there_is_none() -> None:
    cliff = pp.FunctionObjective(lambda w: gradient(w) if np.allclose(w, W) else w * np.nan)
    point, ledger = search(cliff, 10.0, probes=3)
    assert point is None
    assert ledger.target_gradients == 3
