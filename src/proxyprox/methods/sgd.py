"""Stochastic gradient descent: ProxyProx with the zero proxy, and the method to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from proxyprox.methods.base import Answers, Method, OuterStep, State
from proxyprox.stepsizes.auto import as_step_size
from proxyprox.stepsizes.base import Eta


@dataclass(frozen=True)
class SGD(Method):
    """``w ← w − η g_k``; with a penalty, a proximal step. Any proxy is ignored.

    Parameters
    ----------
    eta : float, callable, StepSize or "auto"
        Step size η > 0, or a function of the outer step; "auto" takes the distance travelled over
        the gradients, with one target gradient more; see :mod:`proxyprox.stepsizes.auto`.
    """

    eta: Eta

    uses_proxy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check η."""
        as_step_size(self.eta)

    def tell(self, state: State, answers: Answers, step: OuterStep) -> State:
        """Take the step; solving is exact for the zero proxy."""
        centre, gradient = state.w, answers.gradients[0]
        if step.restart is not None:
            centre, gradient = step.restart.centre, step.restart.difference
        return State(w=step.solve(linear=gradient, centre=centre), k=state.k + 1)
