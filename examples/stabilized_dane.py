"""S-DANE, two steps of the run an iteration; eta up to 1/(5δ) has a guarantee (docs/theory.md).

Jiang, Rodomanov and Stich, "Stabilized proximal-point methods for federated optimization", 2024.
"""

from dataclasses import dataclass
from typing import Any

import proxyprox as pp


@dataclass(frozen=True)
class StabilizedState(pp.methods.State):
    """The iterate and the centre."""

    centre: Any = None


@dataclass(frozen=True)
class StabilizedDANE(pp.Method):
    """``w`` solves the subproblem at the centre v; ``v ← (v/η + μw − g(w)) / (1/η + μ)``."""

    eta: float
    mu: float = 0.0

    def defaults(self):
        return pp.methods.Defaults(stop=pp.stopping.SDane())

    def init(self, w0, problem):
        return StabilizedState(w0, centre=w0)

    def ask(self, state):
        return pp.methods.Request((state.w if state.k % 2 else state.centre,))

    def tell(self, state, answers, step):
        (g,), w, v, pull = answers.gradients, state.w, state.centre, 1 / self.eta
        if state.k % 2 == 0:
            w = step.solve(linear=g - step.proxy.gradient(v), centre=v)
            return StabilizedState(w, state.k + 1, v)
        return StabilizedState(w, state.k + 1, (pull * v + self.mu * w - g) / (pull + self.mu))
