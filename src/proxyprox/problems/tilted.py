"""A loss plus a linear term: a correction measured once and kept."""

from __future__ import annotations

from typing import Any

from proxyprox._arrays import Vector, dot
from proxyprox._checks import has
from proxyprox._checks import vector as checked_vector
from proxyprox._isolation import isolated
from proxyprox.problems._fingerprint import combined
from proxyprox.problems.base import Batch


class Tilted:
    """``f(w) + ⟨c, w⟩`` with the capabilities of ``f``; curvature is untouched.

    A paired correction ``c = λ(∇L̂_N − ∇L̂_n)`` that is measured at one point needs the teacher's
    rows once, instead of at every step.

    Parameters
    ----------
    loss : loss
        f.
    tilt : array
        c.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Quadratic
    >>> Tilted(Quadratic(np.eye(1)), np.array([-2.0])).gradient(np.array([2.0]))
    array([0.])
    """

    def __init__(self, loss: Any, tilt: Vector) -> None:
        self.loss = loss
        self._loss = isolated(loss)
        self.tilt = checked_vector("tilt", tilt, getattr(loss, "dim", None))
        self.dim = int(self.tilt.shape[0])
        self.repeatable = getattr(loss, "repeatable", True)
        kept = ("sample", "everything", "samples", "cost", "hvp", "hessian", "smoothness", "zeros")
        for name in kept:
            if getattr(loss, name, None) is not None:
                setattr(self, name, getattr(self._loss, name))
        self.value = self._value if has(loss, "value") else None

    def gradient(self, w: Vector, *batch: Batch) -> Vector:
        """Return the gradient, or its estimate from a batch."""
        return self._loss.gradient(w, *batch) + self.tilt

    def fingerprint(self) -> str | None:
        """Return a text that only equal losses share, or None if a part has none."""
        return combined("Tilted", [self.loss], self.tilt)

    def _value(self, w: Vector) -> float:
        return float(self._loss.value(w)) + dot(self.tilt, w)
