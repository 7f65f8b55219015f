"""Generalised linear models, as objective and as proxy."""

from __future__ import annotations

import difflib
import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from proxyprox._util.arrays import Matrix, Vector, copied, dot, to_numpy
from proxyprox._util.digests import digest
from proxyprox._util.validation import (
    Words,
    generator,
    message,
    nonnegative,
    real_array,
    require_point,
    whole,
)
from proxyprox.problems.design import Design
from proxyprox.problems.families import (
    Family,
    Linear,
    Logistic,
    Poisson,
    Softmax,
    binary_classes,
    checked_classes,
    label_array,
    many_classes,
)
from proxyprox.problems.protocols import Batch

Array = np.ndarray[Any, Any]


def encoded(family: Family, y: Any, rows: int) -> Array:
    """Return labels as the family's targets, one for each row."""
    y = label_array(y)
    if y.ndim != 1 or len(y) != rows:
        got = Words(f"an array of shape {tuple(y.shape)}")
        remedy = "Use y.ravel()." if y.ndim == 2 and y.size == rows else ""
        raise ValueError(message("y", got, f"one label for each of the {rows} rows", remedy))
    targets: Array = family.encode(y)
    return targets


def as_targets(design: Design, family: Family, codes: Array) -> Any:
    """Return encoded labels in the shape of A'(z): one-hot rows for softmax."""
    if family.outputs == 1:
        return design.asarray(codes)
    return design.asarray(np.eye(family.outputs)[codes])


def pulled_targets(design: Design, family: Family, targets: Array | None, weights: Array) -> Vector:
    """Return ``Xᵀ(s·t)/n``: labels enter every full gradient through this vector alone."""
    if targets is None:
        one = to_numpy(design.pull(design.asarray(weights * family.neutral)))
        pulled = one[:, None] * np.ones(family.outputs)
    elif family.outputs == 1:
        with np.errstate(over="ignore", invalid="ignore"):
            pulled = to_numpy(design.pull(design.asarray(weights * targets)))
    else:
        # Class by class: a dense one-hot matrix could outweigh the data.
        shape = (design.rows, family.outputs)
        onehot = scipy.sparse.csc_array((weights, (np.arange(design.rows), targets)), shape=shape)
        columns = [onehot[:, [c]].toarray().ravel() for c in range(family.outputs)]
        pulled = np.stack([to_numpy(design.pull(design.asarray(c))) for c in columns], axis=1)
    return design.asarray(np.ravel(pulled) / design.rows)


def random_labels(family: Family, rows: int, rng: np.random.Generator) -> Any:
    """Return labels that mean nothing, as in the paper's experiment."""
    classes = getattr(family, "classes", None)
    if classes is not None:
        return np.asarray(classes)[rng.integers(len(classes), size=rows)]
    return rng.poisson(size=rows) if isinstance(family, Poisson) else rng.normal(size=rows)


def row_weights(sample_weight: Any | None, rows: int) -> Array:
    """Return weights with mean one."""
    if sample_weight is None:
        return np.broadcast_to(np.float64(1.0), (rows,))
    allowed = f"one weight for each of the {rows} rows"
    weights: Array = to_numpy(real_array("sample_weight", sample_weight, allowed))
    with np.errstate(over="ignore"):
        weights = weights.astype(np.float64, copy=False)
    if weights.shape != (rows,):
        got = Words(f"an array of shape {weights.shape}")
        raise ValueError(message("sample_weight", got, allowed))
    largest = weights.max()
    if not np.isfinite(weights).all() or (weights < 0).any() or not largest > 0:
        got = Words(f"weights from {weights.min():g} to {largest:g}")
        raise ValueError(message("sample_weight", got, "finite, zero or more, not all zero"))
    if not rows / np.finfo(np.float64).max < largest < np.finfo(np.float64).max / rows:
        # Their sum would overflow, or its inverse.
        weights = weights / largest
    scaled: Array = weights * (rows / weights.sum())
    return scaled


