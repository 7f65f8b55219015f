"""The minimiser of a loss we may evaluate freely: references and empirical risk minimisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from proxyprox._arrays import Vector, zeros_like
from proxyprox._subproblem import Subproblem
from proxyprox.inner import Auto
from proxyprox.stopping import Residual


def minimiser(loss: Any, start: Vector, *, tol: float = 1e-12, penalty: Any = None) -> Vector:
    """Return the minimiser of a smooth loss (plus a penalty), to a gradient of norm ``tol``.

    A loss is the subproblem of its own proxy without a linear or a proximal term.
    """
    phi = Subproblem(loss, zeros_like(start), start, math.inf, penalty)
    solver = Auto().choose(loss, penalty, int(start.shape[0])).solver
    return solver.solve(phi, start, Residual(tol), {}, np.random.default_rng(0)).w
