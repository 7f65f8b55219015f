r"""The target's answers along a run, and how the loss changed by them.

For a loss of constant curvature

.. math:: L(b) - L(a) = \tfrac12 \langle \nabla L(a) + \nabla L(b), b - a\rangle,

so two answers estimate how the loss changed between their points. :class:`GradientPath` applies it
twice: along the straight line from the start, and summed along the path. If the curvature changes,
the two differ. What follows from them is judged in :mod:`proxyprox.advice.outcome`.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from proxyprox._util.arrays import Vector, changed, dot, dtype_name, norm, same_point
from proxyprox._util.trees import Growing
from proxyprox.oracle import copying
from proxyprox.problems import Problem
from proxyprox.result import Ledger, StepRecord, count_words

Array = Any


def precision(x: Vector) -> float:
    """Return the relative spacing ε of numbers of an array's dtype."""
    return float(np.finfo(dtype_name(x)).eps)


def rounding(x: Vector) -> float:
    """Return the share of their size by which two sums of many terms may differ: ε^(2/3)."""
    return float(np.cbrt(precision(x)) ** 2)


def is_above(first: float, last: float, like: Vector) -> bool:
    """Tell whether the last value is above the first by more than rounding."""
    slack = rounding(like) * max(abs(first), abs(last)) + (10 * precision(like)) ** 2
    return not math.isfinite(last) or last - first > slack


class Answers(NamedTuple):
    """The target's answers in numbers, a column each.

    ``norm`` is ‖g_k‖, ``distance`` ‖x_k − x_0‖; ``slope`` and ``start_slope`` are ⟨g_k, u⟩ and
    ⟨g_0, u⟩ for the direction u from x_0 to x_k; ``along`` is the change of the loss by the
    trapezoidal rule along the path, ``varied`` the sum of its changes' sizes, and ``penalty`` the
    change of the penalty since x_0.
    """

    norm: Array
    distance: Array
    slope: Array
    start_slope: Array
    along: Array
    varied: Array
    penalty: Array

    @property
    def line(self) -> Array:
        """The change since x_0 by the trapezoidal rule on the straight line."""
        return self.distance * (self.slope + self.start_slope) / 2 + self.penalty

    @property
    def path(self) -> Array:
        """The change since x_0 by the trapezoidal rule along the path."""
        return self.along + self.penalty

    @property
    def parts(self) -> Array:
        """The size of what the change is the sum of."""
        slopes = np.abs(self.slope) + np.abs(self.start_slope)
        return self.distance * slopes / 2 + np.abs(self.penalty)

    def moved(self) -> Answers:
        """Return the answers away from the start."""
        return Answers(*np.array(self)[:, self.distance > 0])


WIDTH = len(Answers._fields)