class GLM:
    r"""Mean loss of a generalised linear model, plus ``l2/2 ‖w‖²`` without the intercept.

    .. math:: L(w) = \frac{1}{\sum s_i}\sum_i s_i\,(A(x_i^\top w) - t_i\,x_i^\top w)
              + \frac{\ell_2}{2}\|w\|^2

    Usually built by :func:`linear_regression`, :func:`logistic_regression`,
    :func:`softmax_regression` or :func:`poisson_regression`. The parameters are one vector: the
    coefficients, then the intercept; for C classes the (d, C) matrix flattened row by row.

    Parameters
    ----------
    X : array or scipy.sparse matrix of shape (n, p)
        Inputs. CSR and dense arrays are used as they are, without a copy.
    y : array of shape (n,), optional
        Labels. Without them the model is label-free: still a proxy, and still an objective whose
        gradients come from observed labels through :meth:`gradient_from`.
    family : Family
        The exponential family.
    l2 : float
        Strength of the L2 term.
    intercept : bool
        Whether a constant is fitted; it is never regularised.
    sample_weight : array of shape (n,), optional
        Weights ≥ 0 of the rows.
    batch_size : int, optional
        Rows drawn, uniformly with replacement, for each stochastic gradient. None means all.
    """

    repeatable = True

    def __init__(
        self,
        X: Any,
        y: Any | None,
        family: Family,
        *,
        l2: float = 0.0,
        intercept: bool = False,
        sample_weight: Any | None = None,
        batch_size: int | None = None,
    ) -> None:
        if isinstance(family, type) or not hasattr(family, "log_partition"):
            remedy = "Or use linear_regression, logistic_regression, softmax_regression."
            raise TypeError(message("family", family, "a family such as Logistic()", remedy))
        design = X if isinstance(X, Design) else Design(X, intercept=intercept)
        self.design = design
        self.family = family
        self.l2 = nonnegative("l2", l2)
        self.batch_size = _rows_drawn(batch_size)
        self.dim = design.width * family.outputs
        self.sample_weight = row_weights(sample_weight, design.rows)
        self.targets = None if y is None else encoded(family, y, design.rows)
        self._weights = None if sample_weight is None else design.asarray(self.sample_weight)
        self._label_terms()
        # One slot: Newton-CG asks for many products at one point.
        self._curved: tuple[Vector, Any] | None = None

    # -- the loss ---------------------------------------------------------------------------

    def value(self, w: Vector) -> float:
        """Return L(w)."""
        partition = self.family.log_partition(self._predict(w))
        weighted = partition if self._weights is None else self._weights * partition
        mean = float(self.design.xp.sum(weighted)) / self.design.rows
        return mean - dot(self._pulled, w) + self._constant + self._penalty(w)

    def gradient(self, w: Vector, batch: Batch = None) -> Vector:
        """Return ∇L(w), or its unbiased estimate from the rows of a batch."""
        if batch is None:
            return self._slopes(self.family.mean(self._predict(w))) - self._pulled + self._ridge(w)
        if self.targets is None:
            return self._row_gradient(w, batch, self.family.neutral)
        part = self.design.take(batch)
        targets = as_targets(self.design, self.family, self.targets[batch])
        return self._row_gradient(w, batch, targets, part)

    def gradient_from(self, w: Vector, batch: Batch, observations: Any) -> Vector:
        """Return the batch's gradient from labels observed for its rows."""
        rows = np.arange(self.design.rows) if batch is None else np.atleast_1d(batch)
        codes = encoded(self.family, observations, len(rows))
        with np.errstate(over="ignore"):
            # Whoever asked meets what is not finite, and names it.
            return self._row_gradient(w, rows, as_targets(self.design, self.family, codes))

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return ∇²L(w) v in two passes over the data."""
        variance = self._variance(w)
        pushed = self._predict(v)
        if self.family.outputs == 1:
            product = self._slopes(variance * pushed, weighted=True)
        else:
            xp = self.design.xp
            centred = pushed - xp.sum(variance * pushed, axis=1, keepdims=True)
            product = self._slopes(variance * centred)
        return product + self._ridge(v)

    def hessian(self, w: Vector) -> Matrix:
        """Return the d × d matrix ∇²L(w)."""
        variance = self._variance(w)
        scale = 1 / self.design.rows
        if self.family.outputs == 1:
            hessian = self.design.gram(variance * scale)
        else:
            rows = scale if self._weights is None else scale * self._weights
            hessian = self.design.softmax_gram(variance, rows)
        if self.l2:
            hessian = hessian + self.design.asarray(np.diag(self.l2 * self._mask))
        return hessian

    # -- constants --------------------------------------------------------------------------

    @cached_property
    def smoothness(self) -> float:
        """A bound H on the Hessian's largest eigenvalue; infinite for the Poisson family."""
        if math.isinf(self.family.curvature):
            return math.inf
        rows = self.design.asarray(self.sample_weight / self.design.rows)
        return self.family.curvature * self.design.largest_eigenvalue(rows) + self.l2

    @cached_property
    def strong_convexity(self) -> float:
        """A bound μ on the Hessian's smallest eigenvalue, over all w."""
        if isinstance(self.family, Linear) and self.design.width <= 2000:
            exact = np.linalg.eigvalsh(to_numpy(self.hessian(self.zeros())))
            return max(float(exact[0]), 0.0)
        return 0.0 if self.design.intercept else self.l2

    # -- sampling ---------------------------------------------------------------------------

    def zeros(self) -> Vector:
        """Return the zero vector of parameters, in the library and dtype of the data."""
        return self.design.asarray(np.zeros(self.dim))

    def sample(self, rng: np.random.Generator) -> Batch:
        """Draw row numbers uniformly with replacement (None: all rows)."""
        if self.batch_size is None:
            return None
        return rng.integers(self.design.rows, size=self.batch_size)

    def everything(self) -> Batch:
        """Return the batch of all rows."""
        return None

    def halves(self, batch: Batch) -> tuple[Batch, Batch] | None:
        """Return the two halves of a batch of even length: their gap shows the batch's noise."""
        middle = 0 if batch is None or len(batch) % 2 else len(batch) // 2
        return (batch[:middle], batch[middle:]) if middle else None

    def samples(self, batch: Batch) -> int:
        """Return the number of rows (labels) of a batch."""
        return self.design.rows if batch is None else len(batch)

    # -- relatives --------------------------------------------------------------------------

    def label_free(
        self, X: Any | None = None, *, rng: np.random.Generator | int | None = None
    ) -> GLM:
        """Return the proxy that needs no labels; on the same inputs it has δ = 0.

        Parameters
        ----------
        X : array or sparse matrix, optional
            Other, unlabelled inputs; by default this model's own. Inputs equal to this model's
            own count as these, with their weights.
        rng : int or numpy.random.Generator, optional
            Assign labels at random, as in the paper's experiment. By default every row gets the
            neutral target A'(0). The two give the same iterates: a proxy's labels cancel.
        """
        design = self.design if X is None else Design(X, intercept=self.design.intercept)
        if design.columns != self.design.columns:
            allowed = f"a table of {self.design.columns} columns, as the target's is"
            raise ValueError(message("X", Words(f"{design.columns} columns"), allowed))
        if design.same_inputs(self.design):
            # Recognised by content: then the rows have their weights, too.
            design = self.design
        own = design is self.design and self._weights is not None
        weights = self.sample_weight if own else None
        labels = None if rng is None else random_labels(self.family, design.rows, generator(rng))
        return GLM(design, labels, self.family, l2=self.l2, sample_weight=weights)

    def subsample(self, n: int, *, rng: np.random.Generator | int | None = None) -> GLM:
        """Return the same loss on ``n`` of its rows, drawn without replacement."""
        n = whole("n", n)
        if n > self.design.rows:
            raise ValueError(message("n", n, f"at most the number of rows, {self.design.rows}"))
        chosen = np.sort(generator(rng).choice(self.design.rows, n, replace=False))
        if self._weights is not None and not self.sample_weight[chosen].any():
            remedy = "Leave out rows of weight zero."
            raise ValueError(message("n", n, "enough to draw one row that has a weight", remedy))
        return self.rows(chosen)

    def same_curvature(self, other: Any) -> bool:
        """Tell whether another loss is this one up to its labels, which no Hessian sees."""
        return (
            isinstance(other, GLM)
            and type(other.family) is type(self.family)
            and other.dim == self.dim
            and other.l2 == self.l2
            and other.design.same_inputs(self.design)
            and bool(np.allclose(other.sample_weight, self.sample_weight, rtol=1e-9, atol=0))
        )

    def fingerprint(self) -> str:
        """Return a text that only models of the same data, family, l2 and batch size share."""
        kind = type(self.family).__name__, self.family.outputs, self.design.intercept, self.l2
        return digest(*kind, self.batch_size, self.design.X, self.targets, self._weights)

    def rows(self, chosen: Any, *, sample_weight: Any | None = None) -> GLM:
        """Return the same loss on the chosen rows, with their weights or others."""
        design = self.design.take(chosen)
        if sample_weight is None and self._weights is not None:
            sample_weight = self.sample_weight[chosen]
        part = GLM(design, None, self.family, l2=self.l2, sample_weight=sample_weight)
        if self.targets is not None:
            part.targets = self.targets[chosen]
            part._label_terms()
        return part

    def with_batch_size(self, batch_size: int | None) -> GLM:
        """Return the same loss with another batch size; the data is shared."""
        twin = GLM.__new__(GLM)
        twin.__dict__.update(self.__dict__)
        twin.batch_size = _rows_drawn(batch_size)
        return twin

    # -- internals --------------------------------------------------------------------------

    def _predict(self, w: Vector, design: Design | None = None) -> Any:
        design = design or self.design
        require_point("w", w, self.dim)
        if self.family.outputs > 1:
            w = design.xp.reshape(w, (design.width, self.family.outputs))
        return design.predict(w)

    def _slopes(self, means: Any, *, weighted: bool = False) -> Vector:
        """Return ``Xᵀ(s·means)/n`` as a vector; ``weighted`` means s is already in ``means``."""
        if self._weights is not None and not weighted:
            means = means * (self._weights if means.ndim == 1 else self._weights[:, None])
        return self._flat(self.design.pull(means)) / self.design.rows

    def _row_gradient(
        self, w: Vector, batch: Batch, targets: Any, part: Design | None = None
    ) -> Vector:
        part = self.design.take(batch) if part is None else part
        residual = self.family.mean(self._predict(w, part)) - targets
        if self._weights is not None:
            weights = self._weights[batch]
            residual = residual * (weights if residual.ndim == 1 else weights[:, None])
        return self._flat(part.pull(residual)) / part.rows + self._ridge(w)

    def _flat(self, pulled: Any) -> Vector:
        return pulled if pulled.ndim == 1 else self.design.xp.reshape(pulled, (-1,))

    def _variance(self, w: Vector) -> Any:
        # Read once and replaced whole: other threads may store their own point in between.
        known = self._curved
        if known is not None and bool(self.design.xp.all(known[0] == w)):
            return known[1]
        z = self._predict(w)
        if self.family.outputs > 1:
            variance = self.family.mean(z)
        else:
            variance = self.family.variance(z)  # type: ignore[attr-defined]
            if self._weights is not None:
                variance = variance * self._weights
        # A copy: the caller may change its array in place.
        self._curved = (copied(w), variance)
        return variance

    def _penalty(self, w: Vector) -> float:
        return dot(w, self._ridge(w)) / 2 if self.l2 else 0.0

    def _ridge(self, w: Vector) -> Any:
        if not self.l2:
            return 0.0
        return self.l2 * w if not self.design.intercept else self._ridge_vector * w

    @cached_property
    def _mask(self) -> np.ndarray[Any, Any]:
        mask = np.ones((self.design.width, self.family.outputs))
        if self.design.intercept:
            mask[-1] = 0.0
        return mask.ravel()

    @cached_property
    def _ridge_vector(self) -> Vector:
        return self.design.asarray(self.l2 * self._mask)

    def _label_terms(self) -> None:
        """Reduce the labels to the vector and the number through which full passes see them."""
        self._pulled = pulled_targets(self.design, self.family, self.targets, self.sample_weight)
        self._constant = 0.0
        if self.targets is None:
            return
        with np.errstate(over="ignore"):
            constants = self.family.constant(np.array(self.targets))
            self._constant = float(np.mean(self.sample_weight * constants))
        pulled = np.isfinite(to_numpy(self._pulled)).all()
        if not (pulled and math.isfinite(self._constant)):
            got = Words(f"labels up to {np.abs(self.targets).max():.3g} in size")
            allowed = "of a size for which the sums of y² and of y times X are finite"
            raise ValueError(message("y", got, allowed, "Divide y, or the columns of X."))


