"""Stochastic gradient descent: ProxyProx with the zero proxy, and the method to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._arrays import Vector
from proxyprox.methods.base import Eta, Solve, State, checked_eta, eta_at


@dataclass(frozen=True)
class SGD:
    """``w ← w − η g_k``; with a penalty, a proximal step. Any proxy is ignored.

    Parameters
    ----------
    eta : float or callable
        Step size η > 0, or a function of the outer step.
    """

    eta: Eta

    uses_proxy: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    two_points: ClassVar[bool] = False
    default_inner: ClassVar[None] = None

    def __post_init__(self) -> None:
        """Check η."""
        checked_eta(self.eta)

    def init(self, w0: Vector) -> State:
        """Start at w0."""
        return State(w=w0)

    def ask(self, state: State) -> tuple[Vector, ...]:
        """Ask at w_k."""
        return (state.w,)

    def tell(self, state: State, gradients: Sequence[Vector], proxy: Any, solve: Solve) -> State:
        """Take the step; ``solve`` is exact for the zero proxy."""
        w = solve(linear=gradients[0], centre=state.w, eta=self.step_size(state.k))
        return State(w=w, k=state.k + 1)

    def step_size(self, k: int) -> float:
        """Return η of outer step k."""
        return eta_at(self.eta, k)