@dataclass(frozen=True)
class GradientPath:
    """The target's answers along a run.

    ``exact`` tells whether every answer was a full gradient; ``numbers`` has those of
    :class:`Answers` for each answer, one answer after the other. If values are told,
    ``start_value`` is the first of them, ``best`` the point of the lowest; ``idle`` counts the
    rounds since the value or the gradient last fell.
    """

    start: Vector | None = None
    start_gradient: Vector | None = None
    point: Vector | None = None
    gradient: Vector | None = None
    exact: bool = True
    numbers: Growing = field(default_factory=lambda: Growing(array("d")))
    start_value: float = math.nan
    value: float = math.nan
    best: Vector | None = None
    best_value: float = math.nan
    least_norm: float = math.inf
    idle: int = 0

    def add(
        self, point: Vector, gradient: Vector, penalty: Any, *, exact: bool,
        value: float | None, smaller: float = 1.0, idle: int = 1,
    ) -> GradientPath:  # fmt: skip
        """Return the path with the answer at a point, whose arrays may not change later.

        A gradient below the share ``smaller`` of the smallest so far has fallen. The answer counts
        as ``idle`` rounds if neither the value nor the gradient fell.
        """
        valued: dict[str, Any] = {}
        if value is not None:
            size = _distance(point, gradient, penalty)
            valued = self._values_with(point, size, value, smaller, idle)
        distance = slope = start_slope = along = varied = added = 0.0
        start, start_gradient = self.start, self.start_gradient
        if start is None:
            start, start_gradient = point, gradient
        else:
            before, way = self.last, point - start
            distance = norm(way)
            if distance > 0:
                along_way = way / distance
                slope, start_slope = dot(gradient, along_way), dot(start_gradient, along_way)
            change = dot(self.gradient + gradient, point - self.point) / 2
            along, varied = before.along + change, before.varied + abs(change)
            if penalty is not None:
                added = float(penalty.value(point)) - float(penalty.value(start))
                # A point outside the penalty's domain says nothing of a rise.
                added = added if math.isfinite(added) else -math.inf
        numbers = norm(gradient), distance, slope, start_slope, along, varied, added
        return changed(
            self, start=start, start_gradient=start_gradient, point=point, gradient=gradient,
            exact=self.exact and exact, numbers=self.numbers.append(*numbers), **valued,
        )  # fmt: skip

    def begun_again(self, w0: Vector) -> GradientPath:
        """Return the path of a run that begins at its second point; a value at w0 is kept."""
        kept = self.start_value if same_point(self.start, w0) else math.nan
        return GradientPath(exact=self.exact, start_value=kept)

    def _values_with(
        self, point: Vector, size: float, value: float, smaller: float, idle: int
    ) -> dict[str, Any]:
        """Return the lowest value and gradient with a new one, and for how long neither fell."""
        found: dict[str, Any] = {"value": value, "idle": self.idle + idle}
        if self.start is None and math.isnan(self.start_value):
            found["start_value"] = value
        if size < smaller * self.least_norm:
            found |= {"least_norm": size, "idle": 0}
        if math.isfinite(value) and not value >= self.best_value:
            if self.best is None or is_above(value, self.best_value, point):
                found["idle"] = 0
            found |= {"best": point, "best_value": value}
        return found

    def known_values(
        self, problem: Problem, w0: Vector, answer: Vector
    ) -> tuple[float | None, float | None]:
        """Return the losses at the start and at the answer, penalty included, if they were told."""
        first = last = None
        # A function whose evaluations count is not called for a report.
        counted = getattr(problem.objective, "evaluations", 0) > 0
        if math.isfinite(self.start_value) and (counted or same_point(self.start, w0)):
            first = _total(problem, self.start_value, w0)
        if same_point(self.best, answer):
            last = _total(problem, self.best_value, answer)
        elif same_point(w0, answer):
            last = first
        return first, last

    def lowest(self, problem: Problem, w0: Vector, first: float) -> tuple[Vector, float]:
        """Return the start, or the best point if that is lower, and the loss there."""
        if self.best is None:
            return w0, first
        least = _total(problem, self.best_value, self.best)
        return (self.best, least) if least < first else (w0, first)

    def size(self, penalty: Any) -> float:
        """Return how far the last gradient is from zero."""
        return _distance(self.point, self.gradient, penalty)

    def limit(self, tol: float, atol: float, penalty: Any) -> float:
        """Return how far from zero a gradient may be that is within a tolerance of it."""
        return max(tol * _distance(self.start, self.start_gradient, penalty), atol)

    def __len__(self) -> int:
        return len(self.numbers) // WIDTH

    @property
    def last(self) -> Answers:
        """The last answer."""
        return Answers(*self.numbers.items[len(self.numbers) - WIDTH : len(self.numbers)])

    @property
    def first_norm(self) -> float:
        """The norm of the first answer; NaN if there is none."""
        return float(self.numbers[0]) if len(self) else math.nan

    def answers(self, begin: int, end: int) -> Answers:
        """Return the answers from one number up to another."""
        first, last = WIDTH * max(0, begin), WIDTH * min(end, len(self))
        return Answers(*np.array(self.numbers.items[first:last]).reshape(-1, WIDTH).T)

    def newest(self, count: int) -> Answers:
        """Return the last answers."""
        return self.answers(len(self) - count, len(self))

    def require_valid(self, steps: int) -> None:
        """Refuse what is not a path of this many steps."""
        # A run that turned back from its first point has no answer from there.
        floats = isinstance(self.numbers.items, array) and not len(self.numbers) % WIDTH
        if not floats or steps - len(self) not in (0, 1):
            raise ValueError(f"the path is not one of {steps} steps")
        if len(self) and any(x is None for x in (self.start, self.gradient, self.point)):
            raise ValueError("the path has no start")


