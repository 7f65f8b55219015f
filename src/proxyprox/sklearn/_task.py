"""What is fitted: labelled rows, the inputs' moment, and perhaps a teacher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxyprox import GLM, L1, Problem
from proxyprox.sklearn._moment import Moment
from proxyprox.sklearn._start import label_free
from proxyprox.sklearn._teacher import Teacher
from proxyprox.sklearn._walk import Walk

Array = Any


@dataclass(frozen=True)
class Candidate:
    """One way to walk; cross-validation picks one of them, and how far to go.

    Attributes
    ----------
    alpha : float
        Strength of the penalty.
    power : float or None
        λ of the paired correction; None tunes it on the labelled rows at hand.
    taught : bool
        Whether the walk begins at the teacher's student instead of the constant model.
    """

    alpha: float = 0.0
    power: float | None = 0.0
    taught: bool = False


@dataclass(frozen=True)
class Task:
    """A fit, up to the candidate and the rows it is done on.

    Attributes
    ----------
    losses : mapping
        The labelled loss for each strength ``alpha``, its L2 part included.
    moment : Moment
        Of all inputs.
    l1_ratio : float
        Share of the L1 norm in the penalty.
    teacher : Teacher, optional
        Answers for every row.
    start : array, optional
        Where to begin instead of at the constant model.
    counts : array, optional
        How many labels each labelled row stands for: its weight; one by default.
    """

    losses: Mapping[float, GLM]
    moment: Moment
    l1_ratio: float = 0.0
    teacher: Teacher | None = None
    start: Array | None = None
    counts: Array | None = None

    def total(self, rows: Array | None = None) -> float:
        """Return how many labels some of the rows stand for, or all."""
        if self.counts is None:
            return float(self.loss.design.rows if rows is None else len(rows))
        return float((self.counts if rows is None else self.counts[rows]).sum())

    @property
    def loss(self) -> GLM:
        """The labelled rows, at any strength."""
        return next(iter(self.losses.values()))

    def walk(self, candidate: Candidate, rows: Array | None = None) -> Walk:
        """Return the walk of a candidate on some of the labelled rows, or on all."""
        loss = self.losses[candidate.alpha]
        loss = loss if rows is None else loss.rows(rows)
        proxy = label_free(loss, self.moment, self.total(rows) / loss.design.rows)
        w0 = proxy.w0 if self.start is None else self.start
        objective: Any = loss
        if self.teacher is not None and candidate.power != 0.0:
            objective = self.teacher.tilted(loss, rows, candidate.power)
        if self.teacher is not None and candidate.taught:
            w0 = self.teacher.student
        # The proxy lacks the L2 term: a pull of that strength stands in for it.
        return Walk(Problem(objective, proxy, self._l1(candidate.alpha)), w0, floor=loss.l2)

    def _l1(self, alpha: float) -> L1 | None:
        if alpha * self.l1_ratio == 0:
            return None
        design, outputs = self.loss.design, self.loss.family.outputs
        strength = np.full((design.width, outputs), alpha * self.l1_ratio)
        if design.intercept:
            strength[-1] = 0.0
        return L1(strength.ravel())
