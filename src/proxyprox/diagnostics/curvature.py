"""Curvature of the target, the proxies and their difference, in few products."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy  # not scipy.linalg, which is slow: SciPy imports it when it is used
from scipy.special import fdtri

from proxyprox._util.arrays import Vector, dot, from_numpy, namespace, norm, to_numpy
from proxyprox._util.validation import has, require_takes
from proxyprox.diagnostics.sampling import Interval, Matrix, MeteredTarget, stacked
from proxyprox.oracles import MeteredProxy

Product = Callable[[Vector], Vector]

# A Krylov space is complete when the next vector is this small against the operator.
_BREAKDOWN = 1e-9

# Lanczos steps below which its upper limit says next to nothing.
LEAST_STEPS = 8

# δ/H at a point beyond which the rehearsal also takes the proxy as it is there.
TOO_LARGE = 1.0


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues or Ritz values, with limits that hold at the confidence asked for.

    Attributes
    ----------
    values : array
        Eigenvalues (all of them when the operator was seen in full) or Ritz values, ascending.
    below, above : float
        Limits below the smallest and above the largest eigenvalue.
    error : float
        Largest error of the operator itself, to be added on either side.
    """

    values: Matrix
    below: float
    above: float
    error: float = 0.0


def spectrum_of_matrix(matrix: Matrix, error: float = 0.0) -> Spectrum:
    """Return the spectrum of a symmetric matrix: nothing to guess."""
    values = np.linalg.eigvalsh(matrix)
    return Spectrum(values, float(values[0]), float(values[-1]), error)


def similarity(difference: Spectrum) -> Interval:
    r"""Return δ from the spectrum of ``∇²L − s∇²L̂``.

    .. math:: \delta = \max(|\lambda_{\min}|, |\lambda_{\max}|)

    Ritz values never exceed it, which gives the lower limit; the upper one is the limit of the
    random-start Lanczos bound, or nothing but rounding when the operator was seen in full.

    Examples
    --------
    >>> print(similarity(spectrum_of_matrix(np.diag([-3.0, 1.0]))))
    3 [3, 3]
    """
    met = max(abs(float(difference.values[0])), abs(float(difference.values[-1])))
    limit = max(abs(difference.below), abs(difference.above))
    return Interval(met, max(met - difference.error, 0.0), limit + difference.error)


def smoothness(target: Spectrum) -> Interval:
    """Return H, the largest eigenvalue of the target's Hessian at a point (never below 0)."""
    met = float(target.values[-1])
    return Interval(met, met - target.error, target.above + target.error).at_least(0.0)


def strong_convexity(target: Spectrum, certified: float | None = None) -> Interval:
    """Return μ, the smallest eigenvalue of the target's Hessian at a point.

    ``certified`` is a lower limit the loss itself states; 0 for a loss known to be convex. Left
    out, μ may turn out negative: the loss is then not convex there.
    """
    met = float(target.values[0])
    found = Interval(met, target.below - target.error, met + target.error)
    # The stated limit is compared with computed eigenvalues: allow for their rounding.
    slack = target.error + 1e-12 * abs(target.above)
    # A limit that the measurement contradicts is not one: some losses say 0 for "unknown".
    if certified is None or found.high < certified - slack:
        return found
    return found.at_least(certified - slack)


class Krylov(NamedTuple):
    """A Krylov space of a symmetric operator.

    Attributes
    ----------
    ritz : array
        The Ritz values, ascending.
    basis, images : list of arrays
        Orthonormal vectors, and the operator's products with them.
    complete : bool
        Whether the space is invariant. From a random start it then meets every eigenvalue.
    """

    ritz: Matrix
    basis: list[Vector]
    images: list[Vector]
    complete: bool

    def spectrum(self, failure: float, error: float = 0.0) -> Spectrum:
        """Return the spectrum, each limit wrong with probability ``failure``."""
        low, high = float(self.ritz[0]), float(self.ritz[-1])
        if self.complete:
            return Spectrum(self.ritz, low, high, error)
        gap = relative_gap(len(self.ritz), int(self.basis[0].shape[0]), failure)
        # The bound is relative to the true width, which the gap itself may hide at both ends.
        width = (high - low) / (1 - 2 * gap) if gap < 0.5 else math.inf
        return Spectrum(self.ritz, low - gap * width, high + gap * width, error)


