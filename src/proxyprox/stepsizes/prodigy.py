r"""The rule behind ``Adam("auto")`` and ``Adagrad("auto")``: Prodigy's estimate of the distance.

For convex L and any weights, ``Σ a_i ⟨g_i, w_i − w*⟩ ≥ 0`` in expectation, hence

.. math:: \frac{\sum_i a_i \langle g_i, w_0 - w_i\rangle}{\|\sum_i a_i g_i\|_1}
          \;\le\; \|w_0 - w_*\|_\infty .

Prodigy takes ``a_i = d_i²``, forgets old ones, and uses the largest value so far, d, as η; the
gradients that enter a method's moments are weighed by d too, so that those of the first, tiny
steps count for little. The step of Adagrad or Adam is about η long in every coordinate, which is
why the largest coordinate of the distance is the right size for it. A penalty is left out of the
estimate. d never falls: the answer is the average of the iterates with weights ``k³`` (the
polynomial decay of Shamir and Zhang), or the last one if gradients are exact.

References
----------
Mishchenko and Defazio, "Prodigy: an expeditiously adaptive parameter-free learner", ICML 2024
(arXiv 2306.06101); Defazio and Mishchenko, "Learning-rate-free learning by D-adaptation", ICML
2023.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector, dot, namespace, zeros_like
from proxyprox._util.validation import message, nonnegative, positive
from proxyprox.stepsizes.averages import share
from proxyprox.stepsizes.base import Observation, StepSize


@dataclass(frozen=True)
class ProdigyPolicy:
    """When a run is told that its steps were too short, set by ``docs/results/auto_eta``.

    An estimate that grew by the factor ``growing`` in the last half of a run has not found the
    distance.
    """

    growing: float = 2.0


@dataclass(frozen=True)
class ProdigyState:
    """η of this step and of the next, both sums of the estimate, and the average."""

    start: Vector
    average: Vector
    slopes: Vector
    gains: float = 0.0
    eta: float = 0.0
    following: float = 0.0
    noisy: bool = False


@dataclass(frozen=True)
class Prodigy(StepSize):
    """Estimate the largest coordinate of ``w_0 − w*`` during the run, and take it as η.

    Parameters
    ----------
    decay : float
        Weight of the past in the estimate, in [0, 1]; Adam takes ``√β₂``, Adagrad 1.
    first : float
        η of the first step, which should be too small rather than too large.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Adam, Problem, Quadratic, minimize
    >>> target = Quadratic(np.diag([1.0, 9.0]), b=np.array([-1.0, -9.0]))
    >>> result = minimize(Problem(target), method=Adam("auto"), steps=300)
    >>> result.w.round(2), bool(result.trace["eta"][-1] <= 1.0)
    (array([1., 1.]), True)
    """

    decay: float = 1.0
    first: float = 1e-6

    measures: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the numbers."""
        if nonnegative("decay", self.decay) > 1:
            raise ValueError(message("decay", self.decay, "a number in [0, 1]"))
        positive("first", self.first)

    def init(self, w0: Vector, problem: Any, *, uses_proxy: bool) -> ProdigyState:
        """Return the state before the first step."""
        return ProdigyState(w0, w0, zeros_like(w0), following=self.first)

    def eta(self, state: ProdigyState, k: int) -> float:
        """Return η of the step in progress, which does not depend on its gradient."""
        return state.eta if state.eta > 0 else state.following

    def observe(self, state: ProdigyState, seen: Observation) -> ProdigyState:
        """Enter the newest gradient into the estimate, for the next step."""
        eta, part = state.following, 1 - self.decay if self.decay < 1 else 1.0
        weight = part * eta * eta
        slopes = self.decay * state.slopes + weight * seen.gradient
        gain = weight * dot(seen.gradient, state.start - seen.w)
        gains, size = self.decay * state.gains + gain, float(namespace(slopes).abs(slopes).sum())
        following = max(eta, gains / size) if size > 0 else eta
        noisy = seen.noise != 0
        return replace(state, slopes=slopes, gains=gains, eta=eta, following=following, noisy=noisy)

    def end_step(self, state: ProdigyState, k: int, w: Vector) -> ProdigyState:
        """Enter the iterate into the average."""
        return replace(state, average=state.average + share(k) * (w - state.average))

    def answer(self, state: ProdigyState, w: Vector) -> Vector:
        """Return the average, or the last iterate if there is no noise to average away."""
        return state.average if state.noisy else w

    def note(self, etas: Vector) -> str:
        """Say so if the estimate was still growing: until then all steps were too short."""
        grown = etas[-1] / etas[len(etas) // 2] if len(etas) else 1.0
        if grown < ProdigyPolicy.growing:
            return ""
        return (
            f"Prodigy's estimate of the distance was still growing: eta ended at {etas[-1]:.2g}, "
            f"{grown:.2g} times that of halfway, so that most steps were too short. Take more "
            "steps, give eta a number, such as 0.01, or use SGD()."
        )
