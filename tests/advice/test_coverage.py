"""The stated intervals against exact values; ``benchmarks/audit_coverage.py`` runs 200 of each."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.advice.audit import audit

CASES = 10


def quadratic(rng: np.random.Generator) -> pp.Problem:
    d = 10
    root, tilt = rng.standard_normal((2, d, d)) / np.sqrt(d)
    P = root @ root.T
    target = pp.Quadratic(P, b=rng.standard_normal(d), noise=0.3)
    return pp.Problem(target, pp.Quadratic(P + 0.1 * (tilt + tilt.T)))


def regression(rng: np.random.Generator) -> pp.Problem:
    X = rng.standard_normal((200, 8)) * np.geomspace(1, 0.1, 8)
    y = X @ rng.standard_normal(8) + rng.logistic(size=200) > 0
    target = pp.logistic_regression(X, y, l2=1e-2, batch_size=16)
    return pp.Problem(target, target.subsample(50, rng=rng))


@pytest.mark.parametrize("make", [quadratic, regression])
@pytest.mark.parametrize("curvature", ["hvp", "secants"])
def test_intervals_hold(make: object, curvature: str) -> None:
    held: Counter[str] = Counter()
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        problem = make(rng)  # type: ignore[operator]
        target, proxy = problem.objective, problem.proxy
        w = rng.standard_normal(target.dim) / 3
        found = audit(problem, w, points=1, curvature=curvature, rng=rng)
        A = target.hessian(w)
        values = np.linalg.eigvalsh(A)
        held["H"] += values[-1] in found.H
        held["mu"] += values[0] in found.mu
        held["delta"] += np.abs(np.linalg.eigvalsh(A - proxy.hessian(w))).max() in found.delta
        if isinstance(target, pp.Quadratic):
            sigma2 = target.noise**2
        else:
            rows = np.stack([target.gradient(w, np.array([i])) for i in range(200)])
            sigma2 = rows.var(axis=0).sum() / 16
        held["sigma2"] += sigma2 in found.sigma2
    assert min(held.values()) >= 0.9 * CASES, held
