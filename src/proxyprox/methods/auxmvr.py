"""AuxMVR: variance reduction on the difference of the two gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from proxyprox.corrections import Storm
from proxyprox.methods._auxiliary import Auxiliary


@dataclass(frozen=True)
class AuxMVR(Auxiliary):
    """Inner steps on ``L̂ + ⟨m, ·⟩``, m a STORM estimate of the gradient difference.

    ``m ← d_k + (1 − a)(m − d_{k−1})`` with both differences on one batch.

    As published there is no proximal term (η = ∞): a fixed number of gradient steps
    ``y ← y − γ(∇L̂(y) + m)`` keeps the iterate near. Give γ and the number of steps as
    ``inner=GradientDescent(step_size=γ)`` and ``stop=Steps(20)``. A step costs two target
    gradients.

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

    estimator: ClassVar[type[Storm]] = Storm
