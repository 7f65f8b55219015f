"""Verdicts: the rule, the words, and audits of proxies that should be used, refused, or doubted."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification

import proxyprox as pp
from proxyprox.advice.audit import audit
from proxyprox.advice.plan import plan
from proxyprox.advice.report import Audit, Rehearsal, Verdict, decide
from proxyprox.problems import ScaledProxy


def steps(count: float) -> Rehearsal:
    return Rehearsal(1.0, count, 0.0)


@pytest.mark.parametrize(
    ("sgd", "plain", "scaled", "shares", "expected"),
    [
        (1000, 10, None, (0.0, 1.0), Verdict.USE),
        (1000, 990, None, (0.9, 1.0), Verdict.DO_NOT_USE),
        (1000, 5000, 4000, (9.0, 0.9), Verdict.DO_NOT_USE),
        (1000, 900, 10, (0.999, 0.0), Verdict.USE_SCALED),
        (1000, math.inf, 10, (999.0, 0.0), Verdict.USE_SCALED),
        (1000, 100, 99, (0.3, 0.29), Verdict.USE),
        (1000, 12, 10, (9.0, 0.0), Verdict.USE),
        (1000, 100, 10, (9.0, 0.0), Verdict.USE_SCALED),
        (1000, 10, 100, (9.0, 0.0), Verdict.USE),
        (1000, 1000, None, (0.1, 1.0), Verdict.USE),
        (1000, 1100, None, (0.1, 1.0), Verdict.DO_NOT_USE),
        (1, 1, 1, (0.3, 0.0), Verdict.DO_NOT_USE),
        (1, 1, 1, (0.2, 0.0), Verdict.USE),
        (1, 1, 1, (999.0, 0.0), Verdict.DO_NOT_USE),
        (1000, 10, 10, (0.2, 0.0), Verdict.USE),
        (math.inf, 10**6, None, (0.5, 1.0), Verdict.USE),
    ],
)
def test_rule(
    sgd: float, plain: float, scaled: float | None, shares: tuple[float, float], expected: Verdict
) -> None:
    offered = math.inf if scaled is None else scaled
    assert decide(sgd, plain, offered, shares) is expected


def test_without_a_share_the_counts_alone_decide() -> None:
    assert decide(10, 10) is Verdict.USE
    assert decide(10, 11) is Verdict.DO_NOT_USE


def test_a_verdict_is_a_sentence() -> None:
    for verdict in Verdict:
        assert str(verdict).endswith(".")
    assert str(Verdict.DO_NOT_USE).startswith("Do not use it")


@pytest.mark.parametrize(
    ("verdict", "sgd", "proxied", "words"),
    [
        (Verdict.USE, 203, 169, "SGD needs 203 target gradients, ProxyProx 169 (rehearsed): 1.2 "),
        (Verdict.USE, 58, 23, "2.5 times fewer."),
        (Verdict.USE, 222, 222, "no gain at this ε"),
        (Verdict.USE, math.inf, 5, "only the second arrives"),
        (Verdict.USE_SCALED, 100, 10, "10 times fewer"),
        (Verdict.DO_NOT_USE, 100, 90, "only 1.1 times fewer"),
        (Verdict.DO_NOT_USE, 100, 900, "no gain."),
    ],
)
def test_the_sentence_states_the_gain(
    verdict: Verdict, sgd: float, proxied: float, words: str
) -> None:
    loss = pp.Quadratic(np.diag([1.0, 9.0]), b=np.ones(2), noise=0.1)
    found = audit(pp.Problem(loss, pp.Quadratic(np.diag([1.0, 8.0]))), rng=0)
    prediction = replace(found.prediction, rehearsed_sgd=steps(sgd), rehearsed_best=steps(proxied))
    told = replace(found, verdict=verdict, leaning=verdict, prediction=prediction)
    assert words in told.sentence
    unsure = replace(told, verdict=Verdict.UNSURE).sentence
    assert unsure.startswith("Unsure, see below; the rehearsal alone says “")
    assert str(verdict).partition(":")[0].lower() in unsure
    assert words.removeprefix("Use it ") in unsure


ROOTS, B = np.diag([1.0, 2.0, 3.0, 4.0]), np.ones(4)
TARGET = pp.FunctionObjective(
    lambda w: ROOTS @ w - B, value=lambda w: float(w @ ROOTS @ w / 2 - B @ w)
)
ROUND = (lambda w: float(w @ w) / 2, lambda w: w)


def proxy_with_hole(which: str, radius: float = 0.2) -> pp.FunctionProxy:
    def out(w: np.ndarray) -> bool:
        return bool(np.linalg.norm(w) >= radius)

    return pp.FunctionProxy(
        lambda w: np.nan if which == "value" and out(w) else float(w @ w) / 2,
        lambda w: np.full(4, np.nan) if which == "gradient" and out(w) else w,
        hessian=lambda w: np.eye(4),
    )


@pytest.mark.parametrize("which", ["value", "gradient"])
def test_a_proxy_that_is_nan_on_the_path_is_named(which: str) -> None:
    problem = pp.Problem(TARGET, proxy_with_hole(which))
    found = audit(problem, np.zeros(4), curvature="secants", rng=0)
    assert found.verdict is Verdict.DO_NOT_USE
    assert f"the proxy's {which} is NaN or infinite at a distance of 1" in found.sentence
    assert "ε" not in str(found)
    assert str(found).splitlines()[0] == found.sentence


def test_nan_at_the_start_or_of_a_further_proxy_is_an_error() -> None:
    with pytest.raises(pp.inner.NonFiniteError, match="proxy's gradient"):
        audit(pp.Problem(TARGET, proxy_with_hole("gradient", 0.0)), np.zeros(4), rng=0)
    with pytest.raises(pp.inner.NonFiniteError, match=r"others\[0\]'s value"):
        audit(pp.Problem(TARGET, ROUND), np.zeros(4), others=[proxy_with_hole("value")], rng=0)


@pytest.mark.parametrize("curve", [-1.0, 0.0])
def test_a_target_that_curves_downwards_gets_no_numbers(curve: float) -> None:
    wrong = (lambda w: float(w @ ROOTS @ w / 2 + 1), lambda w: curve * (ROOTS @ w) + B)
    found = audit(pp.Problem(wrong, ROUND), np.ones(4), curvature="secants", rng=0)
    assert found.sentence.startswith("No verdict: the target curves downwards, or not at all")
    assert "check_grad" in found.sentence
    assert "e+" not in str(found)
    assert isinstance(found.recommended.proxy, pp.problems.Zero)
    with pytest.raises(ValueError, match="verdict"):
        plan(found)


def test_a_target_whose_loss_runs_away_gets_no_numbers() -> None:
    # Curved upwards as it should be, but to another side than the value says.
    wrong = (lambda w: float((w + 9) @ (w + 9)), lambda w: w - 9)
    found = audit(pp.Problem(wrong, ROUND), np.ones(4), curvature="secants", rng=0)
    assert "runs away, from 400 to 1.2" in found.sentence


def class_rows(seed: int = 0) -> tuple[Any, Any]:
    X, y = make_classification(3000, n_features=10, random_state=seed)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def audit_of(change: Any, seed: int = 0) -> Audit:
    X, y = class_rows(seed)
    target = pp.logistic_regression(X[:600], y[:600], l2=1e-3, intercept=True, batch_size=32)
    return audit(pp.Problem(target, target.label_free(change(X[600:]))), epsilon=1e-3, rng=0)


def one_column(X: Any) -> Any:
    return X * np.where(np.arange(10) == 3, 100.0, 1.0)


@pytest.mark.parametrize(("factor", "seed"), [(10, 0), (10, 1), (100, 2)])
def test_rows_in_other_units_are_refused_and_the_units_named(factor: float, seed: int) -> None:
    found = audit_of(lambda X: factor * X, seed)
    assert found.verdict is Verdict.DO_NOT_USE
    assert any("other units" in reason for reason in found.reasons)


def test_random_rows_that_saturate_are_refused() -> None:
    draw = np.random.default_rng(0)
    assert audit_of(lambda X: draw.uniform(0, 100, X.shape)).verdict is Verdict.DO_NOT_USE


def test_a_column_in_other_units_is_noticed() -> None:
    found = audit_of(one_column)
    assert found.verdict is Verdict.DO_NOT_USE
    assert any("other units" in reason for reason in found.reasons)
    assert "at the start" in found.reasons[0]
    assert "further from the target's than no curvature" in found.reasons[0]


def test_good_rows_are_rehearsed_at_the_end_alone() -> None:
    found = audit_of(lambda X: X)
    assert found.verdict is Verdict.USE
    assert len(found.proxy_matrices) == 1
    assert not any("other units" in reason for reason in found.reasons)


def test_a_constant_size_is_still_scaled_away() -> None:
    X, y = class_rows()
    target = pp.logistic_regression(X[:600], y[:600], l2=1e-3, batch_size=256)
    large = ScaledProxy(target.label_free(), 1e3)
    found = audit(pp.Problem(target, large), epsilon=1e-3, rng=0)
    assert found.verdict is Verdict.USE_SCALED
    assert len(found.proxy_matrices) == 1


def test_lanczos_sees_the_start_from_the_end() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((500, 60))
    y = X @ rng.standard_normal(60) + rng.logistic(size=500) > 0
    target = pp.logistic_regression(X, y, l2=1e-3, batch_size=64)
    found = audit(pp.Problem(target, target.label_free(30 * X)), budget=135, rng=0)
    assert not any(point.in_full for point in found.points)
    assert len(found.proxy_matrices) > 1
    assert len({matrix.shape for matrix in found.proxy_matrices}) == 1
    assert found.verdict is Verdict.DO_NOT_USE
    assert found.ledger.target_gradients <= 135
    assert any("other units" in reason for reason in found.reasons)


ROWS, SIZE = 2000, 10


def kinked_loss(X: Any, y: Any, width: float, sign: float = 1.0) -> tuple[Any, Any]:
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


def labelled_rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    scales = np.geomspace(1, 0.1, SIZE)
    X = rng.standard_normal((ROWS, SIZE)) * scales
    z = X @ (rng.standard_normal(SIZE) / scales)
    return X, np.where(z + rng.logistic(size=ROWS) > 0, 1.0, -1.0)


def sampled_objective(value: Any, gradient: Any, batch: int) -> pp.FunctionObjective:
    return pp.FunctionObjective(
        gradient, value=value, sample=lambda rng: rng.integers(ROWS, size=batch)
    )


def hinge_audit(batch: int, seed: int, *, sign: float = 1.0, budget: int = 400) -> Audit:
    X, y = labelled_rows()
    target = sampled_objective(*kinked_loss(X, y, 0.1), batch)
    value, gradient = kinked_loss(X[:200], y[:200], 0.1, sign)
    proxy = pp.FunctionProxy(value, lambda w: gradient(w))
    return audit(pp.Problem(target, proxy), np.zeros(SIZE), epsilon=5e-3, rng=seed, budget=budget)


@pytest.mark.parametrize(("batch", "seed"), [(32, 0), (32, 1), (256, 0)])
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
    assert "does not explain" in words
    assert "larger batches" in words
    assert "points visited, 3 in all" in words
    planned = plan(found, factors=[])
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
    assert plan(found, factors=[]).rough


@pytest.mark.parametrize("batch", [8, 32, 256])
def test_smooth_losses_leave_no_doubt_however_noisy(batch: int) -> None:
    X, y = labelled_rows()
    loss = pp.logistic_regression(X, y > 0, l2=1e-3, batch_size=batch)
    shown = pp.FunctionObjective(loss.gradient, sample=loss.sample)
    proxy = loss.subsample(200, rng=0)
    found = audit(pp.Problem(shown, (proxy.value, proxy.gradient)), loss.zeros(), rng=0)
    assert found.verdict is found.leaning
    assert not found.doubts


def gradient_with_wall(w: Any) -> Any:
    return w - 1 if np.linalg.norm(w) < 1e-6 else w * np.nan


def test_an_audit_that_never_left_its_start_says_so() -> None:
    problem = pp.Problem(pp.FunctionObjective(gradient_with_wall), pp.Quadratic(np.eye(2)))
    found = audit(problem, np.zeros(2), budget=21, curvature="secants", rng=0)
    assert len(found.points) == 1
    assert found.verdict is Verdict.UNSURE
    assert "Only one point could be visited, the start" in str(found)
    assert "at the only point visited, the start, 95% limits" in str(found)
    assert plan(found, factors=[]).rough


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


@pytest.fixture(scope="module")
def target() -> pp.GLM:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 12)) * np.geomspace(1, 0.05, 12)
    y = X @ (rng.standard_normal(12) * 3) + rng.logistic(size=400) > 0
    return pp.logistic_regression(X, y, l2=1e-3, batch_size=64)


def test_words_say_where_each_number_is_from(target: pp.GLM) -> None:
    found = audit(pp.Problem(target, target.subsample(80, rng=1)), rng=0)
    words = str(found)
    assert words.splitlines()[0] == found.sentence
    assert "at the end of the path" in found.reasons[0]
    assert "the largest over the points visited" in words
    assert "the target's weakest curvature" in words
    assert "counts all its rows" in words
    assert any("(ERM)" in reason for reason in found.reasons)
    hidden = pp.FunctionObjective(target.gradient, sample=target.sample)
    alone = audit(pp.Problem(hidden, target.label_free()), target.zeros(), rng=0)
    assert not any("(ERM)" in reason for reason in alone.reasons)


def test_a_target_that_is_not_convex_is_said_to_be() -> None:
    saddle = pp.Quadratic(np.diag([-1.0, 1.0, 2.0]), b=np.ones(3), noise=0.1)
    found = audit(pp.Problem(saddle, pp.Quadratic(np.diag([-1.0, 1.0, 2.1]))), rng=0)
    assert found.mu.high < 0
    assert any("not convex" in reason for reason in found.reasons)


def test_a_penalty_is_said_to_be_left_out(target: pp.GLM) -> None:
    found = audit(pp.Problem(target, target.label_free(), pp.L1(0.01)), rng=0)
    assert any("penalty" in reason for reason in found.reasons)


def test_the_share_is_given_at_every_point() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 6))
    loss = pp.logistic_regression(X, X[:, 0] > 0, l2=1e-3, batch_size=64)
    other = np.where(np.arange(6) == 0, 1.3, 1.0) * X
    found = audit(pp.Problem(loss, loss.label_free(other)), rng=0)
    start, *_, end = (f"{p.delta.estimate / p.H.estimate:.2g}" for p in found.points)
    assert found.reasons[0].startswith(f"δ/H is {start} at the start, ")
    assert f"{end} at the end of the path" in found.reasons[0]
