"""The core's corrections as coefficients, so that one formula serves arrays and lists of tensors.

Every correction is a linear combination of the newest difference, the same batch's difference one
step earlier, and the estimate so far. Calling it with three symbols instead of arrays reads its
coefficients off; ``torch._foreach_*`` then applies them in place, to all parameters at once, with
no temporary copy of the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import torch

from proxyprox.corrections import Correction

Tensors = Sequence[Any]
"""A list of tensors, one for each parameter."""


class Coefficients(NamedTuple):
    """``m ← difference·(g − a) + before·(g′ − a′) + estimate·m``."""

    difference: float
    before: float
    estimate: float


class Symbol:
    """A linear combination of the three arguments of a correction."""

    __slots__ = ("parts",)

    def __init__(self, difference: float = 0.0, before: float = 0.0, estimate: float = 0.0) -> None:
        self.parts = Coefficients(difference, before, estimate)

    def __add__(self, other: Symbol) -> Symbol:
        if not isinstance(other, Symbol):
            return NotImplemented
        return Symbol(*(x + y for x, y in zip(self.parts, other.parts, strict=True)))

    def __mul__(self, factor: float) -> Symbol:
        if not isinstance(factor, Real):
            return NotImplemented
        return Symbol(*(float(factor) * x for x in self.parts))

    def __truediv__(self, factor: float) -> Symbol:
        if not isinstance(factor, Real):
            return NotImplemented
        return Symbol(*(x / float(factor) for x in self.parts))

    __rmul__ = __mul__

    def __sub__(self, other: Symbol) -> Symbol:
        return self + (-1.0) * other

    def __neg__(self) -> Symbol:
        return (-1.0) * self


def coefficients(correction: Correction, k: int, *, started: bool) -> Coefficients:
    """Read the coefficients of a correction at outer step ``k``.

    Parameters
    ----------
    correction : Correction
        Any of the core's, or one's own that is linear.
    k : int
        Number of earlier steps.
    started : bool
        Whether there is an estimate (and, for two-point corrections, a previous point) already.

    Raises
    ------
    TypeError
        If the correction is not linear in its arguments.

    Examples
    --------
    >>> from proxyprox.corrections import EMA
    >>> coefficients(EMA(a=0.25), k=3, started=True)
    Coefficients(difference=0.25, before=0.0, estimate=0.75)
    """
    before = Symbol(before=1.0) if started and correction.two_points else None
    estimate = Symbol(estimate=1.0) if started else None
    try:
        result = correction(Symbol(difference=1.0), before, estimate, k)
    except (TypeError, AttributeError) as error:
        raise _not_linear(correction) from error
    if not isinstance(result, Symbol):
        raise _not_linear(correction)
    return result.parts


def _not_linear(correction: Correction) -> TypeError:
    return TypeError(
        "correction must be linear in the differences (additions, and products with numbers), "
        f"got {correction!r}. Use Plain, EMA, Mean or Storm, or the array-based proxyprox.minimize."
    )


def remembers(correction: Correction) -> bool:
    """Tell whether the estimate must be kept from step to step."""
    parts = coefficients(correction, 1, started=True)
    return parts.estimate != 0 or parts.before != 0


def anchor_share(correction: Correction, k: int) -> float:
    """Return how much of ∇L̂(w_{k−1}) belongs to what step ``k`` of a two-point correction needs.

    That is ``e·m + b·(g′ − ∇L̂(w_{k−1})) = e·(m + share·∇L̂(w_{k−1})) + b·g′``, ``share = −b/e``.

    Examples
    --------
    >>> from proxyprox.corrections import Storm
    >>> anchor_share(Storm(0.1), k=3)
    1.0
    """
    parts = coefficients(correction, k, started=True)
    if parts.estimate == 0:
        if parts.before == 0:
            return 0.0
        raise TypeError(
            "a correction that uses the batch's difference at the previous point must use the "
            f"estimate so far too, got {correction!r} which drops it at step {k}."
        )
    return -parts.before / parts.estimate


def combine(
    parts: Coefficients, estimate: Tensors | None, plus: Tensors, minus: Tensors | None
) -> Tensors:
    """Return the new estimate, in the memory of the old one where there is one.

    Parameters
    ----------
    parts : Coefficients
        Of the correction at this step; it looks at one point only.
    estimate : list of tensors, optional
        The estimate so far; changed in place.
    plus, minus : lists of tensors
        ``g_k`` and ``∇L̂(w_k)``; no ``minus`` stands for zero.
    """
    if estimate is None:
        # One fused pass, and exactly g − a; the product also serves as the copy of g.
        estimate = torch._foreach_sub(plus, minus) if minus else torch._foreach_mul(plus, 1.0)
        if parts.difference != 1.0:
            torch._foreach_mul_(estimate, parts.difference)
    else:
        torch._foreach_mul_(estimate, parts.estimate)
        torch._foreach_add_(estimate, plus, alpha=parts.difference)
        if minus:
            torch._foreach_add_(estimate, minus, alpha=-parts.difference)
    result: Tensors = estimate
    return result


def difference(
    memory: Tensors | None, plus: Tensors, minus: Tensors | None, weight: float
) -> Tensors:
    """Return ``plus − weight·minus``, in the given memory if there is any."""
    if memory is None:
        memory = torch._foreach_mul(plus, 1.0)
    else:
        torch._foreach_copy_(memory, plus)
    if minus:
        torch._foreach_add_(memory, minus, alpha=-weight)
    result: Tensors = memory
    return result
