"""FedRed as a method of one's own: single proxy gradients around a centre that is renewed.

Jiang, Rodomanov and Stich, "Federated optimization with doubly regularized drift correction",
ICML 2024. No subproblem is solved and no inner tolerance chosen. One step of the run is one centre:
one target gradient, then 1/p proxy gradients on average. eta below 1/δ has a guarantee:
docs/proofs.md.
"""

from dataclasses import dataclass

import proxyprox as pp


@dataclass(frozen=True)
class FedRed(pp.Method):
    """``x ← argmin ⟨∇L̂(x) + g − ∇L̂(y), u⟩ + ‖u − y‖²/(2η) + ‖u − x‖²/(2γ)``; y ← x by chance p.

    γ is 1/H unless it is given.
    """

    eta: float
    p: float = 0.1
    gamma: float | None = None

    def defaults(self):
        # A step that is implicit in the quadratic is an explicit one of this size.
        size = None if self.gamma is None else 1 / (1 / self.gamma + 1 / self.eta)
        descent = pp.inner.GradientDescent(size)
        return pp.methods.Defaults(inner=descent, stop=pp.stopping.RandomSteps(self.p))

    def tell(self, state, answers, step):
        linear = answers.gradients[0] - step.proxy.gradient(state.w)
        return pp.methods.State(step.solve(linear=linear, centre=state.w), state.k + 1)
