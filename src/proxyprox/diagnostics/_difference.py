"""Hessian-vector products from gradients, where nothing better is offered."""

from __future__ import annotations

import math
from collections.abc import Callable

from proxyprox._arrays import Vector, namespace, norm


def step_length(w: Vector) -> float:
    """Return the length t of a secant that balances rounding against curvature's change."""
    resolution = float(namespace(w).finfo(w.dtype).eps)
    return math.sqrt(resolution) * max(1.0, norm(w))


def secant(gradient: Callable[[Vector], Vector], w: Vector, at_w: Vector, v: Vector) -> Vector:
    """Return ``(∇f(w + tv) − ∇f(w))/t``, close to ``∇²f(w) v`` for a unit vector v."""
    t = step_length(w)
    return (gradient(w + t * v) - at_w) / t


def rounding(w: Vector, *, exact_products: bool) -> float:
    """Return the relative error to allow for in eigenvalues made from such products."""
    resolution = float(namespace(w).finfo(w.dtype).eps)
    return 1e3 * resolution if exact_products else 1e2 * math.sqrt(resolution)
