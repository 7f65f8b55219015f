"""The example AcceleratedSliding against its published iteration, and its rate."""

import math

import numpy as np
import pytest

from accelerated_sliding import AcceleratedSliding
from proxyprox import Problem, Quadratic, minimize
from proxyprox.stopping import Residual

D = 30
ACCURACY = 1e-4


def sliding_pair(ratio, seed=0):
    """Target, proxy and minimiser: ``L = L̂ + h`` with h's curvature from 1 to ``ratio``.

    The proxy is stiff in half of the directions, and leaves those of h's extreme curvatures
    alone, so that μ = 1 and δ = ratio.
    """
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(D, D)))[0]
    h = rotation @ np.diag(np.geomspace(1.0, ratio, D)) @ rotation.T
    half = rotation[:, 1:-1] @ rng.normal(size=(D - 2, D // 2))
    P = half @ half.T * 100 * ratio / D
    A = h + P
    b = rng.normal(size=D)
    return Quadratic((A + A.T) / 2, b), Quadratic((P + P.T) / 2), np.linalg.solve(A, -b)


def constants(target, proxy):
    mu = np.linalg.eigvalsh(target.P)[0]
    delta = np.linalg.norm(target.P - proxy.P, 2)
    return mu, delta


def gradients_needed(target, proxy, exact, method, limit):
    """Target gradients until ‖w − w*‖ ≤ 10⁻⁴ ‖w*‖."""
    goal = ACCURACY * np.linalg.norm(exact)
    result = minimize(
        Problem(target, proxy), np.zeros(D), method=method, budget=limit, stop=Residual(1e-13),
        callback=lambda step: np.linalg.norm(step.w - exact) <= goal,
    )  # fmt: skip
    assert np.linalg.norm(result.w - exact) <= goal
    return result.ledger.target_gradients


def sliding_needs(ratio):
    """Target gradients that AcceleratedSliding needs with the right constants."""
    target, proxy, exact = sliding_pair(ratio)
    mu, delta = constants(target, proxy)
    method = AcceleratedSliding(delta=delta, mu=mu)
    return gradients_needed(target, proxy, exact, method, limit=20_000)


def test_iteration_is_the_published_one():
    target, proxy, _ = sliding_pair(20.0)
    mu, delta = constants(target, proxy)
    tau, gamma = math.sqrt(mu / delta) / 2, 1 / (2 * math.sqrt(mu * delta))
    x = w = np.ones(D)
    for _ in range(4):
        x_g = tau * x + (1 - tau) * w
        # argmin of L̂(u) + ⟨∇h(x_g), u⟩ + δ‖u − x_g‖².
        grad_h = (target.P - proxy.P) @ x_g + target.b
        w = np.linalg.solve(proxy.P + 2 * delta * np.eye(D), 2 * delta * x_g - grad_h)
        x = x + gamma * mu * (w - x) - gamma * (target.P @ w + target.b)
    method = AcceleratedSliding(delta=delta, mu=mu)
    result = minimize(
        Problem(target, proxy), np.ones(D), method=method, steps=8, stop=Residual(1e-12)
    )
    np.testing.assert_allclose(result.w, w, atol=1e-9)
    assert result.ledger.target_gradients == 8


@pytest.mark.slow
def test_target_gradients_grow_like_the_root():
    needed = {}
    for ratio in (1e2, 1e4):
        mu, delta = constants(*sliding_pair(ratio)[:2])
        assert delta / mu == pytest.approx(ratio, rel=1e-6)
        needed[ratio] = sliding_needs(ratio)
        # Two gradients an iteration, each of which gains about 1 − τ, τ = √(μ/δ)/2.
        assert needed[ratio] <= 4 * 2 * math.sqrt(delta / mu) * math.log(1 / ACCURACY)
    # 100 times the ratio: ten times the gradients, not a hundred.
    assert 8 < needed[1e4] / needed[1e2] < 13


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_similarity_below_mu_halves_the_error_each_iteration(delta):
    target, _, exact = sliding_pair(10.0)
    mu = np.linalg.eigvalsh(target.P)[0]
    proxy = Quadratic(target.P - delta * np.eye(D))
    method = AcceleratedSliding(delta=delta, mu=mu)
    needed = gradients_needed(target, proxy, exact, method, limit=400)
    assert needed <= 2 * 2 * math.log2(1 / ACCURACY)
