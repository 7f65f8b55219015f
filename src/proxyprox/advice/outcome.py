r"""How a run goes, and how a finished one really went: what losses, gradients and steps show.

If the objective has no value that may be asked for, the target's gradients along the way are
evidence that is paid for already. For a loss of constant curvature

.. math:: L(b) - L(a) = \tfrac12 \langle \nabla L(a) + \nabla L(b), b - a\rangle,

so two answers estimate how the loss changed between their points. :class:`GradientPath` applies it
twice: along the straight line from the start, and summed along the path. If the curvature changes,
the two differ; only what both say counts.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from proxyprox._util.arrays import (
    Growing,
    Vector,
    changed,
    copy_array,
    copy_tree,
    dot,
    norm,
    rounding,
    same_point,
)
from proxyprox._util.validation import count_words
from proxyprox.oracle import copying, reports_values
from proxyprox.problems import Problem
from proxyprox.problems.problem import facts_of
from proxyprox.result import Ledger, Result, Status, StepRecord

Array = Any


@dataclass(frozen=True)
class OutcomePolicy:
    r"""When a run has stalled or failed.

    ``python benchmarks/outcome.py`` is the record of those that a finding rests on. ``idle``,
    ``blurred`` and ``row`` have no record: they are judgements.

    Attributes
    ----------
    late : int
        Answers that say something of the end of a run, at least; a quarter of them if there are
        more. As many sampled ones at first say how large gradients were.
    grown : float
        How many times as large as at first gradients are that have grown.
    idle : int
        Rounds without progress after which a run that waits for a small gradient gives up.
    blurred : float
        The rounding of a loss in units of ε·\|L\|.
    row : int
        Blocked steps in a row that are no accident.
    """

    late: int = 4
    grown: float = 10.0
    idle: int = 10
    blurred: float = 100.0
    row: int = 5


POLICY = OutcomePolicy()


def is_above(first: float, last: float, like: Vector) -> bool:
    """Tell whether the last value is above the first by more than rounding."""
    slack = rounding(like) * max(abs(first), abs(last)) + (10 * rounding(like, 1)) ** 2
    return not math.isfinite(last) or last - first > slack


class Answers(NamedTuple):
    """The target's answers in numbers, a column each.

    ``norm`` is ‖g_k‖, ``distance`` ‖x_k − x_0‖, ``line`` the change of the loss since x_0 by the
    trapezoidal rule on the straight line, ``along`` that along the path, without a penalty.
    """

    norm: Array
    distance: Array
    line: Array
    along: Array


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
        value: float | None, idle: int = 1,
    ) -> GradientPath:  # fmt: skip
        """Return the path with the answer at a point, whose arrays may not change later.

        The answer counts as ``idle`` rounds if neither the value nor the gradient fell.
        """
        valued: dict[str, Any] = {}
        if value is not None:
            size = _distance(point, gradient, penalty)
            valued = self._values_with(point, size, value, idle)
        distance = line = along = 0.0
        start, start_gradient = self.start, self.start_gradient
        if start is None:
            start, start_gradient = point, gradient
        else:
            way = point - start
            distance = norm(way)
            along = self.last.along + dot(self.gradient + gradient, point - self.point) / 2
            line = (dot(gradient, way) + dot(start_gradient, way)) / 2
            if penalty is not None:
                added = float(penalty.value(point)) - float(penalty.value(start))
                # A point outside the penalty's domain says nothing of a rise.
                line += added if math.isfinite(added) else -math.inf
        numbers = norm(gradient), distance, line, along
        return changed(
            self, start=start, start_gradient=start_gradient, point=point, gradient=gradient,
            exact=self.exact and exact, numbers=self.numbers.append(*numbers), **valued,
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
        if size < self.least_norm:
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

    def late(self) -> Answers:
        """Return the answers that say something of the end."""
        return self.newest(max(POLICY.late, len(self) // 4))

    def sizes(self) -> tuple[float, float]:
        """Return the norms of the gradients at first and at the end; sampled ones' medians."""
        if self.exact or not len(self):
            return (float(self.numbers[0]), float(self.last.norm)) if len(self) else (math.nan,) * 2
        norms = self.answers(0, POLICY.late).norm
        return float(min(np.median(norms), norms[:2].max())), float(np.median(self.late().norm))

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


