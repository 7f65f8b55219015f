"""Verdicts: the rule, the words, and audits of proxies that should be used, refused, or doubted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import make_classification

import proxyprox as pp
from proxyprox.diagnostics.audit import audit, plan
from proxyprox.diagnostics.report import Verdict, decide

USE, SCALED, REFUSED = Verdict.USE, Verdict.USE_SCALED, Verdict.DO_NOT_USE


def test_rule():
    for sgd, plain, scaled, shares, expected in (
        (1000, 10, math.inf, (0.0, 1.0), USE), (1000, 990, math.inf, (0.9, 1.0), REFUSED),
        (1000, 5000, 4000, (9.0, 0.9), REFUSED), (1000, 900, 10, (0.999, 0.0), SCALED),
        (1000, math.inf, 10, (999.0, 0.0), SCALED), (1000, 100, 99, (0.3, 0.29), USE),
        (1000, 12, 10, (9.0, 0.0), USE), (1000, 14, 10, (9.0, 0.0), SCALED),
        (1000, 10, 100, (9.0, 0.0), USE), (1000, 1000, math.inf, (0.5, 1.0), USE),
        (1000, 1100, math.inf, (0.1, 1.0), REFUSED), (1, 1, 1, (0.6, 0.0), REFUSED),
        (1000, 10, 10, (0.2, 0.0), USE), (math.inf, 10**6, math.inf, (0.6, 1.0), USE),
        (10, 11, math.inf, (0.0, 0.0), REFUSED),
    ):  # fmt: skip
        assert decide(sgd, plain, scaled, shares) is expected, (sgd, plain, scaled, shares)


ROOTS, B = np.diag([1.0, 2.0, 3.0, 4.0]), np.ones(4)
TARGET = pp.FunctionObjective(
    lambda w, batch: ROOTS @ w - B,
    value=lambda w: float(w @ ROOTS @ w / 2 - B @ w),
    sample=lambda rng: 0,
)
ROUND = (lambda w: float(w @ w) / 2, lambda w: w)


def proxy_with_hole(which, radius=0.2):
    def out(w):
        return bool(np.linalg.norm(w) >= radius)

    return pp.FunctionProxy(
        lambda w: np.nan if which == "value" and out(w) else float(w @ w) / 2,
        lambda w: np.full(4, np.nan) if which == "gradient" and out(w) else w,
        hessian=lambda w: np.eye(4),
    )


def test_a_proxy_that_is_nan_on_the_path_is_named():
    for which in ("value", "gradient"):
        problem = pp.Problem(TARGET, proxy_with_hole(which))
        found = audit(problem, np.zeros(4), rng=0)
        assert found.verdict is REFUSED
        assert f"the proxy's {which} is NaN or infinite at a distance of 1" in found.sentence
        assert "ε" not in str(found)
        assert str(found).splitlines()[0] == found.sentence
    hole = proxy_with_hole("gradient", 0.0)
    with pytest.raises(pp.inner.NonFiniteError, match="proxy's gradient"):
        audit(pp.Problem(TARGET, hole), np.zeros(4), rng=0)


def test_a_target_that_curves_downwards_or_runs_away_gets_no_numbers():
    def tilted(curve):
        return lambda w: float(w @ ROOTS @ w / 2 + 1), lambda w: curve * (ROOTS @ w) + B

    # Curved upwards as it should be, but to another side than the value says.
    aside = (lambda w: float((w + 9) @ (w + 9)), lambda w: w - 9)
    for wrong, words in (
        (tilted(-1.0), "curves downwards, or not at all"),
        (tilted(0.0), "curves downwards, or not at all"),
        (aside, "runs away, from 400 to 1.2"),
    ):
        value, gradient = wrong
        shown = pp.FunctionObjective(
            lambda w, batch, of=gradient: of(w), value=value, sample=lambda rng: 0
        )
        found = audit(pp.Problem(shown, ROUND), np.ones(4), rng=0)
        assert found.sentence.startswith("No verdict: the target")
        assert words in found.sentence
        assert "check_grad" in found.sentence
        assert "theory" not in str(found)
        assert isinstance(found.recommended.proxy, pp.problems.Zero)
        with pytest.raises(ValueError, match="verdict"):
            plan(found)


def class_rows(seed=0):
    X, y = make_classification(3000, n_features=10, random_state=seed)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def audit_of(change, seed=0):
    X, y = class_rows(seed)
    target = pp.logistic_regression(X[:600], y[:600], l2=1e-3, intercept=True, batch_size=32)
    return audit(pp.Problem(target, target.label_free(change(X[600:]))), epsilon=1e-3, rng=0)


CHANGES = {
    "× 10": (lambda X: 10 * X, 1),
    "× 100": (lambda X: 100 * X, 2),
    "one column": (lambda X: X * np.where(np.arange(10) == 3, 100.0, 1.0), 0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_rows_in_other_units_are_refused_and_the_units_named(name):
    found = audit_of(*CHANGES[name])
    assert found.verdict is REFUSED
    assert any("other units" in reason for reason in found.reasons)
    assert "at the start" in found.reasons[0]
    assert "further from the target's than no curvature" in found.reasons[0]


ROWS, SIZE = 2000, 10


def kinked_loss(X, y, width):
    """Return the hinge loss, its corner rounded over a width, with a little l2."""

    def value(w):
        short = 1 - y * (X @ w)
        bent = np.where(short < width, np.maximum(short, 0) ** 2 / (2 * width), short - width / 2)
        return float(bent.mean() + 5e-4 * w @ w)

    def gradient(w, rows=slice(None)):
        part = X[rows]
        pull = -y[rows] * np.clip((1 - y[rows] * (part @ w)) / width, 0, 1)
        return part.T @ pull / len(part) + 1e-3 * w

    return value, gradient


def labelled_rows():
    rng = np.random.default_rng(3)
    scales = np.geomspace(1, 0.1, SIZE)
    X = rng.standard_normal((ROWS, SIZE)) * scales
    z = X @ (rng.standard_normal(SIZE) / scales)
    return X, np.where(z + rng.logistic(size=ROWS) > 0, 1.0, -1.0)


def hinge_audit(batch):
    X, y = labelled_rows()
    value, gradient = kinked_loss(X, y, 0.1)
    target = pp.FunctionObjective(
        gradient, value=value, sample=lambda rng: rng.integers(ROWS, size=batch)
    )
    proxy = pp.FunctionProxy(*kinked_loss(X[:200], y[:200], 0.1))
    return audit(pp.Problem(target, proxy), np.zeros(SIZE), epsilon=5e-3, rng=0)


def test_a_loss_with_kinks_is_walked_down_and_the_audit_unsure():
    for batch in (256, 32):
        found = hinge_audit(batch)
        assert found.ledger.target_gradients <= 400
        assert not found.alarm
        values = [found.problem.objective.value(point.w) for point in found.points]
        assert len(values) == 3
        assert values == sorted(values, reverse=True)
    assert found.verdict is Verdict.UNSURE
    assert found.leaning is not Verdict.UNSURE
    for words in ("does not explain", "larger batches", "points visited, 3 in all"):
        assert words in str(found)
    planned = plan(found)
    assert any("has its doubts" in note for note in planned.notes)
    assert "rough: see the notes" in str(planned)


@pytest.mark.parametrize("batch", [8, 256])
def test_smooth_losses_leave_no_doubt_however_noisy(batch):
    X, y = labelled_rows()
    loss = pp.logistic_regression(X, y > 0, l2=1e-3, batch_size=batch)
    shown = pp.FunctionObjective(loss.gradient, sample=loss.sample)
    proxy = loss.subsample(200, rng=0)
    found = audit(pp.Problem(shown, (proxy.value, proxy.gradient)), loss.zeros(), rng=0)
    assert found.verdict is found.leaning
    assert not found.doubts


@pytest.mark.parametrize(("depth", "unsure"), [(1e-3, False), (1.0, True)])
def test_a_target_that_curves_downwards_is_not_judged_as_a_convex_one(depth, unsure):
    """Least squares with a ripple on top, which takes 2·depth from the curvature at the start."""
    scales = np.linspace(1, 6, 6)

    def value(w):
        return float(scales @ (w - 1) ** 2 / 2 + 2 * depth * np.cos(w).sum())

    def gradient(w, noise=0.0):
        return scales * (w - 1) - 2 * depth * np.sin(w) + noise

    target = pp.FunctionObjective(
        gradient, value=value, sample=lambda rng: 0.01 * rng.standard_normal(6)
    )
    proxy = pp.FunctionProxy(lambda w: 1.01 * value(w), lambda w: 1.01 * gradient(w))
    found = audit(pp.Problem(target, proxy), np.zeros(6), epsilon=1e-2, rng=0)
    assert any("not convex" in doubt for doubt in found.doubts) == unsure
    assert (found.verdict is Verdict.UNSURE) == unsure


def test_of_several_proxies_the_useless_are_named_and_useless_ones_alone_refused():
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(20, 20)))[0] * np.geomspace(1, 0.02, 20)
    X = rng.normal(size=(3000, 20)) @ axes.T
    y = X @ rng.normal(size=20) * 5 + rng.logistic(size=3000) > 0
    target = pp.logistic_regression(X, y, l2=1e-4, batch_size=64)
    good = target.subsample(300, rng=0)
    mixed = [
        pp.logistic_regression(X[:300][:, rng.permutation(20)], y[:300], l2=1e-4) for _ in range(2)
    ]
    found = audit(pp.Problem(target, {"good": good, "mixed": mixed[0]}), rng=0)
    assert found.verdict is USE
    assert "mixed says nothing about this target" in found.reasons[0]
    useless = audit(pp.Problem(target, mixed), rng=0)
    assert useless.verdict is REFUSED
    assert isinstance(plan(useless).problem.proxy, pp.problems.Zero)
    # The steps that told the proxies apart are among the gradients paid.
    alone = audit(pp.Problem(target, good), rng=0)
    assert found.ledger.target_gradients > alone.ledger.target_gradients
