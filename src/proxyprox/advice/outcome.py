"""How a finished run really went: what its losses, gradients and steps show.

If the objective has no value that may be asked for, the target's gradients along the way are
evidence that is paid for already (:class:`~proxyprox.path.GradientPath`). They estimate the change
of the loss along the straight line from the start and along the path; only what both say counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from proxyprox._util.arrays import Vector, copy_array, dot, dtype_name, norm, same_point
from proxyprox.oracle import value_for_report
from proxyprox.path import PRECISION, ROUNDING, Answers, GradientPath, is_above
from proxyprox.problems import Problem
from proxyprox.result import Result, Status, Trace

Array = Any
# Below this share of ‖x_0‖ a run has not moved, but for rounding.
MOVED = {"float32": 1e-3, "float64": 1e-6}


@dataclass(frozen=True)
class OutcomePolicy:
    """When a run is said to have failed; ``python benchmarks/outcome.py`` is the record."""

    far: float = 2.0
    longer: float = 2.0
    many: int = 16
    straight: float = 0.75
    still: float = 1e-6
    smaller: float = 0.9
    blurred: float = 100
    first: int = 8
    last: int = 64
    clear: float = 0.1
    obvious: float = 0.5
    grown: float = 10.0
    exploded: float = 10.0
    outward: float = 3.0
    exploded_soon: float = 100.0
    outward_soon: float = 30.0
    mostly: float = 0.8
    nearly_all: float = 0.95
    runaway: float = 1e6
    steeper: float = 1e4
    farther: float = 1e2
    came_back: float = 0.5
    idle: int = 10
    row: int = 5


POLICY = OutcomePolicy()


def below(path: GradientPath, tol: float, atol: float, penalty: Any) -> bool:
    """Tell whether the last answer's gradient is within a tolerance of zero.

    A point whose value is above an earlier one, on a plateau say, is no minimum.
    """
    if path.start is None or not path.exact:
        return False
    if math.isfinite(path.value) and is_above(path.best_value, path.value, dtype_name(path.point)):
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
    size = max(abs(path.best_value), abs(path.start_value))
    blur = POLICY.blurred * PRECISION[dtype_name(path.best)]
    norms = path.newest(POLICY.last).norm
    # By the third answer the method has seen what its own steps lead to.
    began = len(norms) > 2 and norms.min() <= math.sqrt(blur) * norms.max()
    began = began and path.start_value - path.best_value <= blur * size
    return promise <= blur * size and (stalled or bool(began))


@np.errstate(over="ignore", invalid="ignore")
def finding(path: GradientPath, answer: Vector, last: Vector, moved: Array) -> Finding | None:
    """Return what the gradients say against an answer, the last iterate or an average of them.

    ``moved`` are the lengths of the steps.
    """
    if path.start is None or len(path.rows) < 2 or not path.newest(1).distance[0] > 0:
        return None
    way, average = answer - path.start, bool((answer != last).any())
    distance, here = norm(way), norm(path.start)
    pull = dot(path.start_gradient, way / distance) if distance > 0 else 0.0
    late = path.newest(max(4, len(moved) // 4)).moved()
    newest = path.newest(1) if path.exact else late
    size, now = _first_size(path), np.median(newest.norm)
    away = max(path.newest(1).distance[0], np.median(newest.distance))
    dtype = dtype_name(answer)
    # A gradient that is zero but for rounding says nothing of where it leads.
    if not (distance > MOVED[dtype] * here and now * away > (10 * PRECISION[dtype]) ** 2):
        return None
    seen = (
        f"The target's gradient went from {size:.3g} in the first steps to {now:.3g} in norm, "
        f"{away:.3g} away from there"
    )
    steps, grown = len(moved), now >= POLICY.grown * size
    status = Status.GREW if grown else Status.ABOVE_START
    # Steps to and fro across the minimum pass near the start at every other point.
    near = path.newest(2).distance.min()
    rises = (average or distance >= POLICY.came_back * near) and (
        _rises(path, steps) or _explodes(path, late, steps)
    )
    back = not average and distance < POLICY.came_back * away
    if rises or (not back and _shoots_up(path, steps)):
        # An average of the iterates lies nearer: with one curvature its loss rose by less.
        nearer = np.median(late.slope) * distance / away
        if average and not (grown and nearer + pull > 0):
            return None
        rise = path.newest(2).line.max()
        text = f"{seen}: by the gradients along the way, the loss rose by about {rise:.3g}."
        return Finding(status, text)
    far = distance >= np.median(late.distance) / 4
    if not average and far and _bounces(path, late, moved):
        return Finding(status, f"{seen}, and single steps are half as long as that or longer.")
    unit = max(here, 1.0)
    ran_away = now >= POLICY.runaway * size and distance >= POLICY.runaway * unit
    if ran_away or (
        path.exact and now >= POLICY.steeper * size and distance >= POLICY.farther * unit
    ):
        return Finding(Status.GREW, f"{seen}, and points further away still.")
    return None


@np.errstate(over="ignore", invalid="ignore")
def fell(path: GradientPath) -> bool:
    """Tell whether the last answers show, clearly, that the loss fell."""
    few = path.newest(4)
    clear = np.all((few.line < -POLICY.clear * few.parts) & (few.path < 0))
    return bool(len(path.rows) >= 4 and clear and np.median(few.norm) < _first_size(path) / 2)


def _first_size(path: GradientPath) -> float:
    """Return the gradient's norm at the start; of sampled ones a typical norm at first."""
    norms = path.answers(0, POLICY.first).norm
    return float(norms[0] if path.exact else min(np.median(norms), norms[:2].max()))


