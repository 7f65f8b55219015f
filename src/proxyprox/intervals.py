"""An estimate with its confidence limits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Interval"]


class Interval(NamedTuple):
    """A number, or an array of numbers, that was estimated, and its confidence limits.

    Attributes
    ----------
    estimate : float or array
        The best single guess.
    low, high : float or array
        Limits that hold the true value with the confidence that was asked for.

    Examples
    --------
    >>> found = Interval(2.0, 1.5, 2.5)
    >>> 1.9 in found, str(found)
    (True, '2 [1.5, 2.5]')
    >>> Interval(0.1, -0.2, 0.4).at_least(0.0)
    Interval(estimate=0.1, low=0.0, high=0.4)
    """

    estimate: Any
    low: Any
    high: Any

    def __contains__(self, value: Any) -> bool:
        return bool(np.all((self.low <= value) & (value <= self.high)))

    def at_least(self, least: float) -> Interval:
        """Return the interval with everything below ``least`` raised to it.

        Parameters
        ----------
        least : float
            What is known to be a lower bound, such as 0 for a variance.

        Returns
        -------
        Interval
            Estimate and limits, each ``least`` or more.
        """
        larger: Any = np.maximum if np.ndim(self.estimate) else max
        return Interval(*(larger(each, least) for each in self))

    def __str__(self) -> str:
        if np.ndim(self.estimate):
            return repr(self)
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"
