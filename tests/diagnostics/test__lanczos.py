from __future__ import annotations

import numpy as np
import pytest

from proxyprox.diagnostics.curvature import lanczos, random_direction, relative_gap, spectrum_limits


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
    assert len(space.alphas) == 12
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
    assert spectrum_limits(space, 6, 0.05) == (0.0, 0.0)


@pytest.mark.parametrize("steps", [8, 12, 20])
def test_limits_hold_far_more_often_than_promised(steps: int) -> None:
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(100):
        matrix = symmetric(rng, 60)
        space = lanczos(lambda v, m=matrix: m @ v, random_direction(np.zeros(60), rng), steps)
        low, high = spectrum_limits(space, 60, 0.025)
        missed += not (low <= -3.0 + 1e-9 and high >= 5.0 - 1e-9)
        assert space.ritz[-1] <= 5.0 + 1e-9
        assert space.ritz[0] >= -3.0 - 1e-9
    assert missed <= 5


def test_the_gap_shrinks_with_the_square_of_the_steps() -> None:
    assert relative_gap(41, 100, 0.05) < relative_gap(21, 100, 0.05) / 3.5
