"""The Gaussian mechanism as an objective: rows' gradients are clipped, summed and perturbed.

Nothing else touches private rows. Clip, metric, noise, sampling rate and the number of releases
are fixed before the first access and follow from arguments and public rows alone.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from scipy.special import ndtri

from proxyprox._util import validation as check
from proxyprox._util.arrays import Matrix, Vector, from_numpy, to_numpy
from proxyprox._util.digests import digest
from proxyprox._util.validation import Words, message
from proxyprox.inner.exact import find_minimum
from proxyprox.private.accounting import (
    Guarantee,
    NotPrivateWarning,
    PrivacyBudget,
    PrivacyBudgetError,
    Release,
    gaussian_mu,
    noise_multiplier,
    require_delta,
    total_epsilon,
)
from proxyprox.problems.families import Family
from proxyprox.problems.glm import GLM

Array = Any

# Entries of the blocks of rows whose whitened gradients are formed.
BLOCK = 1 << 20


def draw_noise(size: int) -> Array:
    """Return standard normal numbers from the operating system's entropy.

    Each is half the sum of four: a single one has too few last digits to hide a sum in. No
    generator is involved whose state could be recovered from what it drew.
    """
    bits = np.frombuffer(secrets.token_bytes(32 * size), dtype=np.uint64).reshape(4, size)
    return np.asarray(ndtri(((bits >> np.uint64(11)) + 0.5) * 2.0**-53).sum(axis=0) / 2)


def draw_rows(rows: int, rate: float) -> Array:
    """Return which rows a Poisson sample has, from the operating system's entropy."""
    bits = np.frombuffer(secrets.token_bytes(8 * rows), dtype=np.uint64)
    return (bits >> np.uint64(11)) * 2.0**-53 < rate


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
        matrix = to_numpy(check.square_matrix("hessian", hessian))
        values, vectors = np.linalg.eigh(matrix.astype(np.float64))
        scales = np.sqrt(np.maximum(values, 0.0) + self.damping)
        order = np.argsort(scales)
        self.matrix = vectors[:, order] / scales[order]
        self._inverse = vectors[:, order] * scales[order]
        self.dim = len(scales)

    @classmethod
    def of(cls, loss: Any, w: Vector | None = None, damping: float = 1e-3) -> Metric:
        """Return the metric of a public loss at a point, by default its minimum."""
        start = loss.zeros() if w is None else w
        found = find_minimum(loss, start) if w is None else w
        return cls(loss.hessian(start if found is None else found), damping)

    def whiten(self, gradients: Array) -> Array:
        """Return gradients (one, or one a row) in coordinates where the metric is Euclidean."""
        return gradients @ self.matrix

    def unwhiten(self, whitened: Array) -> Array:
        """Return a gradient from those coordinates."""
        return self._inverse @ whitened

    @property
    def known(self) -> Array:
        """``h/(h + damping)`` in each whitened direction, for its curvature h."""
        return np.clip(1 - self.damping * (self.matrix**2).sum(axis=0), 0.0, 1.0)

    def __repr__(self) -> str:
        return f"Metric of {self.dim} parameters, damping {self.damping:.3g}"

    @property
    def degrees_of_freedom(self) -> float:
        """``tr H(H + damping)⁻¹``: the directions that the public rows know."""
        return float(self.known.sum())


