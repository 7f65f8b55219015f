"""Accelerated gradient sliding as a method of one's own: two sequences, two full gradients each.

Kovalev, Beznosikov, Borodich, Gasnikov and Scutari, "Optimal gradient sliding and its application
to distributed optimization under similarity", for ``L = L̂ + h``, h δ-smooth, L μ-strongly convex.
With ``τ = √(μ/δ)/2`` and ``γ = 1/(2√(μδ))``, each at most 1/2 and 1/(2μ)::

    x_g = τ x + (1 − τ) w,    w ← argmin_u L̂(u) + ⟨∇h(x_g), u⟩ + δ‖u − x_g‖²,
    x ← x + γμ(w − x) − γ∇L(w)
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import proxyprox as pp


@dataclass(frozen=True)
class SlidingState(pp.methods.State):
    """The two sequences; ``centre`` is x_g between the halves of an iteration."""

    x: Any = None
    centre: Any = None


@dataclass(frozen=True)
class AcceleratedSliding(pp.Method):
    """One iteration is two steps of the run: at x_g, then at the solution of the subproblem."""

    delta: float
    mu: float
    exact = True

    def init(self, w0, problem):
        return SlidingState(w0, x=w0)

    def ask(self, state):
        if state.centre is not None:
            return pp.methods.Request((state.w,), everything=True)
        tau = math.sqrt(self.mu / max(self.delta, self.mu)) / 2
        return pp.methods.Request((tau * state.x + (1 - tau) * state.w,), everything=True)

    def tell(self, state, answers, step):
        (gradient,), delta, k = answers.gradients, max(self.delta, self.mu), state.k + 1
        if state.centre is None:
            (x_g,) = self.ask(state).points
            slope = gradient - step.proxy.gradient(x_g)
            w = step.solve(linear=slope, centre=x_g, eta=1 / (2 * delta))
            return replace(state, w=w, k=k, centre=x_g)
        gamma = 1 / (2 * math.sqrt(self.mu * delta))
        x = state.x + gamma * self.mu * (state.w - state.x) - gamma * gradient
        return SlidingState(state.w, k, x)
