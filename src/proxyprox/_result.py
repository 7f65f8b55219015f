"""What a run returns, and how it ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

from proxyprox._arrays import Vector
from proxyprox._ledger import Ledger
from proxyprox._trace import Trace


class Status(Enum):
    """How a run ended; the value is the sentence a user reads."""

    RUNNING = "The run has not ended."
    STEPS_DONE = "All the requested outer steps were taken."
    BUDGET_SPENT = "The budget is spent: the next step would exceed it."
    STOPPED_BY_CALLBACK = "The callback asked to stop."
    TARGET_NOT_FINITE = (
        "The target's gradient was NaN or infinite; the last good iterate is returned."
    )
    DIVERGED = (
        "The inner solve met NaN or an infinity; the last good iterate is returned. "
        "A smaller eta, or a proxy that is finite everywhere, should help."
    )
    PROXY_NOT_FINITE = (
        "The proxy's value or gradient was NaN or infinite away from the iterate, which blocked "
        "or shortened the steps. A proxy that is finite wherever steps lead, or another inner "
        "solver, should help."
    )
    GREW = "The run diverged, though every number stayed finite."
    ABOVE_START = "The loss ended above where it began."
    INNER_RULE_FAILED = (
        "The inner rule failed in most steps, and nothing shows that the loss fell. A smaller eta, "
        "an inner solver that may take more steps, or a looser rule should help."
    )
    INTERRUPTED = "The run was interrupted; the last good iterate is returned."

    @property
    def success(self) -> bool:
        """Whether the run ended as asked."""
        return self in (Status.STEPS_DONE, Status.BUDGET_SPENT, Status.STOPPED_BY_CALLBACK)


@dataclass(frozen=True)
class Result:
    """The answer of a run.

    Attributes
    ----------
    w : array
        The answer: the last iterate, or the average that was asked for.
    last : array
        The last iterate.
    status : Status
        How the run ended.
    message : str
        The status in words, with what was spent or met.
    steps : int
        Outer steps taken.
    ledger : Ledger
        What was paid.
    trace : Trace
        Every outer step's residual, threshold, inner steps and whether the rule held (None if
        there was none).
    inner : str
        The inner solver, and why it was picked if Auto picked it.
    stop : str
        The inexactness rule, and why if it was the default.
    values : tuple of float or None
        The loss (penalty included) at the start and at ``w``, where the objective offers values.
    safeguard : Evidence or None
        With ``safeguard=True``: what was chosen, and the held-out comparisons behind it.
    doubt : Finding or None
        What the target's gradients along the way say against ``w``, as a status and a text; the
        result's own status follows it, unless values of the loss say otherwise.
    fell : bool
        Whether these gradients show that the loss fell.
    first_gradient : float
        The norm of the first of them; NaN before the first step.
    """

    w: Vector
    last: Vector
    status: Status
    message: str
    steps: int
    ledger: Ledger
    trace: Trace
    inner: str
    stop: str
    values: tuple[float, float] | None = None
    safeguard: Any = None
    doubt: Any = None
    fell: bool = False
    first_gradient: float = math.nan

    @property
    def success(self) -> bool:
        """Whether the run ended as asked."""
        return self.status.success

    def __str__(self) -> str:
        paid = self.ledger
        proxy = ", ".join(
            counted(count, name)
            for name, count in (
                ("gradient", paid.proxy_gradients),
                ("sampled gradient", paid.proxy_sampled_gradients),
                ("value", paid.proxy_values),
                ("Hessian product", paid.proxy_hvps),
                ("Hessian", paid.proxy_hessians),
                ("closed-form solve", paid.proxy_solves),
            )
            if count
        )
        target = counted(paid.target_gradients, "gradient"), counted(paid.target_samples, "sample")
        lines = [
            self.message,
            f"  outer steps   {self.steps:,}"
            + (self._inner_rule() if self.stop and len(self.trace) else ""),
            f"  target paid   {', '.join(target)}",
            f"  proxy used    {proxy or 'nothing'}",
            f"  seconds       {paid.seconds:.3g}, of them {paid.target_seconds:.3g} in the target",
            *([f"  inner solver  {self.inner}"] if self.inner else []),
            *([f"  inner rule    {self.stop}"] if self.stop else []),
        ]
        if self.values is not None:
            first, last = self.values
            lines.insert(1, f"  loss          {first:.6g} at the start, {last:.6g} at the end")
        if self.safeguard is not None:
            checks = [f"{check}" for check in self.safeguard.checks]
            lines += [f"  {'held out' if not k else '':14}{text}" for k, text in enumerate(checks)]
        return "\n".join(lines)

    def _inner_rule(self) -> str:
        """Say in how many steps the inexactness rule held, of those that had one."""
        verdicts = [row.held for row in self.trace if row.held is not None]
        if not verdicts:
            return " (no inner rule)"
        of = "" if len(verdicts) == len(self.trace) else f" of {counted(len(verdicts), 'solve')}"
        return f" (inner rule held in {sum(verdicts):,}{of})"


def counted(count: int, name: str, plural: str = "") -> str:
    """Return a count with its noun, in the singular or the plural (by default with an s)."""
    return f"{count:,} {name if count == 1 else plural or name + 's'}"
