"""Paired and tilted losses against finite differences and against their definition."""

from __future__ import annotations

import numpy as np
import pytest

from proxyprox import Quadratic, logistic_regression
from proxyprox.problems.combination import PairedLoss, Tilted


@pytest.fixture
def loss():
    rng = np.random.default_rng(0)
    X, more = rng.normal(size=(40, 3)), rng.normal(size=(90, 3))
    y, f, F = (rng.integers(2, size=n) for n in (40, 40, 90))
    parts = (logistic_regression(X, y), logistic_regression(X, f), logistic_regression(more, F))
    return PairedLoss(*parts, power=0.4)


def test_derivatives(loss):
    w, v, h = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0]), 1e-5
    slope = (loss.value(w + h * v) - loss.value(w - h * v)) / (2 * h)
    assert slope == pytest.approx(loss.gradient(w) @ v, rel=1e-6)
    bend = (loss.gradient(w + h * v) - loss.gradient(w - h * v)) / (2 * h)
    np.testing.assert_allclose(bend, loss.hvp(w, v), rtol=1e-6)
    np.testing.assert_allclose(loss.hessian(w) @ v, loss.hvp(w, v))


def test_batches_pair_label_and_teacher(loss):
    w = np.zeros(3)
    batch = np.array([0, 3, 3])
    target, same = loss.labels.gradient(w, batch), loss.same.gradient(w, batch)
    expected = target - 0.4 * (same - loss.all.gradient(w))
    np.testing.assert_allclose(loss.gradient(w, batch), expected)
    assert loss.samples(batch) == 3
    assert loss.samples(loss.everything()) == 40
    assert loss.sample(np.random.default_rng(0)) is None


def test_tilted_adds_a_line():
    flat = Quadratic(np.diag([1.0, 4.0]))
    tilted = Tilted(flat, np.array([1.0, -2.0]))
    w = np.array([0.5, 0.25])
    assert tilted.value(w) == pytest.approx(flat.value(w) + 0.0)
    np.testing.assert_allclose(tilted.gradient(w), flat.gradient(w) + tilted.tilt)
    np.testing.assert_allclose(tilted.hessian(w), flat.hessian(w))
    with pytest.raises(ValueError, match="of length 2"):
        Tilted(flat, np.zeros(3))
