"""SPAM as a method of one's own: a STORM estimate of ∇L − ∇L̂ with decreasing weights.

Karagulyan, Shulgin, Sadiev and Richtárik, "SPAM: stochastic proximal point method with momentum
variance reduction for non-convex cross-device federated learning", 2024 (docs/proofs.md).
"""

from dataclasses import dataclass
from typing import Any

import proxyprox as pp


@dataclass(frozen=True)
class SPAMState(pp.methods.State):
    """The iterate, the estimate of ∇L − ∇L̂ and the iterate before."""

    estimate: Any = None
    previous: Any = None


@dataclass(frozen=True)
class SPAM(pp.Method):
    """``m_k = d(w_k) + (1 − a_k)(m_{k−1} − d(w_{k−1}))``, d = g − ∇L̂; γ is the first η."""

    gamma: float
    two_points = True

    def init(self, w0, problem):
        return SPAMState(w0)

    def ask(self, state):
        return pp.methods.Request((state.w, state.previous) if state.k else (state.w,))

    def tell(self, state, answers, step):
        k, m = state.k + 1, answers.gradients[0] - step.proxy.gradient(state.w)
        if state.k:
            before = answers.gradients[1] - step.proxy.gradient(state.previous)
            m = m + (1 - k ** (-2 / 3)) * (state.estimate - before)
        w = step.solve(linear=m, centre=state.w, eta=self.gamma * k ** (-1 / 3))
        return SPAMState(w, k, m, state.w)
