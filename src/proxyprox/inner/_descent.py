"""The damped step that the Newton-type solvers share, and their loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from proxyprox._arrays import Vector, dot, norm
from proxyprox._subproblem import NonFiniteError, Subproblem
from proxyprox.inner.base import InnerResult
from proxyprox.stopping import Criterion

SHRINK = 0.5
SUFFICIENT = 1e-4
SHORTEST = 1e-12


class Point(NamedTuple):
    """A point with its gradient."""

    w: Vector
    gradient: Vector
    residual: float


def descend(
    phi: Subproblem,
    start: Vector,
    stop: Criterion,
    max_steps: int,
    step: Callable[[Point, float], Point | None],
) -> InnerResult:
    """Take steps until the criterion is met, none helps, or there were enough.

    Parameters
    ----------
    phi : Subproblem
        What to minimise.
    start : array
        Where to begin.
    stop : Criterion
        When it is good enough.
    max_steps : int
        Steps at most.
    step : callable
        Takes the point and the residual at the start; returns the next point, or None when no
        step helps.
    """
    gradient = phi.gradient(start)
    point = Point(start, gradient, norm(gradient))
    first = None
    for t in range(max_steps + 1):
        progress = phi.progress(point.w, point.gradient, t, first)
        first = progress.start_residual
        if stop(progress) or t == max_steps:
            break
        moved = step(point, first)
        if moved is None:
            break
        point = moved
    return InnerResult(point.w, progress)


def damped_step(
    phi: Subproblem, at: Point, direction: Vector, *, convex: bool = True
) -> Point | None:
    """Move from a point along a descent direction, by the full step if that pays.

    The full step is taken when it halves the gradient: the usual case, and one that costs no
    values. Otherwise the step is halved until φ decreases sufficiently (Armijo). Where rounding
    hides the decrease, a smaller gradient is accepted instead. Where φ is known not to be convex
    a smaller gradient may lie uphill, and only values count.

    Returns
    -------
    Point or None
        The new point, or None when no step along the direction helps.

    Raises
    ------
    NonFiniteError
        If no step helps because the proxy answers with NaN or infinities.
    """
    full = _measured(phi, at.w + direction)
    if convex and full is not None and full.residual <= at.residual / 2:
        return full
    slope = dot(at.gradient, direction)
    if not slope < 0:
        return None
    here = phi.value(at.w)
    if not math.isfinite(here):
        raise NonFiniteError("the proxy's value is not finite where its gradient is")
    step, faulty = 1.0, False
    while step > SHORTEST:
        trial = at.w + step * direction
        value = phi.value(trial)
        if math.isfinite(value) and value <= here + SUFFICIENT * step * slope:
            point = full if step == 1.0 else _measured(phi, trial)
            # A value that did not move is rounding: only a smaller gradient is progress then.
            if point is not None and (value < here or point.residual < at.residual):
                return point
            faulty = faulty or point is None
        step *= SHRINK
    if convex and full is not None and full.residual < at.residual:
        return full
    if faulty:
        raise NonFiniteError("the proxy's gradient is not finite where its value is")
    return None


def _measured(phi: Subproblem, w: Vector) -> Point | None:
    gradient = phi.gradient(w)
    residual = norm(gradient)
    return Point(w, gradient, residual) if math.isfinite(residual) else None
