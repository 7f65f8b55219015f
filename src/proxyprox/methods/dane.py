"""DANE: the same update with full target gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._arrays import Vector
from proxyprox._checks import positive
from proxyprox.corrections import Plain
from proxyprox.methods._corrected import best, corrected_step, start
from proxyprox.methods.base import Answers, Eta, Solve, State, checked_eta, eta_at


@dataclass(frozen=True)
class DANE:
    r"""Full-gradient use of the proxy, as between one machine and the average of all.

    .. math:: w_{k+1} = \arg\min_w\; \hat L(w)
              + \langle s\nabla L(w_k) - \nabla\hat L(w_k), w\rangle
              + \frac{1}{2\eta}\|w - w_k\|^2

    Parameters
    ----------
    eta : float, callable or "auto"
        Step size; DANE's regularisation is 1/η. Infinite, DANE's default, means none.
    gradient_weight : float
        The factor s on the target's gradient (DANE's own η).

    References
    ----------
    Shamir, Srebro and Zhang, "Communication-efficient distributed optimization using an
    approximate Newton-type method".
    """

    eta: Eta = math.inf
    gradient_weight: float = 1.0

    uses_proxy: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    two_points: ClassVar[bool] = False
    default_inner: ClassVar[None] = None

    def __post_init__(self) -> None:
        """Check both numbers."""
        checked_eta(self.eta, allow_inf=True)
        positive("gradient_weight", self.gradient_weight)

    def init(self, w0: Vector, problem: Any = None) -> State:
        """Start at w0."""
        return start(w0, self.eta, problem)

    def ask(self, state: State) -> tuple[Vector, ...]:
        """Ask at w_k."""
        return (state.w,)

    def tell(self, state: State, gradients: Sequence[Vector], proxy: Any, solve: Solve) -> State:
        """Minimise the corrected proxy."""
        weighted = Answers([self.gradient_weight * gradients[0]])
        weighted.noise = 0.0
        return corrected_step(
            state, weighted, proxy, solve, correction=Plain(), eta=self.step_size(state.k)
        )

    def step_size(self, k: int) -> float:
        """Return η of outer step k."""
        return eta_at(self.eta, k, allow_inf=True)

    def answer(self, state: State) -> Vector:
        """Return the point to answer with."""
        return best(state)
