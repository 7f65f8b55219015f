r"""How a finished run really went: what its losses, gradients and steps show.

Where the objective has no value that may be asked for, the target's gradients along the way are
evidence that is paid for already. For a loss of constant curvature

.. math:: L(b) - L(a) = \tfrac12 \langle \nabla L(a) + \nabla L(b), b - a\rangle,

so two answers estimate how the loss changed between their points. :class:`GradientPath` applies it
twice: along the straight line from the start, and summed along the path. Where the curvature
changes the two differ, and only what both say counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from proxyprox._util.arrays import (
    Vector,
    changed,
    copy_array,
    dot,
    dtype_name,
    norm,
    same_point,
)
from proxyprox.checkpoint import require_array
from proxyprox.oracle import copying, value_for_report
from proxyprox.problems import Problem
from proxyprox.result import Result, Status, Trace

Array = Any

# A loss that has grown by twice its size at the start is far above it.
FAR = 2.0
# Steps whose typical length has doubled, from the first quarter to the last, became longer.
LONGER = 2.0
# Of 16 steps or more, a random walk nearly always ends within three quarters of their length.
MANY, STRAIGHT = 16, 0.75
# Steps below this share of the longest one are rounding: a rule may fail there.
STILL = 1e-6
# Two values of a loss that differ by less than this share of their size are equal.
ROUNDING = {"float32": 1e-5, "float64": 1e-10}
# A gradient of less than this share of the smallest so far is progress.
SMALLER = 0.9
# The relative spacing of numbers.
PRECISION = {"float32": float(np.finfo(np.float32).eps), "float64": float(np.finfo(float).eps)}
# The rounding of a loss in units of ε·|L|, as a sum of many terms has it at most.
BLURRED = 100
# How many of the first and of the last answers are remembered.
FIRST, LAST = 8, 64
# Shares of its parts by which a change must exceed zero: parts cancel, and so may their errors.
CLEAR, OBVIOUS = 0.1, 0.5
# A gradient ten times as large as at the start: the run did not merely end a little higher.
GROWN = 10.0
# By what factors the norm and the slope away from the start have grown in a run that diverges. A
# run that leaves a saddle point sees its gradients grow too, at first: in short ones more is asked.
EXPLODED, EXPLODED_SOON = (10.0, 3.0), (100.0, 30.0)
# Shares of slopes that point away from the start; by noise alone half of them do.
MOSTLY, NEARLY_ALL = 0.8, 0.95
# Growth that no loss worth minimising explains, whatever direction its gradients have.
RUNAWAY = 1e6
# Growth of exact gradients, and the distance in units of max(1, ‖w_0‖), of a run that diverged.
STEEPER, FARTHER = 1e4, 1e2
# An answer less than half as far from the start as the points asked about is judged by none.
CAME_BACK = 0.5
# Below this share of ‖x_0‖ a run has not moved, but for rounding.
MOVED = {"float32": 1e-3, "float64": 1e-6}
LARGEST = 1e300


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

    def higher(self, share: float) -> bool:
        """Tell whether the line and the path both say, clearly, that the loss is above x_0's."""
        clear = self.path > share * (self.varied + np.abs(self.penalty))
        clear |= self.path > self.line / 2
        return bool(np.all((self.line > share * self.parts) & (self.path > 0) & clear))


NO_ROWS = np.empty((0, len(Answers._fields)))


def _with_row(rows: Array, row: list[float], most: int) -> Array:
    """Return the last rows with one more, as a new array."""
    kept = rows[max(0, len(rows) + 1 - most) :]
    added = np.empty((len(kept) + 1, len(row)))
    added[:-1], added[-1] = kept, row
    return added


