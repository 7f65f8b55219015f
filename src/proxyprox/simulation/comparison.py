"""Which of the policies that a robot has run can be trusted not to cost more than the first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from proxyprox._util.arrays import Vector

Array = Any


@dataclass(frozen=True)
class TuningPolicy:
    """When a policy is trusted, how steps are sized, and what is kept back for checks.

    Attributes
    ----------
    confidence : float
        Confidence, at least, that a policy does not exceed the first one's cost by the margin. Set
        by docs/results/guard/table.md.
    checks : int
        Rollouts, at least, that check a policy: two that it was chosen by may both have been lucky.
        Set by docs/results/guard/table.md.
    tails : int
        Degrees of freedom that are taken off: costs have heavier tails than a normal distribution,
        and few rollouts do not show them. Set by docs/results/guard/table.md.
    kept : int
        Of this many rollouts two are kept back, to check the answer. Set by
        docs/results/guard/table.md.
    eta, eta_fitted : float
        The step size times the simulator's largest curvature. A fitted simulator starts near its
        optimum, and what is left of the gap is what its parameters cannot explain: shorter steps.
        Set by docs/results/arm/table.md.
    nearer : float
        A trial after one that was turned back is at most this share of its distance away. Set by
        docs/results/guard/plants.md, as are the next three.
    multiple : float
        Trials above this many times the start's cost are turned back whatever ``tolerance`` says,
        and say nothing of how much costs spread.
    halfway : float
        A step along the gradient alone aims at this share of the cost.
    promise : float
        A step of the simulator's that promises less than this share of the cost gives way to one
        along the gradient alone.
    """

    confidence: float = 0.95
    checks: int = 2
    tails: int = 2
    kept: int = 5
    eta: float = 30.0
    eta_fitted: float = 10.0
    nearer: float = 0.25
    multiple: float = 3.0
    halfway: float = 0.5
    promise: float = 1e-3


TUNING = TuningPolicy()


class Observed(NamedTuple):
    """The rollouts of one policy, in order.

    Attributes
    ----------
    w : array
        The policy.
    costs : array
        What they cost.
    excess : array
        By how much each should cost more than the mean over resets, because of where it began;
        what a simulator says.
    """

    w: Vector
    costs: Array
    excess: Array

    @property
    def mean(self) -> float:
        """The mean cost."""
        return float(np.mean(self.costs))

    def part(self, rows: slice) -> Observed:
        """Return some of the rollouts."""
        return Observed(self.w, self.costs[rows], self.excess[rows])

    def adjusted(self) -> Observed:
        """Return what the rollouts would have cost from an average reset."""
        return self._replace(costs=self.costs - self.excess, excess=0 * self.excess)


class Evidence:
    """What the rollouts of several policies say about the first one.

    Another policy may be the answer if it was observed to be cheaper, and if its costs would be
    unlikely for one that costs ``margin`` more than the first. Costs are compared as ratios (as
    differences, where some are not positive). Their spread is pooled over all policies, because
    each has few rollouts; those that cost a multiple of the first one are left out. What the
    simulator says of where rollouts began is subtracted, if that halves the spread.

    The first ``each`` rollouts of a policy are those it was chosen by, and the lowest of many costs
    is low by luck: they only make it promising. Later ones were made to check it, and they decide.

    Parameters
    ----------
    observed : sequence of Observed
        All policies, the first one among them.
    first : array
        The policy that the others are compared with.
    each : int
        Rollouts of a policy before any check.
    margin : float
        By how much, relatively, the answer's cost may exceed that of the first policy.

    Examples
    --------
    >>> import numpy as np
    >>> first = Observed(np.zeros(1), np.array([4.0, 5.0]), np.zeros(2))
    >>> other = Observed(np.ones(1), np.array([1.0, 1.2]), np.zeros(2))
    >>> evidence = Evidence([first, other], np.zeros(1), each=2)
    >>> evidence.doubt(other) < 0.05, evidence.promising() is other, evidence.trusted() is None
    (True, True, True)
    """

    def __init__(
        self, observed: Sequence[Observed], first: Vector, *, each: int, margin: float = 0.1
    ) -> None:
        self._each = each
        known = next((one.mean for one in observed if np.array_equal(one.w, first)), math.nan)
        if known > 0:
            # The others crash: no answers, and their spread is not that of policies that hold.
            observed = [one for one in observed if one.mean <= TUNING.multiple * known]
        moved, sizes = [one.adjusted() for one in observed], [one.mean for one in observed]
        self.freedom = sum(len(one.costs) - 1 for one in observed)
        # A simulator that takes away more than there is does not know these costs.
        fits = _positive(moved) or not _positive(observed)
        better = _spread(moved, sizes) < 0.5 * _spread(observed, sizes)
        self.adjusted = fits and better and self.freedom > TUNING.tails
        self.observed = observed = moved if self.adjusted else list(observed)
        self.first = next((one for one in observed if np.array_equal(one.w, first)), None)
        self.others = [one for one in observed if one is not self.first]
        positive = _positive(observed)
        self._scale = np.log if positive else np.asarray
        size = 0.0 if self.first is None else abs(self.first.mean)
        self._margin = math.log1p(margin) if positive else margin * size
        scaled = [self._scale(one.costs) for one in observed]
        total = sum(float(((part - part.mean()) ** 2).sum()) for part in scaled)
        self.variance = total / self.freedom if self.freedom else math.nan

    def cheapest(self) -> Observed | None:
        """Return the policy with the lowest mean cost."""
        return min(self.observed, key=lambda one: one.mean, default=None)

    @property
    def spread_known(self) -> bool:
        """Whether there are enough rollouts to say how much costs spread, or they do not at all."""
        return self.freedom > TUNING.tails or self.variance == 0

    def promising(self) -> Observed | None:
        """Return the cheapest policy that the rollouts it was chosen by speak for."""
        # The lowest of many must be clearer than one alone.
        chance = (1 - TUNING.confidence) / max(1, len(self.others))
        return self._cheapest_within(chance, slice(0, self._each))

    def trusted(self) -> Observed | None:
        """Return the cheapest policy that the rollouts made to check it speak for."""
        if not self.spread_known:
            return None
        return self._cheapest_within(1 - TUNING.confidence, slice(self._each, None), TUNING.checks)

    def speaks_for(self, other: Observed) -> bool:
        """Tell whether all rollouts of a policy together speak for it."""
        return self.doubt(other) <= 1 - TUNING.confidence

    def _cheapest_within(self, chance: float, rows: slice, least: int = 1) -> Observed | None:
        parts = [(one, one.part(rows)) for one in self.others]
        found = [
            one for one, part in parts
            if len(part.costs) >= least and self.doubt(part) <= chance
        ]  # fmt: skip
        return min(found, key=lambda one: one.mean, default=None)

    def doubt(self, other: Observed) -> float:
        """Return how likely costs as low as these are if the true cost exceeds the margin."""
        first = self.first
        if first is None or not self.freedom or not other.mean < first.mean:
            return 1.0
        apart = float(np.mean(self._scale(other.costs)) - np.mean(self._scale(first.costs)))
        size = self.variance * (1 / len(other.costs) + 1 / len(first.costs))
        return _tail(apart - self._margin, size, max(1, self.freedom - TUNING.tails))


def _positive(observed: Sequence[Observed]) -> bool:
    """Tell whether all costs are positive."""
    return all(bool((one.costs > 0).all()) for one in observed)


def _spread(observed: Sequence[Observed], sizes: Sequence[float]) -> float:
    """Return how much costs of one policy differ, relative to their size, over all policies."""
    parts = zip((one.costs for one in observed), sizes, strict=True)
    return sum(float(np.var(costs)) * len(costs) / max(size**2, 1e-300) for costs, size in parts)


def _tail(mean: float, variance: float, freedom: float) -> float:
    """Return the probability that Student's t is below a mean over its standard error."""
    if not variance > 0:
        return 0.0 if mean < 0 else 1.0
    return float(scipy.stats.t.cdf(mean / math.sqrt(variance), freedom))
