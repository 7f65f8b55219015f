"""The Gaussian mechanism as an objective: rows' gradients are clipped, summed and perturbed.

Nothing else touches private rows. Clip, metric, noise and the number of releases are fixed before
the first access and follow from arguments and public rows alone.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse
from scipy.special import ndtri

from proxyprox._util import validation as check
from proxyprox._util.arrays import BLOCK, Matrix, Vector, digest, from_numpy, to_numpy
from proxyprox._util.validation import Words, message
from proxyprox.inner.exact import find_minimum
from proxyprox.private.accounting import (
    MOST_RELEASES,
    Guarantee,
    PrivacyBudget,
    PrivacyBudgetError,
    gaussian_mu,
    require_delta,
    total_epsilon,
)
from proxyprox.private.policy import PRIVATE
from proxyprox.private.reading import (
    Scaling,
    read_labels,
    read_rows,
    row_norms,
    row_units,
    scale_rows,
)
from proxyprox.problems.families import Family
from proxyprox.problems.glm import GLM
from proxyprox.problems.protocols import Facts

Array = Any

# Clips beyond it or below its inverse would make sums that are no floats.
LARGEST = 1e100


def draw_noise(size: int) -> Array:
    """Return standard normal numbers from the operating system's entropy.

    Each is half the sum of four: a single one has too few last digits to hide a sum in. No
    generator is involved whose state could be recovered from what it drew.
    """
    bits = np.frombuffer(secrets.token_bytes(32 * size), dtype=np.uint64).reshape(4, size)
    uniform = ((bits >> np.uint64(11)) + 0.5) * 2.0**-53
    return np.asarray(ndtri(uniform).sum(axis=0) / 2)


class Metric:
    """``‖g‖² = gᵀ(H + damping·I)⁻¹g``, in which gradients are clipped and noise is added.

    For rows' gradients of covariance H this shape of the noise is the best for a Newton step.

    Parameters
    ----------
    hessian : array of shape (d, d)
        A Hessian of public rows.
    damping : float
        Added to its diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> metric = Metric(np.diag([3.0, 0.0]), damping=1.0)
    >>> abs(metric.whiten(np.array([2.0, 2.0]))).round(6).tolist()
    [2.0, 1.0]
    """

    def __init__(self, hessian: Matrix, damping: float) -> None:
        self.damping = check.positive("damping", damping)
        found = to_numpy(check.square_matrix("hessian", hessian)).astype(np.float64)
        values, vectors = np.linalg.eigh(found)
        scales = np.sqrt(np.maximum(values, 0.0) + self.damping)
        order = np.argsort(scales)
        self.matrix = vectors[:, order] / scales[order]
        self._inverse = vectors[:, order] * scales[order]
        self.dim = len(scales)

    @classmethod
    def of(cls, loss: Any, w: Vector | None = None, damping: float = 1e-3) -> Metric:
        """Return the metric of a public loss at a point, by default its minimum."""
        if not (check.offers(loss, "hessian") and hasattr(loss, "dim")):
            raise TypeError(message("metric", loss, "a Metric, or a loss with hessian(w)"))
        w = find_minimum(loss, np.zeros(loss.dim)) if w is None else w
        return cls(loss.hessian(np.zeros(loss.dim) if w is None else w), damping)

    def whiten(self, gradients: Array) -> Array:
        """Return gradients (one, or one a row) in coordinates where the metric is Euclidean."""
        return gradients @ self.matrix

    def unwhiten(self, whitened: Array) -> Array:
        """Return a gradient from those coordinates."""
        return self._inverse @ whitened

    def with_eigenvalues(self, values: Array) -> Array:
        """Return the matrix that has the metric's directions and these eigenvalues."""
        directions = self.matrix / np.linalg.norm(self.matrix, axis=0)
        return (directions * values) @ directions.T

    @property
    def known(self) -> Array:
        """``h/(h + damping)`` in each whitened direction, for its curvature h."""
        return np.clip(1 - self.damping * (self.matrix**2).sum(axis=0), 0.0, 1.0)

    @property
    def degrees_of_freedom(self) -> float:
        """``tr H(H + damping)⁻¹``: the directions that the public rows know."""
        return float(self.known.sum())

    def __repr__(self) -> str:
        return f"Metric of {self.dim} parameters, damping {self.damping:.3g}"


