"""ProxyProx and its relatives: one corrected proximal step, several estimates of ∇L − ∇L̂."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._util.arrays import Vector
from proxyprox._util.validation import message, positive, require_takes
from proxyprox.corrections import EMA, Correction, Plain, Storm
from proxyprox.inner import GradientDescent
from proxyprox.methods.base import Answers, CorrectedMethod, Defaults
from proxyprox.stepsizes.auto import as_step_size
from proxyprox.stepsizes.base import Eta, StepSize

PLAIN = Plain()


@dataclass(frozen=True)
class ProxyProx(CorrectedMethod):
    r"""Algorithm 1 of the paper, with a choice of correction.

    .. math:: w_{k+1} \approx \arg\min_w\; \hat L(w)
              + \langle g_k - \nabla\hat L(w_k), w - w_k\rangle + \frac{1}{2\eta}\|w - w_k\|^2

    Parameters
    ----------
    eta : float, callable, StepSize or "auto"
        Step size η > 0, or a function of the outer step. The theory allows ``η ≤ 1/(4δ)``.
        "auto" measures it during the run, with 10 % more target gradients at no new samples; see
        :mod:`proxyprox.stepsizes.auto`. It is the default.
    correction : Correction
        How ``g_k − ∇L̂(w_k)`` is estimated; :class:`~proxyprox.corrections.Plain` is the paper's.
        With ``eta="auto"`` the plain correction becomes a mean of all differences, weighed by
        their expected errors; ``EMA(1.0)`` keeps the newest alone.

    References
    ----------
    Woodworth, Mishchenko and Bach, "Two Losses Are Better Than One: Faster Optimization Using a
    Cheaper Proxy", ICML 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, ProxyProx, Quadratic, minimize
    >>> target = Quadratic(np.diag([1.0, 100.0]), b=np.array([-1.0, -1.0]))
    >>> proxy = Quadratic(np.diag([1.0, 99.0]))
    >>> result = minimize(Problem(target, proxy), method=ProxyProx(eta=0.25), steps=100)
    >>> result.w.round(6)
    array([1.  , 0.01])
    """

    eta: Eta = "auto"
    correction: Correction = PLAIN

    def __post_init__(self) -> None:
        """Check η and the correction."""
        as_step_size(self.eta)
        if isinstance(self.correction, type) or not hasattr(self.correction, "two_points"):
            allowed = "a correction, such as Plain() or EMA(0.1)"
            remedy = "Your own has two_points and __call__(difference, before, memory, k)."
            raise TypeError(message("correction", self.correction, allowed, remedy))
        require_takes("correction", self.correction, ("difference", "before", "memory", "k"))


@dataclass(frozen=True)
class AuxiliaryMethod(CorrectedMethod):
    """Inner steps on ``L̂ + ⟨m, ·⟩``, m an estimate of ``∇L − ∇L̂`` at w_k; abstract."""

    a: float = 0.1
    eta: Eta = math.inf

    # The correction that makes m, given the weight a.
    estimator: ClassVar[type[EMA | Storm]]

    def __post_init__(self) -> None:
        """Check both numbers."""
        self.estimator(self.a)
        self.step_size  # noqa: B018 (checked when it is made)

    @property
    def step_size(self) -> StepSize:
        """The rule that ``eta`` stands for; an infinite one leaves out the proximal term."""
        return as_step_size(self.eta, allow_inf=True)

    def defaults(self) -> Defaults:
        """Take plain gradient steps on the proxy."""
        return Defaults(inner=GradientDescent())

    @property
    def correction(self) -> Correction:  # type: ignore[override]
        """The estimate of ∇L − ∇L̂."""
        return self.estimator(self.a)


@dataclass(frozen=True)
class AuxMom(AuxiliaryMethod):
    """Inner steps on ``L̂ + ⟨m, ·⟩``, m a moving average of gradient differences.

    ``m ← (1 − a) m + a (g_k − ∇L̂(w_k))``.

    As published there is no proximal term (η = ∞): a fixed number of gradient steps
    ``y ← y − γ(∇L̂(y) + m)`` keeps the iterate near. Give γ and the number of steps as
    ``inner=GradientDescent(step_size=γ)`` and ``stop=Steps(20)``.

    Parameters
    ----------
    a : float
        Weight of the newest difference, in (0, 1].
    eta : float, callable, StepSize or "auto"
        Step size of an added proximal term; infinite, as published, by default.

    References
    ----------
    Chayti and Karimireddy, "Optimization with access to auxiliary information".
    """

    estimator: ClassVar[type[EMA]] = EMA


@dataclass(frozen=True)
class AuxMVR(AuxiliaryMethod):
    """Inner steps on ``L̂ + ⟨m, ·⟩``, m a STORM estimate of the gradient difference.

    ``m ← d_k + (1 − a)(m − d_{k−1})`` with both differences on one batch.

    Parameters and proximal term are those of :class:`AuxMom`; a step costs two target gradients.

    References
    ----------
    Chayti and Karimireddy, "Optimization with access to auxiliary information".
    """

    estimator: ClassVar[type[Storm]] = Storm


@dataclass(frozen=True)
class DANE(CorrectedMethod):
    r"""Full-gradient use of the proxy, as between one machine and the average of all.

    .. math:: w_{k+1} = \arg\min_w\; \hat L(w)
              + \langle s\nabla L(w_k) - \nabla\hat L(w_k), w\rangle
              + \frac{1}{2\eta}\|w - w_k\|^2

    Parameters
    ----------
    eta : float, callable, StepSize or "auto"
        Step size; DANE's regularisation is 1/η. Infinite, DANE's default, means none.
    gradient_weight : float
        The factor s on the target's gradient (DANE's own η).

    References
    ----------
    Shamir, Srebro and Zhang, "Communication-efficient distributed optimization using an
    approximate Newton-type method".
    """

    eta: Eta = math.inf
    gradient_weight: float = 1.0

    correction: ClassVar[Plain] = PLAIN  # type: ignore[misc]
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check both numbers."""
        measures = self.step_size.measures
        weight = positive("gradient_weight", self.gradient_weight)
        if weight != 1 and measures:
            remedy = "A measured step size sees the target's own gradients: give eta a number."
            raise ValueError(message("gradient_weight", weight, "1 with such an eta", remedy))

    @property
    def step_size(self) -> StepSize:
        """The rule that ``eta`` stands for; an infinite one leaves out the proximal term."""
        return as_step_size(self.eta, allow_inf=True)

    def models_target(self, problem: Any) -> bool:
        """Tell whether L − L̂ is known to be linear: then ∇φ is ∇L."""
        return self.gradient_weight == 1 and bool(problem.same_curvature)

    def target_gradient(self, answers: Answers) -> Vector:
        """Return s∇L(w_k)."""
        return self.gradient_weight * answers.gradients[0]
