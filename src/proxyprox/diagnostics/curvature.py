"""Curvature of the target, the proxy and their difference, in few products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import scipy  # not scipy.linalg, which is slow: SciPy imports it when it is used
from scipy.special import fdtri

from proxyprox._util.arrays import Vector, dot, from_numpy, namespace, norm, to_numpy
from proxyprox._util.validation import has, require_takes
from proxyprox.diagnostics.sampling import Interval, MeteredTarget, stacked
from proxyprox.oracles import MeteredProxy


def step_length(w: Vector) -> float:
    """Return the length t of a secant that balances rounding against curvature's change."""
    resolution = float(namespace(w).finfo(w.dtype).eps)
    return math.sqrt(resolution) * max(1.0, norm(w))


def secant(gradient: Callable[[Vector], Vector], w: Vector, at_w: Vector, v: Vector) -> Vector:
    """Return ``(∇f(w + tv) − ∇f(w))/t``, close to ``∇²f(w) v`` for a unit vector v."""
    t = step_length(w)
    return (gradient(w + t * v) - at_w) / t


def rounding(w: Vector, *, exact_products: bool) -> float:
    """Return the relative error to allow for in eigenvalues made from such products."""
    resolution = float(namespace(w).finfo(w.dtype).eps)
    return 1e3 * resolution if exact_products else 1e2 * math.sqrt(resolution)


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

    values: np.ndarray[Any, Any]
    below: float
    above: float
    error: float = 0.0

    def with_error(self, error: float) -> Spectrum:
        """Return the spectrum of an operator known up to a norm of ``error``."""
        return replace(self, error=error)


def spectrum_of_matrix(matrix: np.ndarray[Any, Any], error: float = 0.0) -> Spectrum:
    """Return the spectrum of a symmetric matrix: nothing to guess."""
    values = np.linalg.eigvalsh(matrix)
    return Spectrum(values, float(values[0]), float(values[-1]), error)


def spectrum_of_space(space: Krylov, size: int, failure: float, error: float = 0.0) -> Spectrum:
    """Return what a Krylov space from a random start tells of a spectrum of ``size`` values."""
    below, above = spectrum_limits(space, size, failure)
    return Spectrum(space.ritz, below, above, error)


Product = Callable[[Vector], Vector]


class Source(Protocol):
    """Products with the target's Hessian at one point after another."""

    exact_products: bool
    """Whether they are the loss's own, not secants."""

    noisy: bool
    """Whether they come from samples; ``halves`` then differ."""

    count: int
    """Batches that they come from, the first of those drawn; 0 where they are the loss's own."""

    def price(self, products: int) -> int:
        """Return the target gradients that so many products at one point cost."""

    def halves(self, w: Vector) -> tuple[Product, Product]:
        """Return products from two independent halves of the samples (the same, if not noisy)."""


class Hvps:
    """The target's own Hessian-vector products, over all of its data."""

    exact_products = True
    noisy = False
    count = 0

    def __init__(self, target: MeteredTarget) -> None:
        require_takes("objective.hvp", target.objective.hvp, ("w", "v"))
        self.target = target

    def price(self, products: int) -> int:
        """Return one for each."""
        return products

    def halves(self, w: Vector) -> tuple[Product, Product]:
        """Return the same product twice."""

        def product(v: Vector) -> Vector:
            return self.target.hvp(w, v)

        return product, product


class Secants:
    """Differences of gradients of the same batches at two points.

    Parameters
    ----------
    target : MeteredTarget
        What is differentiated.
    batches : sequence
        Batches to use throughout; one alone is taken as exact, otherwise an even number.
    """

    exact_products = False

    def __init__(self, target: MeteredTarget, batches: Sequence[Any]) -> None:
        self.target = target
        self.batches = list(batches)
        self.count = len(self.batches)
        self.noisy = self.count > 1

    def price(self, products: int) -> int:
        """Return one gradient a batch for each product and one for the point itself."""
        return len(self.batches) * (products + 1)

    def halves(self, w: Vector) -> tuple[Product, Product]:
        """Return secants from the even and from the odd batches."""
        if not self.noisy:
            only = self._product(w, self.batches)
            return only, only
        return self._product(w, self.batches[::2]), self._product(w, self.batches[1::2])

    def _product(self, w: Vector, batches: list[Any]) -> Product:
        def mean(u: Vector) -> Vector:
            total = self.target.gradient(u, batches[0], again=True)
            for batch in batches[1:]:
                total = total + self.target.gradient(u, batch, again=True)
            return total / len(batches)

        at_w = mean(w)
        return lambda v: secant(mean, w, at_w, v)


