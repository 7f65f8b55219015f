"""What an inner solver is given and what it returns."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from proxyprox._arrays import Vector
from proxyprox._subproblem import Subproblem
from proxyprox.stopping import Criterion, Progress

Memory = dict[str, Any]
"""What a solver keeps from one outer step to the next: arrays and numbers, saved with the run."""


class InnerResult(NamedTuple):
    """The point an inner solve ended at, and how good it is there."""

    w: Vector
    progress: Progress


class InnerSolver(Protocol):
    """Minimise a subproblem until a criterion is met."""

    needs: ClassVar[tuple[str, ...]]
    """Capabilities that the solver asks of the proxy."""

    handles_penalty: ClassVar[bool]
    """Whether the solver copes with a non-smooth term."""

    def solve(
        self,
        phi: Subproblem,
        start: Vector,
        stop: Criterion,
        memory: Memory,
        rng: np.random.Generator,
    ) -> InnerResult:
        """Minimise ``phi`` from ``start``.

        Parameters
        ----------
        phi : Subproblem
            What to minimise.
        start : array
            Where to begin.
        stop : Criterion
            When to stop.
        memory : dict
            The solver's own memory, empty at the first outer step; changed in place.
        rng : numpy.random.Generator
            For solvers that sample.

        Returns
        -------
        InnerResult
            The last point, with the residual measured there.
        """


def needs_of(solver: Any) -> tuple[str, ...]:
    """Return the capabilities that a configured solver asks for."""
    asked: tuple[str, ...] = tuple(solver.needs)
    # A step size given by hand makes the smoothness constant unnecessary.
    if getattr(solver, "step_size", None) is not None:
        asked = tuple(need for need in asked if need != "smoothness")
    return asked
