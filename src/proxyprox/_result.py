"""What a run returns, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

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
        Every outer step's residual, threshold, inner steps and whether the rule held.
    inner : str
        The inner solver, and why it was picked if Auto picked it.
    stop : str
        The inexactness rule, and why if it was the default.
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

    @property
    def success(self) -> bool:
        """Whether the run ended as asked."""
        return self.status.success

    def __str__(self) -> str:
        held = int(self.trace["held"].sum())
        paid = self.ledger
        proxy = ", ".join(
            f"{count:,} {name}"
            for name, count in (
                ("gradients", paid.proxy_gradients),
                ("sampled gradients", paid.proxy_sampled_gradients),
                ("values", paid.proxy_values),
                ("Hessian products", paid.proxy_hvps),
                ("Hessians", paid.proxy_hessians),
                ("closed-form solves", paid.proxy_solves),
            )
            if count
        )
        lines = [
            self.message,
            f"  outer steps   {self.steps:,} (inner rule held in {held:,})",
            f"  target paid   {paid.target_gradients:,} gradients, {paid.target_samples:,} samples",
            f"  proxy used    {proxy or 'nothing'}",
            f"  seconds       {paid.seconds:.3g}, of them {paid.target_seconds:.3g} in the target",
            f"  inner solver  {self.inner}",
            f"  inner rule    {self.stop}",
        ]
        return "\n".join(lines)