class Euclidean:
    """The metric of ordinary clipping and noise."""

    def __init__(self, dim: int) -> None:
        self.dim, self.known = dim, np.ones(dim)

    def whiten(self, gradients: Array) -> Array:
        """Return gradients as they are."""
        return gradients

    unwhiten = whiten


class PrivateRows:
    """The loss of private rows, of which only clipped sums can be had; nothing about them raises.

    A row that is not finite or has an unknown label counts as absent; one that is longer than
    ``bound`` is scaled to it. Errors are about shapes and arguments only. Entries are numbers of
    Python and NumPy, or text that spells one; objects with code of their own are no numbers.

    Parameters
    ----------
    X : array, DataFrame or sparse matrix of shape (n, p)
        Inputs.
    y : array of shape (n,)
        Labels.
    family : Family
        What labels are, with all classes named: ``Logistic((0, 1))``.
    intercept : bool
        Whether a constant is fitted.
    bound : float, optional
        The largest norm of a row of X, without the constant.
    scaling : Scaling, optional
        What is done to each row in place of ``bound``; it follows from public rows.
    label_bound : float, optional
        Numeric labels beyond ±label_bound are set to it.
    columns : int, optional
        How many columns X has, of which public rows may tell; by default as many as most rows of a
        list have.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox.problems.families import Logistic
    >>> rows = PrivateRows([[1.0], [np.nan], [1e9]], [1, 1, 0], Logistic((0, 1)), bound=1.0)
    >>> rows.clipped_sum(np.zeros(1), clip=0.25)
    array([0.])
    """

    def __init__(
        self, X: Any, y: Any, family: Family, *, intercept: bool = False,
        bound: float | None = None, scaling: Scaling | None = None,
        label_bound: float | None = None, columns: int | None = None,
    ) -> None:  # fmt: skip
        check.instance("family", family, Family, "a family such as Logistic((0, 1))")
        for name, given in (("bound", bound), ("label_bound", label_bound)):
            if given is not None:
                check.positive(name, given)
        if columns is not None:
            check.whole("columns", columns)
        scaling = Scaling(bound) if scaling is None else scaling
        check.instance("scaling", scaling, Scaling, "a Scaling")
        X, valid = read_rows(X, columns, scaling)
        targets, known = read_labels(y, family, label_bound)
        if len(targets) != X.shape[0]:
            raise ValueError(message("y", Words("another number of labels"), "one for each row"))
        self.family, self.intercept = family, check.flag("intercept", intercept)
        used = np.flatnonzero(valid & known)
        self._X, self._targets, self.columns = X[used], targets[used], int(X.shape[1])
        self._lengths: tuple[Any, Array] | None = None
        self.dim = (self.columns + self.intercept) * family.outputs

    def zeros(self) -> Vector:
        """Return the zero vector of parameters."""
        return np.zeros(self.dim)

    def clipped_sum(self, w: Vector, *, clip: float, metric: Any = None) -> Array:
        """Return ``Σ clip(M g_i)`` over the rows: not private before noise is added.

        Parameters
        ----------
        w : array
            Where.
        clip : float
            The largest norm of a row's whitened gradient.
        metric : Metric, optional
            Its coordinates; Euclidean by default.
        """
        check.positive("clip", clip)
        check.require_point("w", w, self.dim)
        metric = Euclidean(self.dim) if metric is None else metric
        if self.family.outputs == 1:
            return self._weighted_sum(w, clip, metric)
        total = np.zeros(self.dim)
        for rows in self._blocks(self.dim):
            X = _dense(self._X[rows], intercept=self.intercept)
            slopes = row_slopes(X, self._targets[rows], self.family, w)
            for _, units, lengths in whitened_gradients(X, slopes, metric):
                total += units.T @ np.minimum(lengths, clip)
        return total

    def _weighted_sum(self, w: Vector, clip: float, metric: Any) -> Array:
        """Return ``M Σ c_i x_i``: gradients are slopes times rows, whose lengths stay the same."""
        if self._lengths is None or self._lengths[0] is not metric:
            found = np.empty(self.count())
            for rows in self._blocks(self.dim):
                a = _dense(self._X[rows], intercept=self.intercept)
                with np.errstate(all="ignore"):
                    found[rows] = unit_rows(metric.whiten(a))[1]
            self._lengths = (metric, found)
        lengths, last = self._lengths[1], len(w) - self.intercept
        with np.errstate(all="ignore"):
            slopes = self.family.slope(self._X @ w[:last] + w[last:].sum(), self._targets)
            slopes = np.nan_to_num(slopes, nan=0.0, posinf=LARGEST, neginf=-LARGEST)
            most = clip / lengths
            factors = np.where(np.isfinite(lengths), np.clip(slopes, -most, most), 0.0)
        total = np.asarray(self._X.T @ factors).ravel()
        total = np.append(total, factors.sum()) if self.intercept else total
        return np.asarray(metric.whiten(total))

    def clipped_moments(self, *, clip: float, kind: str = "squares") -> Array:
        """Return the sum of rows' moments, each row's clipped: not private either.

        Parameters
        ----------
        clip : float
            The largest norm of a row's moments.
        kind : {"squares", "means", "products"}
            ``x²``, ``(x/2, x²)`` or all products of ``(x, ½)``.
        """
        check.positive("clip", clip)
        total: Any = 0.0
        for rows in self._blocks(2 * self.columns):
            x = _dense(self._X[rows], intercept=False)
            with np.errstate(all="ignore"):
                wide = np.hstack([x, np.full((len(x), 1), 0.5)])
                parts = {"squares": x * x, "means": np.hstack([x / 2, x * x]), "products": wide}
            units, lengths = unit_rows(parts[kind])
            if kind == "products":
                a = units * np.minimum(lengths, math.sqrt(clip))[:, None]
                total = total + (a.T @ a).ravel()
            else:
                total = total + units.T @ np.minimum(lengths, clip)
        return np.asarray(total)

    def count(self) -> int:
        """Return how many rows can be used: not private either."""
        return len(self._targets)

    def _blocks(self, width: int) -> Iterator[slice]:
        # One at least, whose sums have the shape that is asked for.
        step = max(1, BLOCK // max(width, 1))
        return (slice(start, start + step) for start in range(0, max(self.count(), 1), step))


def row_slopes(X: Array, targets: Array, family: Family, w: Vector) -> Array:
    """Return finite slopes of dense rows, a column for each output."""
    with np.errstate(all="ignore"):
        z = X @ w.reshape(-1, family.outputs)
        several = family.outputs > 1
        targets = np.eye(family.outputs)[targets.astype(int)] if several else targets[:, None]
        slopes = family.slope(z, targets)
    return np.nan_to_num(slopes, nan=0.0, posinf=LARGEST, neginf=-LARGEST)


def whitened_gradients(
    X: Array, slopes: Array, metric: Any
) -> Iterator[tuple[slice, Array, Array]]:
    """Yield blocks of rows' gradients ``x_i ⊗ slopes_i``: which rows, directions and lengths.

    Directions are unit vectors in the metric, zero for a row whose gradient is not finite there.
    """
    step = max(1, BLOCK // metric.dim)
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        with np.errstate(all="ignore"):
            each = (X[rows, :, None] * slopes[rows, None, :]).reshape(-1, metric.dim)
            units, lengths = unit_rows(metric.whiten(each))
        yield rows, units, lengths


def unit_rows(rows: Array) -> tuple[Array, Array]:
    """Return rows of length one, and their lengths; zeros for those that are not finite."""
    with np.errstate(all="ignore"):
        rows = np.where(np.isfinite(rows).all(axis=1)[:, None], rows, 0.0)
        units, largest = row_units(rows)
        norms = row_norms(units)
        return scale_rows(units, 1 / np.where(norms > 0, norms, 1.0)), largest * norms


# -- the objective --------------------------------------------------------------------------------

REASON = "every access to private rows costs privacy, and this one is not in the plan"


class Private:
    r"""Gradients of private rows, released by the Gaussian mechanism: an objective for any method.

    .. math:: \tilde g(w) = \frac1n\,M^{-1}\Big(\sum_i \mathrm{clip}_C(M\nabla\ell_i(w))
              + \sigma C\,\xi\Big) + \ell_2 w

    with M the metric's whitening and n the nominal number of rows. Values, halves and second
    points of a batch are not offered, ``eta="auto"``, ``safeguard`` and audits are refused, and so
    is the release after the last one planned.

    Parameters
    ----------
    objective : PrivateRows or object
        The private rows. An object of your own has ``dim``, ``zeros()`` and
        ``clipped_sum(w, *, clip, metric)``.
    epsilon, delta : float
        The cost of all the releases together.
    releases : int
        How many gradients may be asked for.
    n_nominal : int
        A public number that stands for the number of rows: the true one is private.
    clip : float
        The largest norm C of a row's gradient, in the metric.
    metric : Metric or GLM, optional
        A public metric, or the public loss that has it; Euclidean by default.
    matched : GLM, optional
        A public loss: what clipping does to *its* rows, whose labels are as likely as the model at
        w says, is undone. ``g̃ − E clip(g)``, over the share κ that clipping keeps of a gradient, is
        an estimate of the gradient for which C may be small.
    moments, count : float
        Shares of the budget (of ε², about) for :meth:`second_moments` and :meth:`count_rows`; 0
        for none.
    l2 : float
        Strength of an L2 term, which costs nothing.
    budget : PrivacyBudget, optional
        What is charged; by default one of (epsilon, delta) for this object alone.
    name : str, optional
        A name in the budget's file by which a killed run is resumed.

    Examples
    --------
    >>> import numpy as np
    >>> import proxyprox as pp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2))
    >>> y = X @ [1.0, -1.0] + 0.1 * rng.normal(size=3000) > 0
    >>> public = pp.logistic_regression(X[:1000], y[:1000], l2=0.01)
    >>> rows = PrivateRows(X[1000:], y[1000:], public.family)
    >>> target = Private(
    ...     rows, epsilon=1.0, delta=1e-5, releases=3, n_nominal=2000, clip=2.0, metric=public,
    ...     l2=0.01,
    ... )
    >>> result = pp.minimize(pp.Problem(target, public), method=pp.ProxyProx(eta=10.0), steps=3)
    >>> print(target.spent)
    ε = 1 at δ = 1e-05, add or remove one row; full batch, 3 releases; exact Gaussian DP
    """

    exact: ClassVar[bool] = False
    repeatable: ClassVar[bool] = False
    _refuses: ClassVar[dict[str, str]] = {
        "measured step sizes": f'eta="auto" compares gradients at two points: {REASON}',
        "safeguard": f"it holds samples out and runs rivals on them: {REASON}",
        "audit": f"it asks for gradients to measure δ, σ and H: {REASON}",
    }

    def __init__(
        self, objective: Any, *, epsilon: float, delta: float, releases: int, n_nominal: int,
        clip: float, metric: Any = None, matched: Any = None, moments: float = 0.0,
        count: float = 0.0, l2: float = 0.0, budget: PrivacyBudget | None = None,
        name: str | None = None,
    ) -> None:  # fmt: skip
        self.n_nominal = check.whole("n_nominal", n_nominal)
        delta = require_delta(delta, self.n_nominal)
        epsilon = check.positive("epsilon", epsilon)
        self.clip, self.l2 = require_clip(clip), check.nonnegative("l2", l2)
        rows = self._rows = objective
        if not check.offers(rows, "zeros", "clipped_sum") or not hasattr(rows, "dim"):
            raise TypeError(message("objective", rows, "PrivateRows, or an object like them"))
        self.dim, self.zeros = self._rows.dim, self._rows.zeros
        metric = Euclidean(self.dim) if metric is None else metric
        self.metric: Any = metric if check.offers(metric, "whiten") else Metric.of(metric)
        if self.metric.dim != self.dim:
            got = Words(f"{self.metric.dim} parameters")
            raise ValueError(message("metric", got, f"of {self.dim}, as the objective's"))
        if matched is not None:
            check.instance("matched", matched, GLM, "a GLM of public rows")
        self.releases = check.whole("releases", releases, most=MOST_RELEASES)
        self.matched, self.delta = matched, delta
        self._plan = plan_releases(epsilon, delta, self.releases, moments, count)
        # The first releases, if they have a share: their places in the plan.
        shares = [name for name, share in (("count", count), ("moments", moments)) if share]
        self._places = {name: place for place, name in enumerate(shares)}
        # What sums are divided by.
        self.size = float(self.n_nominal)
        self.sigma = self._plan[-1]
        if not self.sigma * self.clip < LARGEST**2:
            allowed = f"so small that noise of {self.sigma:.3g} times it is a number"
            raise ValueError(message("clip", clip, allowed))
        self.budget = PrivacyBudget(epsilon=epsilon, delta=delta) if budget is None else budget
        check.instance("budget", self.budget, PrivacyBudget, "a PrivacyBudget")
        settings = {
            "epsilon": epsilon, "delta": delta, "clip": self.clip, "n_nominal": self.n_nominal,
            "metric": digest(self._matrix),
        }  # fmt: skip
        self.name = self.budget.open(name, self._plan, settings, holder=self)
        self._asked, self._penalty = 0, np.zeros((1, self.dim))

    # -- what a run asks ----------------------------------------------------------------------

    def sample(self, rng: np.random.Generator) -> int:
        """Return the number of the next release."""
        return self._asked

    def samples(self, batch: int) -> int:
        """Return the expected number of rows, of which the true one is private."""
        return self.n_nominal

    def epsilon(self, gradients: int) -> float:
        """Return ε after a number of gradients."""
        if not check.whole("gradients", gradients, 0):
            return 0.0
        made = self._plan[: len(self._plan) - self.releases + gradients]
        return total_epsilon(made, self.delta)

    def gradient(self, w: Vector, batch: int | None = None) -> Vector:
        """Return the next release, at a point; each batch has one.

        Raises
        ------
        PrivacyBudgetError
            If all planned releases are made, or the budget is spent; nothing is released then.
        """
        k = self._asked if batch is None else batch
        if k != self._asked:
            raise PrivacyBudgetError(f"Release {k} was made already, at one point: {REASON}.")
        if k >= self.releases:
            raise PrivacyBudgetError(
                f"All {self.releases} planned releases are made. More need another plan: noise "
                "is calibrated to their number before the first."
            )
        point = to_numpy(check.vector("w", w, self.dim)).astype(np.float64)

        total = partial(self._rows.clipped_sum, w, clip=self.clip, metric=self.metric)
        place, question = k + len(self._plan) - self.releases, digest(point, self._matrix)
        mean = self._release(place, question, total, self.clip)
        self._asked = k + 1
        if self.matched is not None:
            # What clipping does to rows that the public model describes is undone.
            at = clipping(self.matched, point, self.metric, self.clip)
            mean = (mean - at.clipped) / at.kept + at.whole
        penalty = self.l2 * point + self._penalty @ point
        return from_numpy(self.metric.unwhiten(mean) + penalty, like=w)

    @property
    def _matrix(self) -> Any:
        return getattr(self.metric, "matrix", None)

    def second_moments(self, clip: float, kind: str = "squares") -> tuple[Array, float]:
        """Return the noisy mean of rows' moments, released once, and its noise's sd.

        Parameters
        ----------
        clip : float
            The largest norm of a row's moments, from public rows.
        kind : {"squares", "means", "products"}
            As in ``PrivateRows.clipped_moments``.
        """
        check.one_of("kind", kind, ("squares", "means", "products"))
        clip, place = require_clip(clip), self._place("moments")
        total = partial(self._rows.clipped_moments, clip=clip, kind=kind)
        mean = self._release(place, f"{kind} {clip!r}", total, clip)
        return mean, self._plan[place] * clip / self.size

    def count_rows(self) -> tuple[float, float]:
        """Return the noisy number of rows that can be used, released once, and its noise's sd."""
        place = self._place("count")
        mean = self._release(place, "count", self._rows.count, 1.0)
        return self.size * float(mean[0]), self._plan[place]

    def _place(self, name: str) -> int:
        if name not in self._places:
            raise PrivacyBudgetError(f"{name}=0: no such release is in the plan.")
        return self._places[name]

    def adjust(
        self, *, size: float | None = None, metric: Metric | None = None,
        clip: float | None = None, matched: GLM | None = None, penalty: Array | None = None,
    ) -> None:  # fmt: skip
        """Change parts before the first gradient, by public numbers and released ones.

        Parameters
        ----------
        size : float, optional
            What sums are divided by, in place of ``n_nominal``.
        metric, clip, matched : optional
            As in the constructor.
        penalty : array of shape (d, d), optional
            ``½ wᵀ penalty w`` is added to the loss, which costs nothing.
        """
        if self._asked:
            raise PrivacyBudgetError("All but releases is fixed before the first gradient.")
        self.size = self.size if size is None else check.positive("size", size)
        self.metric = self.metric if metric is None else metric
        self.clip = self.clip if clip is None else require_clip(clip)
        self.matched = self.matched if matched is None else matched
        self._penalty = self._penalty if penalty is None else penalty

    # -- what was spent -----------------------------------------------------------------------

    @property
    def spent(self) -> Guarantee:
        """What this object's releases have cost, as far as the budget's journal knows."""
        return self.budget.guarantee(self.name)

    @property
    def planned(self) -> tuple[float, ...]:
        """σ of all releases of the plan, in order."""
        return tuple(self._plan)

    @property
    def gradient_source(self) -> str:
        """How gradients are made, for results."""
        planned = Guarantee.of(self._plan, self.delta)
        return f"clipped at {self.clip:.3g}, Gaussian noise; planned: {planned}"

    @property
    def noise_variance(self) -> float:
        """``E‖ξ‖²`` of a release's noise, in the metric."""
        return float(self.dim * (self.sigma * self.clip / self.size) ** 2)

    @property
    def facts(self) -> Facts:
        """What else is known of the loss."""
        return Facts(
            gradient_source=self.gradient_source, most_gradients=self.releases,
            refuses=self._refuses, start=self.zeros(), settings={"l2": self.l2}, memory=self,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Private({type(self._rows).__name__}, {self.gradient_source})"

    def state_dict(self) -> dict[str, Any]:
        """Return which release is next, and in which budget: nothing private."""
        return {"asked": self._asked, "budget": self.budget.id, "name": self.name}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume a run; another budget or name is refused."""
        for key, own in (("budget", self.budget.id), ("name", self.name)):
            if state[key] != own:
                raise PrivacyBudgetError(
                    f"The saved run was charged to another {key}: its releases would be paid for "
                    "twice. Give the file and the name that it began with."
                )
        self._asked = check.whole("asked", state["asked"], 0)

    def _release(self, k: int, point: str, total: Callable[[], Any], clip: float) -> Array:
        """Charge, draw, journal and only then return the noisy mean."""
        sigma = self._plan[k]
        mean = self.budget.charge(self.name, k, sigma, point)
        if mean is None:
            exact = np.atleast_1d(total())
            # The journal holds sums over n_nominal.
            mean = (exact + sigma * clip * draw_noise(exact.size)) / self.n_nominal
            mean = self.budget.enter_release(self.name, k, mean)
        return np.asarray(mean) * (self.n_nominal / self.size)


def plan_releases(
    epsilon: float, delta: float, gradients: int, moments: Any = 0.0, count: Any = 0.0
) -> list[float]:
    """Return σ of the releases that cost ε at δ: first count and moments, if they have shares."""
    shares = [check.below_one("count", count), check.below_one("moments", moments)]
    rest = check.positive("moments: what it and count leave of 1", 1 - sum(shares))
    mu = gaussian_mu(epsilon, delta)
    first = [1 / (mu * math.sqrt(share)) for share in shares if share]
    return [*first, *[math.sqrt(gradients / rest) / mu] * gradients]


def require_clip(clip: Any) -> float:
    """Return a clip if the sums of clipped rows are certain to be numbers."""
    number = check.positive("clip", clip)
    if not 1 / LARGEST <= number <= LARGEST:
        raise ValueError(message("clip", clip, f"from {1 / LARGEST:g} to {LARGEST:g}"))
    return number


class Clipping(NamedTuple):
    """What clipping does to public rows' gradients g at a point, in the metric.

    For labels y of the model, ``d E[clip(g)]/d E[y] = E[clip(g)gᵀ]·E[ggᵀ]⁻¹``, of which ``kept`` is
    the mean over directions.
    """

    clipped: Array
    whole: Array
    length: float
    kept: float
    spread: float


def clipping(public: GLM, w: Vector, metric: Any, clip: float = math.inf) -> Clipping:
    """Return means of ``clip(g)`` and g, ``√E‖g‖²``, ``E‖g‖‖clip(g)‖/E‖g‖²`` and its variance.

    The variance is ``E‖clip(g)‖²/E‖g‖²``. Labels of a classifier are as likely as the model at w
    says; other models have those of the rows. Without such labels nothing is known: half of
    ``label_scale`` stands for a slope, and the means are zero.
    """
    X, family = _dense(public.design.X, intercept=public.design.intercept), public.family
    clipped, whole, sums = np.zeros(len(w)), np.zeros(len(w)), np.zeros(3)
    for targets, weights in _public_cases(public, X, w):
        slopes = row_slopes(X, targets, family, w)
        for rows, units, lengths in whitened_gradients(X, slopes, metric):
            cut, weighed = np.minimum(lengths, clip), weights[rows]
            clipped += units.T @ (cut * weighed)
            whole += units.T @ (lengths * weighed)
            sums += [weighed @ lengths**2, weighed @ (lengths * cut), weighed @ cut**2]
    squares, products, cuts = sums / len(X)
    if not squares > 0:
        return Clipping(clipped, whole, 0.0, 1.0, 1.0)
    # Without curvature at w (all labels certain) no direction can be told: 1 % is kept at least.
    kept = max(products / squares, 0.01)
    if family.classifier:
        whole[:] = 0.0
    n = len(X)
    return Clipping(clipped / n, whole / n, math.sqrt(squares), kept, cuts / squares)


def _public_cases(public: GLM, X: Array, w: Vector) -> list[tuple[Array, Array]]:
    """Return possible targets of public rows, and how likely they are."""
    family, n = public.family, len(X)
    if not family.classifier:
        return [] if public.targets is None else [(public.targets, np.ones(n))]
    p = family.mean(X @ w.reshape(-1, family.outputs)).reshape(n, -1)
    p = np.hstack([1 - p, p]) if family.outputs == 1 else p
    return [(np.full(n, float(c)), p[:, c]) for c in range(p.shape[1])]


def _dense(X: Any, *, intercept: bool) -> Array:
    X = np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, dtype=np.float64)
    return np.hstack([X, np.ones((len(X), 1))]) if intercept else X


@dataclass(frozen=True)
class JamesStein:
    r"""The mean of all differences, shrunk by what its noise explains of its length.

    .. math:: m = \frac1K\sum_k d_k,\quad
              \theta_j = \frac{s\,t_j}{s\,t_j + v_j},\quad
              s = \frac{\sum_j t_j (m_j^2 - v_j)}{\sum_j t_j^2}

    in the metric's coordinates, with ``v_j`` the variance of ``m_j`` and ``s·t_j`` the size that is
    expected of a difference there. It is expected as rows' gradients are, ``t = h/(h + λ)`` for a
    curvature h: nothing is believed where the metric is damping alone. For equal ``t_j`` this is
    the James–Stein weight ``max(0, 1 − v/‖m‖²)``.

    Parameters
    ----------
    metric : Metric
        In which lengths are measured.
    noise : float
        ``E‖ξ‖²`` of one difference's noise there: ``Private.noise_variance``.
    sampling : float
        The variance that the rows themselves bring, the same for all differences.
    expected : float
        The s of public rows that are drawn as the private ones are, one over their number. It
        stands unless the differences are clearly longer.

    Examples
    --------
    >>> rule = JamesStein(Metric(np.eye(2), damping=1e-9), noise=1.0)
    >>> rule.estimate(rule(np.array([1.0, 1.0]), None, None, 0)).round(3)
    array([0.5, 0.5])
    """

    metric: Any
    noise: float
    sampling: float = 0.0
    expected: float = 0.0
    two_points: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the metric and the numbers."""
        if not check.offers(self.metric, "whiten", "unwhiten"):
            raise TypeError(message("metric", self.metric, "a Metric"))
        for name in ("noise", "sampling", "expected"):
            check.nonnegative(name, getattr(self, name))

    def __call__(self, difference: Vector, before: Vector | None, memory: Any, k: int) -> Any:
        """Return the mean, and of how many differences it is."""
        mean, count = (0.0 * difference, 0) if memory is None else memory
        return mean + (difference - mean) / (count + 1), count + 1

    def estimate(self, memory: Any) -> Vector:
        """Return the shrunken mean."""
        mean, count = memory
        whitened, t = self.metric.whiten(mean), self.metric.known
        sampling = self.sampling * t / max(float(t.sum()), 1e-300)
        variance = self.noise / count / len(t) + sampling
        norm = max(float(t @ t), 1e-300)
        size = max(0.0, float(t @ (whitened**2 - variance)) / norm)
        if self.expected:
            # P(Σ aᵢ(ξᵢ² − 1) ≥ 2√x‖a‖ + 2x max a) ≤ exp(−x) for normal ξ: Laurent and Massart.
            a, x = t * (self.expected * t + variance) / norm, PRIVATE.surprise
            chance = 2 * math.sqrt(x) * float(np.linalg.norm(a)) + 2 * x * float(a.max())
            size = size if size > self.expected + chance else self.expected
        return np.asarray(self.metric.unwhiten(size * t / (size * t + variance) * whitened))
