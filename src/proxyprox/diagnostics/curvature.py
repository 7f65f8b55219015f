"""What an audit measures: gradients of batches, their noise, and curvature in few products."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy  # not scipy.linalg, which is slow: SciPy imports it when it is used
from scipy.special import chdtri, fdtri, stdtrit

from proxyprox._util.arrays import (
    Vector,
    all_finite,
    copy_array,
    copy_tree,
    dot,
    from_numpy,
    norm,
    rounding,
    to_numpy,
)
from proxyprox._util.validation import has
from proxyprox.diagnostics.rehearsal import POLICY, Matrix, QuadraticModel
from proxyprox.diagnostics.report import Bill
from proxyprox.inner.base import NonFiniteError
from proxyprox.oracle import MeteredProxy, Query, as_gradient, charge, price
from proxyprox.problems.problem import facts_of
from proxyprox.result import Interval, Ledger

Product = Callable[[Vector], Vector]


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
        return Bill(1.0, float(paid["target_samples"]), paid.get("cost"))

    def _ask(self, name: str, query: Query, argument: Any) -> Vector:
        new = query.exact or not self._batches_paid
        bought = query.purchase._replace(new_batches=int(new))
        charge(self.ledger, price(self.objective, self.ledger, [bought]))
        begun = time.perf_counter()
        # Overflow at a trial point raises the error below; a warning would only repeat it.
        with np.errstate(over="ignore", invalid="ignore"):
            given = getattr(self.objective, name)(copy_array(query.points[0]), argument)
            answer = copy_array(as_gradient(f"the target's {name}", given, query.points[0]))
            self.ledger.target_seconds += time.perf_counter() - begun
            if not all_finite(answer):
                raise NonFiniteError(f"the target's {name} is not finite at a point of the audit")
        return answer


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
    stated = -math.inf if certified is None else certified
    stated -= target.error + 1e-12 * abs(target.above)
    # A limit that the measurement contradicts is not one: some losses say 0 for "unknown".
    return found if found.high < stated else found.at_least(stated)


class Krylov(NamedTuple):
    """A Krylov space of a symmetric operator.

    Attributes
    ----------
    ritz : array
        The Ritz values, ascending.
    basis, images : arrays
        Orthonormal vectors, one a row, and the operator's products with them.
    complete : bool
        Whether the space is invariant. From a random start it then meets every eigenvalue.
    """

    ritz: Matrix
    basis: Matrix
    images: Matrix
    complete: bool

    def spectrum(self, failure: float, error: float = 0.0) -> Spectrum:
        """Return the spectrum, each limit wrong with probability ``failure``."""
        low, high = float(self.ritz[0]), float(self.ritz[-1])
        gap = 0.0 if self.complete else relative_gap(len(self.basis), self.basis.shape[1], failure)
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
    basis, images, betas = [start / norm(start)], [], []
    size, scale, complete = int(start.shape[0]), 0.0, False
    for step in range(min(steps, size)):
        rest = product(basis[-1])
        images.append(rest)
        scale = max(scale, norm(rest))
        # Twice is enough: once leaves rounding errors along the converged Ritz vectors.
        for u in (*basis, *basis):
            rest = rest - dot(u, rest) * u
        beta = norm(rest)
        complete = step + 1 == size or beta <= rounding(start, 0.5) * scale or scale == 0.0
        if complete:
            break
        basis.append(rest / beta)
        betas.append(beta)
    alphas = [dot(v, image) for v, image in zip(basis, images, strict=False)]
    ritz = scipy.linalg.eigvalsh_tridiagonal(alphas, betas[: len(alphas) - 1])
    kept = stack_rows(basis[: len(images)])
    return Krylov(np.asarray(ritz), kept, stack_rows(images), complete)


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


def blur_of(w: Vector, *, exact: bool) -> float:
    """Return the relative error of eigenvalues made from exact products, or from secants."""
    return 1e3 * rounding(w, 1) if exact else 1e2 * rounding(w, 0.5)


def secant_product(gradient: Product, w: Vector) -> Product:
    """Return ``v ↦ (∇f(w + tv) − ∇f(w))/t``, close to ``∇²f(w) v`` for unit vectors v."""
    # The length t balances rounding against the change of the curvature.
    t = rounding(w, 0.5) * max(1.0, norm(w))
    at_w = gradient(w)
    return lambda v: (gradient(w + t * v) - at_w) / t


def proxy_product(proxy: MeteredProxy, w: Vector) -> Product:
    """Return products with a proxy's Hessian at w, which cost the target nothing."""
    own = proxy.hvp if facts_of(proxy).exact_curvature else None
    return secant_product(proxy.gradient, w) if own is None else lambda v: own(w, v)


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


