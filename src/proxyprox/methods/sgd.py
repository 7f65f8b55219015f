"""Stochastic gradient descent: ProxyProx with the zero proxy, and the method to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector
from proxyprox.corrections import Plain
from proxyprox.methods.base import Eta, Solve, State, checked_eta, eta_at
from proxyprox.methods.proxyprox import best, measured_step, points, start


@dataclass(frozen=True)
class SGD:
    """``w ← w − η g_k``; with a penalty, a proximal step. Any proxy is ignored.

    Parameters
    ----------
    eta : float, callable or "auto"
        Step size η > 0, or a function of the outer step; "auto" takes the distance travelled over
        the gradients, with one target gradient more; see :mod:`proxyprox.stepsizes.auto`.
    """

    eta: Eta

    uses_proxy: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    two_points: ClassVar[bool] = False
    default_inner: ClassVar[None] = None

    def __post_init__(self) -> None:
        """Check η."""
        checked_eta(self.eta)

    def init(self, w0: Vector, problem: Any = None) -> State:
        """Start at w0."""
        return start(w0, self.eta, problem, uses_proxy=False)

    def ask(self, state: State) -> tuple[Vector, ...]:
        """Ask at w_k."""
        return points(state, Plain())

    def tell(self, state: State, gradients: Sequence[Vector], proxy: Any, solve: Solve) -> State:
        """Take the step; ``solve`` is exact for the zero proxy."""
        if state.rule is not None:
            return measured_step(state, gradients, proxy, solve, correction=Plain())
        w = solve(linear=gradients[0], centre=state.w, eta=self.step_size(state.k))
        return State(w=w, k=state.k + 1)

    def step_size(self, k: int) -> float:
        """Return η of outer step k."""
        return eta_at(self.eta, k)

    def answer(self, state: State) -> Vector:
        """Return the point to answer with."""
        return best(state)
