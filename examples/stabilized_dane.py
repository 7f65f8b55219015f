"""S-DANE: Jiang, Rodomanov and Stich, "Stabilized proximal-point methods", NeurIPS 2024."""

from dataclasses import dataclass
from typing import Any

import proxyprox as pp


@dataclass(frozen=True)
class StabilizedState(pp.methods.State):
    """The iterate and the centre."""

    centre: Any = None


@dataclass(frozen=True)
class StabilizedDANE(pp.Method):
    """``w`` solves the subproblem at v, λ = 1/η ≥ 5δ; ``v ← (λv + μw − g(w)) / (λ + μ)``."""

    lam: float
    mu: float = 0.0

    def defaults(self):
        return pp.methods.Defaults(stop=pp.stopping.SDane())

    def init(self, w0, problem):
        return StabilizedState(w0, centre=w0)

    def ask(self, state):
        return pp.methods.Request((state.w if state.k % 2 else state.centre,))

    def tell(self, state, answers, step):
        (g,), w, v, lam = answers.gradients, state.w, state.centre, self.lam
        if state.k % 2 == 0:
            w = step.solve(linear=g - step.proxy.gradient(v), centre=v, eta=1 / lam)
        else:
            v = (lam * v + self.mu * w - g) / (lam + self.mu)
        return StabilizedState(w, state.k + 1, v)