def proxy_product(proxy: MeteredProxy, w: Vector) -> Product:
    """Return products with a proxy's Hessian at w, which cost the target nothing."""
    if has(proxy, "hvp"):
        return lambda v: proxy.hvp(w, v)  # type: ignore[misc]
    at_w = proxy.gradient(w)
    return lambda v: secant(proxy.gradient, w, at_w, v)


def dense(product: Product, identity: Sequence[Vector], convert: Callable[[Any], Any]) -> Any:
    """Return the symmetric matrix of an operator, from its products with the unit vectors."""
    columns = np.stack([convert(product(e)) for e in identity], axis=1).astype(np.float64)
    return (columns + columns.T) / 2


def similarity(difference: Spectrum) -> Interval:
    r"""Return δ from the spectrum of ``∇²L − s∇²L̂``.

    .. math:: \delta = \max(|\lambda_{\min}|, |\lambda_{\max}|)

    Ritz values never exceed it, which gives the lower limit; the upper one is the limit of the
    random-start Lanczos bound, or nothing but rounding when the operator was seen in full.

    Parameters
    ----------
    difference : Spectrum
        The spectrum of the difference at one point.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox.diagnostics.curvature import spectrum_of_matrix
    >>> print(similarity(spectrum_of_matrix(np.diag([-3.0, 1.0]))))
    3 [3, 3]
    """
    met = max(abs(float(difference.values[0])), abs(float(difference.values[-1])))
    limit = max(abs(difference.below), abs(difference.above))
    return Interval(met, max(met - difference.error, 0.0), limit + difference.error)


def smoothness(target: Spectrum) -> Interval:
    """Return H, the largest eigenvalue of the target's Hessian at a point (never below 0).

    Parameters
    ----------
    target : Spectrum
        The spectrum of the target's Hessian.
    """
    met = float(target.values[-1])
    return Interval(met, met - target.error, target.above + target.error).at_least(0.0)


def strong_convexity(target: Spectrum, certified: float | None = None) -> Interval:
    """Return μ, the smallest eigenvalue of the target's Hessian at a point.

    Parameters
    ----------
    target : Spectrum
        The spectrum of the target's Hessian.
    certified : float, optional
        A lower limit the loss itself states; 0 for a loss known to be convex. Left out, μ may
        turn out negative: the loss is then not convex there.
    """
    met = float(target.values[0])
    found = Interval(met, target.below - target.error, met + target.error)
    # The stated limit is compared with computed eigenvalues: allow for their rounding.
    slack = target.error + 1e-12 * abs(target.above)
    # A limit that the measurement contradicts is not one: some losses say 0 for "unknown".
    known = certified is not None and found.high >= certified - slack
    return found.at_least(certified - slack) if known and certified is not None else found


Matrix = np.ndarray[Any, Any]

