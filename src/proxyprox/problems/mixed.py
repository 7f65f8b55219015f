"""A non-negative mixture of several proxies, as one proxy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from proxyprox._arrays import Matrix, Vector
from proxyprox._checks import has, message, nonnegative
from proxyprox._isolation import isolated
from proxyprox.problems._fingerprint import combined
from proxyprox.problems.base import Batch


class MixedProxy:
    """``Σ s_i L̂_i(w)`` with every capability that all of the proxies share.

    Parameters
    ----------
    proxies : sequence of Proxy
        The L̂_i, with equal numbers of parameters.
    weights : sequence of float
        The s_i ≥ 0, not all zero. A proxy of weight zero is left out and never asked.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Quadratic
    >>> pair = [Quadratic(np.diag([1.0, 0.0])), Quadratic(np.diag([0.0, 1.0]))]
    >>> MixedProxy(pair, [2.0, 3.0]).gradient(np.ones(2))
    array([2., 3.])
    """

    def __init__(self, proxies: Sequence[Any], weights: Sequence[float]) -> None:
        checked = [nonnegative("weights", weight) for weight in weights]
        if len(checked) != len(proxies):
            got = f"{len(checked)} weights for {len(proxies)} proxies"
            raise ValueError(message("weights", got, "one for each proxy"))
        if not any(checked):
            remedy = "For no proxy at all use Zero()."
            raise ValueError(message("weights", checked, "positive for one proxy at least", remedy))
        kept = [(p, s) for p, s in zip(proxies, checked, strict=True) if s > 0]
        self.proxies = tuple(p for p, _ in kept)
        self.weights = tuple(s for _, s in kept)
        self._isolated = tuple(isolated(p) for p in self.proxies)
        sizes = {p.dim for p in self.proxies if isinstance(getattr(p, "dim", None), int)}
        if len(sizes) > 1:
            raise ValueError(message("proxies", sorted(sizes), "of equal numbers of parameters"))
        if sizes:
            self.dim = sizes.pop()
        first = next((p for p in self.proxies if hasattr(p, "zeros")), None)
        if first is not None:
            self.zeros = first.zeros
        self.hvp = self._hvp if self._all("hvp") else None
        self.hessian = self._hessian if self._all("hessian") else None
        self.sample = self._sample if self._all("sample") else None
        known = [getattr(p, "smoothness", None) for p in self.proxies]
        self.smoothness = None if None in known else self._sum(known)
        lower = [getattr(p, "strong_convexity", None) or 0.0 for p in self.proxies]
        self.strong_convexity = self._sum(lower)

    def value(self, w: Vector) -> float:
        """Return Σ s_i L̂_i(w)."""
        return float(self._sum([p.value(w) for p in self._isolated]))

    def gradient(self, w: Vector, *batches: Batch) -> Vector:
        """Return the gradient, or its estimate from one batch of each proxy."""
        if not batches:
            return self._sum([p.gradient(w) for p in self._isolated])
        drawn = zip(self._isolated, batches[0], strict=True)
        return self._sum([p.gradient(w, batch) for p, batch in drawn])

    def fingerprint(self) -> str | None:
        """Return a text that only equal losses share, or None if a part has none."""
        return combined("MixedProxy", self.proxies, *self.weights)

    def _hvp(self, w: Vector, v: Vector) -> Vector:
        return self._sum([p.hvp(w, v) for p in self._isolated])

    def _hessian(self, w: Vector) -> Matrix:
        return self._sum([p.hessian(w) for p in self._isolated])

    def _sample(self, rng: np.random.Generator) -> Batch:
        return tuple(p.sample(rng) for p in self.proxies)

    def _all(self, capability: str) -> bool:
        return all(has(p, capability) for p in self.proxies)

    def _sum(self, terms: Sequence[Any]) -> Any:
        total = self.weights[0] * terms[0]
        for weight, term in zip(self.weights[1:], terms[1:], strict=True):
            total = total + weight * term
        return total