def symmetric_matrix(product: Product, w: Vector, basis: Matrix | None = None) -> Matrix:
    """Return the matrix of a symmetric operator at w, or its projection on a basis."""
    columns = np.eye(int(w.shape[0])) if basis is None else basis.T
    image = stack_rows(product(from_numpy(column, like=w)) for column in columns).T
    projected = image if basis is None else basis.T @ image
    return np.asarray((projected + projected.T) / 2)


def proxy_hessian(proxy: MeteredProxy, w: Vector, basis: Matrix | None = None) -> Matrix:
    """Return a proxy's Hessian at w, or its projection on a basis."""
    if basis is None and proxy.hessian is not None and facts_of(proxy).exact_curvature:
        P = to_numpy(proxy.hessian(w)).astype(np.float64)
        return np.asarray((P + P.T) / 2)
    return symmetric_matrix(proxy_product(proxy, w), w, basis)


def spectral_norm(matrix: Matrix) -> float:
    """Return the largest singular value."""
    return float(np.linalg.norm(matrix, 2))


def orthonormal(spaces: Sequence[Krylov]) -> tuple[Matrix, Matrix]:
    """Return a basis of all the spaces, as columns, and the matrix that makes it of theirs."""
    vectors = np.concatenate([space.basis for space in spaces]).T
    left, sizes, right = np.linalg.svd(vectors, full_matrices=False)
    kept = sizes > 1e-6 * sizes[0]
    return left[:, kept], right[kept].T / sizes[kept]


def best_scale(target: Matrix, proxy: Matrix) -> float:
    """Return the s ≥ 0 that minimises ``δ(s) = ‖A − sP‖``, which is convex in s.

    Examples
    --------
    >>> round(best_scale(np.diag([1.0, 2.0]), np.diag([10.0, 20.0])), 6)
    0.1
    """
    size, steep = spectral_norm(target), spectral_norm(proxy)
    if size == 0.0 or steep == 0.0:
        return 0.0

    def delta(s: float) -> float:
        return spectral_norm(target / size - s * proxy / steep)

    # From s = 2 on, in these units, δ exceeds the 1 that it has at 0.
    found = scipy.optimize.minimize_scalar(delta, bounds=(0, 2), options={"xatol": 1e-10})
    return float(found.x) * size / steep if found.fun < 1 else 0.0


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
    target, difference : Spectrum
        Of ``∇²L`` and of ``∇²L − ∇²L̂``.
    A : array of shape (m, m)
        The target's Hessian, or its projection on ``basis``.
    P : array of shape (m, m)
        The proxy's Hessian, likewise.
    basis : array of shape (d, m) or None
        Orthonormal columns; None when m = d and nothing was projected.
    noise : array of shape (n, m)
        Rows with ``Σ ≈ noiseᵀ noise / (n − 1)``, in the coordinates of the matrices.
    """

    w: Vector
    gradients: Matrix
    gradient: Matrix
    averaged: int
    target: Spectrum
    difference: Spectrum
    A: Matrix
    P: Matrix
    basis: Matrix | None
    noise: Matrix

    @property
    def residuals(self) -> Matrix:
        """The gradients of the batches minus their mean."""
        return np.asarray(self.gradients - self.gradients.mean(axis=0))

    @property
    def largest(self) -> float:
        """The target's largest curvature, kept above zero for divisions."""
        return max(float(self.target.values[-1]), 1e-300)

    def project(self, rows: Matrix) -> Matrix:
        """Return vectors, one a row, in the coordinates of the matrices."""
        return rows if self.basis is None else rows @ self.basis


