"""Observers: they look on after every outer step, and may end a run.

An observer is an object with ``after_step(state, step)``. What it returns decides: None or False,
the run goes on; True, it ends; a text, it ends and its message says so; an :class:`Ending`, it ends
with that status. ``state`` is the run's state after the step, a value that is not to be written
into; ``step`` has the numbers and copies of the arrays. An observer may also have ``begin(run)``,
called once before the first step, and may be a context manager, entered for the time of the run.

>>> import numpy as np
>>> from proxyprox import Problem, Quadratic, SGD, minimize
>>> class SmallSteps:
...     def after_step(self, state, step):
...         return step.record.displacement < 1e-3 and "The steps are small."
>>> problem = Problem(Quadratic(np.eye(2), b=np.ones(2)))
>>> result = minimize(problem, method=SGD(0.5), steps=100, observers=[SmallSteps()])
>>> result.steps, result.status.name
(11, 'STOPPED_BY_CALLBACK')

``minimize`` itself is made of observers: its progress bar is below, its tolerance and its limits
are in :mod:`proxyprox.minimization`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from proxyprox._util.validation import message, offers, require_takes
from proxyprox.oracle import Step
from proxyprox.result import Budget, Status

__all__ = ["Callback", "Ending", "Observer", "ProgressBar"]


class Ending(NamedTuple):
    """How a run is to end, and what else its message is to say."""

    status: Status
    detail: str = ""


class Observer(Protocol):
    """What ``observers=`` takes."""

    def after_step(self, state: Any, step: Step) -> Ending | str | bool | None:
        """Look on after an outer step, and say whether the run ends."""


def as_ending(found: Any) -> Ending | None:
    """Return what an observer's answer means."""
    if isinstance(found, Ending):
        return found
    if isinstance(found, str):
        stop = "" if found.endswith((".", "!", "?")) else "."
        return Ending(Status.STOPPED_BY_CALLBACK, f"{found}{stop}")
    return Ending(Status.STOPPED_BY_CALLBACK) if found else None


def check_observers(observers: Any) -> list[Observer]:
    """Return the observers, or refuse what is none."""
    if not isinstance(observers, (list, tuple)):
        allowed = "a list of objects with after_step(state, step)"
        raise TypeError(message("observers", observers, allowed, "Write observers=[yours]."))
    for number, observer in enumerate(observers):
        name = f"observers[{number}]"
        if not offers(observer, "after_step"):
            allowed = "an object with after_step(state, step)"
            remedy = "Call the class." if isinstance(observer, type) else ""
            raise TypeError(message(name, observer, allowed, remedy))
        require_takes(f"{name}.after_step", observer.after_step, ("state", "step"))
    return list(observers)


@dataclass(frozen=True)
class Callback:
    """Calls a function after every step; it ends the run by returning True or by StopIteration."""

    function: Callable[[Step], Any]

    def after_step(self, state: Any, step: Step) -> bool:
        """Call the function."""
        try:
            return bool(self.function(step))
        except StopIteration:
            return True


class ProgressBar:
    """Shows outer steps, or target gradients if only those are limited, on standard error."""

    def __init__(self, steps: int | None, limits: Budget | None) -> None:
        self.steps = steps
        total = steps or (limits.target_gradients if limits is not None else None)
        self.of = f" of {total:,}" if total else ""

    def __enter__(self) -> None:
        self.shown_at, self.line = -math.inf, ""

    def __exit__(self, *error: object) -> None:
        sys.stderr.write(f"{self.line}\n")

    def after_step(self, state: Any, step: Step) -> None:
        """Write the line anew, ten times a second at most."""
        done, what = step.ledger.target_gradients, "target gradients"
        if self.steps:
            done, what = step.record.k + 1, "outer steps"
        self.line = f"\r{done:,}{self.of} {what}, {step.ledger.seconds:.0f} s "
        if time.monotonic() - self.shown_at > 0.1:
            self.shown_at = time.monotonic()
            sys.stderr.write(self.line)
            sys.stderr.flush()
