"""Newton's method within bounds, and the matrices it needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from proxyprox._util.arrays import Vector, all_finite, from_numpy, rounding, to_numpy
from proxyprox.inner.base import NonFiniteError, SolverPolicy
from proxyprox.inner.newton import Newton
from proxyprox.penalties import Box

Array = np.ndarray[Any, Any]


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
        if not (math.isfinite(value) and all_finite(gradient)):
            raise NonFiniteError("the proxy is not finite at a trial point")
        if box.distance(w, gradient) <= enough:
            break
        B = to_numpy(loss.hessian(w)).astype(np.float64)
        B = absolute((B + B.T) / 2)
        here, slope = to_numpy(w).astype(np.float64), to_numpy(gradient).astype(np.float64)
        while damping < 1 / SolverPolicy.shortest:
            shift = damping * float(np.trace(B)) / len(B) + 1e-300
            move = box_minimum(B + shift * np.eye(len(B)), slope, lower - here, upper - here)
            trial = box.prox(from_numpy(here + move, like=w), 1.0)
            reached = float(loss.value(trial))
            if reached < value:
                break
            damping *= 10
        else:
            break
        w, value, gradient, damping = trial, reached, loss.gradient(trial), damping / 10
    return w
