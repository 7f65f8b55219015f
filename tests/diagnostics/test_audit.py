"""Audits of sampled targets: exact values lie within the limits, the budget is kept."""

from __future__ import annotations

import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.diagnostics.audit import audit
from proxyprox.diagnostics.report import Verdict
from proxyprox.inner.base import NonFiniteError
from proxyprox.problems import MixedProxy
from tests.runs import logistic


def true_values(target, proxy, w):
    """Return δ, H, μ and σ² at a point."""
    A = target.hessian(w)
    H = np.linalg.eigvalsh(A)
    found = {"delta": np.abs(np.linalg.eigvalsh(A - proxy.hessian(w))).max()}
    found |= {"H": H[-1], "mu": H[0]}
    count = target.samples(target.everything())
    rows = np.stack([target.gradient(w, np.array([i])) for i in range(count)])
    size = target.samples(target.sample(np.random.default_rng(0)))
    return found | {"sigma2": rows.var(axis=0).sum() / size}


def test_estimates_at_every_point_hold_the_exact_values(target, subsampled):
    assert len(subsampled.points) == 3
    for point in subsampled.points:
        assert point.in_full
        for name, value in true_values(target, subsampled.problem.proxy, point.w).items():
            assert value in getattr(point, name), name
    assert subsampled.delta.high == max(p.delta.high for p in subsampled.points)
    assert subsampled.mu.low == min(p.mu.low for p in subsampled.points)
    again = audit(subsampled.problem, rng=0)
    for name in ("delta", "sigma2", "prediction"):
        assert getattr(again, name) == getattr(subsampled, name)


def test_lanczos_serves_where_the_whole_hessian_is_too_expensive():
    loss = logistic(400, 60, np.geomspace(1, 0.05, 60), 3, l2=1e-3, batch_size=64)
    proxy = loss.subsample(100, rng=2)
    found = audit(pp.Problem(loss, proxy), budget=170, rng=0)
    assert found.ledger.target_gradients <= 170
    assert [point.in_full for point in found.points] == [False, False, True]
    for point in found.points:
        for name, value in true_values(loss, proxy, point.w).items():
            assert value in getattr(point, name), name
        assert point.delta.high < 3 * point.delta.low


def test_the_budget_is_kept_and_the_ledger_complete(target):
    asked = []

    class Watched(pp.GLM):
        def gradient(self, w, batch=None):
            asked.append("gradient")
            return super().gradient(w, batch)

        def hvp(self, w, v):
            asked.append("hvp")
            return super().hvp(w, v)

    loss = Watched(target.design.X, target.targets, type(target.family)(), l2=1e-3, batch_size=64)
    found = audit(pp.Problem(loss, target.label_free()), budget=200, rng=0)
    assert len(asked) == found.ledger.target_gradients <= 200
    # 16 batches of 64 rows are bought once, whatever the number of points they are seen at.
    assert (found.ledger.target_samples - 16 * 64) % 400 == 0
    assert found.ledger.seconds > 0


def test_verdicts_from_perfect_to_adversarial(target):
    loss = pp.linear_regression(target.design.X, target.targets, l2=1e-3, batch_size=64)
    strange = np.random.default_rng(8).standard_normal(target.design.X.shape)
    free = loss.label_free()

    class Negative(MixedProxy):
        def __init__(self):
            super().__init__([free], [1.0])
            self.weights = (-1.0,)

    for proxy, verdict, kind in (
        (free, Verdict.USE, type(free)),
        (MixedProxy([free], [1e-3]), Verdict.USE_SCALED, MixedProxy),
        (loss.label_free(strange), Verdict.DO_NOT_USE, pp.problems.Zero),
        (Negative(), Verdict.DO_NOT_USE, pp.problems.Zero),
    ):
        found = audit(pp.Problem(loss, proxy), rng=1)
        assert found.verdict is verdict
        assert type(found.recommended.proxy) is kind
        if verdict is Verdict.USE_SCALED:
            assert found.scale * proxy.weights[0] == pytest.approx(1.0, rel=0.05)
        assert any("sign" in reason for reason in found.reasons) == isinstance(proxy, Negative)


def test_bad_arguments_are_named_before_anything_is_spent(target):
    problem = pp.Problem(target, target.label_free())
    for name, value in (
        ("budget", 20), ("epsilon", -1.0), ("points", 0), ("batches", 2),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=name):
            audit(problem, **{name: value})
    once = pp.FunctionObjective(target.gradient, sample=target.sample, repeatable=False)
    lost = pp.FunctionObjective(lambda w: w * math.nan)
    for given, word, options in (
        (pp.Problem(target), "problem", {}),
        (target, "Problem", {}),
        (pp.Problem(once, target.label_free()), "repeatable", {}),
        (pp.Problem(lost, pp.Quadratic(np.eye(2))), "target", {"w0": np.ones(2)}),
    ):
        with pytest.raises((TypeError, ValueError, NonFiniteError), match=word):
            audit(given, **options)


def test_torch_models_are_audited_with_their_own_products():
    torch = pytest.importorskip("torch")
    inputs = torch.randn(200, 4, generator=torch.Generator().manual_seed(0)).double()

    def loss(w, rows):
        return torch.nn.functional.softplus(inputs[rows] @ w).mean() + 5e-3 * (w @ w)

    slope = torch.func.grad(loss)

    def product(rows):
        return lambda w, v: torch.func.grad(lambda u: slope(u, rows) @ v)(w)

    every, few, zero = torch.arange(200), torch.arange(60), torch.zeros(4, dtype=torch.float64)
    goal = pp.FunctionObjective(
        slope, value=lambda w: loss(w, every), everything=lambda: every, hvp=product(every),
        sample=lambda rng: torch.tensor(rng.integers(200, size=32)),
    )  # fmt: skip
    proxy = pp.FunctionProxy(lambda w: loss(w, few), lambda w: slope(w, few), hvp=product(few))
    start = audit(pp.Problem(goal, proxy), zero, rng=0).points[0]
    X = inputs.numpy()
    A, P = (part.T @ part / (4 * len(part)) + 0.01 * np.eye(4) for part in (X, X[:60]))
    assert float(np.linalg.eigvalsh(A)[-1]) in start.H
    assert float(np.abs(np.linalg.eigvalsh(A - P)).max()) in start.delta
