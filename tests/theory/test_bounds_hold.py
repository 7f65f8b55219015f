"""Measured errors against the theorems, where δ, σ and μ are known exactly.

An expectation is estimated by a mean over 25 seeds or more; the bound must exceed the mean by three
standard errors, so that the expectation itself lies below it with about 99.8 % confidence.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import theory

SEEDS = 30


def spectrum(rng, values):
    basis, _ = np.linalg.qr(rng.normal(size=(len(values),) * 2))
    P = (basis * values) @ basis.T
    return (P + P.T) / 2


def quadratics(seed, mu, noise):
    """Return a pair whose Hessians differ by exactly δ in spectral norm, and δ."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 9))
    P = spectrum(rng, np.r_[mu, rng.uniform(mu, 20.0, size=d - 1)])
    delta = float(rng.uniform(0.05, 2.0))
    h = spectrum(rng, delta * np.r_[rng.choice([-1, 1]), rng.uniform(-1, 1, size=d - 1)])
    target = pp.Quadratic(P, b=rng.normal(size=d), noise=noise)
    return target, pp.Quadratic(P - h, b=rng.normal(size=d)), delta, d


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_strongly_convex(seed):
    mu, sigma = (0.05, 0.5, 2.0)[seed % 3], (0.0, 0.3, 2.0)[seed // 3 % 3]
    target, proxy, delta, d = quadratics(seed, mu, sigma)
    G, K = (0.0, 0.05)[seed % 2], (5, 20, 40)[seed % 3]
    eta = theory.largest_step_size(delta) * (1.0, 0.3)[seed % 2]
    w0, best = np.ones(d), target.minimiser()
    B = float(np.linalg.norm(w0 - best))
    bound = theory.guarantee(eta=eta, steps=K, mu=mu, B=B, sigma=sigma, delta=delta, G=G)
    errors = []
    for number in range(SEEDS):
        result = pp.minimize(
            pp.Problem(target, proxy), w0, method=pp.ProxyProx(eta), steps=K, rng=number,
            averaging=pp.averaging.Geometric(mu), stop=pp.stopping.StronglyConvex(mu, G),
            inner=pp.inner.NewtonCG(),
        )  # fmt: skip
        assert result.trace["held"].all()
        errors.append(target.value(result.w) - target.value(best))
    assert np.mean(errors) + 3 * np.std(errors, ddof=1) / math.sqrt(SEEDS) <= bound


def excess_of_exact_solves(A, P, Sigma, e, eta, weights):
    """Return E L(w̄) − L* in closed form: every ξ_j has its own factor in the average."""
    d = len(A)
    inverse = np.linalg.inv(P + np.eye(d) / eta)
    M, tail = np.eye(d) - inverse @ A, np.zeros((d, d))
    total = 0.0
    for weight in weights[::-1]:
        tail = weight * np.eye(d) + tail @ M
        factor = tail @ inverse
        total += np.trace(factor.T @ A @ factor @ Sigma) / 2
    bias = tail @ M @ e
    return total + bias @ A @ bias / 2


def test_solved_subproblems_on_random_quadratics():
    """No violation; and the bound is not idle."""
    closest = 0.0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        d, K = int(rng.integers(1, 6)), int(rng.integers(1, 25))
        mu = float(rng.choice([0.0, 0.01, 0.3]))
        A = spectrum(rng, np.r_[mu, mu + 10.0 ** rng.uniform(-2, 1, d - 1)])
        h = spectrum(rng, rng.uniform(-1, 1, d) * 10.0 ** rng.uniform(-2, 1))
        # The proxy must be convex: what is below zero is cut off, and δ is measured after that.
        values, basis = np.linalg.eigh(A - h)
        P = (basis * np.maximum(values, 0.0)) @ basis.T
        delta = float(np.linalg.norm(A - P, 2))
        root = rng.normal(size=(d, d)) * rng.choice([0.0, 0.1, 2.0])
        Sigma, e = root @ root.T, rng.normal(size=d)
        eta = float(rng.choice([1.0, 0.5, 0.1])) / max(delta, 1e-3)
        q = 1 + eta * mu / (1 + eta * delta)
        weights = q ** np.arange(K)
        sigma2 = float(np.trace(Sigma))
        through = np.trace(np.linalg.solve(np.eye(d) + eta * P, Sigma)) / (sigma2 or 1.0)
        bound = theory.guarantee(
            eta=eta, steps=K, B=float(np.linalg.norm(e)), sigma=math.sqrt(sigma2), delta=delta,
            mu=mu, solved=True, share=min(float(through), 1.0) if sigma2 else 1.0,
        )  # fmt: skip
        excess = excess_of_exact_solves(A, P, Sigma, e, eta, weights / weights.sum())
        assert excess <= bound * (1 + 1e-9)
        closest = max(closest, excess / bound)
    assert closest > 0.3
