"""Quadratic losses, and the zero proxy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from proxyprox._util import arrays
from proxyprox._util import validation as check
from proxyprox._util.arrays import Matrix, Vector, digest, to_numpy, zeros_like
from proxyprox._util.validation import Words, message
from proxyprox.problems.protocols import Batch, Facts, HessianOf, Summable


class NotConvexError(ValueError):
    """A subproblem has no minimiser: η is too large for a proxy that is not convex."""


class Quadratic(Summable):
    """``½ wᵀP w + bᵀw``, as a proxy or as an objective with Gaussian gradient noise.

    As a proxy its outer step is ``w − η(I + ηP)⁻¹g``: a fixed preconditioner, factorised once.

    Parameters
    ----------
    P : array of shape (d, d)
        Symmetric matrix.
    b : array of shape (d,), optional
        Linear term; zero if left out.
    noise : float
        As an objective: standard deviation σ of the gradient noise, ``E‖g − ∇L‖² = σ²``.

    Examples
    --------
    >>> import numpy as np
    >>> loss = Quadratic(np.diag([1.0, 4.0]), b=np.array([-1.0, 0.0]))
    >>> loss.gradient(np.ones(2))
    array([0., 4.])
    >>> loss.smoothness, loss.strong_convexity
    (4.0, 1.0)
    """

    repeatable = True

    def __init__(self, P: Matrix, b: Vector | None = None, *, noise: float = 0.0) -> None:
        P = check.square_matrix("P", P)
        xp, self.dim = arrays.namespace(P), int(P.shape[0])
        largest, limit = float(xp.max(xp.abs(P))), float(xp.finfo(P.dtype).max) / (4 * self.dim)
        if largest > limit:
            got, allowed = Words(f"an entry of size {largest:.3g}"), f"of entries up to {limit:.1e}"
            raise ValueError(message("P", got, allowed, "Divide P and b by one number."))
        asymmetry = float(xp.max(xp.abs(P - P.T)))
        if asymmetry > 1e-6 * largest:
            got = Words(f"a matrix with |P − Pᵀ| up to {asymmetry:.2g}")
            raise ValueError(message("P", got, "symmetric", "Pass (P + P.T) / 2."))
        self.P = (P + P.T) / 2
        self.b = arrays.zeros_like(self.P[0])
        if b is not None:
            self.b = arrays.from_numpy(to_numpy(check.vector("b", b, self.dim)), like=self.P)
        self.noise = check.nonnegative("noise", noise)
        self.exact = self.noise == 0
        self._product = arrays.symmetric_product(self.P)
        self._shifted: tuple[float, Callable[[Vector], Vector]] | None = None
        eigenvalues = np.linalg.eigvalsh(to_numpy(self.P))
        self.smoothness = max(float(eigenvalues[-1]), 0.0)
        self.strong_convexity = max(float(eigenvalues[0]), 0.0)

    def value(self, w: Vector) -> float:
        """Return ``½ wᵀP w + bᵀw``."""
        check.require_point("w", w, self.dim)
        return arrays.dot(w, self._product(w)) / 2 + arrays.dot(self.b, w)

    def gradient(self, w: Vector, batch: Batch = None) -> Vector:
        """Return ``P w + b``, plus the noise that was drawn."""
        check.require_point("w", w, self.dim)
        exact = self._product(w) + self.b
        return exact if batch is None else exact + arrays.from_numpy(batch, like=exact)

    def value_and_gradient(self, w: Vector, batch: Batch = None) -> tuple[float, Vector]:
        """Return both with one product; of a batch, the loss that has its gradient."""
        check.require_point("w", w, self.dim)
        gradient = self.gradient(w, batch)
        slope = self.b if batch is None else self.b + arrays.from_numpy(batch, like=w)
        return arrays.dot(w, gradient + slope) / 2, gradient

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return ``P v``."""
        check.require_point("v", v, self.dim)
        return self._product(v)

    def hessian(self, w: Vector) -> Matrix:
        """Return ``P``, as an array of the caller's own."""
        return arrays.copy_array(self.P)

    def solve_shifted(self, v: Vector, eta: float) -> Vector:
        """Return ``(P + I/η)⁻¹ v``; the inverse is formed once for each η.

        A product with a stored symmetric inverse reads half the bytes of two triangular solves
        and runs an order of magnitude faster; the solver checks the residual and refines.
        """
        check.require_point("v", v, self.dim)
        eta = check.positive("eta", eta, allow_inf=True)
        # Read once and replaced whole: other threads may store their own η in between.
        known = self._shifted
        if known is None or known[0] != eta:
            inverse = arrays.inverse_positive(arrays.add_to_diagonal(self.P, 1 / eta))
            if inverse is None:
                raise NotConvexError(
                    f"eta must make P + I/eta positive definite, got {eta!r} with the smallest "
                    f"eigenvalue of P at or below {-1 / eta:.3g}. Choose a smaller eta."
                )
            known = self._shifted = (eta, arrays.symmetric_product(inverse))
        return known[1](v)

    def minimiser(self) -> Vector:
        """Return the point where the gradient vanishes (P must be invertible)."""
        return self.solve_shifted(-self.b, math.inf)

    def zeros(self) -> Vector:
        """Return the zero vector of parameters, in the library and dtype of P."""
        return arrays.zeros_like(self.b)

    def sample(self, rng: np.random.Generator) -> Batch:
        """Draw the gradient noise (None when there is none)."""
        if self.noise == 0:
            return None
        return rng.normal(scale=self.noise / math.sqrt(self.dim), size=self.dim)

    def everything(self) -> Batch:
        """Return the batch without noise."""
        return None

    def samples(self, batch: Any) -> int:
        """Count one sample for each gradient."""
        return 1

    @property
    def facts(self) -> Facts:
        """What else is known of the loss."""
        terms = ((1.0, HessianOf(self)),)
        return Facts(hessian_terms=terms, start=self.zeros(), settings={"noise": self.noise})

    def same_curvature(self, other: Any) -> bool:
        """Tell whether another loss is a quadratic of the same matrix."""
        if not isinstance(other, Quadratic) or other.dim != self.dim:
            return False
        return bool(np.array_equal(to_numpy(other.P), to_numpy(self.P)))

    def fingerprint(self) -> str:
        """Return a text that only equal losses share."""
        return digest("Quadratic", self.P, self.b, self.noise)


@dataclass(frozen=True)
class Zero:
    """``L̂ ≡ 0``, which turns every outer step into ``w − η g``."""

    facts: ClassVar[Facts] = Facts(hessian_terms=())
    smoothness: ClassVar[float] = 0.0
    strong_convexity: ClassVar[float] = 0.0

    def value(self, w: Vector) -> float:
        """Return 0."""
        return 0.0

    def gradient(self, w: Vector) -> Vector:
        """Return the zero vector."""
        return zeros_like(w)

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return the zero vector."""
        return zeros_like(v)

    def hessian(self, w: Vector) -> Matrix:
        """Return the zero matrix."""
        zero = zeros_like(w)
        return zero[:, None] * zero[None, :]

    def solve_shifted(self, v: Vector, eta: float) -> Vector:
        """Return ``η v``."""
        return eta * v

    def fingerprint(self) -> str:
        """Return a text that only equal losses share."""
        return "zero"
