"""An estimate with the ends of its confidence interval."""

from __future__ import annotations

from typing import Any, NamedTuple

import scipy.stats

from proxyprox._checks import message


class Interval(NamedTuple):
    """An estimate with the ends of its confidence interval."""

    estimate: Any
    low: Any
    high: Any


def quantile(level: float, labels: int) -> float:
    """Return the two-sided quantile; of Student's law, which for few labels has longer tails."""
    if not 0 < level < 1:
        raise ValueError(message("level", level, "a number in (0, 1)"))
    return float(scipy.stats.t.ppf((1 + level) / 2, max(labels - 1, 1)))
