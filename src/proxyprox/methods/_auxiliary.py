"""The published methods with auxiliary information: one loop, two estimates of the difference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._arrays import Vector
from proxyprox.corrections import EMA, Storm
from proxyprox.inner import GradientDescent
from proxyprox.methods._corrected import best, corrected_step, points, start
from proxyprox.methods.base import Eta, Solve, State, checked_eta, eta_at


@dataclass(frozen=True)
class Auxiliary:
    """Inner steps on ``L̂ + ⟨m, ·⟩``, m an estimate of ``∇L − ∇L̂`` at w_k; abstract."""

    a: float = 0.1
    eta: Eta = math.inf

    estimator: ClassVar[type[EMA | Storm]]
    """How m is made of the differences, given their weight a."""

    uses_proxy: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    default_inner: ClassVar[GradientDescent] = GradientDescent()

    def __post_init__(self) -> None:
        """Check both numbers."""
        self.estimator(self.a)
        checked_eta(self.eta, allow_inf=True)

    @property
    def two_points(self) -> bool:
        """Whether the estimate compares two points on one batch."""
        return self.estimator.two_points

    def init(self, w0: Vector, problem: Any = None) -> State:
        """Start at w0."""
        return start(w0, self.eta, problem)

    def ask(self, state: State) -> tuple[Vector, ...]:
        """Ask at w_k and, where the estimate compares the two, at w_{k−1} on the same batch."""
        return points(state, self.estimator(self.a))

    def tell(self, state: State, gradients: Sequence[Vector], proxy: Any, solve: Solve) -> State:
        """Descend on the corrected proxy."""
        m, eta = self.estimator(self.a), self.step_size(state.k)
        return corrected_step(state, gradients, proxy, solve, correction=m, eta=eta)

    def step_size(self, k: int) -> float:
        """Return η of outer step k."""
        return eta_at(self.eta, k, allow_inf=True)

    def answer(self, state: State) -> Vector:
        """Return the point to answer with."""
        return best(state)
