"""Runs that end by their gradient, the method of those who name none, and where runs begin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import proxyprox as pp

P = np.diag([1.0, 5.0, 25.0])
TARGET = pp.Quadratic(P, b=np.array([-1.0, -5.0, -25.0]))
NEAR = pp.Quadratic(P + np.diag([0.1, -0.3, 1.0]))
PROBLEM = pp.Problem(TARGET, NEAR)
X = np.random.default_rng(1).normal(size=(40, 3))
Y = (X @ [1.0, -1.0, 0.5] > 0.3).astype(int)
SEPARABLE = pp.logistic_regression(X, Y, intercept=True)


def norm(w: Any) -> float:
    return float(np.linalg.norm(TARGET.gradient(np.asarray(w))))


@pytest.mark.parametrize(
    ("method", "tols"),
    [
        (pp.DANE(1.0), {"tol": 1e-6}),
        (pp.ProxyProx("auto"), {"atol": 1e-4}),
        (pp.DANE("auto"), {"tol": 1e-6, "atol": 1e-9}),
    ],
)
def test_a_run_ends_at_the_first_point_whose_gradient_is_small(method: Any, tols: Any) -> None:
    seen: list[float] = []
    result = pp.minimize(
        PROBLEM,
        method=method,
        callback=lambda s: seen.append(np.linalg.norm(s.gradients[0])),
        **tols,
    )
    bound = max(tols.get("tol", 0.0) * seen[0], tols.get("atol", 0.0))
    assert result.status is pp.Status.CONVERGED
    assert result.success
    assert norm(result.w) == pytest.approx(seen[-1])
    assert seen[-1] <= bound
    assert min(seen[:-1]) > bound


def test_without_limits_a_run_of_exact_gradients_ends_by_itself() -> None:
    result = pp.minimize(PROBLEM)
    assert result.status is pp.Status.CONVERGED
    assert norm(result.w) <= 1e-8 * norm(np.zeros(3))
    short = pp.minimize(PROBLEM, steps=1, tol=1e-12)
    assert short.status is pp.Status.STEPS_DONE
    assert "above the tolerance" in short.message
    spent = pp.minimize(PROBLEM, budget=2, tol=1e-15)
    assert spent.status is pp.Status.BUDGET_SPENT
    # Steps are a limit, too, unless the method is the user's.
    assert pp.minimize(PROBLEM, steps=60).status is pp.Status.CONVERGED
    assert pp.minimize(PROBLEM, steps=60, method=pp.DANE(1.0)).steps == 60


def test_with_a_penalty_the_subdifferential_counts() -> None:
    problem = pp.Problem(TARGET, NEAR, pp.L1(2.0))
    result = pp.minimize(problem, tol=1e-7)
    assert result.status is pp.Status.CONVERGED
    assert "DANE(eta='auto'" in result.method
    np.testing.assert_allclose(result.w, [0.0, 0.6, 0.92], atol=1e-5)


def test_sampled_gradients_have_no_tolerance() -> None:
    noisy = pp.Problem(pp.Quadratic(P, noise=0.1), NEAR)
    for name in ("tol", "atol"):
        with pytest.raises(ValueError, match=name):
            pp.minimize(noisy, steps=3, **{name: 1e-3})
    with pytest.raises(ValueError, match="steps"):
        pp.minimize(noisy)
    with pytest.raises(ValueError, match="tol"):
        pp.minimize(PROBLEM, tol=-1.0)
    # Full gradients of a target that could be sampled may have one.
    assert pp.minimize(noisy, method=pp.DANE(1.0), tol=1e-5).status is pp.Status.CONVERGED


SAME, SAMPLED = (pp.logistic_regression(X, Y, l2=0.1, batch_size=size) for size in (None, 8))


@pytest.mark.parametrize(
    ("problem", "given", "words"),
    [
        (PROBLEM, {}, "target's gradients are exact"),
        (PROBLEM, {"inner": pp.inner.ClosedForm()}, "DANE(eta='auto') (chosen"),
        (pp.Problem(TARGET, NEAR, pp.L1(0.1)), {}, "are exact and there is a"),
        (pp.Problem(SAME, SAME.label_free()), {}, "one step solves it"),
        (pp.Problem(SAMPLED, SAMPLED.label_free()), {}, "(the default for sampled"),
    ],
)
def test_the_method_of_those_who_name_none(problem: Any, given: Any, words: str) -> None:
    result = pp.minimize(problem, steps=3, rng=0, **given)
    assert words in result.method
    assert result.method in str(result)
    told = "one full gradient (40 samples) would solve" in result.message
    assert told == (problem.objective is SAMPLED)
    assert "(chosen" not in pp.minimize(PROBLEM, steps=1, method=pp.DANE()).method


def test_a_run_starts_at_the_minimum_of_the_proxy() -> None:
    loss = pp.logistic_regression(X, Y, l2=0.1)
    proxy = loss.subsample(20, rng=0)
    run = pp.Run(pp.Problem(loss, proxy), "proxy", method=pp.DANE(1.0))
    assert np.linalg.norm(proxy.gradient(run.start)) < 1e-8
    assert run.ledger.proxy_gradients > 0
    result = pp.minimize(pp.Problem(loss, proxy), "proxy", tol=1e-6)
    assert result.status is pp.Status.CONVERGED
    assert "minimum of the proxy" not in result.message
    penalised = pp.Run(pp.Problem(loss, proxy, pp.L1(0.05)), "proxy")
    assert pp.L1(0.05).distance(penalised.start, proxy.gradient(penalised.start)) < 1e-6


@pytest.mark.parametrize(
    "proxy",
    [
        SEPARABLE,
        (lambda w: float(np.ones(4) @ w), lambda w: np.ones(4)),
        (lambda w: -float(w @ w), lambda w: -2 * w - 1.0),
        (lambda w: np.nan if w @ w > 0.1 else -float(w.sum()), lambda w: -np.ones(4)),
        pp.Quadratic(np.diag([1.0, 1.0, -1.0, 1.0]), b=np.ones(4)),
        pp.problems.Zero(),
    ],
    ids=["separable", "linear", "concave", "nan", "saddle", "zero"],
)
def test_a_proxy_without_a_minimum_is_no_start(proxy: Any) -> None:
    target = pp.Quadratic(np.eye(4), b=np.ones(4))
    result = pp.minimize(pp.Problem(target, proxy), "proxy", method=pp.ProxyProx(0.1), steps=1)
    assert "No minimum of the proxy was found" in result.message
    assert result.values[0] == 0.0


def test_bounds_become_a_box_and_the_start_is_moved_inside() -> None:
    problem = pp.Problem(TARGET, NEAR, bounds=(None, [0.5, np.inf, 2.0]), scales=2.0)
    np.testing.assert_array_equal(problem.scales, [2.0, 2.0, 2.0])
    result = pp.minimize(problem, np.full(3, 9.0), tol=1e-7)
    assert result.status is pp.Status.CONVERGED
    np.testing.assert_allclose(result.w, [0.5, 1.0, 1.0], atol=1e-6)
    assert "w0 was outside the bounds in 2 parameters" in result.message
    dane = pp.minimize(problem, method=pp.DANE("auto"), tol=1e-7)
    np.testing.assert_allclose(dane.w, [0.5, 1.0, 1.0], atol=1e-6)


def test_bounds_and_scales_that_cannot_be_are_refused() -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("penalty", {"bounds": (0.0, 1.0), "penalty": pp.L1(1.0)}),
        *(("bounds", {"bounds": given}) for given in (3.0, ([0.0, 1.0], None))),
        *(("upper", {"bounds": given}) for given in ((1.0, 0.0), ([0.0] * 3, [1.0] * 4))),
        ("lower", {"bounds": (math.nan, 0.0)}),
        *(("scales", {"scales": given}) for given in ([1.0, 0.0, 1.0], [1.0, 1.0])),
    ]
    for word, arguments in wrong:
        with pytest.raises((TypeError, ValueError), match=f"{word} must be"):
            pp.Problem(TARGET, NEAR, **arguments)


class Whole:
    """A target of a user's own: it draws all of its data, and may say that it is exact."""

    def __init__(self, *, declared: bool, batches: bool = False) -> None:
        self.drawn, self.batches = 0, batches
        if declared:
            self.exact = True
        else:
            self.everything = lambda: None

    def sample(self, rng: np.random.Generator) -> Any:
        self.drawn += 1
        return rng.normal(size=3) if self.batches else None

    def gradient(self, w: Any, batch: Any) -> Any:
        exact = TARGET.gradient(w)
        return exact if batch is None else exact + 0.1 * batch


@pytest.mark.parametrize("declared", [True, False])
def test_a_target_that_draws_all_of_its_data_is_exact(declared: bool) -> None:
    result = pp.minimize(pp.Problem(Whole(declared=declared), NEAR), np.zeros(3), steps=20)
    assert result.method.startswith("ProxyBFGS")
    assert norm(result.w) < 1e-6
