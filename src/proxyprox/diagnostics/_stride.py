"""How far to go along a step of the path: as far as the loss falls, by its slopes alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from proxyprox._arrays import Vector, norm, to_numpy
from proxyprox._subproblem import NonFiniteError
from proxyprox.diagnostics._samples import Sampler, Samples
from proxyprox.diagnostics._target import stacked

STEEP = 0.5
"""Share of the first slope that is still steep: ahead of a minimum, to go on; past it, to go back.

A step made with secants goes back as soon as it is past: convex losses are lower wherever they
still fall, but where they rise they may be anything.
"""

LEVEL = 0.1
"""Share of it that is as good as none past a minimum, where no noise blurs the slopes."""

CERTAIN = 3.0
"""Standard errors by which the first slope must differ from zero on the batches of a probe."""

LEAST = 5
"""Points to be able to look at: with fewer probes than batches, fewer batches are asked."""

FARTHER = 4.0
"""Most times a step is lengthened at once, and the width of a bracket that is halved in logs."""


def stride(
    sampler: Sampler,
    here: Samples,
    gradient: np.ndarray[Any, Any],
    w: Vector,
    trial: Vector,
    *,
    probes: int,
    exact: bool,
) -> Vector | None:
    """Return the trial point, or one nearer or farther along the step, where the slope is small.

    A curvature that was measured where the loss is all but linear, or through noise, tells
    nothing of how far its minimum is: the step may be a thousand times too long, or as much too
    short. The slopes tell, on as many batches as it takes to be sure of the first one.

    Parameters
    ----------
    sampler : Sampler
        The batches.
    here : Samples
        Their gradients at w.
    gradient : array
        The target's gradient there, as good as it is known.
    w, trial : array
        Where the step begins, and where it would end.
    probes : int
        Target gradients that may be used.
    exact : bool
        Whether the step was made with the loss's own curvature: it is then only shortened.

    Returns
    -------
    point : array or None
        None where no point was met at which the loss had fallen.
    """
    ahead = to_numpy(trial - w).astype(np.float64)
    fall = -float(gradient @ ahead)
    if not fall > 0:
        return None
    count = min(_batches(here.gradients @ ahead, fall), max(probes // LEAST, 1))
    least, most = (-math.inf, STEEP) if exact else (-STEEP, LEVEL if here.exact else 0.0)
    search = _Search(growing=not exact)
    for _ in range(probes // count):
        point = w + search.at * (trial - w)
        change, exploded = _change(sampler, here, point, ahead, count)
        slope = change / fall - 1
        if not exploded and least <= slope <= most:
            return point
        search.move(slope, exploded=exploded)
    return w + search.low * (trial - w) if search.low > 0 else None


class _Search:
    """A share of the step whose slope is small, looked for between one that falls and one not."""

    def __init__(self, *, growing: bool) -> None:
        self.at, self.low, self.high = 1.0, 0.0, math.inf
        self._growing, self._cuts = growing, 1

    def move(self, slope: float, *, exploded: bool) -> None:
        """Go on from a slope, in units of the first fall."""
        if slope < 0 and not exploded:
            self.low = self.at
        else:
            self.high = self.at
        if math.isinf(self.high):
            # What is left of the fall, drawn out in a line.
            self.at = self.low * min(FARTHER, 1 / (1 + slope) if slope > -1 else math.inf)
        elif self.low == 0:
            # A parabola's minimum; where the curvature is in doubt, cuts that do not help grow.
            share = 1 / (1 + slope) if 0 < slope < math.inf else 0.5
            self.at = self.high * share**self._cuts
            self._cuts += self._growing
        elif self.high > FARTHER * self.low:
            self.at = math.sqrt(self.low * self.high)
        else:
            self.at = (self.low + self.high) / 2


def _batches(slopes: np.ndarray[Any, Any], fall: float) -> int:
    """Return how many batches tell the slope from zero."""
    if len(slopes) < 2:
        return 1
    wanted = (CERTAIN * float(slopes.std(ddof=1)) / fall) ** 2
    return max(math.ceil(min(wanted, len(slopes))), 1)


def _change(
    sampler: Sampler, here: Samples, point: Vector, ahead: np.ndarray[Any, Any], count: int
) -> tuple[float, bool]:
    """Return how the slope has changed at a point, and whether the gradient exploded."""
    try:
        there = stacked(
            [sampler.target.gradient(point, b, again=True) for b in sampler.batches[:count]]
        )
    except NonFiniteError:
        return math.inf, True
    before = here.gradients[:count]
    now, then = (norm(rows.mean(axis=0)) for rows in (there, before))
    return float((there - before).mean(axis=0) @ ahead), now > 2 * then > 0
