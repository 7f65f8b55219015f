"""The proxy as the run sees it: counted, checked, and never asked the same thing twice running."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from proxyprox._arrays import Matrix, Vector, all_finite, copied
from proxyprox._checks import Words, has, message, require_takes
from proxyprox._isolation import isolated
from proxyprox._ledger import Ledger
from proxyprox._subproblem import NonFiniteError
from proxyprox.problems import Problem

KEPT = 3
"""Gradients remembered: the centre, the start and the point just reached."""


class MeteredProxy:
    """Counts every access in the ledger and remembers the last few gradients by identity.

    The last inner iterate is the next centre, so its gradient is there already when the next
    outer step asks for ∇L̂(w_k). Arrays inside a run are never changed in place, which is what
    makes identity a safe key. A user's method or inner solver may well change its own: with
    ``by_content`` points are known by their entries, and remembered gradients are handed out as
    copies. ``fault`` is what was not finite first ("value" or "gradient"), and where, until it is
    reset.
    """

    def __init__(self, proxy: Any, ledger: Ledger, *, by_content: bool = False) -> None:
        self.proxy = isolated(proxy)
        self.by_content = by_content
        self.ledger = ledger
        self.smoothness = getattr(proxy, "smoothness", None)
        self.strong_convexity = getattr(proxy, "strong_convexity", None)
        require_takes("proxy.hvp", getattr(proxy, "hvp", None), ("w", "v"))
        self.hvp = self._hvp if has(proxy, "hvp") else None
        self.hessian = self._hessian if has(proxy, "hessian") else None
        self.solve_shifted = self._solve_shifted if has(proxy, "solve_shifted") else None
        self.sample = getattr(proxy, "sample", None)
        self.fault: tuple[str, Vector] | None = None
        self._known: list[tuple[Vector, Vector]] = []

    def value(self, w: Vector) -> float:
        """Return L̂(w)."""
        self.ledger.proxy_values += 1
        value = self.proxy.value(w)
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(message("the proxy's value", value, "a number")) from error
        if not math.isfinite(number):
            self.fault = self.fault or ("value", w)
        return number

    def gradient(self, w: Vector, *batch: Any) -> Vector:
        """Return ∇L̂(w), from memory if w is one of the last points; or a sampled gradient."""
        if batch:
            self.ledger.proxy_sampled_gradients += 1
            sampled = checked_gradient("the proxy's gradient", self.proxy.gradient(w, *batch), w)
            return self._looked_at(w, sampled)
        known = self.known(w)
        if known is not None:
            return known
        self.ledger.proxy_gradients += 1
        gradient = checked_gradient("the proxy's gradient", self.proxy.gradient(w), w)
        self.remember(w, gradient)
        return self._looked_at(w, gradient)

    def known(self, w: Vector) -> Vector | None:
        """Return the remembered gradient at this very array, if there is one."""
        for point, gradient in self._known:
            if self.by_content:
                if point.shape == w.shape and bool((point == w).all()):
                    return copied(gradient)
            elif point is w:
                return gradient
        return None

    def twin(self) -> MeteredProxy:
        """Return the same proxy with the same ledger for a callback, which may change its points.

        It knows what is remembered here; what it remembers besides is its own.
        """
        twin = copy.copy(self)
        twin.by_content, twin._known = True, list(self._known)
        return twin

    def snapshot(self) -> list[tuple[Vector, Vector]]:
        """Return what is remembered, for :meth:`rewind`."""
        return list(self._known)

    def rewind(self, known: list[tuple[Vector, Vector]]) -> None:
        """Go back to what was remembered then."""
        self._known = known

    def remember(self, w: Vector, gradient: Vector) -> None:
        """Keep a gradient for the next time it is asked for."""
        self._known.append((copied(w), copied(gradient)) if self.by_content else (w, gradient))
        if len(self._known) > KEPT:
            del self._known[0]

    def _looked_at(self, w: Vector, gradient: Vector) -> Vector:
        with np.errstate(over="ignore", invalid="ignore"):
            if not all_finite(gradient):
                self.fault = self.fault or ("gradient", w)
        return gradient

    def _hvp(self, w: Vector, v: Vector) -> Vector:
        self.ledger.proxy_hvps += 1
        return checked_gradient("the proxy's hvp", self.proxy.hvp(w, v), w)

    def _hessian(self, w: Vector) -> Matrix:
        self.ledger.proxy_hessians += 1
        hessian = self.proxy.hessian(w)
        shape, wanted = tuple(getattr(hessian, "shape", ())), (w.shape[0], w.shape[0])
        if shape != wanted:
            got = Words(f"shape {shape}" if shape else f"a {type(hessian).__name__}")
            raise ValueError(message("the proxy's hessian", got, f"a matrix of shape {wanted}"))
        if not all_finite(hessian):
            raise NonFiniteError("the proxy's Hessian is not finite at a trial point")
        return hessian

    def _solve_shifted(self, v: Vector, eta: float) -> Vector:
        self.ledger.proxy_solves += 1
        return checked_gradient("the proxy's solve_shifted", self.proxy.solve_shifted(v, eta), v)


def checked_gradient(whose: str, gradient: Any, w: Vector) -> Vector:
    """Refuse an answer that is not an array like ``w``; finiteness is checked by its users."""
    if type(gradient) is not type(w):
        got = Words(f"a {type(gradient).__name__}")
        raise TypeError(message(whose, got, f"a {type(w).__name__}, as the iterate is"))
    if gradient.shape != w.shape:
        got = Words(f"shape {tuple(gradient.shape)}")
        raise ValueError(message(whose, got, f"of the iterate's shape, {tuple(w.shape)}"))
    if gradient.dtype != w.dtype:
        remedy = "Convert w0 or the data so that both agree."
        got = Words(f"dtype {gradient.dtype}")
        raise TypeError(message(whose, got, f"of the iterate's dtype, {w.dtype}", remedy))
    # A tensor that still carries its graph would keep every step of the run alive.
    return gradient.detach() if getattr(gradient, "requires_grad", False) else gradient


def reported_value(problem: Problem, w: Vector) -> float | None:
    """Return the loss at a point for a report; None where it has none, or its use is accounted."""
    objective = problem.objective
    accounted = any(getattr(objective, name, None) is not None for name in ("cost", "epsilon"))
    if accounted or not has(objective, "value"):
        return None
    try:
        with np.errstate(all="ignore"):
            return float(problem.value(w))
    except Exception:
        # A run that is finished and paid for is not lost to a function that only reports on it.
        return None
