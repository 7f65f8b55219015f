"""Gradients of the target's batches: counted, their noise estimated, with intervals."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.special import chdtri, stdtrit

from proxyprox._util.arrays import Vector, all_finite, copy_array, copy_tree, to_numpy
from proxyprox._util.validation import has
from proxyprox.diagnostics.report import Bill, Matrix
from proxyprox.inner.base import NonFiniteError
from proxyprox.oracle import Query, as_gradient, price
from proxyprox.problems import Problem
from proxyprox.result import Interval, Ledger


def noise_level(gradients: Matrix, confidence: float = 0.95) -> Interval:
    r"""Estimate :math:`\sigma^2 = \mathbb{E}\|g - \nabla L\|^2` from independent gradients.

    The estimate is the sample variance summed over the coordinates. For Gaussian noise with
    covariance Σ it is distributed nearly as :math:`\sigma^2\chi^2_\nu/\nu` with

    .. math:: \nu = (n-1)\,\frac{(\mathrm{tr}\,\Sigma)^2}{\mathrm{tr}\,\Sigma^2},

    Satterthwaite's degrees of freedom, whose trace is estimated without bias from the same
    gradients. Heavy tails show in the jackknife; the wider of the two intervals is returned.

    Parameters
    ----------
    gradients : array of shape (n, d)
        Gradients of n ≥ 3 independent batches at one point; one alone is exact.
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
    n, size = gradients.shape
    if n == 1:
        return Interval(0.0, 0.0, 0.0)
    centred = gradients - gradients.mean(axis=0)
    gram = centred @ centred.T
    total = float(np.trace(gram)) / (n - 1)
    # Identical gradients differ by the rounding of their mean only.
    least = 1e-24 * float(np.mean(gradients * gradients)) * size
    if total <= least or total == 0.0:
        return Interval(0.0, 0.0, least)
    tail = (1 - confidence) / 2
    # Unbiased for tr Σ² under Gaussian noise (Srivastava, 2005).
    square = float(np.sum(gram * gram)) / (n - 1) ** 2
    unbiased = (n - 1) ** 2 / ((n - 2) * (n + 1)) * (square - total * total / (n - 1))
    # A rank above d or below 1 is impossible, and one far above n cannot be told from n.
    trace = max(unbiased, total * total / min(size, 4 * n))
    freedom = (n - 1) * min(max(total * total / trace, 1.0), float(size))
    low, high = (freedom * total / float(chdtri(freedom, share)) for share in (tail, 1 - tail))
    # Jackknife: leaving gradient i out lowers the sum of squares by n/(n − 1) ‖r_i‖².
    squares = np.diag(gram)
    logs = np.log(np.maximum((squares.sum() - n / (n - 1) * squares) / (n - 2), 1e-300))
    error = math.sqrt((n - 1) / n * float(np.sum((logs - logs.mean()) ** 2)))
    spread = float(stdtrit(n - 1, 1 - tail)) * error
    return Interval(total, min(low, total * math.exp(-spread)), max(high, total * math.exp(spread)))


def tail_weight(rows: Matrix) -> float:
    r"""Return how much more the sizes of noise vectors vary than those of Gaussian ones.

    For Gaussian rows with covariance Σ both the variance of ‖r‖² and 2 E(r·r')² are
    :math:`2\,\mathrm{tr}\,\Sigma^2`: their ratio is 1. A few rows of data that carry a batch
    raise the first alone.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> tail_weight(rng.normal(size=(16, 50))) < 3 < tail_weight(rng.standard_t(1, size=(16, 50)))
    True
    """
    gram, n = rows @ rows.T, len(rows)
    squares = np.diag(gram)
    apart = float(np.sum(gram**2) - np.sum(squares**2)) / max(n * (n - 1), 1)
    return float(squares.var(ddof=1)) / (2 * apart) if apart > 0 else 0.0


def rows_at_hand(problem: Problem) -> int:
    """Return how many rows a gradient of everything passes over; 0 if nobody can count them."""
    objective = problem.objective
    countable = has(objective, "everything") and has(objective, "samples")
    rows = objective.samples(objective.everything()) if countable else 0
    # Drawn from a distribution, a gradient of everything counts as one sample.
    return rows if rows > 1 else 0


def stack_rows(vectors: Iterable[Vector]) -> Matrix:
    """Return vectors of any library as the rows of a float64 NumPy matrix."""
    return np.stack([to_numpy(v).astype(np.float64) for v in vectors])


class MeteredTarget:
    """The target and the audit's batches; every gradient and product enters the ledger.

    The batches are drawn once and evaluated at every point: differences between two points are
    then secants on equal samples, and no sample is paid for twice. A Hessian-vector product counts
    as one gradient over all of the samples: it is a pass over the same data.
    """

    def __init__(
        self, objective: Any, ledger: Ledger, count: int, rng: np.random.Generator
    ) -> None:
        self.objective = objective
        self.ledger = ledger
        self.seconds: list[float] = []
        first = copy_tree(self.objective.sample(rng))
        # An objective whose batch is everything has no noise to measure.
        self.exact = first is None and has(self.objective, "everything")
        more = 0 if self.exact else count - 1
        self.batches = [first, *(copy_tree(self.objective.sample(rng)) for _ in range(more))]
        self._batches_paid = False

    def gradients(self, w: Vector, batches: Sequence[Any] | None = None) -> list[Vector]:
        """Return the gradients of the audit's batches at w, or of some of them."""
        queries = [Query(batch, (w,)) for batch in batches or self.batches]
        answers = [self._ask("gradient", q, q.batch_for_user(q.batch)) for q in queries]
        self._batches_paid = True
        return answers

    def full_gradient(self, w: Vector) -> Matrix | None:
        """Return the exact gradient, or None if the objective has none to spare."""
        # A pass over private data would escape the privacy account.
        if not has(self.objective, "everything") or has(self.objective, "epsilon"):
            return None
        query = Query(self.objective.everything(), (w,), exact=True)
        return to_numpy(self._ask("gradient", query, query.batch)).astype(np.float64)

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return the target's Hessian times v."""
        everything = self.objective.everything() if has(self.objective, "everything") else None
        return self._ask("hvp", Query(everything, (w,), exact=True), copy_array(v))

    def batch_price(self, w: Vector) -> Bill:
        """Return what the gradient of a batch costs."""
        paid = price(self.objective, Ledger(), [Query(self.batches[0], (w,)).purchase])
        seconds = statistics.median(self.seconds[: len(self.batches)])
        return Bill(1.0, float(paid["target_samples"]), paid.get("cost"), 0.0, seconds)

    def _ask(self, name: str, query: Query, argument: Any) -> Vector:
        for item, amount in price(self.objective, self.ledger, [query.purchase]).items():
            if item != "target_samples" or query.exact or not self._batches_paid:
                setattr(self.ledger, item, getattr(self.ledger, item) + amount)
        begun = time.perf_counter()
        # Overflow at a trial point raises the error below; a warning would only repeat it.
        with np.errstate(over="ignore", invalid="ignore"):
            given = getattr(self.objective, name)(copy_array(query.points[0]), argument)
            answer = copy_array(as_gradient(f"the target's {name}", given, query.points[0]))
            self.seconds.append(time.perf_counter() - begun)
            self.ledger.target_seconds += self.seconds[-1]
            if not all_finite(answer):
                raise NonFiniteError(f"the target's {name} is not finite at a point of the audit")
        return answer
