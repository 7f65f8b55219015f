"""What a step-size rule observes at every outer step, and what it decides.

A rule is frozen configuration. What it learns during a run is its state: any tree of dataclasses,
numbers and arrays, so that a saved run resumes bit for bit. The run owns the state and calls the
rule, so that every rule works with every method.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from proxyprox._util.arrays import Vector, norm
from proxyprox._util.validation import flag, positive, require_function
from proxyprox.inner.base import NonFiniteError

# How many smaller η are tried if a subproblem has no finite solution.
TRIES = 20


class Solve(Protocol):
    """Minimise ``L̂ + ⟨linear, ·⟩ + ‖· − centre‖²/(2η)`` with the run's solver and criterion."""

    def __call__(
        self, linear: Vector, centre: Vector, eta: float, *, residual: float | None = None
    ) -> Vector:
        """Return the approximate minimiser, started at the centre.

        With ``residual`` the gradient's norm there is also at most that.
        """


@dataclass(frozen=True)
class Observation:
    """One outer step as a rule sees it, before the step is taken.

    Attributes
    ----------
    k : int
        Number of earlier steps.
    w : array
        The point asked about.
    gradient : array
        ``g_k``, the batch's gradient there.
    anchor : array
        ``∇L̂(w_k)``.
    noise : float or None
        An estimate of ``E‖g_k − ∇L(w_k)‖²`` from this batch alone; 0 for an exact gradient, None
        if the objective cannot say.
    half_gap : array or None
        Half the difference of two half batches' gradients: a sample of the noise of ``g_k``.
    elsewhere : tuple of triples (point, gradient, half gap)
        The same batch's gradients and half gaps at the other points that were asked about.
    find_smoothness : callable
        Behind :attr:`smoothness`, which may take a few passes over the proxy's data.
    """

    k: int
    w: Vector
    gradient: Vector
    anchor: Vector
    noise: float | None = None
    half_gap: Vector | None = None
    elsewhere: tuple[tuple[Vector, Vector, Vector | None], ...] = ()
    find_smoothness: Callable[[], float | None] = lambda: None

    @property
    def smoothness(self) -> float | None:
        """H of the proxy, where it knows one."""
        return self.find_smoothness()


@dataclass(frozen=True)
class Restart:
    """The point before, to take the last step again from there: it overshot.

    ``difference`` is ``g − ∇L̂`` of the newest batch at that point, ``anchor`` is ``∇L̂`` there.
    """

    centre: Vector
    anchor: Vector
    difference: Vector


class StepSize:
    """How long the outer steps are. A subclass defines :meth:`eta` and what else it needs.

    A run calls, at every outer step and in this order: :meth:`comparison_point` before it asks the
    target, :meth:`observe` with the answer, :meth:`solve` for the subproblem, and :meth:`end_step`.
    No method changes the state that it is given; those that update it return a new one.

    Attributes
    ----------
    measures : bool
        Whether η depends on the target's answers, so that the noise of each batch is measured.

    Examples
    --------
    A step size that is halved when the squared gradient norm has grown:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from proxyprox import Problem, ProxyProx, Quadratic, minimize
    >>> from proxyprox.stepsizes import StepSize
    >>> @dataclass(frozen=True)
    ... class HalveOnGrowth(StepSize):
    ...     first: float
    ...     measures = True
    ...
    ...     def init(self, w0, problem, *, uses_proxy):
    ...         return {"eta": self.first, "size": np.inf}
    ...
    ...     def eta(self, state, k):
    ...         return state["eta"]
    ...
    ...     def observe(self, state, seen):
    ...         size = float(seen.gradient @ seen.gradient)
    ...         factor = 0.5 if size > state["size"] else 1.0
    ...         return {"eta": factor * state["eta"], "size": size}
    >>> target = Quadratic(np.diag([1.0, 9.0]), b=np.array([-1.0, -9.0]))
    >>> problem = Problem(target, proxy=Quadratic(np.eye(2)))
    >>> minimize(problem, method=ProxyProx(eta=HalveOnGrowth(4.0)), steps=80).w.round(2)
    array([1., 1.])
    """

    measures: ClassVar[bool] = False

    def suited(self, problem: Any, *, uses_proxy: bool) -> StepSize:
        """Return the rule to use for a problem: by default this one."""
        return self

    def init(self, w0: Vector, problem: Any, *, uses_proxy: bool) -> Any:
        """Return the state before the first step."""
        return None

    def eta(self, state: Any, k: int) -> float:
        """Return η of outer step k; NaN if it is not known before the target has answered."""
        raise NotImplementedError(f"{type(self).__name__} must define eta(state, k)")

    def comparison_point(self, state: Any, k: int) -> Vector | None:
        """Return the point before, if the batch of step k should be evaluated there as well."""
        return None

    def observe(self, state: Any, seen: Observation) -> Any:
        """Return the state after the target has answered; η of this step follows from it."""
        return state

    def adapt(self, state: Any, before: Any, after: Any, leap: bool) -> Any:
        """Return the state for a proxy whose numbers have changed: by default as it is."""
        return state

    def gain(self, state: Any) -> float | None:
        """Return the weight of the newest difference in a mean of all; None for no such mean."""
        return None

    def restart(self, state: Any) -> Restart | None:
        """Return where this step should start, if the last one should be undone."""
        return None

    def solve(
        self, state: Any, k: int, linear: Vector, centre: Vector, solve: Solve
    ) -> tuple[Vector, Any]:
        """Solve the subproblem of step k, with a smaller η where the proxy is not finite."""
        eta = self.eta(state, k)
        for _ in range(TRIES):
            try:
                return solve(linear, centre, eta), state
            except NonFiniteError as error:
                if error.status is not None:
                    raise
                # An infinite η has no fraction: one whose step is as long as the iterate has.
                longest = max(norm(centre), 1.0) / max(norm(linear), sys.float_info.min)
                eta = min(eta / 4, longest)
                if not 0 < eta < math.inf:
                    raise
        return solve(linear, centre, eta), state

    def end_step(self, state: Any, k: int, w: Vector) -> Any:
        """Return the state after step k has led to w."""
        return state

    def answer(self, state: Any, w: Vector) -> Vector:
        """Return the point to answer with, given the last iterate."""
        return w


@dataclass(frozen=True)
class Constant(StepSize):
    """The same η at every step."""

    value: float

    def __post_init__(self) -> None:
        """Check the number: NaN stands for no η; whether it may be infinite the method says."""
        if not (isinstance(self.value, float) and math.isnan(self.value)):
            positive("value", self.value, allow_inf=True)

    def eta(self, state: Any, k: int) -> float:
        """Return the value."""
        return self.value


@dataclass(frozen=True)
class Schedule(StepSize):
    """A function that returns η of outer step k = 0, 1, …."""

    function: Callable[[int], float]
    allow_inf: bool = False

    def __post_init__(self) -> None:
        """Check what can be checked without calling the function."""
        require_function("function", self.function, ("k",))
        flag("allow_inf", self.allow_inf)

    def eta(self, state: Any, k: int) -> float:
        """Return the function's value, checked."""
        remedy = "Fix the schedule."
        return positive(f"eta({k})", self.function(k), remedy, allow_inf=self.allow_inf)


# A number, a function of the outer step, a :class:`StepSize`, or "auto" for ``AutoStep()``.
Eta = float | Callable[[int], float] | StepSize | str
