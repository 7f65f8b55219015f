"""The one exact solver: reference optima, fits of rows already seen, teachers and estimates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from proxyprox._util.arrays import Vector, norm, zeros_like
from proxyprox.inner.base import Auto, NonFiniteError, Subproblem
from proxyprox.problems.quadratic import NotConvexError
from proxyprox.stopping import Criterion, Relative, Residual


def minimise_exactly(
    loss: Any,
    start: Vector,
    *,
    tol: float = 1e-12,
    relative: float = 0.0,
    penalty: Any | None = None,
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
    phi = Subproblem(loss, zeros_like(start), start, math.inf, penalty)
    solver = Auto().choose(loss, penalty, int(start.shape[0])).solver
    stop: Criterion = Residual(tol)
    if relative:
        stop = Relative(relative) | stop
    found: Vector = solver.solve(phi, start, stop, {}, np.random.default_rng(0)).w
    return found


# A gradient of this share of the first one is small.
SMALL = 1e-3
# A solver that moves on by this share of its way, after the gradient is next to zero, runs away.
RUNAWAY = 0.1
# A way of less than this share of the start is rounding.
STILL = 1e-6


def find_minimum(loss: Any, start: Vector, *, penalty: Any | None = None) -> Vector | None:
    """Return the minimiser of a loss that may have none, or None where none is found.

    The logistic loss of separable rows, say, falls for ever: its gradient vanishes far away, but
    the point moves on however small the gradient is. A loss without a lower bound, one that is not
    finite on the way, and one that the solver gives up on are found out, too.

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
    array([0.351])
    >>> find_minimum(logistic_regression(rows - 1.5, [0, 1]), np.zeros(1)) is None
    True
    """
    phi = Subproblem(loss, zeros_like(start), start, math.inf, penalty)
    try:
        with np.errstate(all="ignore"):
            first = phi.residual(start, phi.gradient(start))
            near = minimise_exactly(loss, start, relative=1e-6, penalty=penalty)
            found = minimise_exactly(loss, near, relative=1e-3, penalty=penalty)
            moved, way = norm(found - near), norm(found - start)
            small = phi.residual(found, phi.gradient(found)) <= SMALL * first
            lower = phi.value(found) <= phi.value(start)
    except (NonFiniteError, NotConvexError, np.linalg.LinAlgError):
        return None
    # From a start that is the minimum already, but for rounding, no gradient gets much smaller.
    if way < STILL * norm(start) and lower:
        return found
    return found if small and lower and moved <= RUNAWAY * way else None