@dataclass(frozen=True)
class HessianProbe:
    """Measures the curvature of target and proxy at one point after another.

    Products with the target's Hessian are its own, or secants on ``batches`` where such are given.
    One batch alone is taken as exact. Of several, an even number, two halves are compared. Noise
    may raise the largest of several ``looks``: each gets its part of the failures.
    """

    target: MeteredTarget
    batches: Sequence[Any]
    proxy: MeteredProxy
    looks: int
    rng: np.random.Generator
    confidence: float = 0.95

    @property
    def noisy(self) -> bool:
        """Whether products come from samples, in two halves."""
        return len(self.batches) > 1

    def price(self, products: int) -> int:
        """Return the target gradients that this many products at one point cost."""
        return len(self.batches) * (products + 1) if self.batches else products

    def visit(self, w: Vector, start: Vector, share: int) -> Visit:
        """Measure at w, the curvature with at most ``share`` target gradients."""
        gradients, exact = stack_rows(self.target.gradients(w)), self.target.exact
        full = gradients[0] if exact else self.target.full_gradient(w)
        gradient = gradients.mean(axis=0) if full is None else full
        averaged = len(gradients) if full is None else 0
        # What a run has to undo: the gradient here, and the way back to the start.
        ways = [gradient, to_numpy(start - w).astype(np.float64)]
        direction = from_numpy(np.sum([way / (norm(way) or 1.0) for way in ways], axis=0), like=w)
        scatter = gradients - gradients.mean(axis=0)
        return Visit(w, gradients, gradient, averaged, *self._survey(w, direction, scatter, share))

    def _survey(
        self, w: Vector, direction: Vector, scatter: Matrix, share: int
    ) -> tuple[Spectrum, Spectrum, Matrix, Matrix, Matrix | None, Matrix]:
        """Return spectra, matrices, basis and noise, Krylov spaces of both directions in it."""
        size, failure, halves = int(w.shape[0]), (1 - self.confidence) / 2, self._halves(w)
        factor, error = inflation(size, failure / self.looks), blur_of(w, exact=not self.batches)
        proxy = self.proxy
        proxy_exact = facts_of(proxy).exact_curvature and (
            has(proxy, "hvp") or has(proxy, "hessian")
        )
        if self.price(size) <= share:
            parts = [symmetric_matrix(half, w) for half in halves]
            A = (parts[0] + parts[-1]) / 2
            P = proxy_hessian(proxy, w)
            error = factor * spectral_norm((parts[0] - parts[-1]) / 2) + error * spectral_norm(A)
            shaky = 0.0 if proxy_exact else blur_of(w, exact=False) * spectral_norm(P)
            difference = spectrum_of_matrix(A - P, error + shaky)
            return spectrum_of_matrix(A, error), difference, A, P, None, scatter

        # Krylov spaces of target, difference, direction, noise, and the secants' error.
        affordable = share // len(self.batches) - 1 if self.batches else share
        steps = max(POLICY.least_steps, affordable // (4 + self.noisy))
        shadow = proxy_product(proxy, w)
        images: list[Vector] = []

        def product(v: Vector) -> Vector:
            return reduce(operator.add, (half(v) for half in halves)) / len(halves)

        def apart(v: Vector) -> Vector:
            images.append(product(v))
            return images[-1] - shadow(v)

        own, between = (lanczos(f, random_direction(w, self.rng), steps) for f in (product, apart))
        target = own.spectrum(failure)
        error, slack = error * target.above, blur_of(w, exact=proxy_exact) * target.above
        if self.noisy:
            one, two = halves
            way = random_direction(w, self.rng)
            split = lanczos(lambda v: (one(v) - two(v)) / 2, way, steps)
            error += factor * max(abs(split.ritz[0]), abs(split.ritz[-1]))
        spaces = [own, between._replace(images=stack_rows(images))]
        if norm(direction) > 0:
            spaces.append(lanczos(product, direction, steps))
        # In many dimensions most of the noise lies outside these spaces. All of it takes part
        # through one direction, the batches with signs in turn, whose own space shows how the
        # target curves there.
        former, _ = orthonormal(spaces)
        inside = scatter @ former
        outside = scatter - inside @ former.T
        lost = (-1.0) ** np.arange(len(scatter)) @ outside
        if norm(lost) > 1e-6 * np.linalg.norm(scatter):
            spaces.append(lanczos(product, from_numpy(lost, like=w), steps))
            outside = np.atleast_2d(lost) * (np.linalg.norm(outside) / norm(lost))
        basis, solve = orthonormal(spaces)
        noise = np.concatenate([inside @ (former.T @ basis), outside @ basis])
        # Rows are divided by their number less one.
        noise *= math.sqrt((len(noise) - 1) / max(len(scatter) - 1, 1))
        A = basis.T @ np.concatenate([space.images for space in spaces]).T @ solve
        P = proxy_hessian(proxy, w, basis)
        target, difference = replace(target, error=error), between.spectrum(failure, error + slack)
        return target, difference, (A + A.T) / 2, P, basis, noise

    def _halves(self, w: Vector) -> list[Product]:
        """Return products from two halves of the batches, or the one product without noise."""
        if not self.batches:
            return [lambda v: self.target.hvp(w, v)]
        parts = [self.batches[::2], self.batches[1::2]] if self.noisy else [self.batches]

        def mean_gradient(part: Sequence[Any]) -> Product:
            return lambda w: reduce(operator.add, self.target.gradients(w, part)) / len(part)

        return [secant_product(mean_gradient(part), w) for part in parts]


@dataclass(frozen=True)
class Evidence:
    """All that was measured: the start first, then the points of the path.

    There are fewer visits than asked for where the path ended early, and ``alarm`` says why if that
    leaves nothing to predict.
    """

    probe: HessianProbe
    visits: Sequence[Visit]
    alarm: str

    def model(self) -> QuadraticModel:
        """Return the target's quadratic model around the end of the path, as the start sees it.

        Near the minimum is where a run spends most of its steps, and there the noise is not what it
        is at the start. The start's error is the path walked and what is left to walk.
        """
        start, end = self.visits[0], self.visits[-1]
        A, project = end.A, end.project
        walked = to_numpy(start.w - end.w).astype(np.float64)
        back, left = project(np.stack([walked, end.gradient]))
        # κ of E‖(A_b − A)e‖² ≈ κ eᵀAe tr A, from the batches seen at both ends; on a subspace
        # relative to the noise: tr A is not known there.
        subspace, apart = end.basis is not None, start.residuals - end.residuals
        scale = float(np.sum(end.residuals**2)) / 2 if subspace else np.trace(A) * (len(apart) - 1)
        growth, size = 0.0, float(back @ A @ back) * float(scale)
        if len(apart) > 1 and size > 0:
            growth = float(np.sum(apart**2)) / size
        H = start.largest, end.largest
        bend = (max(H) - min(H)) / max(H)
        tail = max(tail_weight(end.residuals), tail_weight(apart))
        return QuadraticModel(A, left, back, end.noise, end.averaged, growth, bend, subspace, tail)

    def shares(self, scale: float) -> list[float]:
        """Return δ/H at every point, for the scaled proxy."""
        sizes = (spectral_norm(v.A - scale * v.P) for v in self.visits)
        return [size / visit.largest for size, visit in zip(sizes, self.visits, strict=True)]

    def proxy_matrices(self, scale: float) -> tuple[Matrix, ...]:
        """Return the Hessians to rehearse with: at the end, and where δ exceeds H before it.

        Inputs in the wrong unit give a proxy that is steep at the start and saturated at the end,
        where it looks harmless: a run begins at the start, and stays there. Hessians before the end
        are taken relative to the target's H there, which may have changed as well.
        """
        *before, end = self.visits
        found = [scale * end.P]
        for visit, share in zip(before, self.shares(scale), strict=False):
            if share > 1:
                whole = visit.basis is end.basis is None
                P = visit.P if whole else proxy_hessian(self.probe.proxy, visit.w, end.basis)
                found.append(scale * P * (end.largest / visit.largest))
        return tuple(found)