def random_direction(like: Vector, rng: np.random.Generator) -> Vector:
    """Return a vector drawn uniformly from the unit sphere."""
    v = from_numpy(rng.standard_normal(int(like.shape[0])), like=like)
    return v / norm(v)


def lanczos(product: Product, start: Vector, steps: int) -> Krylov:
    """Build the Krylov space of ``start`` with at most ``steps`` products.

    Examples
    --------
    >>> space = lanczos(lambda v: np.diag([1.0, 2.0, 5.0]) @ v, np.ones(3), 3)
    >>> space.ritz.round(6), space.complete
    (array([1., 2., 5.]), True)
    """
    alphas: list[float] = []
    betas: list[float] = []
    basis: list[Vector] = []
    images: list[Vector] = []
    v, size, scale, complete = start / norm(start), int(start.shape[0]), 0.0, False
    for step in range(min(steps, size)):
        image = product(v)
        basis.append(v)
        images.append(image)
        alphas.append(dot(v, image))
        scale = max(scale, norm(image))
        rest = image
        # Twice is enough: once leaves rounding errors along the converged Ritz vectors.
        for u in (*basis, *basis):
            rest = rest - dot(u, rest) * u
        beta = norm(rest)
        complete = step + 1 == size or beta <= _BREAKDOWN * scale or scale == 0.0
        if complete:
            break
        betas.append(beta)
        v = rest / beta
    off_diagonal = np.array(betas[: len(alphas) - 1])
    ritz = scipy.linalg.eigvalsh_tridiagonal(np.array(alphas), off_diagonal)
    return Krylov(np.asarray(ritz), basis, images, complete)


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


def resolution(w: Vector) -> float:
    """Return the rounding error of numbers like those in w."""
    return float(namespace(w).finfo(w.dtype).eps)


def rounding(w: Vector, *, exact: bool) -> float:
    """Return the relative error of eigenvalues made from exact products, or from secants."""
    return 1e3 * resolution(w) if exact else 1e2 * math.sqrt(resolution(w))


def secant_product(gradient: Product, w: Vector) -> Product:
    """Return ``v ↦ (∇f(w + tv) − ∇f(w))/t``, close to ``∇²f(w) v`` for unit vectors v."""
    # The length t balances rounding against the change of the curvature.
    t = math.sqrt(resolution(w)) * max(1.0, norm(w))
    at_w = gradient(w)
    return lambda v: (gradient(w + t * v) - at_w) / t


def proxy_product(proxy: MeteredProxy, w: Vector) -> Product:
    """Return products with a proxy's Hessian at w, which cost the target nothing."""
    own = proxy.hvp
    return secant_product(proxy.gradient, w) if own is None else lambda v: own(w, v)


def mean_product(parts: Sequence[Product]) -> Product:
    """Return the mean of several operators' products."""
    return lambda v: reduce(operator.add, (part(v) for part in parts)) / len(parts)


class TargetProducts:
    """Products with the target's Hessian: its own, or secants on the same batches at two points.

    One batch alone is taken as exact. Of several, an even number, the halves are compared.
    """

    def __init__(self, target: MeteredTarget, batches: Sequence[Any] = ()) -> None:
        if not batches:
            require_takes("objective.hvp", target.objective.hvp, ("w", "v"))
        self.target, self.batches = target, list(batches)
        self.exact = not batches
        self.noisy = len(batches) > 1
        # Krylov spaces of a survey: target, difference, direction, and the noise.
        self.spaces = 4 if self.noisy else 3

    def price(self, products: int) -> int:
        """Return the target gradients that so many products at one point cost."""
        return products if self.exact else len(self.batches) * (products + 1)

    def least_price(self, size: int) -> int:
        """Return the target gradients that the coarsest survey of a point needs."""
        return min(self.price(size), self.price(self.spaces * LEAST_STEPS))

    def affordable(self, gradients: int) -> int:
        """Return how many products at one point so many target gradients pay for."""
        return (gradients - self.price(0)) // (self.price(1) - self.price(0))

    def halves(self, w: Vector) -> list[Product]:
        """Return products from two halves of the batches, or the one product without noise."""
        if self.exact:
            return [lambda v: self.target.hvp(w, v)]
        parts = [self.batches[::2], self.batches[1::2]] if self.noisy else [self.batches]
        return [secant_product(self._mean_gradient(part), w) for part in parts]

    def _mean_gradient(self, batches: list[Any]) -> Product:
        return lambda w: reduce(operator.add, self.target.gradients(w, batches)) / len(batches)


