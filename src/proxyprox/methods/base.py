"""What a method is: it asks for target gradients at points, and is told them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from proxyprox._util.arrays import Vector
from proxyprox._util.validation import message, positive
from proxyprox.stepsizes import Memory

Eta = float | Callable[[int], float] | Literal["auto"]
"""A step size: a number, a function of the outer step k = 0, 1, …, or "auto" to measure it."""


class Answers(list[Vector]):
    """The batch's gradient at each point that was asked about, and how noisy the first is.

    ``noise`` estimates ``E‖g − ∇L‖²``; 0 for exact gradients, None where nobody knows. ``gap``,
    half the difference of two half batches' gradients, is a sample of that noise.
    """

    noise: float | None = None
    gap: Vector | None = None


class Solve(Protocol):
    """Minimise ``L̂ + ⟨linear, ·⟩ + ‖· − centre‖²/(2η)`` with the run's solver and criterion."""

    def __call__(self, linear: Vector, centre: Vector, eta: float) -> Vector:
        """Return the approximate minimiser, started at the centre."""


@dataclass(frozen=True)
class State:
    """What the methods built on a correction carry from step to step."""

    w: Vector
    k: int = 0
    estimate: Vector | None = None
    previous: Vector | None = None
    previous_anchor: Vector | None = None
    rule: Memory | None = None


class Method(Protocol):
    """An outer method; frozen configuration, explicit state."""

    uses_proxy: ClassVar[bool]
    """False for methods that treat the proxy as zero."""

    exact: ClassVar[bool]
    """Whether the method asks for full target gradients."""

    default_inner: ClassVar[Any | None]
    """The solver its authors use, or None to let Auto choose."""

    @property
    def two_points(self) -> bool:
        """Whether one batch is evaluated at two points."""

    def init(self, w0: Vector, problem: Any = None) -> Any:
        """Return the state before the first step on a problem."""

    def ask(self, state: Any) -> tuple[Vector, ...]:
        """Return the points where the next batch's gradient is wanted."""

    def tell(self, state: Any, gradients: Sequence[Vector], proxy: Any, solve: Solve) -> Any:
        """Return the state after one outer step."""

    def step_size(self, k: int) -> float:
        """Return η of outer step k."""


def checked_eta(eta: Any, *, allow_inf: bool = False) -> None:
    """Refuse a step size that is neither positive nor a function."""
    if isinstance(eta, str):
        if eta != "auto":
            raise TypeError(message("eta", eta, "a positive number, a function or 'auto'"))
    elif not callable(eta):
        remedy = "The theory allows eta up to 1/(4δ); with δ = 0 any positive eta converges."
        positive("eta", eta, remedy, allow_inf=allow_inf)


def eta_at(eta: Eta, k: int, *, allow_inf: bool = False) -> float:
    """Return the step size of outer step k, checking what a schedule returns."""
    if isinstance(eta, str):
        # Known only when the step is taken; the record of the step holds it.
        return math.nan
    if callable(eta):
        return positive(f"eta({k})", eta(k), "Mend the schedule.", allow_inf=allow_inf)
    return eta
