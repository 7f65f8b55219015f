"""Stochastic gradient descent on the subproblem, for proxies too large for full passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from proxyprox._arrays import Vector
from proxyprox._checks import nonnegative, positive, whole
from proxyprox._subproblem import Subproblem
from proxyprox.inner.base import InnerResult, Memory
from proxyprox.stopping import Criterion
from proxyprox.theory import inner_steps_sgd


@dataclass(frozen=True)
class StochasticGradient:
    """SGD on φ with sampled proxy gradients, for the paper's number of steps.

    With ``M = H + 1/η`` and λ the strong convexity of φ: half of the steps at the constant
    ``1/(2M)`` forget the start, the other half at ``2/(λ(κ + t))``, ``κ = 4M/λ``, forget the noise
    and are averaged with weights ``(κ + t)²``. One full gradient at the end measures the residual.

    Parameters
    ----------
    steps : int, optional
        Number of steps T. By default the proposition on making ∇φ_k small gives it.
    mu : float
        Strong convexity of the objective, for the default T.
    G : float
        Accuracy G of the inexactness rule, for the default T.
    noise : float
        Bound ρ on the noise of the proxy's sampled gradients, ``E‖ĝ − ∇L̂‖² ≤ ρ²``.

    References
    ----------
    Stich, "Unified optimal analysis of the (stochastic) gradient method".
    """

    steps: int | None = None
    mu: float | None = None
    G: float | None = None
    noise: float = 0.0

    needs: ClassVar[tuple[str, ...]] = ("gradient", "smoothness", "sample")
    handles_penalty: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.steps is not None:
            whole("steps", self.steps)
            return
        remedy = "StochasticGradient() needs either steps, or mu and G and noise."
        positive("mu", self.mu, remedy)
        nonnegative("noise", self.noise, remedy)
        if self.noise > 0:
            positive("G", self.G, remedy)

    def solve(
        self,
        phi: Subproblem,
        start: Vector,
        stop: Criterion,
        memory: Memory,
        rng: np.random.Generator,
    ) -> InnerResult:
        """Take T sampled steps, then measure."""
        kappa = 4 * phi.smoothness / phi.strong_convexity
        T = self._number_of_steps(phi)
        w = mean = start
        total = 0.0
        for t in range(T):
            late = max(0, t - T // 2)
            sampled = phi.proxy.gradient(w, phi.proxy.sample(rng))
            gradient = sampled + phi.linear + phi.pull * (w - phi.centre)
            w = w - 2 / (phi.strong_convexity * (kappa + late)) * gradient
            if t >= T // 2:
                weight = (1 + late / kappa) ** 2
                total += weight
                mean = mean + weight / total * (w - mean)
        # In a run the start is the centre, where the gradient is known already.
        first = phi.residual(start, phi.gradient(start))
        return InnerResult(mean, phi.progress(mean, phi.gradient(mean), T, first))

    def _number_of_steps(self, phi: Subproblem) -> int:
        if self.steps is not None:
            return self.steps
        assert self.mu is not None
        return inner_steps_sgd(
            H=float(phi.proxy.smoothness),
            eta=phi.eta,
            mu=self.mu,
            rho=self.noise,
            G=self.G or 0.0,
        )
