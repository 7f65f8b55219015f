"""Accelerated gradient sliding: √(δ/μ) full target gradients instead of δ/μ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._arrays import Vector
from proxyprox._checks import nonnegative, positive
from proxyprox.methods.base import Solve


@dataclass(frozen=True)
class SlidingState:
    """The two sequences; ``x_g`` is set between the two halves of an iteration."""

    w: Vector
    x: Vector
    k: int = 0
    x_g: Vector | None = None


@dataclass(frozen=True)
class AcceleratedSliding:
    r"""The accelerated extragradient method for ``L = L̂ + h``, h δ-smooth, L μ-strongly convex.

    .. math::
        x_g &= \tau x + (1-\tau) w, \\
        w^+ &\approx \arg\min_u\; \hat L(u) + \langle\nabla h(x_g), u\rangle
               + \delta\|u - x_g\|^2, \\
        x^+ &= x + \gamma\mu(w^+ - x) - \gamma\nabla L(w^+)

    with ``τ = min{1, √(μ/δ)/2}`` and ``γ = min{1/(2μ), 1/(2√(μδ))}``. One iteration is two steps of
    the run, each with one full target gradient: at x_g, then at w⁺.

    Parameters
    ----------
    delta : float
        Similarity δ, zero or more.
    mu : float
        Strong convexity μ of the objective.

    References
    ----------
    Kovalev, Beznosikov, Borodich, Gasnikov and Scutari, "Optimal gradient sliding and its
    application to distributed optimization under similarity".
    """

    delta: float
    mu: float

    uses_proxy: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    two_points: ClassVar[bool] = False
    default_inner: ClassVar[None] = None

    def __post_init__(self) -> None:
        """Check both numbers."""
        nonnegative("delta", self.delta)
        positive("mu", self.mu)

    def init(self, w0: Vector) -> SlidingState:
        """Start both sequences at w0."""
        return SlidingState(w=w0, x=w0)

    def ask(self, state: SlidingState) -> tuple[Vector, ...]:
        """Ask at x_g, then at the solution of the subproblem there."""
        if state.x_g is not None:
            return (state.w,)
        tau = min(1.0, math.sqrt(self.mu / self._delta) / 2)
        return (tau * state.x + (1 - tau) * state.w,)

    def tell(
        self, state: SlidingState, gradients: Sequence[Vector], proxy: Any, solve: Solve
    ) -> SlidingState:
        """Do the first or the second half of an iteration."""
        if state.x_g is None:
            (x_g,) = self.ask(state)
            w = solve(
                linear=gradients[0] - proxy.gradient(x_g), centre=x_g, eta=self.step_size(state.k)
            )
            return SlidingState(w=w, x=state.x, k=state.k + 1, x_g=x_g)
        gamma = min(1 / (2 * self.mu), 1 / (2 * math.sqrt(self.mu * self._delta)))
        x = state.x + gamma * self.mu * (state.w - state.x) - gamma * gradients[0]
        return SlidingState(w=state.w, x=x, k=state.k + 1)

    def step_size(self, k: int) -> float:
        """Return η = 1/(2δ)."""
        return 1 / (2 * self._delta)

    @property
    def _delta(self) -> float:
        # At δ < μ the rate is 1/2 already: a larger δ costs nothing and keeps τ at most 1/2.
        return max(self.delta, self.mu)