def path_after(
    parts: Any, state: Any, answers: Any, after: Any, finite: bool, policy: Any
) -> GradientPath:
    """Return the path with the answers that have led to a state of the method."""
    path: GradientPath = state.path
    query = state.question
    nowhere = path.start is None and not state.starts
    if query.outputs:
        # A method that maps outputs knows its best point: gradients are not known.
        if not math.isfinite(after.value):
            return path
        begun, unknown = path.start is not None, 0 * after.w
        path = path.add(after.w, unknown, None, exact=False, value=after.value)
        # The first point asked about is a w0 that was given.
        return path if begun else changed(path, start_value=answers.value)
    point, gradient, value = query.points[0], answers.gradients[0], answers.value
    valued, w = value is None or math.isfinite(value), state.method.w
    # A line search that has come back to its iterate is at its end.
    again = parts.method.backtracks and same_point(path.point, w)
    idle = policy.idle if again and same_point(point, w) else 1
    # A trial point without an answer is no part of the path: the run stayed where it was.
    if not finite or not (valued or nowhere or path.start is not None):
        point, gradient, value, idle = path.point, path.gradient, path.value, 0
    elif state.starts and path.start is not None and same_point(point, after.w):
        # The run begins here: a first gradient elsewhere, however large, is no measure.
        path = path.begun_again(parts.start)
    if point is None:
        return path
    exact = query.batch is None or query.exact
    return path.add(
        point, gradient, parts.penalty, exact=exact, value=value, smaller=policy.smaller, idle=idle
    )


def step_record(
    k: int, eta: float, solved: Any, ledger: Ledger, value: float | None, gradient: float
) -> StepRecord:
    """Return the numbers of step k: how well its subproblem was solved, and what it had cost."""
    numbers: tuple[Any, ...] = eta, 0.0, math.nan, None, 0, 0.0
    if solved is not None:
        phi, progress, stop = solved
        bound, held = stop.threshold(progress), stop.holds(progress)
        threshold = math.nan if bound is None else bound
        numbers = phi.eta, progress.residual, threshold, held, progress.steps, progress.displacement
    paid = ledger.target_gradients, ledger.proxy_gradients, ledger.seconds
    return StepRecord._make((k, *numbers, *paid, math.nan if value is None else value, gradient))


@dataclass(frozen=True)
class Faults:
    """Which outer steps were blocked: the proxy was not finite at a trial point, and it mattered.

    It mattered if a subproblem had no finite solution, so that the step had to be shortened, or
    if the inner rule failed. A line search that turns back from an infinity in time is no fault.
    """

    blocked: tuple[int, ...] = ()
    words: str = ""

    def add(self, k: int, fault: tuple[str, Vector], w: Vector) -> Faults:
        """Return the faults with that of step k from w."""
        what, point = fault
        with np.errstate(over="ignore", invalid="ignore"):
            away = norm(point - w)
        where = f"at a distance of {away:.3g} from w" if math.isfinite(away) else "far from w"
        return Faults((*self.blocked, k), f"the proxy's {what} was not finite {where}")

    def in_a_row(self, steps: int, row: int) -> bool:
        """Tell whether the last ``row`` of all steps were blocked."""
        return steps >= row and self.blocked[-row:] == tuple(range(steps - row, steps))

    def stuck(self, steps: int, row: int) -> bool:
        """Tell whether the last ``row`` steps, or most of all, were blocked."""
        return self.in_a_row(steps, row) or 2 * len(self.blocked) > steps

    def summary(self, steps: int) -> str:
        """Return what was met, where and how often, as a sentence."""
        often = f"{len(self.blocked):,} of {count_words(steps, 'step')}"
        return f"That was so in {often}; in the last of them {self.words}."


def _total(problem: Problem, value: float, point: Vector) -> float:
    """Return a value of the target with the penalty's."""
    penalty = copying(problem.penalty)
    return value if penalty is None else value + float(penalty.value(point))


def _distance(point: Vector, gradient: Vector, penalty: Any) -> float:
    """Return how far the gradient, with the penalty's if there is one, is from zero."""
    return norm(gradient) if penalty is None else float(penalty.distance(point, gradient))
