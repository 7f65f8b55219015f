"""Empirical risk minimisation on the rows seen: the rival that any user tries first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from proxyprox._arrays import Vector, zeros_like
from proxyprox._checks import has
from proxyprox._isolation import isolated
from proxyprox._subproblem import NonFiniteError, Subproblem
from proxyprox.inner import Auto
from proxyprox.stopping import Relative, Residual


def has_rows(objective: Any, batch: Any) -> bool:
    """Tell whether a batch names rows that the loss can be fitted on."""
    return isinstance(batch, np.ndarray) and batch.dtype.kind == "i" and has(objective, "rows")


def minimiser_on_rows(
    objective: Any, batches: Sequence[Any], start: Vector, penalty: Any | None
) -> Vector | None:
    """Return the minimiser of the loss on all the rows of some batches.

    Rows count as often as they were drawn. It costs no target gradient: the samples are there.

    Returns
    -------
    array or None
        None if the objective does not have rows, or the fit fails.
    """
    if not batches or not all(has_rows(objective, batch) for batch in batches):
        return None
    seen, counts = np.unique(np.concatenate(batches), return_counts=True)
    weights = getattr(objective, "sample_weight", None)
    counts = counts if weights is None else counts * weights[seen]
    loss = isolated(objective.rows(seen, sample_weight=counts))
    phi = Subproblem(loss, zeros_like(start), start, math.inf, penalty)
    solver = Auto().choose(loss, penalty, int(start.shape[0])).solver
    stop = Relative(1e-9) | Residual(1e-10)
    try:
        return solver.solve(phi, start, stop, {}, np.random.default_rng(0)).w
    except (NonFiniteError, ValueError):
        return None