def path_after(parts: Any, state: Any, answers: Any, after: Any, finite: bool) -> GradientPath:
    """Return the path with the answers that have led to a state of the method."""
    path: GradientPath = state.path
    query = state.question
    if query.outputs:
        # A method that maps outputs knows its best point; gradients are not known.
        if not math.isfinite(after.value):
            return path
        begun, unknown = path.start is not None, 0 * after.w
        path = path.add(after.w, unknown, None, exact=False, value=after.value)
        # The first point asked about is a w0 that was given.
        return path if begun else changed(path, start_value=answers.value)
    nowhere = path.start is None and not state.starts
    point, gradient, value = query.points[0], answers.gradients[0], answers.value
    valued, w = value is None or math.isfinite(value), state.method.w
    # A line search that has come back to its iterate is at its end.
    again = parts.method.backtracks and same_point(path.point, w)
    idle = POLICY.idle if again and same_point(point, w) else 1
    # A trial point without an answer is no part of the path: the run stayed where it was.
    if not finite or not (valued or nowhere or path.start is not None):
        point, gradient, value, idle = path.point, path.gradient, path.value, 0
    elif state.starts and path.start is not None and same_point(point, after.w):
        # The run begins here: a first gradient elsewhere, however large, is no measure.
        path = path.begun_again(parts.start)
    if point is None:
        return path
    exact = query.batch is None or query.exact
    return path.add(point, gradient, parts.penalty, exact=exact, value=value, idle=idle)


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


def value_for_report(
    problem: Problem, w: Vector, faults: list[str] | None = None, ledger: Ledger | None = None
) -> float | None:
    """Return the loss at a point for a report; None if it has none, or its use is accounted.

    What goes wrong is added to ``faults``, and the call to the ledger.
    """
    if not reports_values(problem.objective):
        return None
    if ledger is not None:
        ledger.value_calls += 1
    try:
        with np.errstate(all="ignore"):
            return float(problem.value(w))
    except Exception as error:
        # A run that is finished and paid for is not lost to a function that only reports on it.
        if faults is not None:
            faults.append(f"{type(error).__name__}: {error}")
        return None


def describe_gradients(problem: Problem) -> str:
    """Return where the gradients come from that are not the user's own."""
    parts = {"target": problem.objective, "proxy": problem.proxy}
    known = {role: facts_of(part).gradient_source for role, part in parts.items()}
    return "; ".join(f"{role}: {source}" for role, source in known.items() if source)


class Finding(NamedTuple):
    """The status that the gradients support, and what was seen."""

    status: Status
    text: str


def below(path: GradientPath, tol: float, atol: float, penalty: Any) -> bool:
    """Tell whether the last answer's gradient is within a tolerance of zero.

    A point whose value is above an earlier one, on a plateau say, is no minimum.
    """
    if path.start is None or not path.exact:
        return False
    if math.isfinite(path.value) and is_above(path.best_value, path.value, path.point):
        return False
    return path.size(penalty) <= path.limit(tol, atol, penalty)


def rounds_off(path: GradientPath, promise: float, *, stalled: bool) -> bool:
    """Tell whether what a step promises to gain is lost in the rounding of the loss.

    A mean of many terms is known up to some ``ε·|L|``, also if its terms, which were as large
    as it at the start, have fallen since: a run that has stalled ends there. So does one that
    began there: neither what it gained since then nor what it may gain is more, and gradients,
    whose squares losses are like, are as small beside those at other points.
    """
    if path.best is None or not math.isfinite(path.start_value):
        return False
    blur = POLICY.blurred * rounding(path.best, 1)
    lost = blur * max(abs(path.best_value), abs(path.start_value))
    # By the third answer the method has seen what its own steps lead to.
    began = len(path) > 2 and path.start_value - path.best_value <= lost
    if not promise <= lost or not (stalled or began):
        return False
    norms = path.newest(len(path)).norm
    return stalled or bool(norms.min() <= math.sqrt(blur) * norms.max())


