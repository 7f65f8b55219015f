"""The methods that our experiments compare, each with its own range of step sizes.

Every contender is tuned with the same effort: nine step sizes, geometrically spaced over the range
where that method's best lies. A best value at the edge of its range is reported as such.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proxyprox import (
    EMA,
    SGD,
    AuxMom,
    AuxMVR,
    GradientDescent,
    Mean,
    ProxyProx,
    Residual,
    Steps,
)

GRID = 9
"""Step sizes tried for each method."""

EXACT = 1e-8
"""``‖∇φ_k‖`` to which an "exact" subproblem is solved."""

ERM = "ERM on the rows seen"
"""The honest yardstick: fit the rows bought so far, without any proxy."""


@dataclass(frozen=True)
class Contender:
    """A method up to its step size.

    Attributes
    ----------
    name : str
        As in the figures.
    build : callable
        Returns the arguments of ``minimize`` for a step size, where it says so also for "auto".
    lowest : float
        First value of the grid, in units of 1/H.
    ratio : float
        Factor between neighbours of the grid.
    effort : float
        Rough cost of a step, for the estimate of the time left.
    """

    name: str
    build: Callable[[Any], dict[str, Any]]
    lowest: float
    ratio: float
    effort: float

    def etas(self, smoothness: float) -> tuple[float, ...]:
        """Return the step sizes to try for an H-smooth objective."""
        return tuple(self.lowest * self.ratio**j / smoothness for j in range(GRID))


def published(inner_steps: int) -> tuple[Contender, ...]:
    """Return SGD and the three methods of the paper's figure with gradient-descent inner steps."""
    steps = Steps(inner_steps)
    note = f"{inner_steps} GD steps"

    def proxyprox(eta: float) -> dict[str, Any]:
        # T steps of size η/T cover the proximal step: one number to tune, as for the others.
        inner = GradientDescent(step_size=eta / inner_steps, implicit=True)
        return {"method": ProxyProx(eta), "inner": inner, "stop": steps}

    def auxmom(gamma: float) -> dict[str, Any]:
        return {"method": AuxMom(a=0.1), "inner": GradientDescent(gamma), "stop": steps}

    def auxmvr(gamma: float) -> dict[str, Any]:
        return {"method": AuxMVR(a=0.1), "inner": GradientDescent(gamma), "stop": steps}

    return (
        Contender("SGD", lambda eta: {"method": SGD(eta)}, 0.1, 2.5, 0.2),
        Contender(f"ProxyProx, {note}", proxyprox, 0.25, 3.0, inner_steps / 4),
        Contender(f"AuxMom, {note}", auxmom, 0.05, 2.5, inner_steps / 4),
        Contender(f"AuxMVR, {note}", auxmvr, 0.05, 2.5, inner_steps / 8),
    )


def exact() -> tuple[Contender, ...]:
    """Return ProxyProx with solved subproblems and three corrections: beyond the paper."""
    stop = Residual(EXACT)
    return (
        Contender(
            "ProxyProx, exact", lambda eta: {"method": ProxyProx(eta), "stop": stop}, 1.0, 4.0, 1.0
        ),
        Contender(
            "ProxyProx, exact, EMA",
            lambda eta: {"method": ProxyProx(eta, EMA(0.1)), "stop": stop},
            0.25,
            8.0,
            1.5,
        ),
        Contender(
            "ProxyProx, exact, running mean",
            lambda eta: {"method": ProxyProx(eta, Mean()), "stop": stop},
            0.25,
            8.0,
            1.0,
        ),
    )


def yardstick() -> Contender:
    """Return empirical risk minimisation on the rows seen: nothing to tune, nothing to lean on."""
    return Contender(ERM, lambda eta: {}, math.nan, math.nan, 0.3)


def named(name: str, inner_steps: int) -> Contender:
    """Return the contender of that name."""
    known = {c.name: c for c in (*published(inner_steps), *exact(), yardstick())}
    return known[name]
