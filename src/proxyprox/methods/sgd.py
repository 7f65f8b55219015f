"""Methods without a proxy, the ones to beat: SGD and Adam.

Any proxy is ignored. With ``eta="auto"`` SGD takes the distance travelled over the
gradients (:mod:`proxyprox.stepsizes.auto`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector, namespace, zeros_like
from proxyprox._util.validation import below_one, message, positive
from proxyprox.methods.base import Answers, Method, OuterStep, State
from proxyprox.stepsizes.auto import as_step_size
from proxyprox.stepsizes.base import Eta

# What is said of an η that is refused.
MEASURED = "Leave eta out to have it measured during the run."


@dataclass(frozen=True)
class SGD(Method):
    """``w ← w − η g_k``; with a penalty, a proximal step. Any proxy is ignored.

    Parameters
    ----------
    eta : float, callable, StepSize or "auto"
        Step size η > 0, or a function of the outer step; "auto", the default, takes the distance
        travelled over the gradients, with one target gradient more; see
        :mod:`proxyprox.stepsizes.auto`.
    """

    eta: Eta = "auto"

    uses_proxy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check η."""
        as_step_size(self.eta, remedy=MEASURED)

    def tell(self, state: State, answers: Answers, step: OuterStep) -> State:
        """Take the step; solving is exact for the zero proxy."""
        centre, gradient = state.w, answers.gradients[0]
        if step.restart is not None:
            centre, gradient = step.restart.centre, step.restart.difference
        return State(w=step.solve(linear=gradient, centre=centre), k=state.k + 1)


@dataclass(frozen=True)
class Moments(State):
    """The iterate, the means of the gradients and of their squares."""

    mean: Vector = None
    square: Vector = None


@dataclass(frozen=True)
class Adam(Method):
    r"""SGD with momentum, in coordinates scaled by the recent sizes of the gradients.

    .. math:: m \leftarrow \beta_1 m + (1 - \beta_1) g_k,\qquad
              v \leftarrow \beta_2 v + (1 - \beta_2) g_k^2,\qquad
              w \leftarrow w - \eta\,\frac{m/(1 - \beta_1^{k+1})}
                                          {\sqrt{v/(1 - \beta_2^{k+1})} + \varepsilon}

    coordinate by coordinate, as in ``torch.optim.Adam``. Any proxy is ignored; with a penalty the
    step is a proximal one in the same metric, which takes a penalty that is separable.

    Parameters
    ----------
    eta : float or callable
        Step size η > 0, such as 0.01, or a function of the outer step.
    beta1, beta2 : float
        Weights of the past, in [0, 1).
    eps : float
        ε > 0, against division by zero.

    References
    ----------
    Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Adam, Problem, Quadratic, minimize
    >>> target = Quadratic(np.diag([1.0, 9.0]), b=np.array([-1.0, -9.0]))
    >>> minimize(Problem(target), method=Adam(0.1), steps=300).w.round(2)
    array([1., 1.])
    """

    eta: Eta
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    uses_proxy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the settings."""
        below_one("beta1", self.beta1)
        below_one("beta2", self.beta2)
        positive("eps", self.eps)
        if as_step_size(self.eta, remedy="A usual number is 0.01.").measures:
            allowed, remedy = "a number or a function of the step", "SGD() measures its own."
            raise ValueError(message("eta", self.eta, allowed, remedy))

    def defaults(self) -> None:
        """Return None: no subproblem is solved."""

    def init(self, w0: Vector, problem: Any) -> Moments:
        """Start with no gradients; refuse a penalty that has no prox in a diagonal metric."""
        penalty = problem.penalty
        if penalty is not None and not getattr(penalty, "separable", False):
            allowed = "separable (L1, Box) for Adam, which scales each coordinate"
            remedy = "Use SGD; one of your own says separable = True."
            raise TypeError(message("penalty", penalty, allowed, remedy))
        return Moments(w0, 0, zeros_like(w0), zeros_like(w0))

    def tell(self, state: Moments, answers: Answers, step: OuterStep) -> Moments:
        """Update both moments and take the step, the prox in the same metric."""
        gradient, k = answers.gradients[0], state.k + 1
        mean = self.beta1 * state.mean + (1 - self.beta1) * gradient
        square = self.beta2 * state.square + (1 - self.beta2) * gradient * gradient
        root = namespace(square).sqrt(square / (1 - self.beta2**k)) + self.eps
        lengths = step.eta / root
        w = step.prox(state.w - lengths * (mean / (1 - self.beta1**k)), lengths)
        return Moments(w, k, mean, square)
