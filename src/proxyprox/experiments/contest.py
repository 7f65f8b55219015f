"""The methods that experiments compare, and one run of each as points along the target gradients.

The methods that our experiments compare, each with its own range of step sizes.

Every contender is tuned with the same effort: nine step sizes, geometrically spaced over the range
where that method's best lies. A best value at the edge of its range is reported as such.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxyprox import (
    EMA,
    SGD,
    AuxMom,
    AuxMVR,
    Budget,
    GradientDescent,
    Mean,
    Problem,
    ProxyProx,
    Residual,
    Result,
    Status,
    Step,
    Steps,
    minimize,
)
from proxyprox._util.arrays import Vector
from proxyprox.experiments.records import Point
from proxyprox.inner.exact import minimise_exactly

GRID = 9
"""Step sizes tried for each method."""

EXACT = 1e-8
"""``‖∇φ_k‖`` to which an "exact" subproblem is solved."""

ERM = "ERM on the rows seen"
"""The honest yardstick: fit the rows bought so far, without any proxy."""


@dataclass(frozen=True)
class Contender:
    """A method up to its step size.

    Attributes
    ----------
    name : str
        As in the figures.
    build : callable
        Returns the arguments of ``minimize`` for a step size, where it says so also for "auto".
    lowest : float
        First value of the grid, in units of 1/H.
    ratio : float
        Factor between neighbours of the grid.
    effort : float
        Rough cost of a step, for the estimate of the time left.
    """

    name: str
    build: Callable[[Any], dict[str, Any]]
    lowest: float
    ratio: float
    effort: float

    def etas(self, smoothness: float) -> tuple[float, ...]:
        """Return the step sizes to try for an H-smooth objective."""
        return tuple(self.lowest * self.ratio**j / smoothness for j in range(GRID))


def published(inner_steps: int) -> tuple[Contender, ...]:
    """Return SGD and the three methods of the paper's figure with gradient-descent inner steps."""
    steps = Steps(inner_steps)
    note = f"{inner_steps} GD steps"

    def proxyprox(eta: float) -> dict[str, Any]:
        # T steps of size η/T cover the proximal step: one number to tune, as for the others.
        inner = GradientDescent(step_size=eta / inner_steps, implicit=True)
        return {"method": ProxyProx(eta), "inner": inner, "stop": steps}

    def auxmom(gamma: float) -> dict[str, Any]:
        return {"method": AuxMom(a=0.1), "inner": GradientDescent(gamma), "stop": steps}

    def auxmvr(gamma: float) -> dict[str, Any]:
        return {"method": AuxMVR(a=0.1), "inner": GradientDescent(gamma), "stop": steps}

    return (
        Contender("SGD", lambda eta: {"method": SGD(eta)}, 0.1, 2.5, 0.2),
        Contender(f"ProxyProx, {note}", proxyprox, 0.25, 3.0, inner_steps / 4),
        Contender(f"AuxMom, {note}", auxmom, 0.05, 2.5, inner_steps / 4),
        Contender(f"AuxMVR, {note}", auxmvr, 0.05, 2.5, inner_steps / 8),
    )


def exact() -> tuple[Contender, ...]:
    """Return ProxyProx with solved subproblems and three corrections: beyond the paper."""
    stop = Residual(EXACT)
    return (
        Contender(
            "ProxyProx, exact", lambda eta: {"method": ProxyProx(eta), "stop": stop}, 1.0, 4.0, 1.0
        ),
        Contender(
            "ProxyProx, exact, EMA",
            lambda eta: {"method": ProxyProx(eta, EMA(0.1)), "stop": stop},
            0.25,
            8.0,
            1.5,
        ),
        Contender(
            "ProxyProx, exact, running mean",
            lambda eta: {"method": ProxyProx(eta, Mean()), "stop": stop},
            0.25,
            8.0,
            1.0,
        ),
    )


def yardstick() -> Contender:
    """Return empirical risk minimisation on the rows seen: nothing to tune, nothing to lean on."""
    return Contender(ERM, lambda eta: {}, math.nan, math.nan, 0.3)


def named(name: str, inner_steps: int) -> Contender:
    """Return the contender of that name."""
    known = {c.name: c for c in (*published(inner_steps), *exact(), yardstick())}
    return known[name]


LEDGER_FIELDS = (
    "target_samples",
    "proxy_gradients",
    "proxy_values",
    "proxy_hvps",
    "proxy_hessians",
    "seconds",
)
"""What a point carries of the ledger, besides the target gradients."""

ON_STEP_SIZE = "step_size_gradients"
"""Of the target gradients, those that ``eta="auto"`` spent on the step size alone."""


def marks(budget: int, points: int = 50) -> list[int]:
    """Return the numbers of target gradients at which a run is looked at, from 0 to the budget."""
    return sorted({round(budget * j / points) for j in range(points + 1)})


