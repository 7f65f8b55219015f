"""What the safeguard saw on held-out samples, and what it made of it."""

from __future__ import annotations

from dataclasses import dataclass

from proxyprox._result import counted

CLEAR = 3.0
"""Standard errors by which an arm must trail to be dropped before the end."""


@dataclass(frozen=True)
class Check:
    """One comparison on held-out samples.

    Attributes
    ----------
    step : int
        Outer steps taken by then.
    arm, rival : str
        What was compared.
    gap : float
        Estimate of ``L(arm) − L(rival)``: negative if the arm is better.
    standard_error : float
        Of the gap.
    batches : int
        Held-out batches it rests on.
    rounding : float
        Gaps up to this are rounding.
    """

    step: int
    arm: str
    rival: str
    gap: float
    standard_error: float
    batches: int
    rounding: float = 0.0

    @property
    def clear(self) -> bool:
        """Whether the gap is more than noise and rounding."""
        return abs(self.gap) > max(CLEAR * self.standard_error, self.rounding)

    @property
    def finding(self) -> str:
        """What was found, in words."""
        held_out = counted(self.batches, "batch", "batches")
        if abs(self.gap) <= self.rounding:
            return (
                f"the held-out losses of {self.arm} and {self.rival} are equal up to rounding "
                f"({held_out})"
            )
        better, worse = (self.arm, self.rival) if self.gap < 0 else (self.rival, self.arm)
        return (
            f"the held-out loss of {better} is lower than that of {worse} "
            f"by {abs(self.gap):.3g} ± {self.standard_error:.2g} ({held_out})"
        )

    def __str__(self) -> str:
        return f"after {self.step} steps {self.finding}"


@dataclass(frozen=True)
class Evidence:
    """What the safeguard chose, and why.

    Attributes
    ----------
    chosen : str
        "proxy", "SGD" or "ERM".
    verdict : str
        The choice in words.
    dropped_at : int or None
        The outer step at which the proxy was given up, if it was.
    checks : tuple of Check
        Every comparison made.
    """

    chosen: str
    verdict: str
    dropped_at: int | None
    checks: tuple[Check, ...]

    def __str__(self) -> str:
        return "\n".join([self.verdict, *(f"  {check}" for check in self.checks)])


def verdict(chosen: str, dropped_at: int | None, reason: str, *, compared: bool) -> str:
    """Return the choice in words."""
    if dropped_at is not None:
        lead = f"The proxy was dropped after {counted(dropped_at, 'step')}: {reason}."
        return lead + (" ERM on the rows seen did better still." if chosen == "ERM" else "")
    if not compared:
        return "The proxy's answer is returned: nothing was compared on held-out samples."
    return {
        "proxy": "The proxy's answer is returned: no rival did better on held-out samples.",
        "SGD": "SGD's answer is returned: it did better than the proxy on held-out samples.",
        "ERM": "ERM on the rows seen is returned: it did better on held-out samples.",
    }[chosen]
