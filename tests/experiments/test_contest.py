from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proxyprox import L1, SGD, Budget, Problem, Uniform, linear_regression, poisson_regression
from proxyprox.experiments.contest import (
    LEDGER_FIELDS,
    Contender,
    marks,
    play,
    play_and_keep,
    published,
    yardstick,
)
from proxyprox.inner.exact import minimise_exactly

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
y = X @ [1.0, -2.0, 0.0] + 0.1 * rng.standard_normal(40)
TARGET = linear_regression(X, y, l2=0.1, batch_size=8)
BEST = TARGET.value(minimise_exactly(TARGET, TARGET.zeros()))


def played(contender: Contender, problem: Problem, **changes: Any) -> list[dict[str, Any]]:
    settings = {"optimum": BEST, "budget": 20, "seed": 0, "at": [0, 5, 10, 20], **changes}
    return play(contender, 0.05, problem, **settings)


def test_marks() -> None:
    assert marks(1000)[:3] == [0, 20, 40]
    assert marks(3) == [0, 1, 2, 3]


def test_points_at_the_marks() -> None:
    problem = Problem(TARGET, TARGET.label_free())
    for contender in published(3):
        points = played(contender, problem)
        assert [point["target_gradients"] for point in points] == [0, 5, 10, 20]
        assert points[0]["suboptimality"] == TARGET.value(np.zeros(3)) - BEST
        assert points[-1]["suboptimality"] < points[0]["suboptimality"]
        assert all(set(LEDGER_FIELDS) <= point.keys() for point in points)
        assert points[0]["target_samples"] == 0
    # Two gradients a step after the first: 19 spent of 20, and 9 at the mark of 10.
    assert points[-1]["target_samples"] == 10 * 8
    assert points[2]["target_samples"] == 5 * 8


def test_same_seed_same_points() -> None:
    problem = Problem(TARGET, TARGET.label_free())
    for contender in (*published(3), yardstick()):
        runs = [played(contender, problem, seed=seed) for seed in (3, 3, 4)]
        values = [[point["suboptimality"] for point in points] for points in runs]
        assert values[0] == values[1] != values[2]


def test_yardstick_fits_what_it_has_seen() -> None:
    points = played(yardstick(), Problem(TARGET))
    assert [point["target_samples"] for point in points] == [0, 40, 80, 160]
    assert points[-1]["suboptimality"] < points[1]["suboptimality"]
    full = played(yardstick(), Problem(TARGET.with_batch_size(None)), at=[1])
    assert full[0]["suboptimality"] == pytest.approx(0, abs=1e-12)


def test_yardstick_with_a_penalty() -> None:
    penalty = L1(0.5)
    full = TARGET.with_batch_size(None)
    best = minimise_exactly(full, full.zeros(), tol=1e-10, penalty=penalty)
    problem = Problem(full, penalty=penalty)
    (point,) = played(yardstick(), problem, at=[1], optimum=problem.value(best))
    assert point["suboptimality"] == pytest.approx(0, abs=1e-10)
    assert best[2] == 0


def test_averages_are_what_is_measured() -> None:
    def build(eta: float) -> dict[str, Any]:
        return {"method": SGD(eta), "averaging": Uniform()}

    contender = Contender("averaged", build, 1.0, 1.0, 1.0)
    points, result = play_and_keep(
        contender,
        0.05,
        Problem(TARGET),
        optimum=0.0,
        budget=Budget(target_gradients=7),
        seed=1,
        at=[0, 3, 7],
    )
    assert points[-1]["suboptimality"] == pytest.approx(TARGET.value(result.w), rel=1e-12)
    assert not np.array_equal(result.w, result.last)
    _, three = play_and_keep(
        contender, 0.05, Problem(TARGET), optimum=0.0,
        budget=Budget(target_gradients=3), seed=1, at=[3],
    )  # fmt: skip
    assert points[1]["suboptimality"] == pytest.approx(TARGET.value(three.w), rel=1e-12)


def test_a_run_that_breaks_off_has_no_answer() -> None:
    target = poisson_regression(X, np.abs(np.round(5 * y)), batch_size=8)
    sgd = published(1)[0]
    points = play(sgd, 1e6, Problem(target), optimum=0.0, budget=20, seed=0, at=[0, 10, 20])
    assert points[0]["suboptimality"] is not None
    assert points[-1]["suboptimality"] is None