def _rows_drawn(batch_size: Any) -> int | None:
    # More rows than memory can hold row numbers of are a slip, not a batch.
    return None if batch_size is None else whole("batch_size", batch_size, most=2**31)


OPTIONS = ("l2", "intercept", "sample_weight", "batch_size")


def linear_regression(X: Any, y: Any = None, **options: Any) -> GLM:
    """Return the least-squares loss ``mean (xᵀw − y)²/2``; options as in :class:`GLM`.

    Examples
    --------
    >>> import numpy as np
    >>> loss = linear_regression(np.eye(2), [1.0, 2.0])
    >>> loss.value(np.zeros(2))
    1.25
    """
    return GLM(X, y, Linear(), **_known("linear_regression", options))


def logistic_regression(
    X: Any, y: Any = None, *, classes: tuple[Any, Any] | None = None, **options: Any
) -> GLM:
    """Return the logistic loss for labels of two classes; options as in :class:`GLM`.

    The larger of the two labels is the positive class, whether they are {0, 1}, {−1, 1}, {1, 2}
    or two strings; ``classes=(negative, positive)`` says otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> loss = logistic_regression(np.array([[1.0], [-1.0]]), ["yes", "no"])
    >>> round(loss.value(np.zeros(1)), 6)
    0.693147
    """
    _known("logistic_regression", options, "classes")
    if classes is None:
        classes = (0, 1) if y is None else binary_classes(y)
    return GLM(X, y, Logistic(checked_classes(classes, 2, 2)), **options)


