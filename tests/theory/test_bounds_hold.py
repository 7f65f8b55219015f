"""Measured errors against the theorems, where δ, σ and μ are known exactly.

An expectation is estimated by a mean over 25 seeds or more; the bound must exceed the mean by three
standard errors, so that the expectation itself lies below it with about 99.8 % confidence.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

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


def mean_and_error(samples):
    return np.mean(samples), np.std(samples, ddof=1) / math.sqrt(len(samples))


def suboptimalities(problem, target, best, w0, seeds=SEEDS, **call):
    found = []
    for seed in range(seeds):
        result = pp.minimize(problem, w0, rng=seed, **call)
        assert result.trace["held"].all()
        found.append(target.value(result.w) - best)
    return found


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
    errors = suboptimalities(
        pp.Problem(target, proxy), target, target.value(best), w0, method=pp.ProxyProx(eta),
        steps=K, averaging=pp.averaging.Geometric(mu), stop=pp.stopping.StronglyConvex(mu, G),
        inner=pp.inner.Nesterov(),
    )  # fmt: skip
    mean, error = mean_and_error(errors)
    assert mean + 3 * error <= bound


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_convex_by_regularisation(seed):
    sigma, K = (0.0, 0.5, 2.0)[seed], (4, 15, 30)[seed]
    rng = np.random.default_rng(seed)
    d = 5
    # Two flat directions: L is convex, not strongly so, and b keeps it bounded below.
    P = spectrum(rng, np.r_[0.0, 0.0, rng.uniform(0.5, 10.0, size=d - 2)])
    best = rng.normal(size=d)
    delta = float(rng.uniform(0.05, 1.0))
    h = spectrum(rng, delta * np.r_[1.0, rng.uniform(-1, 1, size=d - 1)])
    target = pp.Quadratic(P, b=-P @ best, noise=sigma)
    proxy = pp.Quadratic(P - h, b=rng.normal(size=d))
    w0 = np.zeros(d)
    # The nearest minimiser to w0 = 0.
    B = float(np.linalg.norm(np.linalg.pinv(P) @ P @ best))
    eta, G = theory.largest_step_size(delta), 0.0
    mu = theory.convex_regularization(eta=eta, steps=K)
    errors = suboptimalities(
        pp.problems.regularized(pp.Problem(target, proxy), mu, w0), target, target.value(best), w0,
        method=pp.ProxyProx(eta), steps=K, averaging=pp.averaging.Uniform(),
        stop=pp.stopping.Convex(K, G),
        inner=pp.inner.GradientDescent(),
    )  # fmt: skip
    mean, error = mean_and_error(errors)
    bound = theory.guarantee(eta=eta, steps=K, B=B, sigma=sigma, delta=delta, G=G)
    assert mean + 3 * error <= bound


class Wavy:
    """``Σ a w²/2 + c cos w``, non-convex for c > a, with an exact constant for the difference."""

    def __init__(self, a, c, noise=0.0):
        self.a, self.c, self.noise = a, c, noise

    def value(self, w):
        return float(np.sum(self.a * w**2 / 2 + self.c * np.cos(w)))

    def gradient(self, w, batch=0.0):
        return self.a * w - self.c * np.sin(w) + batch

    def hvp(self, w, v):
        return (self.a - self.c * np.cos(w)) * v

    def sample(self, rng):
        return rng.normal(scale=self.noise / 2, size=4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_nonconvex(seed):
    rng = np.random.default_rng(seed)
    a, c = 1.0, float(rng.uniform(1.5, 3.0))
    shift_a, shift_c = rng.uniform(-0.3, 0.3, size=2)
    sigma, K = (0.0, 0.3, 1.0)[seed], (3, 10, 25)[seed]
    target, proxy = Wavy(a, c, sigma), Wavy(a - shift_a, c - shift_c)
    # h = shift_a w²/2 + shift_c cos w per coordinate: |h''| ≤ |shift_a| + |shift_c|.
    delta = abs(shift_a) + abs(shift_c)
    eta = theory.largest_step_size(delta)
    grid = np.linspace(-7, 7, 20001)
    best = 4 * float(np.min(a * grid**2 / 2 + c * np.cos(grid)))
    w0 = rng.normal(scale=2.0, size=4)
    bound = theory.nonconvex_guarantee(
        eta=eta, steps=K, initial_gap=target.value(w0) - best, sigma=sigma, delta=delta
    )
    squares = []
    for run in range(SEEDS):
        seen = []
        result = pp.minimize(
            pp.Problem(target, proxy), w0, method=pp.ProxyProx(eta), steps=K, rng=run,
            stop=pp.stopping.NonConvex(), inner=pp.inner.NewtonCG(),
            callback=lambda step, seen=seen: seen.append(target.gradient(step.w)),
        )  # fmt: skip
        assert result.trace["held"].all()
        squares.append(np.mean([g @ g for g in seen]))
    mean, error = mean_and_error(squares)
    assert mean + 3 * error <= bound


@pytest.mark.slow
@pytest.mark.parametrize("family", ["logistic", "softmax"])
def test_label_free_classification_has_no_similarity_limit(family):
    """δ = 0 exactly: the bound holds for any η, however large."""
    rng = np.random.default_rng(1)
    n, d, mu = 120, 3, 0.05
    X = rng.normal(size=(n, d))
    classes = 2 if family == "logistic" else 3
    y = np.r_[np.arange(classes), rng.integers(0, classes, n - classes)]
    build = pp.logistic_regression if family == "logistic" else pp.softmax_regression
    target = build(X, y, l2=mu, batch_size=10)
    w0 = np.zeros(target.dim)
    exact = scipy_minimize(target.value, w0, jac=target.gradient, method="BFGS", tol=1e-10).x
    # Each row's gradient is x (p − t): E‖·‖² ≤ 2 max‖x‖² over the batch of 10, for any w.
    sigma = math.sqrt(2 * np.mean(np.sum(X**2, axis=1)) / 10)
    for eta, K in ((0.5, 20), (20.0, 10)):
        errors = suboptimalities(
            pp.Problem(target, target.label_free()), target, target.value(exact), w0,
            method=pp.ProxyProx(eta), steps=K, averaging=pp.averaging.Geometric(mu),
            stop=pp.stopping.StronglyConvex(mu), seeds=25,
        )  # fmt: skip
        bound = theory.guarantee(
            eta=eta, steps=K, mu=mu, B=float(np.linalg.norm(exact)), sigma=sigma, delta=0.0
        )
        mean, error = mean_and_error(errors)
        assert mean + 3 * error <= bound


def test_the_step_size_condition_is_not_idle():
    """With h concave the step 1/η must outweigh it: at η = 1/(4δ) fine, at 2/δ it diverges."""
    delta = 1.0
    target = pp.Quadratic(np.diag([1.0, 1.0 + 4 * delta]))
    proxy = pp.Quadratic(np.diag([1.0, 1.0]))  # δ = 4 in the second coordinate
    w0 = np.ones(2)

    def final(eta):
        result = pp.minimize(pp.Problem(target, proxy), w0, method=pp.ProxyProx(eta), steps=60)
        return target.value(result.last)

    allowed = theory.largest_step_size(4 * delta)
    bound = theory.guarantee(eta=allowed, steps=60, mu=1.0, B=math.sqrt(2), sigma=0.0, delta=4.0)
    assert final(allowed) <= bound
    assert final(32 * allowed) > 1e3 * bound
    with pytest.raises(ValueError, match="eta must be at most"):
        theory.guarantee(eta=32 * allowed, steps=60, mu=1.0, B=math.sqrt(2), sigma=0.0, delta=4.0)


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


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.0, 0.02])
def test_solved_subproblems_on_logistic_losses(mu):
    """δ is a supremum over all w: rows of h count with weights of either sign, curvature ≤ ¼."""
    rng = np.random.default_rng(4)
    n, m, d, batch = 120, 40, 4, 10
    X = rng.normal(size=(n, d)) * np.geomspace(1, 0.2, d)
    y = X @ rng.normal(size=d) + rng.logistic(size=n) > 0
    target = pp.logistic_regression(X, y, l2=mu, batch_size=batch)
    proxy = pp.logistic_regression(X[:m], y[:m], l2=mu)
    counts = np.where(np.arange(n) < m, 1 / n - 1 / m, 1 / n)
    parts = [X[sign * counts > 0].T * abs(counts[sign * counts > 0]) for sign in (1, -1)]
    delta = max(
        np.linalg.norm(part @ X[s * counts > 0], 2) / 4
        for part, s in zip(parts, (1, -1), strict=True)
    )
    exact = scipy_minimize(
        target.value, np.zeros(d), jac=target.gradient, method="BFGS", tol=1e-10
    ).x
    sigma, B = math.sqrt(np.mean(np.sum(X**2, axis=1)) / batch), float(np.linalg.norm(exact))
    for share, K in ((1.0, 12), (0.2, 30)):
        eta = share / delta
        errors = []
        for seed in range(25):
            result = pp.minimize(
                pp.Problem(target, proxy), np.zeros(d), method=pp.ProxyProx(eta), steps=K, rng=seed,
                averaging=pp.averaging.Geometric(2.5 * mu / (1 + eta * delta)),
                stop=pp.stopping.Residual(1e-9),
            )  # fmt: skip
            errors.append(target.value(result.w) - target.value(exact))
        mean, error = mean_and_error(errors)
        assert mean + 3 * error <= theory.guarantee(
            eta=eta, steps=K, B=B, sigma=sigma, delta=delta, mu=mu, solved=True
        )
