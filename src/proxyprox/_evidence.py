"""What the safeguard saw on held-out samples, and what it made of it."""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    step: int
    arm: str
    rival: str
    gap: float
    standard_error: float
    batches: int

    @property
    def clear(self) -> bool:
        """Whether the gap is more than noise."""
        return abs(self.gap) > CLEAR * self.standard_error

    @property
    def finding(self) -> str:
        """What was found, in words."""
        better, worse = (self.arm, self.rival) if self.gap < 0 else (self.rival, self.arm)
        return (
            f"the held-out loss of {better} is lower than that of {worse} "
            f"by {abs(self.gap):.3g} ± {self.standard_error:.2g} ({self.batches} batches)"
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
