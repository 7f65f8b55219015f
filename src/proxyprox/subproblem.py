"""The one subproblem that every method of the family solves."""

from __future__ import annotations

import math
from typing import Any

from proxyprox._util.arrays import Matrix, Vector, add_to_diagonal, dot, isolate, norm
from proxyprox.problems.protocols import Penalty
from proxyprox.stopping import Progress


class NonFiniteError(ArithmeticError):
    """An oracle or an inner solve produced NaN or an infinity.

    ``status`` is how a run ends that meets it, where that is known.
    """

    def __init__(self, text: str, status: Any = None) -> None:
        super().__init__(text)
        self.status = status


class Subproblem:
    r"""The model of the objective around a centre.

    .. math:: \varphi(w) = \hat L(w) + \langle m, w - c\rangle + \frac{1}{2\eta}\|w - c\|^2
              \;(+\,\psi(w))

    Parameters
    ----------
    proxy : Proxy
        L̂, cheap.
    linear : array
        m, the estimate of ∇L − ∇L̂.
    centre : array
        c, usually the current iterate.
    eta : float
        η > 0; ``math.inf`` drops the quadratic.
    penalty : Penalty, optional
        ψ, shared by both losses.
    """

    __slots__ = ("_centre_value", "centre", "eta", "linear", "penalty", "proxy", "pull")

    def __init__(
        self, proxy: Any, linear: Vector, centre: Vector, eta: float, penalty: Penalty | None = None
    ) -> None:
        self.proxy = proxy
        self.linear = linear
        self.centre = centre
        self.eta = eta
        self.penalty = isolate(penalty)
        self.pull = 1 / eta
        self._centre_value: float | None = None

    def value(self, w: Vector) -> float:
        """Return φ(w)."""
        away = w - self.centre
        smooth: float = (
            self.proxy.value(w) + dot(self.linear, away) + self.pull / 2 * dot(away, away)
        )
        return smooth if self.penalty is None else smooth + self.penalty.value(w)

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient of φ without ψ."""
        gradient = self.proxy.gradient(w) + self.linear
        if w is self.centre or self.pull == 0:
            return gradient
        return gradient + self.pull * (w - self.centre)

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return ∇²φ(w) v."""
        return self.proxy.hvp(w, v) + self.pull * v

    def hessian(self, w: Vector) -> Matrix:
        """Return ∇²φ(w)."""
        return add_to_diagonal(self.proxy.hessian(w), self.pull)

    def residual(self, w: Vector, gradient: Vector) -> float:
        """Return ‖∇φ(w)‖, or the distance to the subdifferential when there is a penalty."""
        return norm(gradient) if self.penalty is None else self.penalty.distance(w, gradient)

    @property
    def smoothness(self) -> float:
        """H + 1/η."""
        return float(self.proxy.smoothness) + self.pull

    @property
    def strong_convexity(self) -> float:
        """1/η, plus what the proxy is known to add."""
        return float(getattr(self.proxy, "strong_convexity", None) or 0.0) + self.pull

    def decrease(self, w: Vector) -> float:
        """Return φ(c) − φ(w), measured from the centre so that little is lost to rounding."""
        if w is self.centre:
            return 0.0
        if self._centre_value is None:
            self._centre_value = self.value(self.centre)
        return self._centre_value - self.value(w)

    def progress(
        self, w: Vector, gradient: Vector, steps: int, start_residual: float | None = None
    ) -> Progress:
        """Measure where an inner solve stands; NaN and infinities end it here."""
        residual = self.residual(w, gradient)
        displacement = 0.0 if w is self.centre else norm(w - self.centre)
        if not (math.isfinite(residual) and math.isfinite(displacement)):
            raise NonFiniteError("the proxy's gradient is not finite at a trial point")
        return Progress(
            steps=steps,
            residual=residual,
            displacement=displacement,
            eta=self.eta,
            start_residual=residual if start_residual is None else start_residual,
            decrease=lambda: self.decrease(w),
        )
