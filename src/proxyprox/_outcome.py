"""How a finished run really went: what its losses and its trace show."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from proxyprox._arrays import Vector, norm
from proxyprox._oracles import reported_value
from proxyprox._result import Result, Status
from proxyprox._trace import Trace
from proxyprox.problems import Problem

FAR = 2.0
"""A loss that has grown by twice its size at the start is far above it."""

LONGER = 2.0
"""Steps whose typical length has doubled, from the first quarter to the last, became longer."""

MANY, STRAIGHT = 16, 0.75
"""Of 16 steps or more, a random walk ends within three quarters of their length all but always."""

STILL = 1e-6
"""Steps below this share of the longest one are rounding: a rule may fail there."""


def judged(
    result: Result, problem: Problem, w0: Vector, *, measured: bool, guarded: bool
) -> Result:
    """Return the result with the losses at its two ends, its status mended by the evidence.

    The objective's ``value`` is called twice, where it has one and neither a cost nor a privacy
    account that this would have to be entered in. No step ever depends on what it says.
    ``measured`` and ``guarded`` say whether ``eta="auto"`` and a safeguard were on.
    """
    values = _values(problem, w0, result.w)
    with np.errstate(over="ignore", invalid="ignore"):
        away = norm(result.last - w0)
    status, note = _status(result, away, values)
    if status is Status.GREW:
        note = _advice(measured=measured, guarded=guarded)
    lead = result.message if status is result.status else f"{status.value} {result.message}"
    return replace(result, values=values, status=status, message=f"{lead} {note}".rstrip())


def _advice(*, measured: bool, guarded: bool) -> str:
    """Return what may help a run that grew, of what is not in use already."""
    untried = [] if measured else ["A smaller eta", "eta='auto'"]
    untried += [] if guarded else ["safeguard=True"]
    helps = " or ".join([", ".join(untried[:-1]), untried[-1]] if untried[1:] else untried)
    return (f"{helps} should help. " if helps else "") + (
        "Check the gradient against the value too, with scipy.optimize.check_grad: one of the "
        "wrong sign looks like this."
    )


def _values(problem: Problem, w0: Vector, w: Vector) -> tuple[float, float] | None:
    first, last = reported_value(problem, w0), reported_value(problem, w)
    return None if first is None or last is None else (first, last)


def _status(result: Result, away: float, values: tuple[float, float] | None) -> tuple[Status, str]:
    """Return the status that the evidence supports, and a note where it leaves doubts."""
    status, trace = result.status, result.trace
    if not status.success or len(trace) == 0:
        return status, ""
    if values is not None and _grew(trace, away, *values):
        return Status.GREW, ""
    failed = _mostly_failed(trace)
    if failed and not (values is not None and values[1] < values[0]):
        return Status.INNER_RULE_FAILED, ""
    if values is not None and values[1] > values[0]:
        return status, "The loss is higher than at the start."
    return status, "The inner rule failed in most steps." if failed else ""


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
    return bool(longer) or _straight(moved, away)


def _straight(moved: np.ndarray[Any, Any], away: float) -> bool:
    """Tell whether many steps led to a point all but as far away as they were long."""
    if not moved.any():
        return False
    shares = moved / moved.max()
    # As many steps of one length would count as much: of these a random walk gets √n far.
    many = shares.sum() ** 2 / (shares**2).sum() >= MANY
    return bool(many and away > STRAIGHT * moved.sum())


def _mostly_failed(trace: Trace) -> bool:
    moved = trace["displacement"]
    failed = np.array([row.held is False for row in trace], dtype=bool)
    failed &= moved > STILL * moved.max(initial=0.0)
    return bool(failed.sum() > len(trace) / 2)
