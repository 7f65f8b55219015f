r"""The gap between two points' losses on held-out batches, from gradients alone.

For any a and b

.. math:: L(a) - L(b) = \int_0^1 \langle \nabla L(b + t(a - b)), a - b\rangle\,dt,

and the integral is taken at two Gauss nodes, which is exact for losses up to the fourth degree. A
held-out batch's gradients there give one sample of the gap; several give its standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from proxyprox._arrays import Vector, dot
from proxyprox._exchange import Query
from proxyprox._isolation import isolated

NODES = (0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6)
"""Gauss–Legendre nodes on [0, 1]; both weigh one half."""

ROUNDING = {"float32": 1e-5, "float64": 1e-10}
"""Gaps below this share of ‖first gradient‖·‖w − w_0‖ are rounding, by the iterates' dtype."""


def points_each(repeatable: bool) -> int:
    """Return at how many points a comparison evaluates each held-out batch."""
    return len(NODES) if repeatable else 1


def held_out_gap(
    answers: Callable[[Query], Sequence[Vector]],
    a: Vector,
    b: Vector,
    batches: Sequence[Any],
    *,
    repeatable: bool,
    penalty: Any | None,
) -> tuple[float, float]:
    """Return an estimate of ``L(a) + ψ(a) − L(b) − ψ(b)`` and its standard error."""
    gaps = []
    for number, batch in enumerate(batches):
        nodes = NODES if repeatable else (NODES[number % 2],)
        gradients = answers(Query(batch, tuple(b + t * (a - b) for t in nodes)))
        gaps.append(sum(dot(gradient, a - b) for gradient in gradients) / len(gradients))
    gap = float(np.mean(gaps))
    if penalty is not None:
        own = isolated(penalty)
        gap += float(own.value(a)) - float(own.value(b))
    return gap, float(np.std(gaps, ddof=1)) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0


def rounding_of(a: Vector, scale: float) -> float:
    """Return the gap up to which two losses are equal but for rounding, by what was gained."""
    return ROUNDING[str(a.dtype).rsplit(".", 1)[-1]] * scale