class Euclidean:
    """The metric of ordinary clipping and noise."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def whiten(self, gradients: Array) -> Array:
        """Return gradients as they are."""
        return gradients

    unwhiten = whiten


class PrivateRows:
    """The loss of private rows, of which only clipped sums can be had; nothing about them raises.

    A row that is not finite or has an unknown label counts as absent; one that is longer than
    ``bound`` is scaled to it. Errors are about shapes and arguments only.

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
    scale : array of shape (p,), optional
        What columns are divided by, after the bound was applied.
    label_bound : float, optional
        Numeric labels beyond ±label_bound are set to it.
    columns : int, optional
        How many columns X has, of which public rows may tell.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox.problems.families import Logistic
    >>> rows = PrivateRows([[1.0], [np.nan], [1e9]], [1, 1, 0], Logistic((0, 1)), bound=1.0)
    >>> rows.clipped_sum(np.zeros(1), clip=0.25)
    array([0.])
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        family: Family,
        *,
        intercept: bool = False,
        bound: float | None = None,
        scale: Array | None = None,
        label_bound: float | None = None,
        columns: int | None = None,
    ) -> None:
        check.instance("family", family, Family, "a family such as Logistic((0, 1))")
        if bound is not None:
            check.positive("bound", bound)
        if columns is not None:
            check.whole("columns", columns)
        if label_bound is not None:
            check.positive("label_bound", label_bound)
        if scale is not None:
            scale = to_numpy(check.vector("scale", scale))
        X, valid = _read_rows(X, columns, bound, scale)
        targets, known = _read_labels(y, family, label_bound)
        if len(targets) != X.shape[0]:
            raise ValueError(message("y", Words("another number of labels"), "one for each row"))
        self.family, self.intercept = family, check.flag("intercept", intercept)
        self._valid = valid & known
        self._X, self._targets = X, targets
        self.rows, self.columns = (int(size) for size in X.shape)
        self.dim = (self.columns + self.intercept) * family.outputs

    @classmethod
    def of(cls, loss: GLM) -> PrivateRows:
        """Return the rows of a model, without its L2 term; weighted rows are refused."""
        if loss.targets is None or not (loss.sample_weight == 1).all():
            raise ValueError(message("objective", loss, "a GLM with labels and without weights"))
        design, labels = loss.design, loss.targets
        classes = getattr(loss.family, "classes", None)
        labels = labels if classes is None else np.asarray(classes)[labels.astype(int)]
        X = design.X if design.sparse else to_numpy(design.X)
        return cls(X, labels, loss.family, intercept=design.intercept)

    def zeros(self) -> Vector:
        """Return the zero vector of parameters."""
        return np.zeros(self.dim)

    def clipped_sum(
        self, w: Vector, *, clip: float, metric: Any = None, keep: Array | None = None
    ) -> Array:
        """Return ``Σ clip(M g_i)`` over the rows kept: not private before noise is added.

        Parameters
        ----------
        w : array
            Where.
        clip : float
            The largest norm of a row's whitened gradient.
        metric : Metric, optional
            Its coordinates; Euclidean by default.
        keep : bool array of shape (n,), optional
            A sample of the rows.
        """
        metric = Euclidean(self.dim) if metric is None else metric
        chosen = np.flatnonzero(self._valid if keep is None else self._valid & keep)
        total = np.zeros(self.dim)
        for start in range(0, len(chosen), step := max(1, BLOCK // max(self.dim, 1))):
            rows = chosen[start : start + step]
            X = _dense(self._X[rows], intercept=self.intercept)
            slopes = row_slopes(X, self._targets[rows], self.family, w)
            total += clipped_sum(X, slopes, clip, metric)
        return total

    def clipped_moments(self, *, clip: float, keep: Array | None = None) -> Array:
        """Return the sum of rows' squared entries, each row's clipped: not private either."""
        X = self._X[np.flatnonzero(self._valid if keep is None else self._valid & keep)]
        squares = X.multiply(X).tocsr() if scipy.sparse.issparse(X) else X * X
        norms = np.sqrt(np.asarray(
            squares.multiply(squares).sum(axis=1) if scipy.sparse.issparse(X)
            else (squares * squares).sum(axis=1)
        )).ravel()  # fmt: skip
        factors = np.minimum(1.0, clip / np.maximum(norms, clip))
        return np.asarray(squares.T @ factors).ravel()


def row_slopes(X: Array, targets: Array, family: Family, w: Vector) -> Array:
    """Return finite slopes of dense rows, one column a class where there are several."""
    with np.errstate(all="ignore"):
        if family.outputs == 1:
            slopes = family.slope(X @ w, targets)
        else:
            one_hot = np.eye(family.outputs)[targets.astype(int)]
            slopes = family.slope(X @ w.reshape(-1, family.outputs), one_hot)
    return np.nan_to_num(slopes, nan=0.0, posinf=1e100, neginf=-1e100)


def squared_lengths(X: Array, slopes: Array, metric: Any) -> Array:
    """Return ``‖M g_i‖²`` of rows' gradients ``x_i ⊗ slopes_i``."""
    if slopes.ndim == 1:
        return slopes**2 * (metric.whiten(X) ** 2).sum(axis=1)
    found = np.empty(len(X))
    for start in range(0, len(X), step := max(1, BLOCK // metric.dim)):
        rows = slice(start, start + step)
        each = (X[rows, :, None] * slopes[rows, None, :]).reshape(-1, metric.dim)
        found[rows] = (metric.whiten(each) ** 2).sum(axis=1)
    return found


def clipped_sum(
    X: Array, slopes: Array, clip: float, metric: Any, weights: Array | None = None
) -> Array:
    """Return ``Σ clip(M g_i)`` of dense rows; a row whose length is not finite counts as absent."""
    with np.errstate(all="ignore"):
        lengths = np.sqrt(squared_lengths(X, slopes, metric))
        factors = np.nan_to_num(clip / np.maximum(lengths, clip), nan=0.0)
    factors = factors if weights is None else factors * weights
    kept = slopes * (factors if slopes.ndim == 1 else factors[:, None])
    return np.asarray(metric.whiten((X.T @ kept).ravel()))


def _read_rows(
    X: Any, columns: int | None, bound: float | None, scale: Array | None
) -> tuple[Any, Array]:
    """Return rows as float64 with zeros in place of those that cannot be used, and which can."""
    with np.errstate(all="ignore"):
        if not hasattr(X, "__len__") and not hasattr(X, "shape"):
            raise TypeError(message("X", Words(type(X).__name__), "a table of rows"))
        if isinstance(X, list | tuple):
            X = _table(X, columns)
        X = X.tocsr().astype(np.float64) if scipy.sparse.issparse(X) else _numbers(X)
        if X.ndim != 2:
            raise ValueError(message("X", Words(f"{X.ndim} dimensions"), "two-dimensional"))
        if columns is not None and X.shape[1] != columns:
            raise ValueError(message("X", Words(f"{X.shape[1]} columns"), f"of {columns} columns"))
        X, valid = _without_odd_rows(X)
        X = X if bound is None else project_rows(X, bound)
        if scale is not None:
            X = X @ scipy.sparse.diags_array(1 / scale)
        X, still = _without_odd_rows(X)
        return X, valid & still


def _without_odd_rows(X: Any) -> tuple[Any, Array]:
    """Return a table with zeros in place of rows that are not finite, and which are."""
    if not scipy.sparse.issparse(X):
        valid = np.isfinite(X).all(axis=1)
        return np.where(valid[:, None], X, 0.0), valid
    X = X.tocsr()
    bad = ~np.isfinite(X.data)
    valid = np.ones(X.shape[0], dtype=bool)
    valid[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[bad]] = False
    X.data = np.where(bad, 0.0, X.data)
    return X, valid


def project_rows(X: Any, bound: float) -> Any:
    """Return finite rows, those that are longer than the bound scaled to it."""
    if not all(X.shape):
        return X
    largest = abs(X).max(axis=1)
    largest = np.asarray(largest.todense() if scipy.sparse.issparse(X) else largest).ravel()
    # In units of their largest entry, so that no square overflows.
    units = _scale_rows(X, 1 / np.where(largest > 0, largest, 1.0))
    squares = units.multiply(units) if scipy.sparse.issparse(X) else units * units
    norms = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    with np.errstate(over="ignore"):
        inside = norms * largest <= bound
    return _scale_rows(units, np.where(inside, largest, bound / np.maximum(norms, 1.0)))


def _scale_rows(X: Any, factors: Array) -> Any:
    if scipy.sparse.issparse(X):
        return (scipy.sparse.diags_array(factors) @ X).tocsr()
    return X * factors[:, None]


def _numbers(values: Any) -> Array:
    """Return an array of floats with NaN for what is no number."""
    if hasattr(values, "iloc"):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    array = _entries(values)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)

    def number(entry: Any) -> float:
        try:
            return float(entry)
        except Exception:  # whatever an entry does, it is no number
            return math.nan

    flat = [number(entry) for entry in array.ravel().tolist()]
    return np.array(flat, dtype=np.float64).reshape(array.shape)


def _entries(values: Any) -> Array:
    """Return an array in which no entry changes the type of another."""
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.filled(values.astype(object), None)
    if hasattr(values, "iloc"):
        return np.asarray(values.to_numpy(dtype=object))
    if isinstance(values, np.ndarray):
        return values
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _table(rows: Any, columns: int | None) -> Array:
    """Return a list of rows as a table; a row of another length than the columns is all None."""
    sizes = [len(row) if hasattr(row, "__len__") else -1 for row in rows]
    width = max([*sizes, 0]) if columns is None else columns
    array = np.full((len(sizes), width), None, dtype=object)
    for place, (row, size) in enumerate(zip(rows, sizes, strict=True)):
        for column, value in enumerate(row if size == width else ()):
            array[place, column] = value
    return array


def _read_labels(y: Any, family: Family, bound: float | None) -> tuple[Array, Array]:
    """Return targets with zeros in place of what is no label, and which rows have one."""
    if family.classifier:
        classes = getattr(family, "classes", ())
        # One label that is text makes an array of text of them all, with numbers as "1" or "1.0".
        codes: dict[Any, int] = {}
        for code, label in enumerate(classes):
            written = (str(label), str(float(label))) if isinstance(label, Real) else ()
            codes |= dict.fromkeys((label, *written), code)

        def find(label: Any) -> int:
            try:
                return codes.get(label, -1)
            except TypeError:  # not hashable
                return -1

        targets = np.array([find(label) for label in _entries(y).ravel().tolist()], dtype=float)
        known = targets >= 0
    else:
        with np.errstate(all="ignore"):
            targets = _numbers(y).ravel()
        known = np.isfinite(targets)
        known &= family.valid(np.where(known, targets, 0.0))
        if bound is not None:
            targets = np.clip(targets, -bound, bound)
    return np.where(known, targets, 0.0), known


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
    objective : GLM, PrivateRows or object
        The private rows. An object of your own has ``dim``, ``rows``, ``zeros()`` and
        ``clipped_sum(w, *, clip, metric, keep)``. A GLM checks its data and so tells of it by its
        errors; PrivateRows does not.
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
        A public loss: how far clipping moves *its* gradient is taken off the released one.
    sample_rate : float
        Share of the rows in a release, by Poisson sampling; 1 for all.
    moments : float
        Share of the budget (of ε², about) for :meth:`second_moments`; 0 for none.
    l2 : float
        Strength of an L2 term, which costs nothing.
    budget : PrivacyBudget, optional
        What is charged; by default one of (epsilon, delta) for this object alone.
    name : str, optional
        A name in the budget's file by which a killed run is resumed.
    seed : int, optional
        For tests: noise that can be repeated and so subtracted. All outputs say NOT PRIVATE.

    Examples
    --------
    >>> import numpy as np
    >>> import proxyprox as pp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2))
    >>> y = X @ [1.0, -1.0] + 0.1 * rng.normal(size=3000) > 0
    >>> public = pp.logistic_regression(X[:1000], y[:1000], l2=0.01)
    >>> target = Private(
    ...     pp.logistic_regression(X[1000:], y[1000:]), epsilon=1.0, delta=1e-5, releases=3,
    ...     n_nominal=2000, clip=2.0, metric=public, l2=0.01,
    ... )
    >>> result = pp.minimize(pp.Problem(target, public), method=pp.ProxyProx(eta=10.0), steps=3)
    >>> print(target.spent)
    ε = 1 at δ = 1e-05, add or remove one row; full batch, 3 releases; exact Gaussian DP
    """

    exact: ClassVar[bool] = False
    repeatable: ClassVar[bool] = False
    refuses: ClassVar[dict[str, str]] = {
        "measured step sizes": f'eta="auto" compares gradients at two points: {REASON}',
        "safeguard": f"it holds samples out and runs rivals on them: {REASON}",
        "audit": f"it asks for gradients to measure δ, σ and H: {REASON}",
    }

    def __init__(
        self,
        objective: Any,
        *,
        epsilon: float,
        delta: float,
        releases: int,
        n_nominal: int,
        clip: float | None = None,
        metric: Any = None,
        matched: Any = None,
        sample_rate: float = 1.0,
        moments: float = 0.0,
        l2: float = 0.0,
        budget: PrivacyBudget | None = None,
        name: str | None = None,
        seed: int | None = None,
    ) -> None:
        self.n_nominal = check.whole("n_nominal", n_nominal)
        delta = require_delta(delta, self.n_nominal)
        epsilon = check.positive("epsilon", epsilon)
        if clip is None:
            remedy = "Metric and clip follow from public rows, or from what you know of all rows."
            raise ValueError(message("clip", None, "a bound on a row's gradient", remedy))
        self.clip, self.l2 = check.positive("clip", clip), check.nonnegative("l2", l2)
        self._rows = PrivateRows.of(objective) if isinstance(objective, GLM) else objective
        if not check.offers(self._rows, "clipped_sum", "zeros"):
            raise TypeError(message("objective", objective, "a GLM, or rows such as PrivateRows"))
        self.dim, self.zeros = self._rows.dim, self._rows.zeros
        if metric is None:
            self.metric: Any = Euclidean(self.dim)
        elif check.offers(metric, "whiten"):
            self.metric = metric
        elif check.offers(metric, "hessian", "zeros"):
            self.metric = Metric.of(metric)
        else:
            raise TypeError(message("metric", metric, "a Metric, or a public loss with a Hessian"))
        if self.metric.dim != self.dim:
            got = Words(f"{self.metric.dim} parameters")
            raise ValueError(message("metric", got, f"of {self.dim}, as the objective's"))
        if matched is not None:
            check.instance("matched", matched, GLM, "a GLM of public rows, or None")
        if name is not None:
            check.instance("name", name, str, "a text, or None")
        self.releases = check.whole("releases", releases)
        self.matched, self.delta = matched, delta
        self._plan = plan_releases(epsilon, delta, self.releases, sample_rate, moments)
        self.sigma, self.sample_rate = self._plan[-1]
        own = PrivacyBudget(epsilon=epsilon, delta=delta) if budget is None else budget
        check.instance("budget", own, PrivacyBudget, "a PrivacyBudget")
        self.budget = own
        settings = {
            "epsilon": epsilon, "delta": delta, "clip": self.clip, "n_nominal": self.n_nominal,
            "metric": digest(getattr(self.metric, "matrix", None)),
        }  # fmt: skip
        self._seeded = None
        if seed is not None:
            self._seeded = np.random.default_rng(check.whole("seed", seed, 0))
            text = "The noise is seeded: nothing that follows from it is private."
            warnings.warn(text, NotPrivateWarning, stacklevel=2)
        self.name = own.open(name, self._plan, settings, private=seed is None, holder=self)
        self._asked = 0

    # -- what a run asks ----------------------------------------------------------------------

    def sample(self, rng: np.random.Generator) -> int:
        """Return the number of the next release; its rows are drawn where nobody sees them."""
        return self._asked

    def samples(self, batch: int) -> int:
        """Return the expected number of rows, of which the true one is private."""
        return round(self.n_nominal * self.sample_rate)

    def epsilon(self, gradients: int) -> float:
        """Return ε after so many gradients; infinite where the noise is seeded."""
        if self._seeded is not None:
            return math.inf if gradients else 0.0
        made = self._plan[: len(self._plan) - self.releases + gradients] if gradients else []
        return total_epsilon(made, self.delta) if made else 0.0

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

        def total(keep: Array | None) -> Array:
            return np.asarray(
                self._rows.clipped_sum(w, clip=self.clip, metric=self.metric, keep=keep)
            )

        index = k + len(self._plan) - self.releases
        mean = self._release(
            index, digest(point, getattr(self.metric, "matrix", None)), total, self.clip, self.dim
        )
        self._asked = k + 1
        released = self.metric.unwhiten(mean) + self.l2 * point - self.clip_gap(w)
        return from_numpy(released, like=w)

    def second_moments(self, clip: float) -> tuple[Array, float]:
        """Return the noisy mean of each column's squares, released once, and its noise's sd.

        Parameters
        ----------
        clip : float
            The largest norm of a row's squares, from public rows.
        """
        if len(self._plan) == self.releases:
            raise PrivacyBudgetError("moments=0: no release of second moments is in the plan.")

        def total(keep: Array | None) -> Array:
            return np.asarray(self._rows.clipped_moments(clip=clip, keep=keep))

        mean = self._release(0, f"moments {clip!r}", total, clip, self._rows.columns)
        return mean, self._plan[0].sigma * clip / self.n_nominal

    def set_metric(self, metric: Metric) -> None:
        """Use another metric, from public rows and released moments, before the first gradient."""
        if self._asked:
            raise PrivacyBudgetError("The metric is fixed before the first gradient is released.")
        self.metric = metric

    def clip_gap(self, w: Vector) -> Array:
        """Return how far clipping moves the public gradient at a point; zeros without one."""
        if self.matched is None:
            return np.zeros(self.dim)
        return clip_gap(self.matched, w, self.clip, self.metric)

    # -- what was spent -----------------------------------------------------------------------

    @property
    def spent(self) -> Guarantee:
        """What this object's releases have cost, as far as the budget's journal knows."""
        return self.budget.guarantee(self.name)

    @property
    def gradient_source(self) -> str:
        """How gradients are made, for results."""
        planned = Guarantee.of(self._plan, self.delta, private=self._seeded is None)
        return f"clipped at {self.clip:.3g}, Gaussian noise; planned: {planned}"

    @property
    def noise_variance(self) -> float:
        """``E‖ξ‖²`` of a release's noise, in the metric."""
        size = self.n_nominal * self.sample_rate
        return self.dim * (self.sigma * self.clip / size) ** 2

    @property
    def most_gradients(self) -> int:
        """How many gradients are planned."""
        return self.releases

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

    def _release(
        self, k: int, point: str, total: Callable[[Array | None], Array], clip: float, size: int
    ) -> Array:
        """Charge, draw, journal and only then return the noisy mean."""
        release = self._plan[k]
        made = self.budget.charge(self.name, k, release, point)
        if made is not None:
            return made
        seeded = self._seeded
        keep = None
        if release.rate < 1:
            rows = self._rows.rows
            keep = draw_rows(rows, release.rate)
            if seeded is not None:
                keep = seeded.random(rows) < release.rate
        noise = draw_noise(size) if seeded is None else seeded.standard_normal(size)
        noisy = total(keep) + release.sigma * clip * noise
        return self.budget.enter_release(self.name, k, noisy / (self.n_nominal * release.rate))


def plan_releases(
    epsilon: float, delta: float, count: int, rate: Any = 1.0, moments: Any = 0.0
) -> list[Release]:
    """Return the releases that cost ε at δ: first that of the moments, if they have a share."""
    rate, share = check.fraction("sample_rate", rate), check.below_one("moments", moments)
    if share and rate < 1:
        raise ValueError(message("moments", moments, "0 with Poisson sampling"))
    if not share:
        return [Release(noise_multiplier(epsilon, delta, count, rate), rate)] * count
    mu = gaussian_mu(epsilon, delta)
    each = math.sqrt(count / (1 - share)) / mu
    return [Release(1 / (mu * math.sqrt(share))), *[Release(each)] * count]


def clip_gap(public: GLM, w: Vector, clip: float, metric: Any) -> Array:
    """Return the clipped less the unclipped mean gradient of public rows.

    Rows without labels have every class, as likely as the model at w says; of numeric labels
    nothing is known.
    """
    X, total = _dense(public.design.X, intercept=public.design.intercept), np.zeros(len(w))
    for targets, weights in _public_cases(public, X, w):
        slopes = row_slopes(X, targets, public.family, w)
        weighed = slopes * (weights if slopes.ndim == 1 else weights[:, None])
        total += clipped_sum(X, slopes, clip, metric, weights)
        total -= metric.whiten((X.T @ weighed).ravel())
    return np.asarray(metric.unwhiten(total) / len(X))


def clip_for(public: GLM, w: Vector, metric: Any, factor: float, scale: float = 1.0) -> float:
    """Return a multiple of the root mean square of public rows' whitened gradients.

    Where labels are missing and cannot be drawn from the model, ``scale`` is the usual slope.
    """
    X, total = _dense(public.design.X, intercept=public.design.intercept), 0.0
    cases = _public_cases(public, X, w)
    for targets, weights in cases:
        slopes = row_slopes(X, targets, public.family, w)
        total += float(weights @ squared_lengths(X, slopes, metric))
    if not cases:
        shape = len(X) if public.family.outputs == 1 else (len(X), public.family.outputs)
        total = float(squared_lengths(X, np.full(shape, scale), metric).sum())
    return factor * math.sqrt(total / len(X))


def _public_cases(public: GLM, X: Array, w: Vector) -> list[tuple[Array, Array]]:
    """Return possible targets of public rows, and how likely they are."""
    if public.targets is not None:
        return [(public.targets, np.ones(len(X)))]
    family = public.family
    if not family.classifier:
        return []
    if family.outputs == 1:
        positive = family.mean(X @ w)
        return [(np.zeros(len(X)), 1 - positive), (np.ones(len(X)), positive)]
    p = family.mean(X @ w.reshape(-1, family.outputs))
    return [(np.full(len(X), c), p[:, c]) for c in range(family.outputs)]


def _dense(X: Any, *, intercept: bool) -> Array:
    X = np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, dtype=np.float64)
    return np.hstack([X, np.ones((len(X), 1))]) if intercept else X


