"""What passes between a run and its user: the question, and the finished step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proxyprox._arrays import Vector
from proxyprox._ledger import Ledger
from proxyprox._subproblem import Subproblem
from proxyprox._trace import StepRecord


@dataclass(frozen=True)
class Query:
    """What a run wants to know: the gradient of one batch at one or two points."""

    batch: Any
    points: tuple[Vector, ...]


@dataclass(frozen=True)
class Step:
    """One finished outer step, as a callback sees it.

    Attributes
    ----------
    record : StepRecord
        The step's numbers, as in ``Result.trace``.
    w : array
        The new iterate.
    answer : array
        What the run would return now: the new iterate, or the average that was asked for.
    gradients : tuple of arrays
        What the target answered.
    subproblem : Subproblem or None
        What was minimised (its ``linear``, ``centre`` and ``eta``); None if nothing was.
    ledger : Ledger
        What has been paid so far.
    """

    record: StepRecord
    w: Vector
    answer: Vector
    gradients: tuple[Vector, ...]
    subproblem: Subproblem | None
    ledger: Ledger
