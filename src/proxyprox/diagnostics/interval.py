"""An estimate with the limits between which the true value is claimed to lie."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Interval", "largest", "smallest"]


@dataclass(frozen=True)
class Interval:
    """A number that was estimated, and its confidence limits.

    Attributes
    ----------
    estimate : float
        The best single guess.
    low, high : float
        Limits that hold the true value with the confidence that was asked for. A limit that is
        certain (a Ritz value, a constant the loss states itself) is as good as its kind allows.

    Examples
    --------
    >>> 1.9 in Interval(2.0, 1.5, 2.5), str(Interval(2.0, 1.5, 2.5))
    (True, '2 [1.5, 2.5]')
    """

    estimate: float
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def widened(self, by: float) -> Interval:
        """Return the interval with both limits moved outwards."""
        return Interval(self.estimate, self.low - by, self.high + by)

    def at_least(self, least: float) -> Interval:
        """Return the part that lies at or above a value known to be a lower limit."""
        return Interval(max(self.estimate, least), max(self.low, least), max(self.high, least))


def largest(intervals: Iterable[Interval]) -> Interval:
    """Return the interval of the largest of several quantities.

    The upper limit needs no correction for many looks: the largest quantity is one of them, and
    its own limit is below the largest limit.

    Examples
    --------
    >>> print(largest([Interval(1.0, 0.5, 2.0), Interval(1.5, 0.2, 1.8)]))
    1.5 [0.5, 2]
    """
    given = list(intervals)
    return Interval(
        max(i.estimate for i in given), max(i.low for i in given), max(i.high for i in given)
    )


def smallest(intervals: Iterable[Interval]) -> Interval:
    """Return the interval of the smallest of several quantities.

    Examples
    --------
    >>> print(smallest([Interval(1.0, 0.5, 2.0), Interval(1.5, 0.2, 1.8)]))
    1 [0.2, 1.8]
    """
    given = list(intervals)
    return Interval(
        min(i.estimate for i in given), min(i.low for i in given), min(i.high for i in given)
    )
