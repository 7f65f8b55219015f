from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

from proxyprox.diagnostics.rehearsal import best_weights


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
