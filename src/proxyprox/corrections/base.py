"""The estimate of ∇h = ∇L − ∇L̂ that a method adds to its subproblem.

Arithmetic only: the same file serves NumPy arrays and torch tensors.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from proxyprox._arrays import Vector


class Correction(Protocol):
    """Turn the newest difference ``g − ∇L̂`` into the linear term of the subproblem."""

    two_points: ClassVar[bool]
    """Whether the batch must also be evaluated at the previous iterate."""

    def __call__(
        self, difference: Vector, before: Vector | None, estimate: Vector | None, k: int
    ) -> Vector:
        """Return the estimate after outer step ``k``.

        Parameters
        ----------
        difference : array
            ``g_k − ∇L̂(w_k)`` on the new batch.
        before : array or None
            The same batch's difference at ``w_{k−1}``, if ``two_points`` and k > 0.
        estimate : array or None
            The estimate so far; None at k = 0.
        k : int
            Number of earlier steps.
        """
