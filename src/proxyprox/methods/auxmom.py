"""AuxMom: momentum on the difference of the two gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from proxyprox.corrections import EMA
from proxyprox.methods._auxiliary import Auxiliary


@dataclass(frozen=True)
class AuxMom(Auxiliary):
    """Inner steps on ``L̂ + ⟨m, ·⟩``, m a moving average of gradient differences.

    ``m ← (1 − a) m + a (g_k − ∇L̂(w_k))``.

    As published there is no proximal term (η = ∞): a fixed number of gradient steps
    ``y ← y − γ(∇L̂(y) + m)`` keeps the iterate near. Give γ and the number of steps as
    ``inner=GradientDescent(step_size=γ)`` and ``stop=Steps(20)``.

    Parameters
    ----------
    a : float
        Weight of the newest difference, in (0, 1].
    eta : float, callable or "auto"
        Step size of an added proximal term; infinite, as published, by default.

    References
    ----------
    Chayti and Karimireddy, "Optimization with access to auxiliary information".
    """

    estimator: ClassVar[type[EMA]] = EMA