def known_ahead(parts: Any, state: Any) -> float:
    """Return the target's gradient at the newest iterate, as a norm, if no question is needed.

    If L − L̂ is linear, φ = L̂ + ⟨∇L(w_k) − ∇L̂(w_k), ·⟩ is L up to a constant: so are its
    gradients. Infinite if that is not known.
    """
    if not len(state.trace) or state.average is not None or not state.path.exact:
        return math.inf
    newest: StepRecord = state.trace[-1]
    same = newest.eta == math.inf and parts.method.models_target(parts.problem)
    return newest.residual if same else math.inf


def settled(parts: Any, state: Any) -> bool:
    """Tell whether nothing but rounding is left to gain, where a run has stalled or began."""
    promise = parts.method.promise(copy_tree(state.method))
    return rounds_off(state.path, promise, stalled=stalled(parts, state))


def stalled(parts: Any, state: Any) -> bool:
    """Tell whether neither the target's value nor its gradient fell in the last rounds."""
    method = parts.method
    if method.asks_outputs:
        return method.ends(copy_tree(state.method), 0.0, 0.0) is not None
    w, last = state.method.w, state.path.point
    if state.path.idle < POLICY.idle:
        return False
    if not method.backtracks or last is None:
        return True
    # A search goes on if the last trial was rejected and the next one is much nearer.
    ahead = norm(method.ask(copy_tree(state.method)).points[0] - w)
    return not 0 < 4 * ahead <= 3 * norm(last - w)


@np.errstate(over="ignore", invalid="ignore")
def finding(path: GradientPath, answer: Vector, last: Vector, moved: Array) -> Finding | None:
    """Return what the gradients say against an answer, the last iterate or an average of them.

    ``moved`` are the lengths of the steps. The loss rose if exact gradients say so along the line
    and along the path, in the last answer if they have grown and in two otherwise. Noise lowers
    what the path says, as each step follows the noise of its gradient: sampled gradients must have
    grown. Losses of bounded slope, such as the logistic one, diverge to and fro without that: by
    steps as long as the way.
    """
    if len(path) < 2:
        return None
    (first, size), late = path.sizes(), path.late()
    grown, away = size >= POLICY.grown * first, float(np.median(late.distance))
    away = path.last.distance if path.exact else away
    way, here, blur = answer - path.start, norm(path.start), rounding(answer, 1)
    distance, few, rise = norm(way), path.newest(1 if grown else 2), np.median(late.line)
    # A gradient that is zero but for rounding says nothing of where it leads. Nor do points say
    # much of a last iterate that has come back from them, if it does not hop to and fro.
    near = min(distance, away) <= math.sqrt(blur) * here or size * away <= (10 * blur) ** 2
    if near or (answer is last and distance < min(away, few.distance.min()) / 2):
        return None
    jumps = len(moved) >= POLICY.idle and moved[-len(late.norm) :].mean() >= away / 2
    climbs = np.all((few.line > 0) & (few.along > 0)) if path.exact else grown and rise > 0
    # An average lies nearer than the late points: the slope there is in proportion.
    slope = dot(path.start_gradient, way / distance)
    there = slope + (2 * (few.line[-1] if path.exact else rise) / away - slope) * distance / away
    rose = (climbs or (jumps and rise > 0)) and there > 0
    # No loss worth minimising explains the rest, whatever its gradients say: a wrong sign.
    much = POLICY.grown**3
    if not rose and not (size >= much * first and distance >= much * max(here, 1.0)):
        return None
    return Finding(
        Status.GREW if grown else Status.ABOVE_START,
        f"The target's gradient went from {first:.3g} in the first steps to {size:.3g} in norm, "
        f"{away:.3g} away from there: by the gradients along the way, the loss rose by about "
        f"{path.newest(2).line.max():.3g}.",
    )


