"""The one exact solver: reference optima, fits of rows already seen, teachers and estimates.

With it Newton's method within bounds, and the matrices that it needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from proxyprox._util import arrays
from proxyprox._util.arrays import Vector, norm, rounding, to_numpy
from proxyprox._util.validation import has
from proxyprox.inner.base import Auto, NonFiniteError, SolverPolicy, Subproblem
from proxyprox.inner.newton import Newton
from proxyprox.penalties import Box
from proxyprox.problems.problem import facts_of
from proxyprox.problems.quadratic import NotConvexError
from proxyprox.stopping import Criterion, Progress, Relative, Residual

Array = np.ndarray[Any, Any]


def minimise_exactly(
    loss: Any, start: Vector, *, tol: float = 1e-12, relative: float = 0.0, penalty: Any = None
) -> Vector:
    """Return the minimiser of a smooth loss (plus a penalty).

    A loss is the subproblem of its own proxy, without a linear or a proximal term: the inner
    solver that suits it does the rest.

    Parameters
    ----------
    loss : loss
        What to minimise, with ``value`` and ``gradient`` at least.
    start : array
        Where to begin.
    tol : float
        Norm of the gradient (with a penalty: distance to the subdifferential) that is enough.
    relative : float
        Share of the gradient's norm at the start that is enough, too.
    penalty : Penalty, optional
        A non-smooth term.

    Returns
    -------
    array
        The minimiser, or the last point where rounding stops the solver earlier.

    Raises
    ------
    NonFiniteError
        If the loss answers with NaN or infinities.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import linear_regression
    >>> loss = linear_regression(np.eye(2), [1.0, 3.0])
    >>> minimise_exactly(loss, np.zeros(2)).round(9)
    array([1., 3.])
    """
    stop: Criterion = Residual(tol)
    if relative:
        stop = Relative(relative) | stop
    return _solve(Subproblem(loss, arrays.zeros_like(start), start, math.inf, penalty), start, stop)


def _solve(phi: Subproblem, start: Vector, stop: Criterion) -> Vector:
    solver = Auto().choose(phi.proxy, phi.penalty, int(start.shape[0])).solver
    return solver.solve(phi, start, stop, {}, np.random.default_rng(0)).w


def _fall(phi: Subproblem, start: Vector, stop: Criterion, share: float) -> Vector:
    """Return where the gradient has fallen to a share of its norm at the start."""
    small = int(start.shape[0]) <= SolverPolicy.dense
    if isinstance(phi.penalty, Box) and small and has(phi.proxy, "hessian"):
        return minimise_in_box(phi.proxy, start, phi.penalty, tol=share)
    return _solve(phi, start, stop | Relative(share))


@dataclass(frozen=True)
class _Far(Criterion):
    """Stop where the way is longer than any to a minimum."""

    limit: float

    def __call__(self, progress: Progress) -> bool:
        return progress.displacement > self.limit


def find_minimum(loss: Any, start: Vector, *, penalty: Any | None = None) -> Vector | None:
    """Return the minimiser of a loss that may have none, or None if none is found.

    The logistic loss of separable rows, say, has none: its gradient vanishes far away, but
    the point moves on however small the gradient is. None is also returned for a loss without a
    lower bound, for one that is not finite along the search, and where the solver gives up.

    Parameters
    ----------
    loss : loss
        What to minimise, with ``value`` and ``gradient`` at least.
    start : array
        Where to begin.
    penalty : Penalty, optional
        A non-smooth term.

    Returns
    -------
    array or None
        The minimiser.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import logistic_regression
    >>> rows = np.array([[1.0], [2.0]])
    >>> find_minimum(logistic_regression(rows, [0, 1], l2=0.1), np.zeros(1)).round(3)
    array([0.355])
    >>> find_minimum(logistic_regression(rows - 1.5, [0, 1]), np.zeros(1)) is None
    True
    """
    phi = Subproblem(loss, arrays.zeros_like(start), start, math.inf, penalty)
    small, zero = SolverPolicy.small, SolverPolicy.small**2
    stop = Residual(1e-12) | _Far(max(1.0, norm(start)) / SolverPolicy.shortest)
    # Every gradient of a ladder counts, and its minimum is only where the next level begins.
    ladder = facts_of(loss).solver is not None
    try:
        with np.errstate(all="ignore"):
            first = phi.residual(start, phi.gradient(start))
            near = _fall(phi, start, stop, small if ladder else zero)
            found = near if ladder else _fall(phi, near, stop, small)
            moved, way = norm(found - near), norm(found - start)
            fell = phi.residual(found, phi.gradient(found)) <= small * first
            before = phi.value(start)
            lower = phi.value(found) <= before + rounding(start) * abs(before)
    except (NonFiniteError, NotConvexError, np.linalg.LinAlgError):
        return None
    # From a start that is the minimum already, but for rounding, no gradient gets much smaller.
    if way < zero * norm(start) and lower:
        return found
    return found if fell and lower and moved <= SolverPolicy.runaway * way else None


# -- within bounds -----------------------------------------------------------------------------


def absolute(matrix: Array) -> Array:
    """Return the matrix with the absolute values of its eigenvalues."""
    tiny = 1e-14 * float(np.trace(np.abs(matrix))) + 1e-300
    try:
        np.linalg.cholesky(matrix + tiny * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        return np.asarray((vectors * np.abs(values)) @ vectors.T)
    return matrix


def factored(matrix: Array, shift: float) -> Callable[[Array], Array]:
    """Return what solves with a shifted matrix; rounding may take a larger shift."""
    from scipy.linalg import cho_factor, cho_solve

    diagonal = matrix.diagonal().copy()
    while True:
        np.fill_diagonal(matrix, diagonal + shift)
        try:
            factor = cho_factor(matrix, check_finite=False)
            # Callers look at what comes out: an overflow in q is theirs to handle.
            return lambda q: cho_solve(factor, q, check_finite=False)
        except np.linalg.LinAlgError:
            shift = 10 * shift + 1e-15 * float(diagonal.max()) + 1e-300


def box_minimum(B: Array, g: Array, low: Array, high: Array) -> Array:
    """Return the minimiser of ``g·p + p·Bp/2`` within bounds, by projected Newton steps from 0.

    If a bound is so close that it blocks such a step, one along the gradient reaches it.
    """

    def model(p: Array) -> float:
        return float(g @ p + p @ B @ p / 2)

    p, halvings = np.zeros_like(g), -math.frexp(rounding())[1]
    for _ in range(Newton.max_steps):
        slope = g + B @ p
        free = ~((p <= low) & (slope > 0) | (p >= high) & (slope < 0))
        descent = np.where(free, slope, 0.0)
        if np.linalg.norm(descent) <= rounding() * np.linalg.norm(g):
            break
        newton = np.zeros_like(g)
        newton[free] = factored(B[np.ix_(free, free)], 0.0)(slope[free])
        steepest = float(descent @ descent) / float(descent @ B @ descent) * descent
        trials = (
            np.clip(p - share * move, low, high)
            for move in (newton, steepest)
            for share in 0.5 ** np.arange(halvings)
        )
        lower = next((q for q in trials if model(q) < model(p)), None)
        if lower is None:
            break
        p = lower
    return p


def minimise_in_box(loss: Any, start: Vector, box: Box, *, tol: float) -> Vector:
    """Return the minimiser of a loss within bounds, by damped Newton steps on its Hessian.

    ``tol`` is the share of the first projected gradient that is enough.
    """
    lower, upper = (to_numpy(limit).astype(np.float64) for limit in box.limits(start))
    w, value, gradient = start, float(loss.value(start)), loss.gradient(start)
    enough, damping = tol * box.distance(start, gradient), 1e-3
    for _ in range(Newton.max_steps):
        if not (math.isfinite(value) and arrays.all_finite(gradient)):
            raise NonFiniteError("the proxy is not finite at a trial point")
        if box.distance(w, gradient) <= enough:
            break
        B = to_numpy(loss.hessian(w)).astype(np.float64)
        B = absolute((B + B.T) / 2)
        here, slope = to_numpy(w).astype(np.float64), to_numpy(gradient).astype(np.float64)
        while damping < 1 / SolverPolicy.shortest:
            shift = damping * float(np.trace(B)) / len(B) + 1e-300
            move = box_minimum(B + shift * np.eye(len(B)), slope, lower - here, upper - here)
            trial = box.prox(arrays.from_numpy(here + move, like=w), 1.0)
            reached = float(loss.value(trial))
            if reached < value:
                break
            damping *= 10
        else:
            break
        w, value, gradient, damping = trial, reached, loss.gradient(trial), damping / 10
    return w
