"""Wide data, few labels: the walk never leaves a small subspace, so it is done inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from proxyprox.sklearn._inputs import Labelled
from proxyprox.sklearn._moment import Moment, factorised
from proxyprox.sklearn._teacher import Teacher

MOST = 1200
"""Directions up to which the reduction pays."""

Array = Any


class Reduction(NamedTuple):
    """An orthonormal basis of the directions a walk can take, and the fit in its coordinates.

    Gradients are combinations of labelled rows, and the proxy's inverse maps a direction to
    itself and the moment's leading vectors: from a start in the subspace, a walk without an L1
    penalty stays in it. Nothing is approximated.
    """

    basis: Array
    rows: Labelled
    moment: Moment
    intercept: bool

    def inside(self, w: Array, outputs: int) -> Array:
        """Return parameters in the basis' coordinates."""
        matrix = w.reshape(-1, outputs)
        columns = self.basis.shape[0]
        return np.vstack([self.basis.T @ matrix[:columns], matrix[columns:]]).ravel()

    def outside(self, w: Array, outputs: int) -> Array:
        """Return coordinates as parameters of the original columns."""
        matrix = w.reshape(-1, outputs)
        directions = self.basis.shape[1]
        return np.vstack([self.basis @ matrix[:directions], matrix[directions:]]).ravel()

    def taught(self, teacher: Teacher, outputs: int) -> Teacher:
        """Return a teacher whose student and slope are in the basis' coordinates."""
        student, slope = (self.inside(w, outputs) for w in (teacher.student, teacher.slope))
        return replace(teacher, student=student, slope=slope)


def reduced(
    rows: Labelled, moment: Moment, known: Sequence[Array], *, outputs: int, intercept: bool
) -> Reduction | None:
    """Return the fit in the subspace of its walk, or None where that is not much smaller.

    Parameters
    ----------
    rows : Labelled
        The labelled rows.
    moment : Moment
        Of all inputs.
    known : sequence of arrays
        Parameters that must lie in the subspace: a start, a student, a slope.
    outputs : int
        Parameters of a column.
    intercept : bool
        Whether there is a constant.
    """
    n, columns = rows.X.shape
    size = n + moment.vectors.shape[1] + outputs * len(known)
    if 2 * size > columns or size > MOST:
        return None
    X = rows.X.toarray() if hasattr(rows.X, "toarray") else rows.X
    parts = [moment.vectors[:columns], X.T]
    parts += [w.reshape(-1, outputs)[:columns] for w in known]
    basis = np.linalg.qr(np.hstack(parts))[0]
    whole = np.zeros((columns + intercept, basis.shape[1] + intercept))
    whole[:columns, : basis.shape[1]] = basis
    if intercept:
        whole[-1, -1] = 1.0
    inner = factorised(whole.T @ (moment @ whole), moment.weight)
    return Reduction(basis, replace(rows, X=X @ basis), inner, intercept)
