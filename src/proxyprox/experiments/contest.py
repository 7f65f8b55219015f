"""One run of a contender on a problem, as points along the number of target gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from proxyprox import GLM, Problem, Step, minimize
from proxyprox._arrays import Vector
from proxyprox.experiments._exact import minimiser
from proxyprox.experiments.contenders import ERM, Contender
from proxyprox.experiments.records import Point

LEDGER_FIELDS = (
    "target_samples",
    "proxy_gradients",
    "proxy_values",
    "proxy_hvps",
    "proxy_hessians",
    "seconds",
)
"""What a point carries of the ledger, besides the target gradients."""


def marks(budget: int, points: int = 50) -> list[int]:
    """Return the numbers of target gradients at which a run is looked at, from 0 to the budget."""
    return sorted({round(budget * j / points) for j in range(points + 1)})


def play(
    contender: Contender,
    eta: float | None,
    problem: Problem,
    *,
    optimum: float,
    budget: int,
    seed: int,
    at: Sequence[int],
) -> list[Point]:
    """Run a contender within a budget of target gradients and measure it at the marks.

    At a mark the answer is the last iterate paid for by then: a method that spends two gradients
    a step is not helped by the rounding.
    """
    watch = _Watch(problem, optimum, at)
    if contender.name == ERM:
        _empirical_risk(problem.objective, budget, seed, watch)
    else:
        assert eta is not None
        result = minimize(
            problem, budget=budget, rng=seed, callback=watch.after, **contender.build(eta)
        )
        watch.close(result.last, result.ledger.as_dict(), diverged=not result.success)
    return watch.points


class _Watch:
    """Turns the steps of a run into points at the marks."""

    def __init__(self, problem: Problem, optimum: float, at: Sequence[int]) -> None:
        self.points: list[Point] = []
        self._problem, self._optimum = problem, optimum
        self._left = list(at)
        objective = problem.objective
        self._latest: tuple[Vector, dict[str, float]] = (objective.zeros(), {})

    def after(self, step: Step) -> None:
        spent = step.ledger.target_gradients
        while self._left and self._left[0] < spent:
            self._measure(*self._latest)
        self._latest = (step.w, step.ledger.as_dict())
        while self._left and self._left[0] == spent:
            self._measure(*self._latest)

    def close(self, w: Vector, ledger: Mapping[str, float], *, diverged: bool) -> None:
        while self._left:
            self._measure(w, ledger, diverged=diverged)

    def _measure(self, w: Vector, ledger: Mapping[str, float], *, diverged: bool = False) -> None:
        value = self._problem.value(w) - self._optimum
        point: Point = {"target_gradients": self._left.pop(0)}
        point |= {name: ledger.get(name, 0) for name in LEDGER_FIELDS}
        # A run that broke off has no answer: its last good iterate would flatter it.
        point["suboptimality"] = None if diverged else value
        self.points.append(point)


def _empirical_risk(objective: GLM, budget: int, seed: int, watch: _Watch) -> None:
    """Fit, at each mark, the rows drawn so far; re-fits start from the last answer."""
    import time

    rng = np.random.default_rng(seed)
    counts = np.zeros(objective.design.rows)
    begun, w, spent, passes = time.perf_counter(), objective.zeros(), 0, 0
    while watch._left:
        mark = watch._left[0]
        while spent < mark:
            np.add.at(counts, objective.sample(rng), 1.0)
            spent += 1
        if spent:
            seen = np.flatnonzero(counts)
            weights = counts[seen] * objective.sample_weight[seen]
            part = objective.rows(seen, sample_weight=weights)
            w = minimiser(part, w, tol=1e-9)
            passes += 1
        ledger = {
            "target_samples": int(counts.sum()),
            "seconds": time.perf_counter() - begun,
        }
        watch._latest = (w, ledger)
        watch._measure(w, ledger)
