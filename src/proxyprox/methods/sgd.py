"""Methods without a proxy, the ones to beat: SGD, momentum and Adam.

Any proxy is ignored. With ``eta="auto"`` SGD and Momentum take the distance travelled over the
gradients (:mod:`proxyprox.stepsizes.auto`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector, namespace, zeros_like
from proxyprox._util.validation import below_one, flag, message, positive
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
class Velocity(State):
    """The iterate and the decaying sum of gradients."""

    velocity: Vector = None


@dataclass(frozen=True)
class Momentum(Method):
    r"""SGD with momentum: the heavy ball, or Nesterov's.

    .. math:: v \leftarrow \beta v + g_k,\qquad
              w \leftarrow w - \eta v \quad\text{or, Nesterov's,}\quad w - \eta (g_k + \beta v)

    as in ``torch.optim.SGD``. Any proxy is ignored; with a penalty the step is a proximal one.

    Parameters
    ----------
    eta : float, callable, StepSize or "auto"
        Step size η > 0, or a function of the outer step. "auto" is the rule of :class:`SGD` for
        the sum of what one gradient adds to all later steps, ``η / (1 − β)``.
    beta : float
        Weight of the past, in [0, 1).
    nesterov : bool
        Look ahead.

    References
    ----------
    Polyak, "Some methods of speeding up the convergence of iteration methods", 1964; Sutskever,
    Martens, Dahl and Hinton, "On the importance of initialization and momentum in deep learning",
    ICML 2013, for Nesterov's in this form.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, Quadratic, minimize
    >>> from proxyprox.methods import Momentum
    >>> target = Quadratic(np.diag([1.0, 9.0]), b=np.array([-1.0, -9.0]))
    >>> minimize(Problem(target), method=Momentum(0.05, nesterov=True), steps=200).w.round(3)
    array([1., 1.])
    """

    eta: Eta = "auto"
    beta: float = 0.9
    nesterov: bool = False

    uses_proxy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the settings."""
        as_step_size(self.eta, remedy=MEASURED)
        below_one("beta", self.beta)
        flag("nesterov", self.nesterov)

    def init(self, w0: Vector, problem: Any) -> Velocity:
        """Start at rest."""
        return Velocity(w0, 0, zeros_like(w0))

    def tell(self, state: Velocity, answers: Answers, step: OuterStep) -> Velocity:
        """Add the gradient to the velocity and move along it."""
        centre, gradient, past = state.w, answers.gradients[0], state.velocity
        if step.restart is not None:
            # The step that is undone is not remembered either.
            centre, gradient, past = step.restart.centre, step.restart.difference, 0 * past
        velocity = self.beta * past + gradient
        direction = gradient + self.beta * velocity if self.nesterov else velocity
        if self.step_size.measures:
            direction = (1 - self.beta) * direction
        return Velocity(step.solve(linear=direction, centre=centre), state.k + 1, velocity)


@dataclass(frozen=True)
class Moments(State):
    """The iterate, the means of the gradients and of their squares."""

    mean: Vector = None
    square: Vector = None


@dataclass(frozen=True)
class Adam(Method):
    r"""Momentum, in coordinates scaled by the recent sizes of the gradients.

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
            remedy = "Use SGD or Momentum; one of your own says separable = True."
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
