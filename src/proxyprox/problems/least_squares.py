"""Sums of squares of residuals, with Gauss and Newton's curvature."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.arrays import Matrix, Vector, from_numpy, to_numpy
from proxyprox._util.validation import Words, message
from proxyprox.problems.differences import (
    SCHEMES,
    Array,
    Derivatives,
    DifferenceError,
    DifferencesPolicy,
    ValueObjective,
)
from proxyprox.problems.protocols import Batch, Facts


@dataclass
class Secant:
    """What a secant Jacobian remembers: its correction of the coarse one, and the last point."""

    point: Array
    gap: Array
    correction: Array
    error: float
    lowest: float


class LeastSquares(ValueObjective):
    r"""``½ ‖r(w)‖²`` of a function r that returns residuals, as an objective or as a proxy.

    Its gradient is ``Jᵀr`` with the Jacobian J of the residuals; by 2-point differences that takes
    d + 1 evaluations, the value included. Its Hessian is Gauss and Newton's ``JᵀJ``: positive
    semidefinite, and close where residuals are small or nearly linear. A coarse simulator's makes
    a good metric for the fine one.

    Parameters
    ----------
    residuals : callable
        ``residuals(w)`` returns a vector: model minus data, over the noise's standard deviation.
    jacobian : callable, {"auto", "2-point", "3-point", "complex", "torch", "jax"} or LeastSquares
        ``jacobian(w)`` returns the matrix of shape (residuals, parameters); or how it is found, as
        in :class:`~proxyprox.ValueObjective`. Each call of your own counts as one evaluation.
        The coarse model stands for secants: its Jacobian plus Broyden's correction, which every
        residual improves, so that a gradient takes one evaluation. Differences replace it where
        the last step shows an error of the gradient that matters, where the loss rises, and near
        a minimum. "auto" stands for secants, too, where :class:`~proxyprox.ProxyBFGS` minimises a
        problem whose proxy is the coarse model's ``LeastSquares``, unless torch or JAX
        differentiates the residuals; "2-point" never does.
    workers, noise, scales, bounds
        As of :class:`~proxyprox.ValueObjective`; a problem passes on its scales and bounds.

    Examples
    --------
    Two rates are fitted to an exact solution, with Euler's method as the proxy.

    >>> import numpy as np
    >>> from proxyprox import DANE, LeastSquares, Problem, minimize
    >>> t = np.linspace(0, 2, 21)
    >>> data = 3 * np.exp(-0.7 * t)
    >>> fine = LeastSquares(lambda w: w[0] * np.exp(-w[1] * t) - data)
    >>> coarse = LeastSquares(lambda w: w[0] * (1 - 0.1 * w[1]) ** np.arange(21) - data)
    >>> problem = Problem(fine, coarse)
    >>> result = minimize(problem, np.ones(2), method=DANE(eta=10.0), steps=6)
    >>> result.w.round(3)
    array([3. , 0.7])
    """

    def __init__(
        self,
        residuals: Callable[[Any], Any],
        *,
        jacobian: str | Callable[[Any], Any] | LeastSquares = "auto",
        workers: int | Executor = 1,
        noise: float | None = None,
        scales: Vector | None = None,
        bounds: tuple[Any, Any] | None = None,
    ) -> None:
        how: dict[str, Any] = {"gradients": jacobian}
        self._coarse = jacobian if isinstance(jacobian, LeastSquares) else None
        if self._coarse is not None:
            how = {"gradients": "2-point"}
        elif isinstance(jacobian, str):
            check.one_of("jacobian", jacobian, SCHEMES)
        else:
            if not (callable(jacobian) and check.takes(jacobian, 1)):
                allowed = "a function of w alone, a scheme, or the coarse LeastSquares(...)"
                raise TypeError(message("jacobian", jacobian, allowed))
            how = {"derivative": jacobian}
        self.derivatives = Derivatives(
            "residuals", residuals, workers=workers, noise=noise, scales=scales, bounds=bounds,
            ndim=1, **how,
        )  # fmt: skip
        self._automatic = "gradients" in how and self.derivatives.scheme is None
        self._secant: Secant | None = None

    def within(self, scales: Vector | None, bounds: tuple[Any, Any] | None) -> Self:
        """Return the same loss with other scales and bounds, its evaluations counted anew."""
        other = super().within(scales, bounds)
        other._secant = None
        if self._coarse is not None:
            other._coarse = self._coarse.within(scales, bounds)
        return other

    def with_coarse(self, coarse: LeastSquares) -> LeastSquares:
        """Return the same loss, with secants on a coarse model's Jacobian unless told otherwise."""
        other = copy.copy(self)
        if self._automatic:
            other._coarse = coarse
        return other

    @property
    def gradient_source(self) -> str:
        """Where the gradients come from."""
        source = self.derivatives.source
        exact = self._coarse is None or self.derivatives.automatic
        return source if exact else f"secants and {source}"

    @property
    def facts(self) -> Facts:
        """What else is known of the loss: Gauss and Newton's Hessian is approximate."""
        source = self.gradient_source
        return Facts(convex=False, exact_curvature=False, gradient_source=source, memory=self)

    def value(self, w: Vector) -> float:
        """Return ½ ‖r(w)‖²."""
        return _half_square(self.derivatives.value(w))

    def gradient(self, w: Vector, *batch: Batch) -> Vector:
        """Return Jᵀr; without a batch, as proxies are asked, NaN if differences fail."""
        try:
            return self.value_and_gradient(w)[1]
        except DifferenceError:
            if batch:
                raise
            return from_numpy(np.full(int(w.shape[0]), math.nan), like=w)

    def value_and_gradient(self, w: Vector, batch: Batch = None) -> tuple[float, Vector]:
        """Return ½ ‖r(w)‖² and Jᵀr, which share evaluations."""
        residuals = self.derivatives.value(w)
        with np.errstate(over="ignore", invalid="ignore"):
            return _half_square(residuals), from_numpy(self._jacobian(w).T @ residuals, like=w)

    def hessian(self, w: Vector) -> Matrix:
        """Return Gauss and Newton's JᵀJ."""
        J = self._jacobian(w)
        return from_numpy(J.T @ J, like=w)

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return JᵀJ v."""
        J = self._jacobian(w)
        return from_numpy(J.T @ (J @ to_numpy(v)), like=w)

    def curvature(self, w: Vector) -> Matrix | None:
        """Return JᵀJ at a point whose gradient was asked for lately: it costs nothing more."""
        J = self.derivatives.known_derivative(w)
        return None if J is None else from_numpy(J.T @ J, like=w)

    def state_dict(self) -> dict[str, Any]:
        """Return what gradients by secants depend on besides w; nothing for others."""
        return {} if self._secant is None else asdict(self._secant)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned."""
        self._secant = Secant(**state) if state else None

    def _jacobian(self, w: Vector) -> Array:
        coarse, derivatives = self._coarse, self.derivatives
        if coarse is not None and derivatives.known_derivative(w) is None:
            derivatives.value(w)
            # Known only now: torch and JAX need no differences.
            if not derivatives.automatic:
                self._correct_secant(w, coarse.derivatives)
        return self.derivatives.linearise(w)[1]

    def _correct_secant(self, w: Vector, coarse: Derivatives) -> None:
        """Find the Jacobian at w from the coarse one and the residuals' change since last time.

        Broyden's update of B in J = Ĵ + B, in the parameters over their scales. The error of Jᵀr
        that the step showed and its size are both measured per unit of ‖J·‖, which no change of
        the parameters' units alters.
        """
        residuals, point = self.derivatives.value(w), to_numpy(w).astype(np.float64)
        rough, slope = coarse.linearise(w)
        if rough.shape != residuals.shape:
            got = Words(f"{rough.size} residuals")
            raise ValueError(message("jacobian", got, f"a model of {residuals.size} residuals"))
        if not (np.isfinite(residuals).all() and np.isfinite(slope).all()):
            return
        gap, value, last = residuals - rough, _half_square(residuals), self._secant
        if last is None or np.array_equal(point, last.point):
            last = last or Secant(point, gap, np.zeros_like(slope), 0.0, value)
            self._secant = last
            self.derivatives.correct(w, slope + last.correction)
            return
        step = point - last.point
        along = step / self.derivatives.scales**2
        missed = gap - last.gap - last.correction @ step
        correction = last.correction + np.outer(missed, along / (along @ step))
        jacobian = slope + correction
        shown = abs(missed @ residuals) / max(float(np.linalg.norm(jacobian @ step)), math.ulp(0.0))
        error = max(DifferencesPolicy.forgotten * last.error, shown)
        free = self.derivatives.free(point, jacobian.T @ residuals)
        size = float(np.linalg.norm(np.linalg.qr(jacobian[:, free])[0].T @ residuals))
        near = size < DifferencesPolicy.offset * float(np.linalg.norm(residuals))
        if near or value > last.lowest or error > DifferencesPolicy.trusted * size:
            jacobian, error = self.derivatives.linearise(w)[1], 0.0
        self.derivatives.correct(w, jacobian)
        lowest = min(value, last.lowest)
        self._secant = Secant(point, gap, jacobian - slope, error, lowest)


def _half_square(residuals: Array) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(residuals @ residuals) / 2
