"""The curvature of target and proxies at one point, as spectra and as small matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import fdtri

from proxyprox._arrays import Vector, from_numpy, norm, to_numpy
from proxyprox._checks import has
from proxyprox._oracles import MeteredProxy
from proxyprox.diagnostics._curvature import Product, Source, dense, proxy_product
from proxyprox.diagnostics._difference import rounding
from proxyprox.diagnostics._lanczos import Krylov, lanczos, random_direction
from proxyprox.diagnostics._spectrum import Spectrum, spectrum_of_matrix, spectrum_of_space
from proxyprox.diagnostics._target import stacked

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