def play(
    contender: Contender,
    eta: float | str | None,
    problem: Problem,
    *,
    optimum: float,
    budget: int,
    seed: Any,
    at: Sequence[int],
) -> list[Point]:
    """Run a contender within a budget of target gradients and measure it at the marks.

    At a mark the answer is the last one paid for by then: a method that spends two gradients
    a step is not helped by the rounding.
    """
    watch = _Watch(problem, optimum, at)
    if contender.name == ERM:
        _empirical_risk(problem, seed, watch)
    else:
        assert eta is not None
        _minimised(contender, eta, problem, Budget(target_gradients=budget), seed, watch)
    return watch.points


def play_and_keep(
    contender: Contender,
    eta: float | str,
    problem: Problem,
    *,
    optimum: float,
    budget: Budget,
    seed: Any,
    at: Sequence[int],
) -> tuple[list[Point], Result]:
    """Do the same within any budget, and return the run's result besides its points.

    Where something else than target gradients ends the run, the marks ahead repeat its answer.
    With ``eta="auto"`` each point also says how many of the target gradients so far were for the
    step size alone.
    """
    watch = _Watch(problem, optimum, at)
    return watch.points, _minimised(contender, eta, problem, budget, seed, watch)


def fit_rows_seen(
    problem: Problem, *, optimum: float, seed: Any, at: Sequence[int]
) -> tuple[list[Point], Vector, dict[str, float]]:
    """Run the yardstick, and return its points, its last answer and what that cost."""
    watch = _Watch(problem, optimum, at)
    w, ledger = _empirical_risk(problem, seed, watch)
    return watch.points, w, ledger


def _minimised(
    contender: Contender,
    eta: float | str,
    problem: Problem,
    budget: Budget,
    seed: Any,
    watch: _Watch,
) -> Result:
    settings = contender.build(eta)
    if eta == "auto":
        watch.count_beyond(2 if settings["method"].two_points else 1)
    # A step size that is too large is tried on purpose, and found out by its numbers.
    with np.errstate(over="ignore", invalid="ignore"):
        result = minimize(problem, budget=budget, rng=seed, callback=watch.after, **settings)
        # An answer above the start is a bad one, but it is an answer: its number is shown.
        ended = result.success or result.status is Status.ABOVE_START
        watch.close(result.w, result.ledger.as_dict(), diverged=not ended)
    return result


class _Watch:
    """Turns the steps of a run into points at the marks."""

    def __init__(self, problem: Problem, optimum: float, at: Sequence[int]) -> None:
        self.points: list[Point] = []
        self.left = list(at)
        self._problem, self._optimum = problem, optimum
        self._answer: Vector = problem.objective.zeros()
        self._ledger: Mapping[str, float] = {}
        self._own: int | None = None
        self._extra = 0

    def count_beyond(self, own: int) -> None:
        """Count target gradients beyond so many a step, the method's own: the step size's."""
        self._own = own

    def after(self, step: Step) -> None:
        spent = step.ledger.target_gradients
        while self.left and self.left[0] < spent:
            self.measure(self._answer, self._ledger)
        self._answer, self._ledger = step.answer, step.ledger.as_dict()
        if self._own is not None:
            self._extra += max(0, len(step.gradients) - self._own)
        while self.left and self.left[0] == spent:
            self.measure(self._answer, self._ledger)

    def close(self, w: Vector, ledger: Mapping[str, float], *, diverged: bool) -> None:
        while self.left:
            self.measure(w, ledger, diverged=diverged)

    def measure(self, w: Vector, ledger: Mapping[str, float], *, diverged: bool = False) -> None:
        value = self._problem.value(w) - self._optimum
        point: Point = {"target_gradients": self.left.pop(0)}
        point |= {name: ledger.get(name, 0) for name in LEDGER_FIELDS}
        if self._own is not None:
            point[ON_STEP_SIZE] = self._extra
        # A run that broke off has no answer: its last good iterate would flatter it.
        point["suboptimality"] = None if diverged else value
        self.points.append(point)


def _empirical_risk(problem: Problem, seed: Any, watch: _Watch) -> tuple[Vector, dict[str, float]]:
    """Fit, at each mark, the rows drawn so far; re-fits start from the last answer."""
    objective = problem.objective
    rng = np.random.default_rng(seed)
    counts = np.zeros(objective.design.rows)
    begun, w, spent = time.perf_counter(), objective.zeros(), 0
    ledger: dict[str, float] = {}
    while watch.left:
        while spent < watch.left[0]:
            drawn = objective.sample(rng)
            counts += 1.0 if drawn is None else np.bincount(drawn, minlength=len(counts))
            spent += 1
        if spent:
            seen = np.flatnonzero(counts)
            weights = counts[seen] * objective.sample_weight[seen]
            part = objective.rows(seen, sample_weight=weights)
            w = minimise_exactly(part, w, tol=1e-9, penalty=problem.penalty)
        ledger = {
            "target_gradients": spent,
            "target_samples": int(counts.sum()),
            "seconds": time.perf_counter() - begun,
        }
        watch.measure(w, ledger)
    return w, ledger
