"""Smallest positive integer that meets a condition which, once met, stays met."""

from __future__ import annotations

import math
from collections.abc import Callable


def smallest_integer(holds: Callable[[int], bool], high: float) -> int:
    """Return the smallest ``n >= 1`` with ``holds(n)``.

    Parameters
    ----------
    holds : callable
        Condition that is false below some integer and true from it on.
    high : float
        A value from which the condition is known to hold, up to rounding.

    Returns
    -------
    int
        The smallest integer that meets the condition.

    Raises
    ------
    ValueError
        If ``high`` is not finite: no float can hold the number of steps.

    Examples
    --------
    >>> smallest_integer(lambda n: n * n >= 50, 50.0)
    8
    """
    if not high <= 1e300:
        raise ValueError(
            f"epsilon must be large enough for at most 10**300 steps, got a need of {high}: "
            "raise epsilon, or check the scale of B, sigma and delta."
        )
    low, top = 1, max(1, math.ceil(high))
    while not holds(top):
        top *= 2
    while low < top:
        middle = (low + top) // 2
        if holds(middle):
            top = middle
        else:
            low = middle + 1
    return top
