"""ProxyProx and DANE: one corrected proximal step, several estimates of ∇L − ∇L̂."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._util.validation import message, require_takes
from proxyprox.corrections import Correction, Plain
from proxyprox.methods.base import CorrectedMethod
from proxyprox.stepsizes.base import Eta

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
        :mod:`proxyprox.stepsizes.auto`. It is the default. With a correction other than the plain
        one it may be infinite, which leaves out the proximal term.
    correction : Correction
        How ``g_k − ∇L̂(w_k)`` is estimated; :class:`~proxyprox.corrections.Plain` is the paper's.
        With ``eta="auto"`` the plain correction becomes a mean of all differences, weighed by
        their expected errors; ``EMA(1.0)`` keeps the newest alone.

    Notes
    -----
    AuxMom is ``ProxyProx(math.inf, EMA(a))`` with ``inner=GradientDescent(γ)`` and
    ``stop=Steps(20)``; AuxMVR has ``Storm(a)`` in place of ``EMA(a)``.

    References
    ----------
    Woodworth, Mishchenko and Bach, "Two Losses Are Better Than One: Faster Optimization Using a
    Cheaper Proxy", ICML 2023; Chayti and Karimireddy, "Optimization with access to auxiliary
    information", for AuxMom and AuxMVR.

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
        super().__post_init__()
        if isinstance(self.correction, type) or not hasattr(self.correction, "two_points"):
            allowed = "a correction, such as Plain() or EMA(0.1)"
            remedy = "Your own has two_points and __call__(difference, before, memory, k)."
            raise TypeError(message("correction", self.correction, allowed, remedy))
        require_takes("correction", self.correction, ("difference", "before", "memory", "k"))


@dataclass(frozen=True)
class DANE(CorrectedMethod):
    r"""Full-gradient use of the proxy, as between one machine and the average of all.

    .. math:: w_{k+1} = \arg\min_w\; \hat L(w)
              + \langle \nabla L(w_k) - \nabla\hat L(w_k), w\rangle
              + \frac{1}{2\eta}\|w - w_k\|^2

    Parameters
    ----------
    eta : float, callable, StepSize or "auto"
        Step size; DANE's regularisation is 1/η. Infinite, DANE's default, means none.

    References
    ----------
    Shamir, Srebro and Zhang, "Communication-efficient distributed optimization using an
    approximate Newton-type method".
    """

    eta: Eta = math.inf

    correction: ClassVar[Plain] = PLAIN  # type: ignore[misc]
    exact: ClassVar[bool] = True

    def models_target(self, problem: Any) -> bool:
        """Tell whether L − L̂ is known to be linear: then ∇φ is ∇L."""
        return bool(problem.same_curvature)
