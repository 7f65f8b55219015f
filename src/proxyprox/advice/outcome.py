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

from proxyprox._util.arrays import Vector, copy_array, dot, norm, same_point
from proxyprox.oracle import value_for_report
from proxyprox.path import Answers, GradientPath, is_above, precision, rounding
from proxyprox.problems import Problem
from proxyprox.result import Result, Status, Trace

Array = Any


@dataclass(frozen=True)
class OutcomePolicy:
    r"""When a run has stalled or failed.

    ``python benchmarks/outcome.py`` is the record of those that a finding rests on: of 3,000 random
    runs none whose true loss fell is called a failure. ``smaller``, ``idle``, ``blurred`` and
    ``row`` have no record: they are judgements.

    Attributes
    ----------
    first : int
        Sampled answers whose typical size is that of the first gradients.
    late : int
        Answers that say something of the end of a run, at least; a quarter of them if there are
        more.
    many : int
        Steps without which nothing is said of their lengths.
    clear : float
        Share of its parts by which a change must exceed zero: parts cancel, and so may their
        errors.
    grown : float
        How many times as large as at first gradients are that have grown.
    mostly : float
        Share of the late slopes that point away from the start; by noise alone half of them do.
    back : float
        Share of the way that an answer must keep to be judged by it; steps this long bounce.
    runaway : float
        Growth of gradients, and distance in units of max(1, ‖w_0‖), that no loss worth minimising
        explains, whatever direction its gradients have.
    smaller : float
        A gradient of less than this share of the smallest so far is progress.
    idle : int
        Rounds without progress after which a run that waits for a small gradient gives up.
    blurred : float
        The rounding of a loss in units of ε·\|L\|.
    row : int
        Blocked steps in a row that are no accident.
    """

    first: int = 8
    late: int = 4
    many: int = 8
    clear: float = 0.1
    grown: float = 10.0
    mostly: float = 0.8
    back: float = 0.5
    runaway: float = 1e3
    smaller: float = 0.9
    idle: int = 10
    blurred: float = 100.0
    row: int = 5


POLICY = OutcomePolicy()


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
    blur = POLICY.blurred * precision(path.best)
    lost = blur * max(abs(path.best_value), abs(path.start_value))
    # By the third answer the method has seen what its own steps lead to.
    began = len(path.rows) > 2 and path.start_value - path.best_value <= lost
    if not promise <= lost or not (stalled or began):
        return False
    norms = path.newest(len(path.rows)).norm
    return stalled or bool(norms.min() <= math.sqrt(blur) * norms.max())


@dataclass(frozen=True)
class _End:
    """The end of a path: its late answers, and the size of gradients at first and now."""

    late: Answers
    newest: Answers
    first_size: float
    size: float

    @property
    def grown(self) -> bool:
        """Whether gradients are much larger than at first."""
        return self.size >= POLICY.grown * self.first_size


