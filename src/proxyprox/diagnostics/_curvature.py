"""Where products with a Hessian come from: the loss itself, or secants of its gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from proxyprox._arrays import Vector
from proxyprox._checks import has, require_takes
from proxyprox._oracles import MeteredProxy
from proxyprox.diagnostics._difference import secant
from proxyprox.diagnostics._target import MeteredTarget

Product = Callable[[Vector], Vector]


class Source(Protocol):
    """Products with the target's Hessian at one point after another."""

    exact_products: bool
    """Whether they are the loss's own, not secants."""

    noisy: bool
    """Whether they come from samples; ``halves`` then differ."""

    count: int
    """Batches that they come from, the first of those drawn; 0 where they are the loss's own."""

    def price(self, products: int) -> int:
        """Return the target gradients that so many products at one point cost."""

    def halves(self, w: Vector) -> tuple[Product, Product]:
        """Return products from two independent halves of the samples (the same, if not noisy)."""


class Hvps:
    """The target's own Hessian-vector products, over all of its data."""

    exact_products = True
    noisy = False
    count = 0

    def __init__(self, target: MeteredTarget) -> None:
        require_takes("objective.hvp", target.objective.hvp, ("w", "v"))
        self.target = target

    def price(self, products: int) -> int:
        """Return one for each."""
        return products

    def halves(self, w: Vector) -> tuple[Product, Product]:
        """Return the same product twice."""

        def product(v: Vector) -> Vector:
            return self.target.hvp(w, v)

        return product, product


class Secants:
    """Differences of gradients of the same batches at two points.

    Parameters
    ----------
    target : MeteredTarget
        What is differentiated.
    batches : sequence
        Batches to use throughout; one alone is taken as exact, otherwise an even number.
    """

    exact_products = False

    def __init__(self, target: MeteredTarget, batches: Sequence[Any]) -> None:
        self.target = target
        self.batches = list(batches)
        self.count = len(self.batches)
        self.noisy = self.count > 1

    def price(self, products: int) -> int:
        """Return one gradient a batch for each product and one for the point itself."""
        return len(self.batches) * (products + 1)

    def halves(self, w: Vector) -> tuple[Product, Product]:
        """Return secants from the even and from the odd batches."""
        if not self.noisy:
            only = self._product(w, self.batches)
            return only, only
        return self._product(w, self.batches[::2]), self._product(w, self.batches[1::2])

    def _product(self, w: Vector, batches: list[Any]) -> Product:
        def mean(u: Vector) -> Vector:
            total = self.target.gradient(u, batches[0], again=True)
            for batch in batches[1:]:
                total = total + self.target.gradient(u, batch, again=True)
            return total / len(batches)

        at_w = mean(w)
        return lambda v: secant(mean, w, at_w, v)


def proxy_product(proxy: MeteredProxy, w: Vector) -> Product:
    """Return products with a proxy's Hessian at w, which cost the target nothing."""
    if has(proxy, "hvp"):
        return lambda v: proxy.hvp(w, v)  # type: ignore[misc]
    at_w = proxy.gradient(w)
    return lambda v: secant(proxy.gradient, w, at_w, v)


def dense(product: Product, identity: Sequence[Vector], convert: Callable[[Any], Any]) -> Any:
    """Return the symmetric matrix of an operator, from its products with the unit vectors."""
    columns = np.stack([convert(product(e)) for e in identity], axis=1).astype(np.float64)
    return (columns + columns.T) / 2
