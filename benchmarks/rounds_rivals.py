"""Counting rounds and calls, and what other solvers need of them.

A round is one value and gradient of the loss at one point (or one product with its Hessian, or the
Hessian itself); asking twice in a row about the same point is one round.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize

from rounds_cases import Target

DENSE = 1000
"""Up to this many parameters Hessians are matrices."""


class Reached(Exception):  # noqa: N818
    """The lowest level is reached, or the limit of rounds."""


class Rounds:
    """A loss that keeps its value at each point it was asked about.

    Parameters
    ----------
    target : Target
        The loss and its levels.
    limit : int
        Rounds after which a run is ended.
    """

    def __init__(self, target: Target, limit: int) -> None:
        self.target, self.limit = target, limit
        self.gaps: list[float] = []
        self._last: bytes | None = None

    @property
    def done(self) -> bool:
        return len(self.gaps) >= self.limit or self.least <= self.target.levels[-1]

    @property
    def least(self) -> float:
        return min(self.gaps, default=math.inf)

    def look(self, w: Any) -> None:
        """Count a round unless the point is the last one."""
        seen = np.asarray(w).tobytes()
        if seen != self._last:
            self._last = seen
            self.gaps.append(float(self.target.loss.value(np.array(w))) - self.target.optimum)

    def __call__(self, w: Any) -> tuple[float, Any]:
        """Return value and gradient, for solvers that are ended by an exception."""
        self.look(w)
        if self.done:
            raise Reached
        return self.target.loss.value(w), self.target.loss.gradient(w)

    def product(self, w: Any, v: Any) -> Any:
        """Return the Hessian times a vector: a pass over the data like any other."""
        self._last = None
        self.gaps.append(self.gaps[-1])
        if self.done:
            raise Reached
        return self.target.loss.hvp(w, v)

    def counted_loss(self) -> Any:
        """Return the loss itself, with every access to it counted."""
        loss = copy.copy(self.target.loss)
        for name in ("value", "gradient", "value_and_gradient", "hvp", "hessian"):
            if callable(getattr(loss, name, None)):
                setattr(loss, name, self._counted(getattr(loss, name)))
        return loss

    def _counted(self, access: Callable[..., Any]) -> Callable[..., Any]:
        def counted(w: Any, *rest: Any, **options: Any) -> Any:
            self.look(w)
            return access(w, *rest, **options)

        return counted

    def to_levels(self) -> list[float]:
        """Return the rounds to each level, infinite for one that was not reached."""
        lowest = np.minimum.accumulate(self.gaps) if self.gaps else np.array([math.inf])
        return [
            float(np.argmax(lowest <= level)) + 1 if lowest[-1] <= level else math.inf
            for level in self.target.levels
        ]


def rounds_of(target: Target, limit: int, solver: Callable[[Rounds], Any]) -> Rounds:
    """Return the rounds of a solver, run until the lowest level or the limit."""
    rounds = Rounds(target, limit)
    try:
        with np.errstate(all="ignore"):
            solver(rounds)
    except Reached:
        pass
    return rounds


def lbfgs(start: Any, memory: int) -> Callable[[Any], Any]:
    """Return SciPy's L-BFGS-B with its own line search and no other end."""
    options = {"maxcor": memory, "ftol": 0, "gtol": 0, "maxiter": 10_000, "maxfun": 10_000}
    return lambda loss: scipy.optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", options=options
    )


def nonlinear_cg(start: Any) -> Callable[[Any], Any]:
    options = {"gtol": 0, "maxiter": 10_000}
    return lambda loss: scipy.optimize.minimize(loss, start, jac=True, method="CG", options=options)


def newton(start: Any) -> Callable[[Rounds], Any]:
    """Return Newton's method with halved steps; a Hessian comes with its round for nothing."""

    def solve(loss: Rounds) -> None:
        w = start
        value, gradient = loss(w)
        while True:
            step = -_newton_direction(loss.target.loss, w, gradient)
            slope, length = float(gradient @ step), 1.0
            while True:
                trial_value, trial_gradient = loss(w + length * step)
                if trial_value <= value + 1e-4 * length * slope + 1e-15 or length < 1e-8:
                    break
                length /= 2
            w, value, gradient = w + length * step, trial_value, trial_gradient

    return solve