def _end(path: GradientPath) -> _End | None:
    """Return the end of a path; None if it never left its start."""
    if len(path.rows) < 2 or not path.rows[-1][1] > 0:
        return None
    late = path.newest(max(POLICY.late, len(path.rows) // 4)).moved()
    newest, norms = (path.newest(1) if path.exact else late), path.answers(0, POLICY.first).norm
    first = norms[0] if path.exact else min(np.median(norms), norms[:2].max())
    return _End(late, newest, float(first), float(np.median(newest.norm)))


@np.errstate(over="ignore", invalid="ignore")
def finding(path: GradientPath, answer: Vector, last: Vector, moved: Array) -> Finding | None:
    """Return what the gradients say against an answer, the last iterate or an average of them.

    ``moved`` are the lengths of the steps.
    """
    end = _end(path)
    if end is None:
        return None
    way, average = answer - path.start, bool((answer != last).any())
    distance, here, two = norm(way), norm(path.start), path.newest(2)
    away = max(two.distance[-1], np.median(end.newest.distance))
    # A gradient that is zero but for rounding says nothing of where it leads.
    blur = precision(answer)
    if not (distance > math.sqrt(blur) * here and end.size * away > (10 * blur) ** 2):
        return None
    seen = (
        f"The target's gradient went from {end.first_size:.3g} in the first steps to "
        f"{end.size:.3g} in norm, {away:.3g} away from there"
    )
    status = Status.GREW if end.grown else Status.ABOVE_START
    # Steps to and fro across the minimum pass near the start at every other point.
    far = distance >= POLICY.back * (away if end.grown else two.distance.min())
    if (average or far) and _climbs(path, end, len(moved)):
        # An average of the iterates lies nearer: with one curvature its loss rose by less.
        slope = np.median(end.late.slope) * distance / away
        if average and not (end.grown and slope + dot(path.start_gradient, way / distance) > 0):
            return None
        rise = two.line.max()
        text = f"{seen}: by the gradients along the way, the loss rose by about {rise:.3g}."
        return Finding(status, text)
    if not average and _bounces(end.late, moved):
        return Finding(status, f"{seen}, and single steps are half as long as that or longer.")
    steeper = end.size >= POLICY.runaway * end.first_size
    if steeper and distance >= POLICY.runaway * max(here, 1.0):
        return Finding(Status.GREW, f"{seen}, and points further away still.")
    return None


@np.errstate(over="ignore", invalid="ignore")
def fell(path: GradientPath) -> bool:
    """Tell whether the last answers show, clearly, that the loss fell."""
    end, few = _end(path), path.newest(POLICY.late)
    clear = np.all((few.line < -POLICY.clear * few.parts) & (few.path < 0))
    if end is None or len(path.rows) < POLICY.late:
        return False
    return bool(clear and np.median(few.norm) < end.first_size / 2)


def _climbs(path: GradientPath, end: _End, steps: int) -> bool:
    """Tell whether the last answers lie higher than the start.

    Of exact ones the line and the path must agree, in the last answer if gradients have grown and
    in two otherwise. Noise lowers what the path says, as each step follows the noise of its
    gradient: sampled answers must have grown, and most of them must point away from the start.
    """
    late, share = end.late, POLICY.clear
    if not path.exact:
        steep = end.grown and np.median(late.slope) >= end.first_size
        outward = np.mean(late.slope > 0) >= POLICY.mostly
        return bool(steep and outward and np.median(late.line) > 0 and steps >= POLICY.late)
    few = path.newest(1 if end.grown else 2)
    clear = few.path > share * (few.varied + np.abs(few.penalty))
    clear |= few.path > few.line / 2
    return bool(np.all((few.line > share * few.parts) & (few.path > 0) & clear))


def _bounces(late: Answers, moved: Array) -> bool:
    """Tell whether steps as long as the way go to and fro where slopes point away.

    Losses of bounded slope, such as the logistic one, diverge like this: their gradients
    cannot grow, and the trapezoidal rule is far off.
    """
    long = moved[-len(late.norm) :].mean() >= POLICY.back * np.median(late.distance)
    outward = np.mean(late.slope > 0) >= POLICY.mostly
    return bool(len(moved) >= POLICY.many and long and outward and np.median(late.line) > 0)


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
    faults: list[str] = []
    first, last = path.known_values(problem, w0, result.w)
    if first is None:
        first = value_for_report(problem, w0, faults, result.ledger)
    if last is None:
        last = value_for_report(problem, result.w, faults, result.ledger)
    values = None if first is None or last is None else (first, last)
    if first is not None and math.isnan(first):
        faults.append("it is NaN at the start")
    if faults:
        values = None
        faults = [f"The objective's value could not be used ({faults[0]}): check it."]
    status, note = _status(result, path, w0, values)
    if values is not None and is_above(*values, result.w):
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
        cause = "Check the gradient against the value too, with scipy.optimize.check_grad."
        if status is Status.ABOVE_START and not path.exact:
            cause = "Near the minimum noisy gradients lead up too: larger batches help there."
        parts += [] if status is Status.INNER_RULE_FAILED else [helps, cause]
    text = " ".join(part for part in [*parts, *faults] if part)
    fun = math.nan if last is None else last
    return replace(result, values=values, fun=fun, status=status, message=text)


def _status(
    result: Result, path: GradientPath, w0: Vector, values: tuple[float, float] | None
) -> tuple[Status, str]:
    """Return the status that the evidence supports, and what was seen if it leaves doubts."""
    status, trace, doubt, blur = result.status, result.trace, result.doubt, rounding(result.w)
    if not status.success or len(trace) == 0:
        return status, ""
    if values is None and doubt is not None:
        return doubt.status, doubt.text
    if values is not None and is_above(*values, result.w):
        first, last = values
        end, far = _end(path), last - first > POLICY.grown * abs(first)
        # Noise at a good start leads far up, too, if little was left to gain.
        grew = not math.isfinite(last) or (path.exact and far) or (end is not None and end.grown)
        return Status.GREW if grew else Status.ABOVE_START, ""
    with np.errstate(over="ignore", invalid="ignore"):
        still = norm(result.last - w0) <= 10 * blur * norm(w0)
    failed = not still and _mostly_failed(trace, blur, blur * result.first_gradient)
    if failed and not (result.fell if values is None else values[1] < values[0]):
        return Status.INNER_RULE_FAILED, ""
    return status, "The inner rule failed in most steps." if failed else ""


def _mostly_failed(trace: Trace, still: float, small: float) -> bool:
    """Tell whether the inner rule failed in most steps, by more than rounding."""
    moved = trace["displacement"]
    failed = np.array([row.held is False for row in trace], dtype=bool)
    failed &= (moved > still * moved.max(initial=0.0)) & ~(trace["residual"] <= small)
    return bool(failed.sum() > len(trace) / 2)
