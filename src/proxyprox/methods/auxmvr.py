"""AuxMVR: variance reduction on the difference of the two gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._arrays import Vector
from proxyprox.corrections import Storm
from proxyprox.inner import GradientDescent
from proxyprox.methods._corrected import best, corrected_step, points, start
from proxyprox.methods.base import Eta, Solve, State, checked_eta, eta_at


@dataclass(frozen=True)
class AuxMVR:
    """Inner steps on ``L̂ + ⟨m, ·⟩``, m a STORM estimate of the gradient difference.

    ``m ← d_k + (1 − a)(m − d_{k−1})`` with both differences on one batch.

    As published there is no proximal term (η = ∞): a fixed number of gradient steps
    ``y ← y − γ(∇L̂(y) + m)`` keeps the iterate near. Give γ and the number of steps as
    ``inner=GradientDescent(step_size=γ)`` and ``stop=Steps(20)``. A step costs two target
    gradients.

    Parameters
    ----------
    a : float
        Weight of the newest difference, in (0, 1].
    eta : float, callable or "auto"
        Step size of an added proximal term; infinite, as published, by default.

    References
    ----------
    Chayti and Karimireddy, "Optimization with access to auxiliary information".
    """

    a: float = 0.1
    eta: Eta = math.inf

    uses_proxy: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    two_points: ClassVar[bool] = True
    default_inner: ClassVar[GradientDescent] = GradientDescent()

    def __post_init__(self) -> None:
        """Check both numbers."""
        Storm(self.a)
        checked_eta(self.eta, allow_inf=True)

    def init(self, w0: Vector, problem: Any = None) -> State:
        """Start at w0."""
        return start(w0, self.eta, problem)

    def ask(self, state: State) -> tuple[Vector, ...]:
        """Ask at w_k and, on the same batch, at w_{k−1}."""
        return points(state, Storm(self.a))

    def tell(self, state: State, gradients: Sequence[Vector], proxy: Any, solve: Solve) -> State:
        """Descend on the corrected proxy."""
        eta = self.step_size(state.k)
        return corrected_step(state, gradients, proxy, solve, correction=Storm(self.a), eta=eta)

    def step_size(self, k: int) -> float:
        """Return η of outer step k."""
        return eta_at(self.eta, k, allow_inf=True)

    def answer(self, state: State) -> Vector:
        """Return the point to answer with."""
        return best(state)
