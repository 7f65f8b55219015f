"""What sampled gradients tell: the target counted, its noise, and intervals."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtri, stdtrit

from proxyprox._util.arrays import Vector, all_finite, copied, to_numpy
from proxyprox._util.isolation import copied_tree, isolated
from proxyprox._util.validation import (
    Words,
    floating,
    fraction,
    has,
    message,
    nonnegative,
    real_array,
    require_finite,
)
from proxyprox.oracles import MeteredProxy, checked_gradient
from proxyprox.result import Ledger
from proxyprox.subproblem import NonFiniteError


@dataclass(frozen=True)
class Interval:
    """A number that was estimated, and its confidence limits.

    Attributes
    ----------
    estimate : float
        The best single guess.
    low, high : float
        Limits that hold the true value with the confidence that was asked for. A limit that is
        certain (a Ritz value, a constant the loss states itself) is as good as its kind allows.

    Examples
    --------
    >>> 1.9 in Interval(2.0, 1.5, 2.5), str(Interval(2.0, 1.5, 2.5))
    (True, '2 [1.5, 2.5]')
    """

    estimate: float
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"

    def widened(self, by: float) -> Interval:
        """Return the interval with both limits moved outwards."""
        return Interval(self.estimate, self.low - by, self.high + by)

    def at_least(self, least: float) -> Interval:
        """Return the part that lies at or above a value known to be a lower limit."""
        return Interval(max(self.estimate, least), max(self.low, least), max(self.high, least))


def largest(intervals: Iterable[Interval]) -> Interval:
    """Return the interval of the largest of several quantities.

    The upper limit needs no correction for many looks: the largest quantity is one of them, and
    its own limit is below the largest limit.

    Examples
    --------
    >>> print(largest([Interval(1.0, 0.5, 2.0), Interval(1.5, 0.2, 1.8)]))
    1.5 [0.5, 2]
    """
    given = list(intervals)
    return Interval(
        max(i.estimate for i in given), max(i.low for i in given), max(i.high for i in given)
    )


def smallest(intervals: Iterable[Interval]) -> Interval:
    """Return the interval of the smallest of several quantities.

    Examples
    --------
    >>> print(smallest([Interval(1.0, 0.5, 2.0), Interval(1.5, 0.2, 1.8)]))
    1 [0.2, 1.8]
    """
    given = list(intervals)
    return Interval(
        min(i.estimate for i in given), min(i.low for i in given), min(i.high for i in given)
    )


def noise_level(gradients: np.ndarray[Any, Any], confidence: float = 0.95) -> Interval:
    r"""Estimate :math:`\sigma^2 = \mathbb{E}\|g - \nabla L\|^2` from independent gradients.

    The estimate is the sample variance summed over the coordinates. For Gaussian noise with
    covariance Σ it is distributed nearly as :math:`\sigma^2\chi^2_\nu/\nu` with

    .. math:: \nu = (n-1)\,\frac{(\mathrm{tr}\,\Sigma)^2}{\mathrm{tr}\,\Sigma^2},

    Satterthwaite's degrees of freedom, whose trace is estimated without bias from the same
    gradients. Heavy tails show in the jackknife; the wider of the two intervals is returned.

    Parameters
    ----------
    gradients : array of shape (n, d)
        Gradients of n ≥ 3 independent batches at one point.
    confidence : float
        Probability with which the interval is to hold the true value.

    Returns
    -------
    Interval
        σ² with its limits.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> 4.0 in noise_level(rng.normal(scale=2 / 10**0.5, size=(20, 10)))
    True
    """
    gradients = floating("gradients", real_array("gradients", gradients, "an (n, d) array"))
    n = len(gradients) if gradients.ndim == 2 else 0
    if n < 3 or gradients.shape[1] == 0:
        got = Words(f"an array of shape {tuple(gradients.shape)}")
        raise ValueError(message("gradients", got, "n ≥ 3 gradients, of shape (n, d)"))
    require_finite("gradients", gradients)
    if fraction("confidence", confidence) == 1:
        raise ValueError(message("confidence", confidence, "below 1"))
    centred = gradients - gradients.mean(axis=0)
    gram = centred @ centred.T
    total = float(np.trace(gram)) / (n - 1)
    # Identical gradients differ by the rounding of their mean only.
    size = float(np.mean(gradients * gradients)) * gradients.shape[1]
    if total <= 1e-24 * size or total == 0.0:
        return Interval(0.0, 0.0, 1e-24 * size)
    tail = (1 - confidence) / 2
    freedom = _freedom(gram, total, gradients.shape[1])
    low = freedom * total / float(chdtri(freedom, tail))
    high = freedom * total / float(chdtri(freedom, 1 - tail))
    spread = float(stdtrit(n - 1, 1 - tail)) * _jackknife(gram)
    return Interval(total, min(low, total * math.exp(-spread)), max(high, total * math.exp(spread)))


def _freedom(gram: np.ndarray[Any, Any], total: float, size: int) -> float:
    n = len(gram)
    square = float(np.sum(gram * gram)) / (n - 1) ** 2
    # Unbiased for tr Σ² under Gaussian noise (Srivastava, 2005).
    unbiased = (n - 1) ** 2 / ((n - 2) * (n + 1)) * (square - total * total / (n - 1))
    # A rank above d or below 1 is impossible, and one far above n cannot be told from n.
    spread = max(unbiased, total * total / min(size, 4 * n))
    return (n - 1) * min(max(total * total / spread, 1.0), float(size))


def _jackknife(gram: np.ndarray[Any, Any]) -> float:
    """Return the jackknife's standard error of the logarithm of the summed variance."""
    n = len(gram)
    squares = np.diag(gram)
    # Leaving gradient i out lowers the sum of squares about the mean by n/(n − 1) ‖r_i‖².
    left = (squares.sum() - n / (n - 1) * squares) / (n - 2)
    logs = np.log(np.maximum(left, 1e-300))
    return math.sqrt((n - 1) / n * float(np.sum((logs - logs.mean()) ** 2)))