def _newton_direction(loss: Any, w: Any, gradient: Any) -> Any:
    if len(w) <= DENSE:
        return scipy.linalg.solve(loss.hessian(w), gradient, assume_a="pos")
    return conjugate_gradients(lambda v: loss.hvp(w, v), gradient, lambda r: r, 1e-8)


def conjugate_gradients(
    product: Callable[[Any], Any], right: Any, precondition: Callable[[Any], Any], tol: float
) -> Any:
    """Return the solution of a positive definite system, to a relative residual."""
    x, r = np.zeros_like(right), right
    z = precondition(r)
    p, rz = z, float(r @ z)
    first = np.linalg.norm(right)
    for _ in range(2000):
        Ap = product(p)
        step = rz / float(p @ Ap)
        x, r = x + step * p, r - step * Ap
        if np.linalg.norm(r) <= tol * first:
            break
        z = precondition(r)
        rz, before = float(r @ z), rz
        p = z + rz / before * p
    return x


class Metric:
    """``H^{−1/2}`` of a proxy's Hessian H at a point, by its factor or its few rows."""

    def __init__(self, proxy: Any, w: Any) -> None:
        if len(w) <= DENSE:
            factor = scipy.linalg.cholesky(proxy.hessian(w), lower=True)
            self.forward = lambda u: scipy.linalg.solve_triangular(factor, u, trans=1, lower=True)
            self.adjoint = lambda g: scipy.linalg.solve_triangular(factor, g, lower=True)
            return
        # H = l2 I + AᵀA with as many rows as the proxy: its inverse root is a function of AAᵀ.
        rates = proxy.family.variance(proxy.design.predict(w)) / proxy.design.rows
        A = np.sqrt(rates)[:, None] * proxy.design.X.toarray()
        values, vectors = scipy.linalg.eigh(A @ A.T)
        values = np.maximum(values, 1e-14)
        change = (1 / np.sqrt(values + proxy.l2) - 1 / np.sqrt(proxy.l2)) / values

        def root(u: Any) -> Any:
            return u / np.sqrt(proxy.l2) + A.T @ (vectors @ (change * (vectors.T @ (A @ u))))

        self.forward = self.adjoint = root

    def precondition(self, r: Any) -> Any:
        return self.forward(self.adjoint(r))

    def changed(
        self, start: Any, solver: Callable[[Any], Callable[[Any], Any]]
    ) -> Callable[[Any], Any]:
        """Return a solver in the variables u = H^{1/2} (w − start)."""

        def solve(loss: Rounds) -> Any:
            def changed_loss(u: Any) -> tuple[float, Any]:
                value, gradient = loss(start + self.forward(u))
                return value, self.adjoint(gradient)

            return solver(np.zeros_like(start))(changed_loss)

        return solve


def newton_pcg(start: Any, metric: Metric) -> Callable[[Rounds], Any]:
    """Return Newton's method by preconditioned CG; each product is a round."""

    def solve(loss: Rounds) -> None:
        w = start
        value, gradient = loss(w)
        first = np.linalg.norm(gradient)
        while True:
            tol = min(0.3, math.sqrt(float(np.linalg.norm(gradient)) / first))
            step = -conjugate_gradients(
                lambda v, w=w: loss.product(w, v), gradient, metric.precondition, tol
            )
            length = 1.0
            while True:
                trial_value, trial_gradient = loss(w + length * step)
                if trial_value <= value or length < 1e-8:
                    break
                length /= 2
            w, value, gradient = w + length * step, trial_value, trial_gradient

    return solve


def linear_pcg(start: Any, metric: Metric) -> Callable[[Rounds], Any]:
    """Return preconditioned CG on a quadratic: one round at the start, and one for each product."""

    def solve(loss: Rounds) -> None:
        w = start
        r = -loss(w)[1]
        z = metric.precondition(r)
        p, rz = z, float(r @ z)
        while True:
            step = rz / float(p @ loss.target.loss.hvp(w, p))
            w = w + step * p
            # The residual costs nothing more than the product: at w it is known without asking.
            r = -loss(w)[1]
            z = metric.precondition(r)
            rz, before = float(r @ z), rz
            p = z + rz / before * p

    return solve
