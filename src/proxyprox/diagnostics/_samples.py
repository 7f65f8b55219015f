"""Gradients of the target at one point: their mean, their noise, and the batches they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from proxyprox._arrays import Vector
from proxyprox._checks import has
from proxyprox._isolation import copied_tree
from proxyprox._oracles import MeteredProxy
from proxyprox.diagnostics._target import MeteredTarget, stacked
from proxyprox.diagnostics.interval import Interval
from proxyprox.diagnostics.noise import noise_level

Matrix = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Samples:
    """The gradients of several batches at one point, one a row."""

    gradients: Matrix
    exact: bool

    @property
    def mean(self) -> Matrix:
        """Their mean."""
        return np.asarray(self.gradients.mean(axis=0))

    @property
    def residuals(self) -> Matrix:
        """Their differences from the mean; a row of zeros for an exact gradient."""
        return np.asarray(self.gradients - self.mean)

    def noise(self, confidence: float) -> Interval:
        """Return σ² at this point."""
        return Interval(0.0, 0.0, 0.0) if self.exact else noise_level(self.gradients, confidence)


class Sampler:
    """Draws the audit's batches once and evaluates them at every point it visits.

    The same batches everywhere: differences between two points are then secants on equal
    samples, and no sample is bought twice.
    """

    def __init__(self, target: MeteredTarget, count: int, rng: np.random.Generator) -> None:
        self.target = target
        objective = target.objective
        first = copied_tree(objective.sample(rng))
        # A sampler that hands out the batch of everything has no noise to measure.
        self.exact = first is None and has(objective, "everything")
        self.batches = [first] + (
            [] if self.exact else [copied_tree(objective.sample(rng)) for _ in range(count - 1)]
        )
        self._paid = False

    @property
    def price(self) -> int:
        """Target gradients of one visit."""
        return len(self.batches)

    def at(self, w: Vector) -> Samples:
        """Return the gradients of all batches at w."""
        rows = [self.target.gradient(w, batch, again=self._paid) for batch in self.batches]
        self._paid = True
        return Samples(stacked(rows), self.exact)


def proxy_noise(
    proxy: Any, metered: MeteredProxy, w: Vector, count: int, rng: np.random.Generator, conf: float
) -> Interval:
    """Return ρ², the variance of the proxy's sampled gradients; zero where it samples nothing."""
    if not has(proxy, "sample"):
        return Interval(0.0, 0.0, 0.0)
    batches = [copied_tree(proxy.sample(rng)) for _ in range(count)]
    if batches[0] is None:
        return Interval(0.0, 0.0, 0.0)
    return noise_level(stacked([metered.gradient(w, batch) for batch in batches]), conf)
