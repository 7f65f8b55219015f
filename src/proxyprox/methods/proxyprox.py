"""ProxyProx: proximal-point steps on the proxy, corrected by gradients of the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from proxyprox._arrays import Vector
from proxyprox.corrections import Correction, Plain
from proxyprox.methods._corrected import best, checked_correction, corrected_step, points, start
from proxyprox.methods.base import Eta, Solve, State, checked_eta, eta_at

PLAIN = Plain()


@dataclass(frozen=True)
class ProxyProx:
    r"""Algorithm 1 of the paper, with a choice of correction.

    .. math:: w_{k+1} \approx \arg\min_w\; \hat L(w)
              + \langle g_k - \nabla\hat L(w_k), w - w_k\rangle + \frac{1}{2\eta}\|w - w_k\|^2

    Parameters
    ----------
    eta : float, callable or "auto"
        Step size η > 0, or a function of the outer step. The theory allows ``η ≤ 1/(4δ)``.
        "auto" measures it on the way, with 10 % more target gradients at no new samples; see
        :mod:`proxyprox.stepsizes.auto`.
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

    eta: Eta
    correction: Correction = PLAIN

    uses_proxy: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    default_inner: ClassVar[None] = None

    def __post_init__(self) -> None:
        """Check η and the correction."""
        checked_eta(self.eta)
        checked_correction(self.correction)

    @property
    def two_points(self) -> bool:
        """Whether the correction compares two points on one batch."""
        return self.correction.two_points

    def init(self, w0: Vector, problem: Any = None) -> State:
        """Start at w0."""
        return start(w0, self.eta, problem)

    def ask(self, state: State) -> tuple[Vector, ...]:
        """Ask at w_k."""
        return points(state, self.correction)

    def tell(self, state: State, gradients: Sequence[Vector], proxy: Any, solve: Solve) -> State:
        """Solve the corrected proximal subproblem."""
        eta = self.step_size(state.k)
        return corrected_step(state, gradients, proxy, solve, correction=self.correction, eta=eta)

    def step_size(self, k: int) -> float:
        """Return η of outer step k."""
        return eta_at(self.eta, k)

    def answer(self, state: State) -> Vector:
        """Return the point to answer with."""
        return best(state)
