"""The record of every outer step: how well its subproblem was solved, and what it had cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np


class StepRecord(NamedTuple):
    """One outer step.

    ``held`` tells whether the inexactness rule held at the returned point: ``residual ≤
    threshold`` (and what else the rule asks). It is None, and the threshold NaN, where there was no
    such rule: a fixed number of inner steps bounds nothing, and some steps solve no subproblem.
    """

    k: int
    eta: float
    residual: float
    threshold: float
    held: bool | None
    inner_steps: int
    displacement: float
    target_gradients: int
    proxy_gradients: int
    seconds: float


_WHOLE = ("k", "inner_steps", "target_gradients", "proxy_gradients")


class Trace:
    """The outer steps of a run, in order; ``trace["residual"]`` is a column as an array.

    ``trace["held"]`` is masked where there was no rule.
    """

    def __init__(self, rows: list[StepRecord] | None = None) -> None:
        self.rows = rows or []

    def append(self, row: StepRecord) -> None:
        """Add a step."""
        self.rows.append(row)

    def shorten(self, length: int) -> None:
        """Drop the steps after so many."""
        del self.rows[length:]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[StepRecord]:
        return iter(self.rows)

    def __getitem__(self, column: str) -> np.ndarray[Any, Any]:
        if column not in StepRecord._fields:
            raise KeyError(f"no column {column!r}; there are {', '.join(StepRecord._fields)}")
        entries = [getattr(row, column) for row in self.rows]
        if column == "held":
            # Of None, bool makes False: a masked entry is neither.
            none, flags = [held is None for held in entries], np.array(entries, dtype=bool)
            return np.ma.array(flags, mask=none) if any(none) else flags
        return np.array(entries, dtype=int if column in _WHOLE else float)

    def to_array(self) -> np.ndarray[Any, Any]:
        """Return all columns as one float64 matrix."""
        return np.array(self.rows, dtype=np.float64).reshape(-1, len(StepRecord._fields))