def softmax_regression(
    X: Any, y: Any = None, *, classes: tuple[Any, ...] | None = None, **options: Any
) -> GLM:
    """Return the multinomial logistic loss; options as in :class:`GLM`.

    Examples
    --------
    >>> import numpy as np
    >>> loss = softmax_regression(np.eye(3), ["a", "b", "c"])
    >>> loss.dim, round(loss.value(np.zeros(9)), 6)
    (9, 1.098612)
    """
    _known("softmax_regression", options, "classes")
    if classes is None:
        if y is None:
            remedy = "Without labels the number of classes is unknown."
            raise ValueError(message("classes", None, "the tuple of all classes", remedy))
        classes = many_classes(y)
    return GLM(X, y, Softmax(checked_classes(classes, 2)), **options)


def poisson_regression(X: Any, y: Any = None, **options: Any) -> GLM:
    """Return the Poisson loss ``mean exp(xᵀw) − y xᵀw``; options as in :class:`GLM`.

    Examples
    --------
    >>> import numpy as np
    >>> loss = poisson_regression(np.ones((2, 1)), [0, 3])
    >>> loss.value(np.zeros(1))
    1.0
    """
    return GLM(X, y, Poisson(), **_known("poisson_regression", options))


def _known(function: str, options: dict[str, Any], *more: str) -> dict[str, Any]:
    """Refuse an option that no regression has, in the name of the function that was called."""
    allowed = (*OPTIONS, *more)
    for name in options:
        if name not in allowed:
            close = difflib.get_close_matches(name.lower(), allowed, n=1)
            meant = f" Use {close[0]}." if close else ""
            raise TypeError(
                f"{function} has no option {name!r}; its options are {', '.join(allowed)}.{meant}"
            )
    return options
