"""The one exact solver: reference optima, fits of rows already seen, teachers and estimates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from proxyprox._util.arrays import Vector, zeros_like
from proxyprox.inner.base import Auto, Subproblem
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
