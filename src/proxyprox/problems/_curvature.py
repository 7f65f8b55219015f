"""Whether two losses are known to have the same Hessian everywhere: δ = 0."""

from __future__ import annotations

from typing import Any

IDENTITY = "identity"
"""Stands for the matrix I among the terms of a Hessian."""

ROUNDING = 1e-12


def hessian_terms(loss: Any) -> list[tuple[float, Any]]:
    """Return numbers and losses whose Hessians make up that of a loss; mostly itself, once."""
    own = getattr(loss, "hessian_terms", None)
    return own() if callable(own) else [(1.0, loss)]


def same_hessian(one: Any, other: Any) -> bool:
    """Tell whether the terms of two losses' Hessians cancel."""
    found: list[list[Any]] = []
    for sign, loss in ((1.0, one), (-1.0, other)):
        for factor, leaf in hessian_terms(loss):
            group = next((g for g in found if _same_leaf(g[0], leaf)), None)
            if group is None:
                found.append([leaf, sign * factor, abs(factor)])
            else:
                group[1] += sign * factor
                group[2] += abs(factor)
    return all(abs(net) <= ROUNDING * size for _, net, size in found)


def _same_leaf(one: Any, other: Any) -> bool:
    if one is other:
        return True
    for asked, about in ((one, other), (other, one)):
        compare = getattr(asked, "same_curvature", None)
        if callable(compare) and bool(compare(about)):
            return True
    return False