def judge_by_gradients(result: Result) -> Result:
    """Return the result of a run without values, its status and message corrected by gradients."""
    found, status = result.doubt, result.status
    if found is None or not (status.success or status is Status.RUNNING):
        return result
    text = f"{found.status.value} {found.text}"
    if status is Status.RUNNING:
        return replace(result, message=f"{result.message} {text}")
    return replace(result, status=found.status, message=f"{text} {result.message}")


def judge_outcome(
    result: Result, problem: Problem, w0: Vector, *, path: GradientPath, measured: bool,
    guarded: bool,
) -> Result:  # fmt: skip
    """Return the result with the losses at its two ends, its status corrected by the evidence.

    An answer above the start is exchanged for the start, or for the lowest point that is known.
    The objective's ``value`` is called where the run's ``path`` does not know it, where it has one
    and neither a cost nor a privacy account that this would have to be entered in. No step ever
    depends on what it says. ``measured`` and ``guarded`` say whether ``eta="auto"`` and a safeguard
    were on.
    """
    faults, used = list[str](), result.ledger
    first, last = (
        value_for_report(problem, w, faults, used) if known is None else known
        for w, known in zip((w0, result.w), path.known_values(problem, w0, result.w), strict=True)
    )
    if first is not None and math.isnan(first):
        faults.append("it is NaN at the start")
    values = None if faults or first is None or last is None else (first, last)
    faults = [f"The objective's value could not be used ({each}): check it." for each in faults[:1]]
    status, note = _status(result, path, w0, values)
    if values is not None and is_above(*values, result.w):
        answer, least = path.lowest(problem, w0, values[0])
        whose = "start" if same_point(answer, w0) else "lowest point that was asked about"
        note = (
            f"The loss was {values[0]:.6g} at the start and {values[1]:.6g} at the end, so the "
            f"answer is the {whose}."
        )
        known = path.exact and same_point(path.point, answer)
        jac = copy_array(path.gradient) if known else None
        last, values = least, (values[0], least)
        result = replace(result, w=copy_array(answer), jac=jac)
    parts = [result.message, note]
    if status is not result.status:
        parts = [status.value, note, result.message]
        untried = [] if measured else ["A smaller eta", "eta='auto'"]
        untried += [] if guarded else ["safeguard=True"]
        helps = f"{' or '.join(untried)} should help." if untried else ""
        cause = "Check the gradient against the value too, with scipy.optimize.check_grad."
        if status is Status.ABOVE_START and not path.exact:
            cause = "Near the minimum noisy gradients lead up too: larger batches help there."
        parts += [] if status is Status.INNER_RULE_FAILED else [helps, cause]
    text, fun = " ".join(filter(None, [*parts, *faults])), math.nan if last is None else last
    return replace(result, values=values, fun=fun, status=status, message=text)


def _status(
    result: Result, path: GradientPath, w0: Vector, values: tuple[float, float] | None
) -> tuple[Status, str]:
    """Return the status that the evidence supports, and what was seen if it leaves doubts."""
    status, rows, doubt = result.status, result.trace.rows, result.doubt
    if not status.success or not rows:
        return status, ""
    if values is None and doubt is not None:
        return doubt.status, doubt.text
    if values is not None and is_above(*values, result.w):
        first, last = values
        (small, size), far = path.sizes(), last - first > POLICY.grown * abs(first)
        # Noise at a good start leads far up, too, if little was left to gain.
        grew = not math.isfinite(last) or (path.exact and far) or size >= POLICY.grown * small
        return Status.GREW if grew else Status.ABOVE_START, ""
    blur, farthest = rounding(result.w), max(row.displacement for row in rows)
    # By more than rounding, and not at a start that was the minimum already.
    failed = sum(
        row.held is False
        and row.displacement > blur * farthest
        and not row.residual <= blur * rows[0].gradient
        for row in rows
    )
    with np.errstate(over="ignore", invalid="ignore"):
        still = norm(result.last - w0) <= 10 * blur * norm(w0)
    if still or failed <= len(rows) / 2:
        return status, ""
    small, size = path.sizes()
    if size < small / 2 if values is None else values[1] < values[0]:
        return status, "The inner rule failed in most steps."
    return Status.INNER_RULE_FAILED, ""
