"""Timing helpers: medians, and ratios of things measured in turns in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the benchmark: a ratio (or a number) and the limit it should respect."""

    name: str
    measured: float
    baseline: float
    ratio: float
    limit: float
    note: str

    @property
    def ok(self) -> bool:
        return self.ratio <= self.limit


def seconds(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def in_turns(
    first: Callable[[], Any], second: Callable[[], Any], repeats: int
) -> tuple[float, float]:
    """Return both medians; taking turns lets a noisy machine disturb both alike."""
    first(), second()
    pairs = [(seconds(first), seconds(second)) for _ in range(repeats)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)
