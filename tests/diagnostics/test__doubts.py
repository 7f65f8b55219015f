from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proxyprox as pp
from proxyprox.diagnostics import Audit, Verdict, audit, plan

ROWS, SIZE = 2000, 10


def kinked(X: Any, y: Any, width: float, sign: float = 1.0) -> tuple[Any, Any]:
    """Return the hinge loss, its corner rounded over a width, with a little l2."""

    def value(w: Any) -> float:
        short = 1 - y * (X @ w)
        bent = np.where(short < width, np.maximum(short, 0) ** 2 / (2 * width), short - width / 2)
        return sign * float(bent.mean() + 5e-4 * w @ w)

    def gradient(w: Any, rows: Any = slice(None)) -> Any:
        part = X[rows]
        pull = -y[rows] * np.clip((1 - y[rows] * (part @ w)) / width, 0, 1)
        return sign * (part.T @ pull / len(part) + 1e-3 * w)

    return value, gradient


def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    scales = np.geomspace(1, 0.1, SIZE)
    X = rng.standard_normal((ROWS, SIZE)) * scales
    z = X @ (rng.standard_normal(SIZE) / scales)
    return X, np.where(z + rng.logistic(size=ROWS) > 0, 1.0, -1.0)


def sampled(value: Any, gradient: Any, batch: int) -> pp.FunctionObjective:
    return pp.FunctionObjective(
        gradient, value=value, sample=lambda rng: rng.integers(ROWS, size=batch)
    )


def hinge_audit(batch: int, seed: int, *, sign: float = 1.0, budget: int = 400) -> Audit:
    X, y = rows()
    target = sampled(*kinked(X, y, 0.1), batch)
    value, gradient = kinked(X[:200], y[:200], 0.1, sign)
    proxy = pp.FunctionProxy(value, lambda w: gradient(w))
    return audit(pp.Problem(target, proxy), np.zeros(SIZE), epsilon=5e-3, rng=seed, budget=budget)


@pytest.mark.parametrize("batch", [32, 256])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_loss_with_kinks_is_walked_down_and_the_audit_unsure(batch: int, seed: int) -> None:
    found = hinge_audit(batch, seed)
    assert not found.alarm
    values = [found.problem.objective.value(point.w) for point in found.points]
    assert len(values) == 3
    assert values == sorted(values, reverse=True)
    assert found.verdict is Verdict.UNSURE
    assert found.leaning is not Verdict.UNSURE
    assert found.sentence.startswith("Unsure, see below; the rehearsal alone says “")
    words = str(found)
    assert "does not explain the path" in words
    assert "larger batches" in words
    assert "points visited, 3 in all" in words
    planned = plan(found)
    assert planned.rough
    assert any("has its doubts" in note for note in planned.notes)
    assert "rough: see the notes" in str(planned)


@pytest.mark.parametrize("budget", [130, 200, 400])
def test_looking_further_along_a_step_keeps_to_the_budget(budget: int) -> None:
    assert hinge_audit(32, 0, budget=budget).ledger.target_gradients <= budget


def test_a_proxy_that_curves_downwards_everywhere_is_refused_without_doubt() -> None:
    found = hinge_audit(32, 0, sign=-1.0)
    assert found.verdict is Verdict.DO_NOT_USE
    # What SGD needs is as doubtful as ever.
    assert found.doubts
    assert plan(found).rough


@pytest.mark.parametrize("batch", [8, 32, 256])
def test_smooth_losses_leave_no_doubt_however_noisy(batch: int) -> None:
    X, y = rows()
    loss = pp.logistic_regression(X, y > 0, l2=1e-3, batch_size=batch)
    shown = pp.FunctionObjective(loss.gradient, sample=loss.sample)
    proxy = loss.subsample(200, rng=0)
    found = audit(pp.Problem(shown, (proxy.value, proxy.gradient)), loss.zeros(), rng=0)
    assert found.verdict is found.leaning
    assert not found.doubts


def walled(w: Any) -> Any:
    return w - 1 if np.linalg.norm(w) < 1e-6 else w * np.nan


def test_an_audit_that_never_left_its_start_says_so() -> None:
    problem = pp.Problem(pp.FunctionObjective(walled), pp.Quadratic(np.eye(2)))
    found = audit(problem, np.zeros(2), budget=21, rng=0)
    assert len(found.points) == 1
    assert found.verdict is Verdict.UNSURE
    assert "Only one point could be visited, the start" in str(found)
    assert "at the only point visited, the start, 95% limits" in str(found)
    assert plan(found).rough


def test_one_point_as_asked_for_is_said_and_not_doubted() -> None:
    loss = pp.Quadratic(np.diag([1.0, 9.0]), b=np.ones(2), noise=0.1)
    problem = pp.Problem(loss, pp.Quadratic(np.diag([1.0, 8.0])))
    found = audit(problem, points=1, rng=0)
    assert found.verdict is found.leaning
    assert "at the only point visited, the start, 95% limits" in str(found)
    still = audit(problem, loss.minimiser(), rng=0)
    assert still.verdict is still.leaning


@pytest.mark.parametrize(("depth", "unsure"), [(0.0, False), (1e-3, False), (1.0, True)])
def test_a_target_that_curves_downwards_is_not_judged_as_a_convex_one(
    depth: float, unsure: bool
) -> None:
    """Least squares with a ripple on top, which takes 2·depth from the curvature at the start."""
    scales = np.linspace(1, 6, 6)

    def value(w: Any) -> float:
        return float(scales @ (w - 1) ** 2 / 2 + 2 * depth * np.cos(w).sum())

    def gradient(w: Any, noise: Any = 0.0) -> Any:
        return scales * (w - 1) - 2 * depth * np.sin(w) + noise

    target = pp.FunctionObjective(
        gradient, value=value, sample=lambda rng: 0.01 * rng.standard_normal(6)
    )
    proxy = pp.FunctionProxy(lambda w: 1.01 * value(w), lambda w: 1.01 * gradient(w))
    found = audit(pp.Problem(target, proxy), np.zeros(6), epsilon=1e-2, rng=0)
    assert any("curves downwards" in doubt for doubt in found.doubts) == unsure
    assert (found.verdict is Verdict.UNSURE) == unsure