def inflation(size: int, failure: float) -> float:
    """Return how many times larger the mean's error may be than the half-difference of two halves.

    Both are draws of one random matrix. Its norm is taken to vary like the root of a χ² with as
    many degrees of freedom as there are parameters, which makes the squared ratio an F.

    Examples
    --------
    >>> [round(inflation(size, 0.025), 1) for size in (2, 10, 100)]
    [6.2, 1.9, 1.2]
    """
    return math.sqrt(float(fdtri(size, size, 1 - failure)))


@dataclass(frozen=True)
class Survey:
    """The curvature found at one point.

    Attributes
    ----------
    target, difference : Spectrum
        Of ``∇²L`` and of ``∇²L − ∇²L̂``, L̂ being the first proxy.
    A : array of shape (m, m)
        The target's Hessian, or its projection on ``basis``.
    P : tuple of arrays of shape (m, m)
        The proxies' Hessians, likewise.
    basis : array of shape (d, m) or None
        Orthonormal columns; None when m = d and nothing was projected.
    """

    target: Spectrum
    difference: Spectrum
    A: Matrix
    P: tuple[Matrix, ...]
    basis: Matrix | None

    @property
    def largest(self) -> float:
        """The target's largest curvature, kept above zero for divisions."""
        return max(float(self.target.values[-1]), 1e-300)

    def project(self, rows: Matrix) -> Matrix:
        """Return vectors, one a row, in the coordinates of the matrices."""
        return rows if self.basis is None else rows @ self.basis

    def lift(self, coordinates: Matrix) -> Matrix:
        """Return the vector with these coordinates."""
        return coordinates if self.basis is None else self.basis @ coordinates


