"""Krylov spaces, intervals of eigenvalues, the noise of batches, the length of a step."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.diagnostics.audit import line_search
from proxyprox.diagnostics.curvature import (
    HessianProbe,
    MeteredTarget,
    Visit,
    lanczos,
    noise_level,
    random_direction,
    spectrum_of_matrix,
)
from proxyprox.result import Ledger


def symmetric(rng, size):
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    values = np.concatenate([[-3.0, 5.0], rng.uniform(-2, 4, size=size - 2)])
    matrix = basis @ np.diag(values) @ basis.T
    return (matrix + matrix.T) / 2


def test_krylov_spaces_are_orthonormal_and_end_when_they_are_invariant():
    rng = np.random.default_rng(0)
    matrix = symmetric(rng, 40)
    space = lanczos(lambda v: matrix @ v, rng.standard_normal(40), 15)
    basis = space.basis
    np.testing.assert_allclose(basis @ basis.T, np.eye(15), atol=1e-12)
    np.testing.assert_allclose(space.images, basis @ matrix, atol=1e-12)
    assert not space.complete
    for matrix, expected in (
        (symmetric(rng, 12), None),
        (np.diag([2.0] * 5 + [7.0] * 5), [2.0, 7.0]),
        (np.zeros((6, 6)), [0.0]),
    ):
        start = random_direction(np.zeros(len(matrix)), rng)
        space = lanczos(lambda v, m=matrix: m @ v, start, 20)
        assert space.complete
        expected = np.linalg.eigvalsh(matrix) if expected is None else expected
        np.testing.assert_allclose(space.ritz, expected, atol=1e-10)
        found = space.spectrum(0.05)
        assert (found.below, found.above) == (space.ritz[0], space.ritz[-1])


@pytest.mark.parametrize("n", [8, 16])
@pytest.mark.parametrize("decay", [1.0, 1e-6, 0.7, None])
def test_intervals_hold_the_true_variance(decay, n):
    """Noise in every direction, in one, in few; None: with heavy tails."""
    rng = np.random.default_rng(0)
    scales = (decay or 0.9) ** np.arange(30)
    held = 0
    for _ in range(200):
        noise = rng.standard_normal((n, 30))
        if decay is None:
            noise = rng.standard_t(6, size=(n, 30)) * np.sqrt(4 / 6)
        held += float(np.sum(scales**2)) in noise_level(5.0 + noise * scales, 0.95)
    assert held >= 180


W = np.array([50.0, 20.0])


def value(w):
    """Nearly linear away from the minimum, as hinge and absolute losses are."""
    return float(np.sqrt(1 + w @ w))


def gradient(w):
    return w / np.sqrt(1 + w @ w)


def search(objective, length, *, probes=24, exact=False):
    ledger, rng = Ledger(), np.random.default_rng(0)
    target = MeteredTarget(objective, ledger, 16, rng)
    rows = np.stack(target.gradients(W))
    mean = rows.mean(axis=0)
    used = ledger.target_gradients
    flat = spectrum_of_matrix(np.zeros((2, 2)))
    here = Visit(W, rows, mean, len(rows), flat, flat, np.zeros((2, 2)), (), None, rows - mean)
    probe = HessianProbe(target, [] if exact else target.batches, [], 1, rng)
    point = line_search(probe, here, W - length * mean, probes)
    return point, ledger.target_gradients - used


def test_a_step_of_any_length_ends_near_where_the_loss_is_least():
    for length in (1e5, 3e3, 200.0, 54.0, 10.0, 1.0):
        point, used = search(pp.FunctionObjective(gradient), length)
        assert value(point) < 0.8 * value(W)
        assert used <= 24
    # With the loss's own curvature a step is only shortened.
    short, _ = search(pp.FunctionObjective(gradient), 1.0, exact=True)
    assert np.linalg.norm(short - W) == pytest.approx(1.0, rel=1e-3)
    long, _ = search(pp.FunctionObjective(gradient), 2e3, exact=True)
    assert value(long) < value(W)
    cliff = pp.FunctionObjective(lambda w: gradient(w) if np.allclose(w, W) else w * np.nan)
    assert search(cliff, 10.0, probes=3) == (None, 3)
