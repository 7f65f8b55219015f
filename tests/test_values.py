"""Values of the target: who asks for them, how they are answered, counted and recorded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from proxyprox import (
    FunctionObjective,
    Method,
    Problem,
    ProxyProx,
    Quadratic,
    Request,
    Run,
    Status,
    minimize,
)
from proxyprox.methods.base import State
from tests.runs import assert_resumes

TARGET = Quadratic(np.diag([1.0, 3.0]), b=np.array([-1.0, -3.0]))
RNG = np.random.default_rng(0)
X, LABELS, AMOUNTS = RNG.normal(size=(12, 2)), RNG.integers(2, size=12), RNG.uniform(1, 2, 12)


@dataclass(frozen=True)
class Halving(Method):
    """Gradient steps, halved where the value rose or the target was not finite."""

    step: float = 4.0
    exact: ClassVar[bool] = True
    uses_proxy: ClassVar[bool] = False
    backtracks: ClassVar[bool] = True

    def defaults(self) -> None:
        """Solve no subproblems."""

    def init(self, w0: Any, problem: Any) -> Any:
        return Trial(w0, 0, w0, 0 * w0, math.inf, self.step)

    def ask(self, state: Any) -> Request:
        return Request((state.trial,), everything=True, value=True)

    def tell(self, state: Any, answers: Any, step: Any) -> Any:
        w, slope, best, length = state.w, state.slope, state.best, state.step
        if answers.value < best:
            w, slope, best = state.trial, answers.gradients[0], answers.value
        else:
            length = length / 2
        return Trial(w, state.k + 1, w - length * slope, slope, best, length)


@dataclass(frozen=True)
class Trial(State):
    """The best point so far, and the next one to ask about."""

    trial: Any = None
    slope: Any = None
    best: float = math.inf
    step: float = 1.0


def test_a_method_that_asks_for_values_gets_them_and_the_trace_has_them() -> None:
    seen: list[float] = []
    problem = Problem(TARGET)
    result = minimize(
        problem, method=Halving(), steps=30, callback=lambda step: seen.append(step.value)
    )
    np.testing.assert_allclose(result.w, [1.0, 1.0], atol=1e-3)
    assert list(result.trace["value"]) == seen
    assert seen[0] == TARGET.value(np.zeros(2))
    # Both came of one access; of the values alone only those at the two ends are reported.
    assert result.ledger.target_values == 0
    assert (result.inner, result.stop) == ("", "")
    plain = minimize(problem, method=ProxyProx(0.1), steps=3)
    assert np.isnan(plain.trace["value"]).all()


def test_a_value_asked_for_on_its_own_is_counted_and_an_accounted_one_is_not_asked_for() -> None:
    pair = Problem((TARGET.value, TARGET.gradient))
    assert minimize(pair, np.zeros(2), method=Halving(), steps=5).ledger.target_values == 5
    priced = FunctionObjective(TARGET.gradient, value=TARGET.value, cost=lambda batch: 1.0)
    run = Run(Problem(priced), np.zeros(2), method=Halving())
    query = run.ask()
    assert query.value
    step = run.tell(TARGET.gradient(query.points[0]), value=3.5)
    assert step.value == 3.5


def test_a_run_that_waits_for_a_small_gradient_gives_up_at_the_noise_of_the_target() -> None:
    def value(w: Any) -> float:
        return round(TARGET.value(w), 4)

    def gradient(w: Any) -> Any:
        return TARGET.gradient(w) + 1e-3 * np.sin(1e6 * w.sum())

    problem = Problem((value, gradient))
    result = minimize(problem, np.zeros(2), method=Halving(), tol=1e-9)
    assert result.status is Status.STALLED
    assert not result.success
    assert result.steps < 100
    assert TARGET.value(result.w) < -1.99
    # Without a tolerance nothing is waited for.
    assert minimize(problem, np.zeros(2), method=Halving(), steps=100).steps == 100


def test_a_method_that_backtracks_turns_back_from_points_without_an_answer(tmp_path: Any) -> None:
    def value(w: Any) -> float:
        return TARGET.value(w) if np.abs(w).max() < 3 else math.nan

    def gradient(w: Any) -> Any:
        return TARGET.gradient(w) if np.abs(w).max() < 3 else np.full(2, np.nan)

    problem = Problem((value, gradient))
    call = {"method": Halving(), "at": 2, "steps": 30}
    whole, _ = assert_resumes(tmp_path / "run", problem, np.zeros(2), **call)
    assert whole.status is Status.STEPS_DONE
    assert np.isnan(whole.trace["value"][1])
    np.testing.assert_allclose(whole.w, [1.0, 1.0], atol=1e-3)
    # At the start there is nothing to turn back to, and other methods never do.
    far = minimize(problem, np.full(2, 9.0), method=Halving(), steps=3)
    assert far.status is Status.TARGET_NOT_FINITE
    other = minimize(problem, np.zeros(2), method=ProxyProx(4.0), steps=30)
    assert other.status is Status.TARGET_NOT_FINITE
