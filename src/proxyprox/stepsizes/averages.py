r"""The averages of iterates that a measured step size answers with.

The long average has weights ``k³``, the polynomial decay of Shamir and Zhang. It is the answer
unless it is shown to lag behind the iterates: then a short one, with weights ``k¹⁵``, is, the mean
of about the last sixteenth of the run. The evidence is

.. math:: \lambda_k = \sum_i a_i \langle g_i, \bar w_i - w_i\rangle,\qquad
          \sum_i a_i\,(L(\bar w_i) - L(w_i)) \;\ge\; \mathbb{E}\,\lambda_k

for convex L, with the weights a of the short average: each batch is independent of both points. So
λ > 0 is evidence that the iterates are on average better than the long averages beside them; by
Jensen so is then their mean with the weights a. If noise dominates, ``E⟨∇L(w), w − w̄⟩`` is about
``η E‖g‖²/2``, hence λ < 0 and the answer stays the long average.

References
----------
Shamir and Zhang, "Stochastic gradient descent for non-smooth optimization", ICML 2013.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxyprox._util.arrays import Vector, changed, dot


@dataclass(frozen=True)
class AveragePolicy:
    """The powers of k in the weights of both averages, set by ``docs/results/auto_eta``.

    Means of noise and of squared gradients have the weights of the long average; ``differences`` is
    the power for the least weight of the newest difference in the mean of all.
    """

    long: int = 3
    short: int = 15
    differences: int = 5


def share(k: int, power: int = AveragePolicy.long) -> float:
    """Return the newest one's share in a mean with weights of about ``k**power``."""
    return min(1.0, (1 + power) / (k + 1 + power))


@dataclass(frozen=True)
class Averages:
    """The long and the short average, and the evidence λ that the long one lags."""

    long: Vector
    short: Vector
    lag: float = 0.0

    def with_gradient(self, k: int, gradient: Vector, w: Vector) -> Averages:
        """Enter a gradient at w into λ."""
        newest = dot(gradient, self.long - w)
        return changed(self, lag=self.lag + share(k, AveragePolicy.short) * (newest - self.lag))

    def with_iterate(self, k: int, w: Vector) -> Averages:
        """Enter the iterate to which step k has led."""
        long = self.long + share(k) * (w - self.long)
        short = self.short + share(k, AveragePolicy.short) * (w - self.short)
        return changed(self, long=long, short=short)

    @property
    def answer(self) -> Vector:
        """The short average if the long one lags."""
        return self.short if self.lag > 0 else self.long
