"""The proxy as the run sees it: counted, checked, and never asked the same thing twice running."""

from __future__ import annotations

from typing import Any

from proxyprox._arrays import Matrix, Vector
from proxyprox._checks import has, message
from proxyprox._ledger import Ledger

KEPT = 3
"""Gradients remembered: the centre, the start and the point just reached."""


class MeteredProxy:
    """Counts every access in the ledger and remembers the last few gradients by identity.

    The last inner iterate is the next centre, so its gradient is there already when the next
    outer step asks for ∇L̂(w_k). Arrays inside a run are never changed in place, which is what
    makes identity a safe key.
    """

    def __init__(self, proxy: Any, ledger: Ledger) -> None:
        self.proxy = proxy
        self.ledger = ledger
        self.smoothness = getattr(proxy, "smoothness", None)
        self.strong_convexity = getattr(proxy, "strong_convexity", None)
        self.hvp = self._hvp if has(proxy, "hvp") else None
        self.hessian = self._hessian if has(proxy, "hessian") else None
        self.solve_shifted = self._solve_shifted if has(proxy, "solve_shifted") else None
        self.sample = getattr(proxy, "sample", None)
        self._known: list[tuple[Vector, Vector]] = []

    def value(self, w: Vector) -> float:
        """Return L̂(w)."""
        self.ledger.proxy_values += 1
        return float(self.proxy.value(w))

    def gradient(self, w: Vector, *batch: Any) -> Vector:
        """Return ∇L̂(w), from memory if w is one of the last points; or a sampled gradient."""
        if batch:
            self.ledger.proxy_sampled_gradients += 1
            return checked_gradient("the proxy's gradient", self.proxy.gradient(w, *batch), w)
        known = self.known(w)
        if known is not None:
            return known
        self.ledger.proxy_gradients += 1
        gradient = checked_gradient("the proxy's gradient", self.proxy.gradient(w), w)
        self.remember(w, gradient)
        return gradient

    def known(self, w: Vector) -> Vector | None:
        """Return the remembered gradient at this very array, if there is one."""
        for point, gradient in self._known:
            if point is w:
                return gradient
        return None

    def remember(self, w: Vector, gradient: Vector) -> None:
        """Keep a gradient for the next time it is asked for."""
        self._known.append((w, gradient))
        if len(self._known) > KEPT:
            del self._known[0]

    def _hvp(self, w: Vector, v: Vector) -> Vector:
        self.ledger.proxy_hvps += 1
        return self.proxy.hvp(w, v)

    def _hessian(self, w: Vector) -> Matrix:
        self.ledger.proxy_hessians += 1
        return self.proxy.hessian(w)

    def _solve_shifted(self, v: Vector, eta: float) -> Vector:
        self.ledger.proxy_solves += 1
        return self.proxy.solve_shifted(v, eta)


def checked_gradient(whose: str, gradient: Any, w: Vector) -> Vector:
    """Refuse an answer that is not an array like ``w``; finiteness is checked by its users."""
    if type(gradient) is not type(w):
        got = f"a {type(gradient).__name__}"
        raise TypeError(message(whose, got, f"a {type(w).__name__}, as the iterate is"))
    if gradient.shape != w.shape:
        got = f"shape {tuple(gradient.shape)}"
        raise ValueError(message(whose, got, f"of the iterate's shape, {tuple(w.shape)}"))
    if gradient.dtype != w.dtype:
        remedy = "Convert w0 or the data so that both agree."
        got = f"dtype {gradient.dtype}"
        raise TypeError(message(whose, got, f"of the iterate's dtype, {w.dtype}", remedy))
    return gradient
