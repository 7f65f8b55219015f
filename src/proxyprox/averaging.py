"""Which point a run returns: the last iterate, or an average kept in O(d) memory.

Every average is updated as ``w̄ ← w̄ + c_k (w_k − w̄)`` with ``c_k = α_k / Σ_{j≤k} α_j`` in [0, 1],
so that no weight is ever formed and nothing overflows, whatever the number of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from proxyprox._util.validation import nonnegative

__all__ = ["Adaptive", "Averaging", "Geometric", "Last", "Uniform"]


class Averaging(Protocol):
    """The share of the newest iterate in the average."""

    def share(self, previous: float, eta: float, k: int) -> float:
        """Return ``c_k`` from ``c_{k−1}``, for the k-th iterate (from 1)."""


@dataclass(frozen=True)
class Last:
    """Return the last iterate.

    Examples
    --------
    >>> Last().share(1 / 3, eta=1.0, k=4)
    1.0
    """

    def share(self, previous: float, eta: float, k: int) -> float:
        """Return 1."""
        return 1.0


@dataclass(frozen=True)
class Adaptive(Last):
    """Return what the method's own rule finds best: the default with ``eta="auto"``.

    That is an average dominated by the newest iterates, or the last one when the target's
    gradients are exact; for a method without such a rule, the last iterate.

    Examples
    --------
    >>> Adaptive().share(1 / 3, eta=1.0, k=4)
    1.0
    """


@dataclass(frozen=True)
class Uniform:
    """Return the mean of the iterates: the convex theorem's output.

    Examples
    --------
    >>> Uniform().share(1 / 3, eta=1.0, k=4)
    0.25
    """

    def share(self, previous: float, eta: float, k: int) -> float:
        """Return 1/k."""
        return 1 / k


@dataclass(frozen=True)
class Geometric:
    """Weights ``(1 + 2ημ/5)^{k−1}``: the strongly convex theorem's output.

    Parameters
    ----------
    mu : float
        Strong convexity of the objective; 0 gives the uniform mean.

    Examples
    --------
    >>> Geometric(0.0).share(1 / 3, eta=1.0, k=4)
    0.25
    """

    mu: float

    def __post_init__(self) -> None:
        """Check μ."""
        nonnegative("mu", self.mu, "Use Uniform() if the objective is not strongly convex.")

    def share(self, previous: float, eta: float, k: int) -> float:
        """Return ``q c / (1 + q c)`` with ``q = 1 + 2ημ/5``, from ``α_k = q α_{k−1}``."""
        if k == 1:
            return 1.0
        # μ = 0 first: 0·∞ is not a number.
        grown = (1 + 2 * eta * self.mu / 5 if self.mu else 1.0) * previous
        # Written this way the share stays right when η is infinite.
        return 1 / (1 + 1 / grown)
