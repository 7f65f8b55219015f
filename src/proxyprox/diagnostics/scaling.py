"""The best scale of a proxy, and the best non-negative mixture of several: least δ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy  # not scipy.optimize, which is slow: SciPy imports it when it is used

from proxyprox._checks import listed, square_matrix

Matrix = np.ndarray[Any, Any]

_ROUNDS, _GAP, _MOST = 120, 1e-4, 10.0


def best_weights(target: Matrix, proxies: Sequence[Matrix]) -> tuple[tuple[float, ...], float]:
    r"""Return the weights s ≥ 0 that minimise ``δ(s) = ‖A − Σ s_i P_i‖``, and that δ.

    δ(s) is convex: the largest of :math:`\pm v^\top(A - \sum_i s_iP_i)v` over unit vectors v.
    Each round solves the linear program of the vectors met so far, then adds the extreme
    eigenvectors at its solution (Kelley's cutting planes), until both agree to 10⁻⁴.

    Parameters
    ----------
    target : array of shape (m, m)
        The target's Hessian A, or its projection.
    proxies : sequence of arrays of shape (m, m)
        The proxies' Hessians P_i.

    Returns
    -------
    weights : tuple of float
        The s_i; all zero when no proxy brings the Hessians closer.
    delta : float
        δ at these weights.

    Examples
    --------
    >>> weights, delta = best_weights(np.diag([1.0, 2.0]), [np.diag([10.0, 20.0])])
    >>> round(weights[0], 3), delta < 1e-3
    (0.1, True)
    """
    target = square_matrix("target", target)
    wanted = listed("proxies", proxies, "a list of matrices")
    proxies = [square_matrix("proxies", P, len(target)) for P in wanted]
    size = float(np.linalg.norm(target, 2))
    sizes = [float(np.linalg.norm(P, 2)) for P in proxies]
    if size == 0.0 or not any(sizes):
        return (0.0,) * len(proxies), size
    A = target / size
    units = [P / s if s > 0 else P for P, s in zip(proxies, sizes, strict=True)]
    rows: list[np.ndarray[Any, Any]] = []
    limits: list[float] = []
    best_u, best = np.zeros(len(units)), 1.0
    u = best_u
    for _ in range(_ROUNDS):
        values, vectors = np.linalg.eigh(A - _mixed(units, u))
        met = float(max(-values[0], values[-1]))
        if met < best:
            best_u, best = u, met
        for v, sign in ((vectors[:, 0], -1.0), (vectors[:, -1], 1.0)):
            # sign·vᵀ(A − Σ u_i P_i)v ≤ t, as a row of the program in (u, t).
            rows.append(np.array([*(-sign * float(v @ P @ v) for P in units), -1.0]))
            limits.append(-sign * float(v @ A @ v))
        program = scipy.optimize.linprog(
            c=[0.0] * len(units) + [1.0], A_ub=np.array(rows), b_ub=np.array(limits),
            bounds=[(0.0, _MOST)] * len(units) + [(0.0, None)], method="highs",
        )  # fmt: skip
        if not program.success or best - float(program.x[-1]) <= _GAP:
            break
        u = program.x[:-1]
    weights = tuple(
        float(value) * size / s if s > 0 else 0.0 for value, s in zip(best_u, sizes, strict=True)
    )
    return weights, best * size


def _mixed(proxies: Sequence[Matrix], weights: Any) -> Matrix:
    return np.asarray(sum(w * P for w, P in zip(weights, proxies, strict=True)))
