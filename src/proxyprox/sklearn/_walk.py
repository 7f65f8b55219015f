"""Outer steps with a fading pull: the path on which cross-validation picks a point."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from proxyprox import DANE, NonFiniteError, Problem, Relative, Run, Steps

GROWTH = 1.1
"""Factor by which η grows from step to step."""

FAINTEST = 1e-8
"""The pull never falls below this share of the proxy's smoothness."""

SOLVED = Relative(1e-3) | Steps(200)
"""When a subproblem with a penalty is solved; without one it is solved exactly, in closed form."""

Array = Any


class Walk:
    r"""The iterates ``w_0, w_1, …`` of full-gradient ProxyProx on the labelled rows.

    .. math:: w_{k+1} = \arg\min_w \hat L(w) + \langle\nabla L_n(w_k) - \nabla\hat L(w_k), w\rangle
              + \frac{1}{2\eta_k}\|w - w_k\|^2, \qquad \eta_k = 1.1^k / H

    The first steps barely move, each later one goes further: by the number of steps alone the
    walk passes from the constant model, through fits regularised in the geometry of all inputs,
    to the minimiser on the labelled rows. A step that would raise the objective is taken again
    with a shorter η, so that the walk also ends there when few labels make δ large.

    Parameters
    ----------
    problem : Problem
        Labelled loss, label-free proxy and penalty.
    w0 : array
        Where to begin.
    floor : float
        The least pull ``1/η``; at least the strength of an L2 term, which the proxy lacks.
    """

    def __init__(self, problem: Problem, w0: Array, *, floor: float = 0.0) -> None:
        self.problem = problem
        self.w = w0
        self.k = 0
        self._top = float(problem.proxy.smoothness) or 1.0
        self._floor = max(floor, FAINTEST * self._top)
        self._boost = 1.0
        self._value = problem.value(w0)
        self._slope: Array | None = None

    @property
    def pull(self) -> float:
        """``1/η`` of the next step."""
        return self._boost * max(self._top * GROWTH**-self.k, self._floor)

    def advance(self) -> Array:
        """Take one step and return the new point."""
        while True:
            w, value = self._tried()
            slack = 1e-12 * max(1.0, abs(self._value))
            if value <= self._value + slack or self._boost > 1e12:
                break
            self._boost *= 4
        if value <= self._value + slack:
            self.w, self._value, self._slope = w, value, None
        # A boost was for one place: let it fade, or a hard start would slow the whole walk.
        self._boost = max(1.0, self._boost / 2)
        self.k += 1
        return self.w

    def _tried(self) -> tuple[Array, float]:
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                w = self._stepped(1 / self.pull)
                value = self.problem.value(w)
        except NonFiniteError:
            return self.w, math.inf
        return w, value if math.isfinite(value) else math.inf

    def _stepped(self, eta: float) -> Array:
        if self._slope is None:
            self._slope = self.problem.objective.gradient(self.w)
        if self.problem.penalty is not None:
            run = Run(self.problem, self.w, method=DANE(eta=eta), stop=SOLVED)
            run.ask()
            return run.tell(self._slope).w
        # The same step in closed form, of which cross-validation takes thousands: from the iterate
        # itself the proxy's slope cancels, and a factorised proxy solves the rest exactly.
        return self.w - self.problem.proxy.solve_shifted(self._slope, eta)
