"""An estimate with its confidence limits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


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
    """

    estimate: Any
    low: Any
    high: Any

    def __contains__(self, value: Any) -> bool:
        return bool(np.all((self.low <= value) & (value <= self.high)))

    def __str__(self) -> str:
        if np.ndim(self.estimate):
            return repr(self)
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"
