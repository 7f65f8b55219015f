"""Lanczos' method with full reorthogonalisation, and how far its Ritz values can be off."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy  # not scipy.linalg, which is slow: SciPy imports it when it is used

from proxyprox._arrays import Vector, dot, from_numpy, norm

_BREAKDOWN = 1e-9
"""A Krylov space is complete when the next vector is this small against the operator."""


@dataclass
class Krylov:
    """A Krylov space of a symmetric operator, and its images.

    Attributes
    ----------
    alphas, betas : list of float
        Diagonal and off-diagonal of the tridiagonal projection.
    basis, images : list of arrays
        Orthonormal vectors, and the operator's products with them.
    complete : bool
        Whether the space is invariant. From a random start it then meets every eigenvalue.
    """

    alphas: list[float] = field(default_factory=list)
    betas: list[float] = field(default_factory=list)
    basis: list[Vector] = field(default_factory=list)
    images: list[Vector] = field(default_factory=list)
    complete: bool = False

    @property
    def ritz(self) -> np.ndarray[Any, Any]:
        """The Ritz values, ascending."""
        steps = len(self.alphas)
        return np.asarray(
            scipy.linalg.eigvalsh_tridiagonal(
                np.array(self.alphas), np.array(self.betas[: steps - 1])
            )
        )


def random_direction(like: Vector, rng: np.random.Generator) -> Vector:
    """Return a vector drawn uniformly from the unit sphere."""
    v = from_numpy(rng.standard_normal(int(like.shape[0])), like=like)
    return v / norm(v)


def lanczos(product: Callable[[Vector], Vector], start: Vector, steps: int) -> Krylov:
    """Build the Krylov space of ``start`` with at most ``steps`` products.

    Examples
    --------
    >>> space = lanczos(lambda v: np.diag([1.0, 2.0, 5.0]) @ v, np.ones(3), 3)
    >>> space.ritz.round(6), space.complete
    (array([1., 2., 5.]), True)
    """
    space = Krylov()
    v, size = start / norm(start), int(start.shape[0])
    scale = 0.0
    for step in range(min(steps, size)):
        image = product(v)
        space.basis.append(v)
        space.images.append(image)
        space.alphas.append(dot(v, image))
        scale = max(scale, norm(image))
        rest = image
        # Twice is enough: once leaves rounding errors along the converged Ritz vectors.
        for _ in range(2):
            for u in space.basis:
                rest = rest - dot(u, rest) * u
        beta = norm(rest)
        if step + 1 == size or beta <= _BREAKDOWN * scale or scale == 0.0:
            space.complete = True
            break
        space.betas.append(beta)
        v = rest / beta
    return space


def relative_gap(steps: int, size: int, failure: float) -> float:
    r"""Bound how far the extreme Ritz value falls short, as a share of the spectrum's width.

    For a start drawn uniformly from the sphere,

    .. math:: P\Bigl(\frac{\lambda_1 - \theta_1}{\lambda_1 - \lambda_n} > \epsilon\Bigr)
              \le 1.648 \sqrt n\, e^{-\sqrt\epsilon (2k-1)},

    and the same at the lower end; solved for ε at a given probability of failure.

    References
    ----------
    Kuczyński, Woźniakowski, "Estimating the largest eigenvalue by the power and Lanczos
    algorithms with a random start", SIAM J. Matrix Anal. Appl. 13, 1992.
    """
    return (math.log(1.648 * math.sqrt(size) / failure) / (2 * steps - 1)) ** 2


def spectrum_limits(space: Krylov, size: int, failure: float) -> tuple[float, float]:
    """Return limits below λ_min and above λ_max, each wrong with probability ``failure``."""
    ritz = space.ritz
    low, high = float(ritz[0]), float(ritz[-1])
    if space.complete:
        return low, high
    gap = relative_gap(len(space.alphas), size, failure)
    # The bound is relative to the true width, which the gap itself may hide at both ends.
    width = (high - low) / (1 - 2 * gap) if gap < 0.5 else math.inf
    return low - gap * width, high + gap * width