class MeteredTarget:
    """Gradients and Hessian-vector products of an objective, entered in a ledger.

    A Hessian-vector product counts as one target gradient over all of the samples: it is a pass
    over the same data, whatever it needs of the labels.
    """

    def __init__(self, objective: Any, ledger: Ledger) -> None:
        self.objective = isolated(objective)
        self.ledger = ledger
        self.minibatch_seconds: list[float] = []

    def gradient(
        self, w: Vector, batch: Any, *, again: bool = False, whole: bool = False
    ) -> Vector:
        """Return a batch's gradient; ``again``: the batch was paid for before, at another point.

        ``whole``: the batch is everything there is, which is the user's own and not copied.
        """
        self._charge(batch, again=again)
        begun = time.perf_counter()
        # Overflow at a trial point is looked for below; NumPy's warning would only repeat it.
        with np.errstate(over="ignore", invalid="ignore"):
            given = self.objective.gradient(w, batch if whole else copied_tree(batch))
        answer = copied(checked_gradient("the target's gradient", given, w))
        elapsed = time.perf_counter() - begun
        self.ledger.target_seconds += elapsed
        self.minibatch_seconds.append(elapsed)
        if not _all_finite(answer):
            raise NonFiniteError("the target's gradient is not finite at a point of the audit")
        return answer

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return the target's Hessian times v."""
        everything = self.objective.everything() if has(self.objective, "everything") else None
        self._charge(everything, again=False)
        begun = time.perf_counter()
        with np.errstate(over="ignore", invalid="ignore"):
            given = self.objective.hvp(w, v)
        answer = copied(checked_gradient("the target's hvp", given, w))
        self.ledger.target_seconds += time.perf_counter() - begun
        if not _all_finite(answer):
            raise NonFiniteError("the target's hvp is not finite at a point of the audit")
        return answer

    def _charge(self, batch: Any, *, again: bool) -> None:
        ledger, objective = self.ledger, self.objective
        ledger.target_gradients += 1
        count = getattr(objective, "samples", None)
        if not again:
            sized = len(batch) if hasattr(batch, "__len__") else 1
            ledger.target_samples += sized if count is None else int(count(copied_tree(batch)))
        cost = getattr(objective, "cost", None)
        if cost is not None:
            ledger.cost += nonnegative("objective.cost(batch)", cost(copied_tree(batch)))
        spent = getattr(objective, "epsilon", None)
        if spent is not None:
            ledger.epsilon = spent(ledger.target_gradients)


def _all_finite(vector: Vector) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return all_finite(vector)


def stacked(vectors: list[Vector]) -> np.ndarray[Any, Any]:
    """Return vectors of any library as the rows of a float64 NumPy matrix."""
    return np.stack([to_numpy(v).astype(np.float64) for v in vectors])


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
