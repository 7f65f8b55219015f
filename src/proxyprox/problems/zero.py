"""The proxy that knows nothing: with it ProxyProx is SGD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proxyprox._arrays import Matrix, Vector, zeros_like


@dataclass(frozen=True)
class Zero:
    """``L̂ ≡ 0``, which turns every outer step into ``w − η g``."""

    smoothness: float = 0.0
    strong_convexity: float = 0.0

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

    def hessian_terms(self) -> list[tuple[float, Any]]:
        """Return nothing: the Hessian is zero."""
        return []

    def fingerprint(self) -> str:
        """Return a text that only equal losses share."""
        return "zero"