@dataclass(frozen=True)
class JamesStein:
    r"""The mean of all differences, shrunk by what its noise explains of its length.

    .. math:: m = \frac{\sum_k a_k d_k}{\sum_k a_k},\quad
              \theta_j = \frac{s\,t_j}{s\,t_j + v_j},\quad
              s = \frac{\sum_j t_j (m_j^2 - v_j)}{\sum_j t_j^2}

    in the metric's coordinates, with ``v_j`` the variance of ``m_j`` and ``s·t_j`` the size that is
    expected of a difference there (s ≥ 0). Equal ``t_j`` are the James–Stein weight
    ``θ = max(0, 1 − v/‖m‖²)``.

    Parameters
    ----------
    metric : Metric
        In which lengths are measured.
    noise : float
        ``E‖ξ‖²`` of one difference's noise there: ``Private.noise_variance``.
    sampling : float
        The variance that the rows themselves bring, the same for all differences.
    growing : bool
        Weights ``a_k = k + 1``, which forget the first differences, instead of equal ones.
    by_curvature : bool
        Expect differences as rows' gradients are, ``t = h/(h + λ)`` for a curvature h, instead of
        equally in all directions: nothing is believed where the metric is damping alone.

    Examples
    --------
    >>> import numpy as np
    >>> rule = JamesStein(Metric(np.zeros((2, 2)), damping=1.0), noise=1.0)
    >>> rule.estimate(rule(np.array([1.0, 1.0]), None, None, 0))
    array([0.5, 0.5])
    """

    metric: Any
    noise: float
    sampling: float = 0.0
    growing: bool = False
    by_curvature: bool = False
    two_points: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the metric, the numbers and the flags."""
        if not check.offers(self.metric, "whiten", "unwhiten"):
            raise TypeError(message("metric", self.metric, "a Metric"))
        for name in ("noise", "sampling"):
            check.nonnegative(name, getattr(self, name))
        for name in ("growing", "by_curvature"):
            check.flag(name, getattr(self, name))

    def __call__(self, difference: Vector, before: Vector | None, memory: Any, k: int) -> Any:
        """Return the mean, the sum of the weights and that of their squares."""
        weight = float(k + 1) if self.growing else 1.0
        mean, total, squares = (0.0 * difference, 0.0, 0.0) if memory is None else memory
        total += weight
        return mean + weight / total * (difference - mean), total, squares + weight**2

    def estimate(self, memory: Any) -> Vector:
        """Return the shrunken mean."""
        mean, total, squares = memory
        whitened = self.metric.whiten(mean)
        t = self.metric.known if self.by_curvature else np.ones(len(whitened))
        sampling = self.sampling * t / max(float(t.sum()), 1e-300)
        variance = self.noise * squares / total**2 / len(t) + sampling
        size = max(0.0, float(t @ (whitened**2 - variance)) / max(float(t @ t), 1e-300))
        return np.asarray(self.metric.unwhiten(size * t / (size * t + variance) * whitened))