LEAST_STEPS = 8
"""Lanczos steps below which its upper limit says next to nothing."""


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
    """What was found at one point.

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

    def project(self, rows: Matrix) -> Matrix:
        """Return vectors, one a row, in the coordinates of the matrices."""
        return rows if self.basis is None else rows @ self.basis

    def lift(self, coordinates: Matrix) -> Matrix:
        """Return the vector with these coordinates."""
        return coordinates if self.basis is None else self.basis @ coordinates


def fits_dense(source: Source, size: int, share: int) -> bool:
    """Tell whether the whole Hessian is affordable."""
    return source.price(size) <= share


def least_price(source: Source, size: int) -> int:
    """Return the target gradients that the coarsest survey of a point needs."""
    return min(source.price(size), source.price(_spaces(source) * LEAST_STEPS))


def survey(
    source: Source,
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

    The small matrices hold the Krylov space of ``direction`` besides those of the random starts.
    Noise may raise the largest of several ``looks``: each gets its part of the failures.
    """
    size = int(w.shape[0])
    halves = source.halves(w)
    if fits_dense(source, size, share):
        return _in_full(source, halves, proxies, w, failure / looks)
    affordable = (share - source.price(0)) // (source.price(1) - source.price(0))
    steps = max(LEAST_STEPS, affordable // _spaces(source))
    return _projected(source, halves, proxies, w, steps, failure, looks, rng, direction)


def proxy_seen_from(found: Survey, proxy: MeteredProxy, w: Vector) -> Matrix:
    """Return a proxy's Hessian at another point, in the coordinates of a survey."""
    if found.basis is None:
        identity = [from_numpy(row, like=w) for row in np.eye(int(w.shape[0]))]
        return _proxy_matrix(proxy, w, identity)
    columns = [from_numpy(column, like=w) for column in found.basis.T]
    return _projection(proxy_product(proxy, w), columns, found.basis)


def _spaces(source: Source) -> int:
    return 4 if source.noisy else 3


def _in_full(
    source: Source,
    halves: tuple[Product, Product],
    proxies: Sequence[MeteredProxy],
    w: Vector,
    failure: float,
) -> Survey:
    size = int(w.shape[0])
    identity = [from_numpy(row, like=w) for row in np.eye(size)]
    first = dense(halves[0], identity, to_numpy)
    A, error = first, 0.0
    if source.noisy:
        second = dense(halves[1], identity, to_numpy)
        A = (first + second) / 2
        error = inflation(size, failure) * float(np.linalg.norm((first - second) / 2, 2))
    P = tuple(_proxy_matrix(proxy, w, identity) for proxy in proxies)
    error += rounding(w, exact_products=source.exact_products) * float(np.linalg.norm(A, 2))
    # A proxy that only gives gradients is known to the accuracy of their secants.
    slack = error
    if not _has_products(proxies[0]):
        slack += rounding(w, exact_products=False) * float(np.linalg.norm(P[0], 2))
    return Survey(spectrum_of_matrix(A, error), spectrum_of_matrix(A - P[0], slack), A, P, None)


def _projected(
    source: Source,
    halves: tuple[Product, Product],
    proxies: Sequence[MeteredProxy],
    w: Vector,
    steps: int,
    failure: float,
    looks: int,
    rng: np.random.Generator,
    direction: Vector,
) -> Survey:
    size = int(w.shape[0])
    shadow = proxy_product(proxies[0], w)

    def product(v: Vector) -> Vector:
        return (halves[0](v) + halves[1](v)) / 2 if source.noisy else halves[0](v)

    own = lanczos(product, random_direction(w, rng), steps)
    images: list[Vector] = []

    def difference(v: Vector) -> Vector:
        images.append(product(v))
        return images[-1] - shadow(v)

    apart = lanczos(difference, random_direction(w, rng), steps)
    target = spectrum_of_space(own, size, failure)
    between = spectrum_of_space(apart, size, failure)
    error = rounding(w, exact_products=source.exact_products) * target.above
    slack = rounding(w, exact_products=_has_products(proxies[0])) * target.above
    if source.noisy:
        split = lanczos(
            lambda v: (halves[0](v) - halves[1](v)) / 2, random_direction(w, rng), steps
        )
        draw = spectrum_of_space(split, size, failure)
        error += inflation(size, failure / looks) * max(abs(draw.values[0]), abs(draw.values[-1]))
    spaces = [own]
    if norm(direction) > 0:
        spaces.append(lanczos(product, direction, steps))
    basis, A = _gathered(spaces, apart, images)
    columns = [from_numpy(column, like=w) for column in basis.T]
    P = tuple(_projection(proxy_product(proxy, w), columns, basis) for proxy in proxies)
    return Survey(target.with_error(error), between.with_error(error + slack), A, P, basis)


def _gathered(own: Sequence[Krylov], apart: Krylov, images: list[Vector]) -> tuple[Matrix, Matrix]:
    """Return an orthonormal basis of all spaces and the target's projection on it."""
    vectors = stacked([*(v for space in own for v in space.basis), *apart.basis]).T
    products = stacked([*(v for space in own for v in space.images), *images]).T
    # Through the singular vectors: directions that several spaces hold are kept once.
    left, sizes, right = np.linalg.svd(vectors, full_matrices=False)
    kept = sizes > 1e-6 * sizes[0]
    basis = left[:, kept]
    A = basis.T @ products @ (right[kept].T / sizes[kept])
    return basis, (A + A.T) / 2


def _projection(product: Product, columns: Sequence[Vector], basis: Matrix) -> Matrix:
    P = basis.T @ stacked([product(column) for column in columns]).T
    return np.asarray((P + P.T) / 2)


def _proxy_matrix(proxy: MeteredProxy, w: Vector, identity: Sequence[Vector]) -> Matrix:
    if has(proxy, "hessian"):
        P = to_numpy(proxy.hessian(w)).astype(np.float64)  # type: ignore[misc]
        return np.asarray((P + P.T) / 2)
    return np.asarray(dense(proxy_product(proxy, w), identity, to_numpy))


def _has_products(proxy: MeteredProxy) -> bool:
    return has(proxy, "hvp") or has(proxy, "hessian")