def survey(
    products: TargetProducts,
    proxies: Sequence[MeteredProxy],
    w: Vector,
    *,
    share: int,
    failure: float,
    looks: int,
    rng: np.random.Generator,
    direction: Vector,
) -> Survey:
    """Measure the curvature at w with at most ``share`` target gradients.

    Projections hold the Krylov space of ``direction`` besides those of the random starts. Noise may
    raise the largest of several ``looks``: each gets its part of the failures.
    """
    size, halves = int(w.shape[0]), products.halves(w)
    factor = inflation(size, failure / looks)
    error = rounding(w, exact=products.exact)
    proxy_exact = has(proxies[0], "hvp") or has(proxies[0], "hessian")
    if products.price(size) <= share:
        parts = [symmetric_matrix(half, w) for half in halves]
        A, noise = parts[0], 0.0
        if products.noisy:
            A = (parts[0] + parts[1]) / 2
            noise = factor * float(np.linalg.norm((parts[0] - parts[1]) / 2, 2))
        P = tuple(proxy_hessian(proxy, w) for proxy in proxies)
        error = noise + error * float(np.linalg.norm(A, 2))
        slack = error
        if not proxy_exact:
            slack += rounding(w, exact=False) * float(np.linalg.norm(P[0], 2))
        return Survey(spectrum_of_matrix(A, error), spectrum_of_matrix(A - P[0], slack), A, P, None)

    steps = max(LEAST_STEPS, products.affordable(share) // products.spaces)
    product, shadow = mean_product(halves), proxy_product(proxies[0], w)
    own = lanczos(product, random_direction(w, rng), steps)
    images: list[Vector] = []

    def difference(v: Vector) -> Vector:
        images.append(product(v))
        return images[-1] - shadow(v)

    apart = lanczos(difference, random_direction(w, rng), steps)
    target = own.spectrum(failure)
    error, slack = error * target.above, rounding(w, exact=proxy_exact) * target.above
    if products.noisy:
        one, two = halves
        split = lanczos(lambda v: (one(v) - two(v)) / 2, random_direction(w, rng), steps)
        error += factor * max(abs(split.ritz[0]), abs(split.ritz[-1]))
    spaces = [own, lanczos(product, direction, steps)] if norm(direction) > 0 else [own]
    vectors = stacked([*(v for space in spaces for v in space.basis), *apart.basis]).T
    vector_images = stacked([*(v for space in spaces for v in space.images), *images]).T
    # Through the singular vectors: directions that several spaces hold are kept once.
    left, sizes, right = np.linalg.svd(vectors, full_matrices=False)
    kept = sizes > 1e-6 * sizes[0]
    basis = left[:, kept]
    A = basis.T @ vector_images @ (right[kept].T / sizes[kept])
    P = tuple(symmetric_matrix(proxy_product(proxy, w), w, basis) for proxy in proxies)
    return Survey(
        replace(target, error=error),
        apart.spectrum(failure, error + slack),
        (A + A.T) / 2,
        P,
        basis,
    )


def symmetric_matrix(product: Product, w: Vector, basis: Matrix | None = None) -> Matrix:
    """Return the matrix of a symmetric operator at w, or its projection on a basis."""
    columns = np.eye(int(w.shape[0])) if basis is None else basis.T
    image = stacked(product(from_numpy(column, like=w)) for column in columns).T
    projected = image if basis is None else basis.T @ image
    return np.asarray((projected + projected.T) / 2)


def proxy_hessian(proxy: MeteredProxy, w: Vector, basis: Matrix | None = None) -> Matrix:
    """Return a proxy's Hessian at w, or its projection on a basis."""
    if basis is None and proxy.hessian is not None:
        P = to_numpy(proxy.hessian(w)).astype(np.float64)
        return np.asarray((P + P.T) / 2)
    return symmetric_matrix(proxy_product(proxy, w), w, basis)


def weighted_sum(weights: Sequence[float], matrices: Sequence[Matrix]) -> Matrix:
    """Return the sum of the first matrices, as many as there are weights."""
    return np.asarray(sum(s * P for s, P in zip(weights, matrices, strict=False)))


@dataclass(frozen=True)
class Visit:
    """What was measured at one point.

    Attributes
    ----------
    w : array
        The point.
    gradients : array of shape (n, d)
        Gradients of the audit's batches.
    gradient : array
        The target's gradient, as well as it is known.
    averaged : int
        Batches in that gradient; 0 when it is exact.
    survey : Survey
        The curvature.
    """

    w: Vector
    gradients: Matrix
    gradient: Matrix
    averaged: int
    survey: Survey

    @property
    def residuals(self) -> Matrix:
        """The gradients of the batches minus their mean."""
        return np.asarray(self.gradients - self.gradients.mean(axis=0))


@dataclass(frozen=True)
class Evidence:
    """All that was measured: the start first, then the points of the path.

    ``asked`` points were to be visited; there are fewer visits where the path ended early, and
    ``alarm`` says why if that leaves nothing to predict.
    """

    visits: tuple[Visit, ...]
    asked: int
    alarm: str
    proxies: Sequence[MeteredProxy]
    seen: dict[tuple[int, int], Matrix] = field(default_factory=dict)

    def shares(self, weights: Sequence[float]) -> list[float]:
        """Return δ/H at every point, for the proxies with these weights."""
        surveys = [visit.survey for visit in self.visits]
        return [
            float(np.linalg.norm(found.A - weighted_sum(weights, found.P), 2)) / found.largest
            for found in surveys
        ]

    def proxy_matrices(self, weights: Sequence[float]) -> tuple[Matrix, ...]:
        """Return the Hessians to rehearse with: at the end, and where δ exceeds H before it.

        Inputs in the wrong unit give a proxy that is steep at the start and saturated at the end,
        where it looks harmless: a run begins at the start, and stays there. Hessians before the end
        are taken relative to the target's H there, which may have changed as well.
        """
        *before, last = (visit.survey.largest for visit in self.visits)
        found = [self._weighted(len(before), weights)]
        for j, (H, share) in enumerate(zip(before, self.shares(weights), strict=False)):
            if share > TOO_LARGE:
                found.append(self._weighted(j, weights) * (last / H))
        return tuple(found)

    def _weighted(self, j: int, weights: Sequence[float]) -> Matrix:
        """Return the weighted proxies' Hessian at the j-th point, in the coordinates of the end."""
        end, visit = self.visits[-1].survey, self.visits[j]
        if visit.survey is end or visit.survey.basis is end.basis is None:
            return weighted_sum(weights, visit.survey.P)
        for i, proxy in enumerate(self.proxies[: len(weights)]):
            if (j, i) not in self.seen:
                self.seen[j, i] = proxy_hessian(proxy, visit.w, end.basis)
        return weighted_sum(weights, [self.seen[j, i] for i in range(len(weights))])
