"""The example AcceleratedSliding against its published iteration."""

import math

import numpy as np

from accelerated_sliding import AcceleratedSliding
from proxyprox import Problem, Quadratic, minimize
from proxyprox.stopping import Residual

D = 30


def sliding_pair(ratio, seed=0):
    """Target and proxy: ``L = L̂ + h`` with h's curvature from 1 to ``ratio``.

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
    return Quadratic((A + A.T) / 2, b), Quadratic((P + P.T) / 2)


def constants(target, proxy):
    mu = np.linalg.eigvalsh(target.P)[0]
    delta = np.linalg.norm(target.P - proxy.P, 2)
    return mu, delta


def test_iteration_is_the_published_one():
    target, proxy = sliding_pair(20.0)
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
