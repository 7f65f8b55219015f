"""On many random problems, what a run records of each inner solve is recomputed from scratch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import proxyprox as pp

EPS = np.finfo(float).eps
BLOCKS, PER_BLOCK = 13, 20


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def draw_glm(rng):
    n, d = int(rng.integers(15, 40)), int(rng.integers(1, 5))
    X, l2 = rng.normal(size=(n, d)), float(rng.choice([0.0, 0.05, 1.0]))
    kind = rng.choice(["linear", "logistic", "poisson"])
    options = {"l2": l2, "batch_size": int(rng.integers(1, n))}
    if kind == "linear":
        target = pp.linear_regression(X, rng.normal(size=n), **options)
        mean = lambda z: z  # noqa: E731
    elif kind == "logistic":
        target = pp.logistic_regression(X, rng.integers(0, 2, n), classes=(0, 1), **options)
        mean = sigmoid
    else:
        target = pp.poisson_regression(X, rng.poisson(1.0, n), **options)
        mean = np.exp
    rows = rng.choice(n, size=max(3, n // 2), replace=False)
    proxy = target.rows(rows)

    # The proxy's gradient in NumPy alone; its labels are known to its target only.
    def gradient(w):
        return X[rows].T @ (mean(X[rows] @ w) - target.targets[rows]) / len(rows) + l2 * w

    return target, proxy, gradient, d


def draw_quadratic(rng):
    d = int(rng.integers(1, 7))
    A = rng.normal(size=(d, d))
    P, b = A @ A.T / d, rng.normal(size=d)
    target = pp.Quadratic(P + 0.2 * np.eye(d), b=rng.normal(size=d), noise=float(rng.uniform()))
    return target, pp.Quadratic(P, b=b), (lambda w: P @ w + b), d


def draw_rule(rng):
    mu, G, tol = 10 ** rng.uniform(-3, 0), 10 ** rng.uniform(-7, -1), 10 ** rng.uniform(-6, -1)
    K = int(rng.integers(1, 100))
    bound = 10 ** rng.uniform(-6, -1)
    simple = [
        (
            pp.stopping.StronglyConvex(mu, G),
            lambda eta, D, first: math.sqrt(mu / 4 / eta * D**2 + G**2),
        ),
        (pp.stopping.Convex(K, G), lambda eta, D, first: math.sqrt(D**2 / (4 * eta**2 * K) + G**2)),
        (
            pp.stopping.NonConvex(bound),
            lambda eta, D, first: math.sqrt(7 / (16 * eta**2) * D**2 + bound**2 / 8),
        ),
        (pp.stopping.SDane(), lambda eta, D, first: D / (2 * eta)),
        (pp.stopping.Residual(tol), lambda eta, D, first: tol),
        (pp.stopping.Relative(tol), lambda eta, D, first: tol * first),
    ]
    a, b = (simple[i] for i in rng.choice(len(simple), size=2, replace=False))
    kind = rng.integers(5)
    if kind == 0:
        return a[0] | b[0], lambda *x: max(a[1](*x), b[1](*x)), (a[0], b[0])
    if kind == 1:
        return a[0] & b[0], lambda *x: min(a[1](*x), b[1](*x)), (a[0], b[0])
    if kind == 2:
        return a[0] | pp.stopping.Steps(2), a[1], (a[0],)
    return a[0], a[1], (a[0],)


def draw_penalty(rng):
    alpha = float(rng.uniform(0.01, 0.3))
    if rng.integers(3) == 0:
        return None, lambda w, g: np.linalg.norm(g)

    def distance(w, g):
        nonzero = g + alpha * np.sign(w)
        return np.linalg.norm(np.where(w != 0, nonzero, np.maximum(np.abs(g) - alpha, 0.0)))

    return pp.L1(alpha), distance


def check(seed):
    rng = np.random.default_rng(seed)
    draw = (draw_glm, draw_glm, draw_quadratic)[rng.integers(3)]
    target, proxy, gradient, d = draw(rng)
    stop, threshold, rules = draw_rule(rng)
    capped = "Steps" in repr(stop)
    penalty, distance = draw_penalty(rng)
    eta = float(10 ** rng.uniform(-2, 0.5))
    before = [0.3 * rng.normal(size=d)]
    checked = []

    def callback(step):
        c, w, g = before[0], step.w, step.gradients[0]
        linear = g - gradient(c)
        at_w = gradient(w) + linear + (w - c) / eta
        residual, D = distance(w, at_w), np.linalg.norm(w - c)
        first = distance(c, g)
        # Rounding: each term of the gradient carries its own relative error.
        floor = 1e3 * EPS * sum(np.linalg.norm(v) for v in (g, gradient(c), gradient(w), w / eta))
        bound = threshold(eta, D, first)
        record = step.record
        assert record.eta == eta
        assert record.residual == pytest.approx(residual, rel=1e-9, abs=floor)
        assert record.displacement == pytest.approx(D, rel=1e-9, abs=floor * eta)
        assert record.threshold == pytest.approx(bound, rel=1e-9, abs=floor)
        if not capped:
            assert record.held, "the solver gave up"
        growth_counts = any(isinstance(rule, pp.stopping.NonConvex) for rule in rules)
        if abs(residual - bound) > floor + 1e-9 * bound and not growth_counts:
            assert record.held == (residual <= bound)
            checked.append(record.held)
        elif growth_counts and record.held and len(rules) == 1:
            # The non-convex rule also asks that φ did not grow.
            rise = proxy.value(w) - proxy.value(c) + linear @ (w - c) + D**2 / (2 * eta)
            if penalty is not None:
                rise += penalty.value(w) - penalty.value(c)
            scale = 1 + abs(proxy.value(c)) + abs(linear @ w) + abs(linear @ c)
            assert rise <= 1e3 * EPS * scale
        before[0] = np.array(w)

    result = pp.minimize(
        pp.Problem(target, proxy, penalty), before[0], method=pp.ProxyProx(eta), stop=stop,
        steps=4, rng=int(rng.integers(1 << 30)), callback=callback,
    )  # fmt: skip
    assert result.steps == 4, (seed, result.message)
    return checked


@pytest.mark.parametrize("block", range(BLOCKS))
def test_recorded_residual_threshold_and_verdict(block):
    checked = [held for i in range(PER_BLOCK) for held in check(block * PER_BLOCK + i)]
    # Most verdicts lie clear of rounding.
    assert len(checked) > PER_BLOCK