@dataclass(frozen=True)
class GradientPath:
    """The target's answers along a run: the first few, the last few, and sums over all.

    ``exact`` tells whether every answer was a full gradient; ``first`` and ``last`` have a row for
    each answer, with the columns of :class:`Answers`. If values are told, ``start_value`` is the
    first of them, ``best`` the point of the lowest; ``idle`` counts the rounds since the value or
    the gradient last fell.
    """

    start: Vector | None = None
    start_gradient: Vector | None = None
    point: Vector | None = None
    gradient: Vector | None = None
    exact: bool = True
    first: Array = field(default_factory=NO_ROWS.copy)
    last: Array = field(default_factory=NO_ROWS.copy)
    start_value: float = math.nan
    value: float = math.nan
    best: Vector | None = None
    best_value: float = math.nan
    least_norm: float = math.inf
    idle: int = 0

    def add(
        self, point: Vector, gradient: Vector, penalty: Any, *, exact: bool,
        value: float | None, idle: int = 1,
    ) -> GradientPath:  # fmt: skip
        """Return the path with the answer at a point, whose arrays may not change later.

        ``idle`` is as how many rounds it counts if neither the value nor the gradient fell.
        """
        valued: dict[str, Any] = {}
        if value is not None:
            valued = self._values_with(point, _distance(point, gradient, penalty), value, idle)
        distance = slope = start_slope = along = varied = added = 0.0
        start, start_gradient = self.start, self.start_gradient
        if start is None:
            start, start_gradient = point, gradient
        else:
            before, way = Answers(*self.last[-1].tolist()), point - start
            distance = norm(way)
            if distance > 0:
                slope = dot(gradient, way / distance)
                start_slope = dot(start_gradient, way / distance)
            change = dot(self.gradient + gradient, point - self.point) / 2
            along, varied = before.along + change, before.varied + abs(change)
            if penalty is not None:
                added = float(penalty.value(point)) - float(penalty.value(start))
                # A point outside the penalty's domain says nothing of a rise.
                added = added if math.isfinite(added) else -LARGEST
        numbers = norm(gradient), distance, slope, start_slope, along, varied, added
        # A checkpoint holds finite numbers; infinities that cancelled out say nothing.
        row = [0.0 if x != x else max(-LARGEST, min(LARGEST, x)) for x in numbers]
        first = self.first if len(self.first) == FIRST else _with_row(self.first, row, FIRST)
        last = _with_row(self.last, row, LAST)
        return changed(
            self, start=start, start_gradient=start_gradient, point=point, gradient=gradient,
            exact=self.exact and exact, first=first, last=last, **valued,
        )  # fmt: skip

    def begun_again(self, w0: Vector) -> GradientPath:
        """Return the path of a run that begins at its second point; a value at w0 is kept."""
        kept = self.start_value if same_point(self.start, w0) else math.nan
        return GradientPath(exact=self.exact, start_value=kept)

    def _values_with(self, point: Vector, size: float, value: float, idle: int) -> dict[str, Any]:
        """Return the lowest value and gradient with a new one, and for how long neither fell."""
        found: dict[str, Any] = {"value": value, "idle": self.idle + idle}
        if self.start is None and math.isnan(self.start_value):
            found["start_value"] = value
        if size < SMALLER * self.least_norm:
            found |= {"least_norm": size, "idle": 0}
        if math.isfinite(value) and not value >= self.best_value:
            if self.best is None or is_above(value, self.best_value, dtype_name(point)):
                found["idle"] = 0
            found |= {"best": point, "best_value": value}
        return found

    def known_values(
        self, problem: Problem, w0: Vector, answer: Vector
    ) -> tuple[float | None, float | None]:
        """Return the losses at the start and at the answer, penalty included, where told."""
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

    def below(self, tol: float, atol: float, penalty: Any) -> bool:
        """Tell whether the last answer's gradient is within a tolerance of zero.

        A point whose value is above an earlier one, on a plateau say, is no minimum.
        """
        if self.start is None or not self.exact:
            return False
        if math.isfinite(self.value) and is_above(
            self.best_value, self.value, dtype_name(self.point)
        ):
            return False
        return self.size(penalty) <= self.limit(tol, atol, penalty)

    def size(self, penalty: Any) -> float:
        """Return how far the last gradient is from zero."""
        return _distance(self.point, self.gradient, penalty)

    def limit(self, tol: float, atol: float, penalty: Any) -> float:
        """Return how far from zero a gradient may be that is within a tolerance of it."""
        return max(tol * _distance(self.start, self.start_gradient, penalty), atol)

    def rounds_off(self, promise: float, *, stalled: bool) -> bool:
        """Tell whether what a step promises to gain is lost in the rounding of the loss.

        A mean of many terms is known up to some ``ε·|L|``, also if its terms, which were as large
        as it at the start, have fallen since: a run that has stalled ends there. So does one that
        began there: neither what it gained since then nor what it may gain is more, and gradients,
        whose squares losses are like, are as small beside those at other points.
        """
        if self.best is None or not math.isfinite(self.start_value):
            return False
        size = max(abs(self.best_value), abs(self.start_value))
        blur = BLURRED * PRECISION[dtype_name(self.best)]
        norms = self.last[:, 0]
        # By the third answer the method has seen what its own steps lead to.
        began = len(norms) > 2 and norms.min() <= math.sqrt(blur) * norms.max()
        began = began and self.start_value - self.best_value <= blur * size
        return promise <= blur * size and (stalled or bool(began))

    @np.errstate(over="ignore", invalid="ignore")
    def finding(self, answer: Vector, last: Vector, moved: Array) -> Finding | None:
        """Return what the gradients say against an answer, the last iterate or an average of them.

        ``moved`` are the lengths of the steps.
        """
        if self.start is None or len(self.last) < 2 or not self._last(1).distance[0] > 0:
            return None
        way, average = answer - self.start, bool((answer != last).any())
        distance, here = norm(way), norm(self.start)
        pull = dot(self.start_gradient, way / distance) if distance > 0 else 0.0
        late = self._last(max(4, len(moved) // 4), moved_only=True)
        newest = self._last(1) if self.exact else late
        size, now = self.first_size(), np.median(newest.norm)
        away = max(self._last(1).distance[0], np.median(newest.distance))
        dtype = dtype_name(answer)
        # A gradient that is zero but for rounding says nothing of where it leads.
        if not (distance > MOVED[dtype] * here and now * away > (10 * PRECISION[dtype]) ** 2):
            return None
        seen = (
            f"The target's gradient went from {size:.3g} in the first steps to {now:.3g} in norm, "
            f"{away:.3g} away from there"
        )
        steps, grown = len(moved), now >= GROWN * size
        status = Status.GREW if grown else Status.ABOVE_START
        # Steps to and fro across the minimum pass near the start at every other point.
        near = self._last(2).distance.min()
        rises = (average or distance >= CAME_BACK * near) and (
            self._rises(steps) or self._explodes(late, steps)
        )
        back = not average and distance < CAME_BACK * away
        if rises or (not back and self._shoots_up(steps)):
            # An average of the iterates lies nearer: with one curvature its loss rose by less.
            nearer = np.median(late.slope) * distance / away
            if average and not (grown and nearer + pull > 0):
                return None
            rise = self._last(2).line.max()
            text = f"{seen}: by the gradients along the way, the loss rose by about {rise:.3g}."
            return Finding(status, text)
        far = distance >= np.median(late.distance) / 4
        if not average and far and self._bounces(late, moved):
            return Finding(status, f"{seen}, and single steps are half as long as that or longer.")
        unit = max(here, 1.0)
        ran_away = now >= RUNAWAY * size and distance >= RUNAWAY * unit
        if ran_away or (self.exact and now >= STEEPER * size and distance >= FARTHER * unit):
            return Finding(Status.GREW, f"{seen}, and points further away still.")
        return None

    @np.errstate(over="ignore", invalid="ignore")
    def fell(self) -> bool:
        """Tell whether the last answers show, clearly, that the loss fell."""
        few = self._last(4)
        clear = np.all((few.line < -CLEAR * few.parts) & (few.path < 0))
        return bool(len(self.last) >= 4 and clear and np.median(few.norm) < self.first_size() / 2)

    def require_valid(self, steps: int) -> None:
        """Refuse what is not a path of so many steps."""
        # A run that turned back from its first point has no answer from there.
        answers = steps - (len(self.last) < min(steps, LAST))
        if answers and any(x is None for x in (self.start, self.start_gradient, self.point)):
            raise ValueError("the path has no start")
        numbers = self.start_value, self.value, self.best_value, self.least_norm
        kinds = {"idle": int, "exact": bool}
        wrong = [name for name, kind in kinds.items() if type(getattr(self, name)) is not kind]
        if wrong or any(type(x) is not float for x in numbers):
            raise ValueError("the path's values are not numbers")
        for name, most in (("first", FIRST), ("last", LAST)):
            like = np.empty((min(answers, most), len(Answers._fields)))
            require_array(f"path.{name}", getattr(self, name), like)

    def first_size(self) -> float:
        """Return the gradient's norm at the start; of sampled ones a typical norm at first."""
        norms = self.first[:, 0]
        return float(norms[0] if self.exact else min(np.median(norms), norms[:2].max()))

    def _last(self, count: int, *, moved_only: bool = False) -> Answers:
        rows = Answers(*self.last[-count:].T)
        return Answers(*self.last[-count:][rows.distance > 0].T) if moved_only else rows

    def _rises(self, steps: int) -> bool:
        """Tell whether the line and the path agree that the last exact answers lie higher."""
        rises = self._last(3).line
        # One more step as good as the last must not bring it below the start.
        lasting = self.exact and steps > 2 and 2 * rises[-1] > rises[:-1].min()
        return lasting and self._last(max(2, min(8, steps // 4))).higher(CLEAR)

    def _shoots_up(self, steps: int) -> bool:
        """Tell whether few answers leave no doubt: the last exact one, or two sampled ones.

        Noise only lowers what the path says, as each step follows the noise of its gradient.
        """
        few, size = self._last(1 if self.exact else 2), self.first_size()
        if not self.exact:
            if steps < 4 or not np.all(np.diff(self._last(3).norm) > 0):
                return False
            size = self.first[: steps // 2, 0].max()
        return few.norm[0] >= GROWN * size and few.higher(OBVIOUS)

    def _explodes(self, late: Answers, steps: int) -> bool:
        """Tell whether gradients, sampled or not, have grown and point away from the start."""
        grown, outward = EXPLODED if steps >= 16 else EXPLODED_SOON
        size = self.first_size()
        return bool(
            len(late.norm) >= 4
            and np.median(late.norm) >= grown * size
            and np.median(late.slope) >= outward * size
            and np.mean(late.slope > 0) >= MOSTLY
            and np.median(late.line) > 0
            and (not self.exact or self._last(1).path[0] > 0)
        )

    def _bounces(self, late: Answers, moved: Array) -> bool:
        """Tell whether steps as long as the way go to and fro where slopes stay steep.

        Losses of bounded slope, such as the logistic one, diverge like this: their gradients
        cannot grow, and the trapezoidal rule is far off.
        """
        steep = np.median(late.norm) >= self.first_size() * (0.8 if self.exact else 0.5)
        long = moved[-len(late.norm) :].mean() >= np.median(late.distance) / 2
        above = np.mean(late.line > 0) >= (0.75 if self.exact else 0.5)
        outward = np.mean(late.slope > 0) >= NEARLY_ALL
        return bool(len(moved) >= 8 and steep and long and above and outward)


def _total(problem: Problem, value: float, point: Vector) -> float:
    """Return a value of the target with the penalty's."""
    penalty = copying(problem.penalty)
    return value if penalty is None else value + float(penalty.value(point))


def _distance(point: Vector, gradient: Vector, penalty: Any) -> float:
    """Return how far the gradient, with the penalty's where there is one, is from zero."""
    return norm(gradient) if penalty is None else float(penalty.distance(point, gradient))


class Finding(NamedTuple):
    """The status that the gradients support, and what was seen."""

    status: Status
    text: str


def judge_by_gradients(result: Result) -> Result:
    """Return the result of a run without values, its status and message corrected by gradients."""
    found = result.doubt
    if found is None or not (result.status.success or result.status is Status.RUNNING):
        return result
    text = f"{found.status.value} {found.text}"
    if result.status is Status.RUNNING:
        return replace(result, message=f"{result.message} {text}")
    return replace(result, status=found.status, message=f"{text} {result.message}")


def judge_outcome(
    result: Result,
    problem: Problem,
    w0: Vector,
    *,
    path: GradientPath,
    measured: bool,
    guarded: bool,
) -> Result:
    """Return the result with the losses at its two ends, its status corrected by the evidence.

    An answer above the start is exchanged for the start, or for the lowest point that is known.
    The objective's ``value`` is called where the run's ``path`` does not know it, where it has one
    and neither a cost nor a privacy account that this would have to be entered in. No step ever
    depends on what it says. ``measured`` and ``guarded`` say whether ``eta="auto"`` and a safeguard
    were on.
    """
    faults: list[str] = []
    first, last = (
        known if known is not None else value_for_report(problem, point, faults, result.ledger)
        for known, point in zip(
            path.known_values(problem, w0, result.w), (w0, result.w), strict=True
        )
    )
    values = None if first is None or last is None else (first, last)
    if first is not None and math.isnan(first):
        faults.append("it is NaN at the start")
    if faults:
        values = None
        faults = [f"The objective's value could not be used ({faults[0]}): check it."]
    with np.errstate(over="ignore", invalid="ignore"):
        away, size = norm(result.last - w0), norm(w0)
    status, note = _status(result, away, size, values)
    if values is not None and is_above(*values, dtype_name(result.w)):
        answer, least = path.lowest(problem, w0, values[0])
        whose = "start" if same_point(answer, w0) else "lowest point that was asked about"
        note = (
            f"The loss was {values[0]:.6g} at the start and {values[1]:.6g} at the end, so the "
            f"answer is the {whose}."
        )
        gradient = path.gradient if path.exact and same_point(path.point, answer) else None
        jac = None if gradient is None else copy_array(gradient)
        last, values = least, (values[0], least)
        result = replace(result, w=copy_array(answer), jac=jac)
    parts = [result.message, note]
    if status is not result.status:
        untried = [] if measured else ["A smaller eta", "eta='auto'"]
        untried += [] if guarded else ["safeguard=True"]
        helps = f"{' or '.join(untried)} should help." if untried else ""
        parts = [status.value, note, result.message]
        parts += [helps, ADVICE[status]] if status in ADVICE else []
    text = " ".join(part for part in [*parts, *faults] if part)
    fun = math.nan if last is None else last
    return replace(result, values=values, fun=fun, status=status, message=text)


ADVICE = {
    Status.GREW: "Check the gradient against the value too, with scipy.optimize.check_grad.",
    Status.ABOVE_START: "Near the minimum noisy gradients lead up too: larger batches help there.",
}


def _status(
    result: Result, away: float, size: float, values: tuple[float, float] | None
) -> tuple[Status, str]:
    """Return the status that the evidence supports, and what was seen where it leaves doubts."""
    status, trace, dtype = result.status, result.trace, dtype_name(result.w)
    if not status.success or len(trace) == 0:
        return status, ""
    if values is None and result.doubt is not None:
        return result.doubt.status, result.doubt.text
    if values is not None and is_above(*values, dtype):
        doubted = result.doubt is not None and result.doubt.status is Status.GREW
        grew = doubted or _grew(trace, away, *values)
        return Status.GREW if grew else Status.ABOVE_START, ""
    still = away <= 10 * ROUNDING[dtype] * size
    failed = not still and _mostly_failed(trace, ROUNDING[dtype] * result.first_gradient)
    fell = result.fell if values is None else values[1] < values[0]
    if failed and not fell:
        return Status.INNER_RULE_FAILED, ""
    return status, "The inner rule failed in most steps." if failed else ""


def is_above(first: float, last: float, dtype: str) -> bool:
    """Tell whether the last value is above the first by more than rounding."""
    rounding = ROUNDING[dtype] * max(abs(first), abs(last)) + (10 * PRECISION[dtype]) ** 2
    return not math.isfinite(last) or last - first > rounding


def _grew(trace: Trace, away: float, first: float, last: float) -> bool:
    """Tell whether the loss ended far above its start after steps that no noise explains.

    Noise at a good start raises the loss too, but its steps neither become longer and longer nor
    lead straight away.
    """
    if not math.isfinite(last):
        return True
    if not last - first > FAR * abs(first):
        return False
    moved = trace["displacement"]
    longest = moved.max(initial=0.0)
    # So far out that steps are lost to rounding, a run stands still at last.
    moved = moved[: 1 + int(np.flatnonzero(moved >= STILL * longest)[-1])]
    quarter = -(-len(moved) // 4)
    longer = np.median(moved[-quarter:]) > LONGER * np.median(moved[:quarter])
    if longer or not moved.any():
        return bool(longer)
    shares = moved / longest
    # As many steps of one length would count as much: of these a random walk gets √n far.
    many = shares.sum() ** 2 / (shares**2).sum() >= MANY
    return bool(many and away > STRAIGHT * moved.sum())


def _mostly_failed(trace: Trace, rounding: float) -> bool:
    """Tell whether the inner rule failed in most steps, by more than rounding."""
    moved = trace["displacement"]
    failed = np.array([row.held is False for row in trace], dtype=bool)
    failed &= moved > STILL * moved.max(initial=0.0)
    return bool((failed & ~(trace["residual"] <= rounding)).sum() > len(trace) / 2)
