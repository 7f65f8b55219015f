"""A proxy times a number: what an audit offers for a proxy of the right shape and wrong size."""

from __future__ import annotations

from typing import Any

from proxyprox._arrays import Matrix, Vector
from proxyprox._checks import has, positive
from proxyprox._isolation import isolated
from proxyprox.problems._fingerprint import combined
from proxyprox.problems.base import Batch


class ScaledProxy:
    """``s·L̂(w)`` with every capability of L̂.

    Parameters
    ----------
    proxy : Proxy
        L̂.
    scale : float
        s > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Quadratic
    >>> proxy = ScaledProxy(Quadratic(np.diag([1.0, 4.0])), 0.5)
    >>> proxy.gradient(np.ones(2)), proxy.smoothness
    (array([0.5, 2. ]), 2.0)
    """

    def __init__(self, proxy: Any, scale: float) -> None:
        self.proxy = proxy
        self._proxy = isolated(proxy)
        self.scale = positive("scale", scale, "For no proxy at all use Zero().")
        for name in ("sample", "everything", "samples", "cost"):
            setattr(self, name, getattr(proxy, name, None))
        for name in ("dim", "zeros"):
            if hasattr(proxy, name):
                setattr(self, name, getattr(proxy, name))
        self.hvp = self._hvp if has(proxy, "hvp") else None
        self.hessian = self._hessian if has(proxy, "hessian") else None
        self.solve_shifted = self._solve_shifted if has(proxy, "solve_shifted") else None
        known = getattr(proxy, "smoothness", None)
        self.smoothness = None if known is None else self.scale * known
        self.strong_convexity = self.scale * (getattr(proxy, "strong_convexity", None) or 0.0)

    def value(self, w: Vector) -> float:
        """Return s·L̂(w)."""
        return self.scale * float(self._proxy.value(w))

    def gradient(self, w: Vector, *batch: Batch) -> Vector:
        """Return s·∇L̂(w), or its estimate from a batch."""
        return self.scale * self._proxy.gradient(w, *batch)

    def fingerprint(self) -> str | None:
        """Return a text that only equal losses share, or None if a part has none."""
        return combined("ScaledProxy", [self.proxy], self.scale)

    def _hvp(self, w: Vector, v: Vector) -> Vector:
        return self.scale * self._proxy.hvp(w, v)

    def _hessian(self, w: Vector) -> Matrix:
        return self.scale * self._proxy.hessian(w)

    def _solve_shifted(self, v: Vector, eta: float) -> Vector:
        # (sP + I/η)⁻¹ = (P + I/(sη))⁻¹ / s: the proxy's own closed form at another η.
        return self._proxy.solve_shifted(v, self.scale * eta) / self.scale