def _higher(answers: Answers, share: float) -> bool:
    """Tell whether the line and the path both say, clearly, that the loss is above x_0's."""
    path, line = answers.path, answers.line
    clear = path > share * (answers.varied + np.abs(answers.penalty))
    clear |= path > line / 2
    return bool(np.all((line > share * answers.parts) & (path > 0) & clear))


def _rises(path: GradientPath, steps: int) -> bool:
    """Tell whether the line and the path agree that the last exact answers lie higher."""
    rises = path.newest(3).line
    # One more step as good as the last must not bring it below the start.
    lasting = path.exact and steps > 2 and 2 * rises[-1] > rises[:-1].min()
    return lasting and _higher(path.newest(max(2, min(8, steps // 4))), POLICY.clear)


def _shoots_up(path: GradientPath, steps: int) -> bool:
    """Tell whether few answers leave no doubt: the last exact one, or two sampled ones.

    Noise only lowers what the path says, as each step follows the noise of its gradient.
    """
    few, size = path.newest(1 if path.exact else 2), _first_size(path)
    if not path.exact:
        if steps < 4 or not np.all(np.diff(path.newest(3).norm) > 0):
            return False
        size = path.answers(0, min(POLICY.first, steps // 2)).norm.max()
    return few.norm[0] >= POLICY.grown * size and _higher(few, POLICY.obvious)


def _explodes(path: GradientPath, late: Answers, steps: int) -> bool:
    """Tell whether gradients, sampled or not, have grown and point away from the start."""
    grown, outward = (
        (POLICY.exploded, POLICY.outward)
        if steps >= 16
        else (POLICY.exploded_soon, POLICY.outward_soon)
    )
    size = _first_size(path)
    return bool(
        len(late.norm) >= 4
        and np.median(late.norm) >= grown * size
        and np.median(late.slope) >= outward * size
        and np.mean(late.slope > 0) >= POLICY.mostly
        and np.median(late.line) > 0
        and (not path.exact or path.newest(1).path[0] > 0)
    )


def _bounces(path: GradientPath, late: Answers, moved: Array) -> bool:
    """Tell whether steps as long as the way go to and fro where slopes stay steep.

    Losses of bounded slope, such as the logistic one, diverge like this: their gradients
    cannot grow, and the trapezoidal rule is far off.
    """
    steep = np.median(late.norm) >= _first_size(path) * (0.8 if path.exact else 0.5)
    long = moved[-len(late.norm) :].mean() >= np.median(late.distance) / 2
    above = np.mean(late.line > 0) >= (0.75 if path.exact else 0.5)
    outward = np.mean(late.slope > 0) >= POLICY.nearly_all
    return bool(len(moved) >= 8 and steep and long and above and outward)


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


def _grew(trace: Trace, away: float, first: float, last: float) -> bool:
    """Tell whether the loss ended far above its start after steps that no noise explains.

    Noise at a good start raises the loss too, but its steps neither become longer and longer nor
    lead straight away.
    """
    if not math.isfinite(last):
        return True
    if not last - first > POLICY.far * abs(first):
        return False
    moved = trace["displacement"]
    longest = moved.max(initial=0.0)
    # So far out that steps are lost to rounding, a run stands still at last.
    moved = moved[: 1 + int(np.flatnonzero(moved >= POLICY.still * longest)[-1])]
    quarter = -(-len(moved) // 4)
    longer = np.median(moved[-quarter:]) > POLICY.longer * np.median(moved[:quarter])
    if longer or not moved.any():
        return bool(longer)
    shares = moved / longest
    # As many steps of one length would count as much: of these a random walk gets √n far.
    many = shares.sum() ** 2 / (shares**2).sum() >= POLICY.many
    return bool(many and away > POLICY.straight * moved.sum())


def _mostly_failed(trace: Trace, rounding: float) -> bool:
    """Tell whether the inner rule failed in most steps, by more than rounding."""
    moved = trace["displacement"]
    failed = np.array([row.held is False for row in trace], dtype=bool)
    failed &= moved > POLICY.still * moved.max(initial=0.0)
    return bool((failed & ~(trace["residual"] <= rounding)).sum() > len(trace) / 2)
