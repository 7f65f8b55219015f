"""Generalised linear models, as objective and as proxy: a table of inputs and the loss on it.

Dense NumPy, scipy-sparse and dense torch data behave alike. Nothing here copies the data: the
intercept is arithmetic, and Gram matrices are summed over blocks of rows.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from array_api_compat import is_numpy_array

from proxyprox._util import validation as check
from proxyprox._util.arrays import (
    Matrix,
    Vector,
    copy_array,
    digest,
    dot,
    from_numpy,
    namespace,
    thread_count,
    thread_pools,
    to_numpy,
)
from proxyprox._util.validation import Words, message
from proxyprox.problems import families
from proxyprox.problems.families import Family, label_array
from proxyprox.problems.protocols import Batch, Facts, HessianOf, Paired, Summable, Work

Array = np.ndarray[Any, Any]

# Entries of the dense row blocks that sums over rows go through (2 MiB of float64).
BLOCK = 1 << 18
# Parts of a long table that may be read at the same time.
PARTS = 8
# Entries that show whether columns are alike, and how many times larger their sums may then be.
SOME, ALIKE = 20_000, 10.0
# The share of the rows up to which a sample is copied.
COPIED = 0.1
# Passes of several threads come one after the other.
PASSES = threading.Lock()


class Design:
    """A matrix of n rows and p columns, with a constant column appended if asked for.

    With ``chosen`` it has those of the matrix's rows, which are gathered block by block.
    """

    def __init__(
        self, X: Any, *, intercept: bool = False, checked: bool = False, chosen: Array | None = None
    ) -> None:
        self.X = X if checked else _check_inputs(X)
        self.sparse, self.chosen = scipy.sparse.issparse(self.X), chosen
        # Products with torch's tensors do not go through blocks of rows.
        self.in_blocks = bool(self.sparse or type(self.X) is np.ndarray or is_numpy_array(self.X))
        self.intercept = check.flag("intercept", intercept)
        self.rows, self.columns = (int(size) for size in self.X.shape)
        self.rows = self.rows if chosen is None else len(chosen)
        self.width = self.columns + int(intercept)
        self._parts: dict[tuple[int, int], Any] = {}
        if checked:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            # Of a dense table one read tells almost always, and the sums are needed later.
            quick = self.in_blocks and not self.sparse
            if not (quick and self.squares.max() <= largest_entry(self.X) ** 2):
                require_squares("X", self.X)

    def __getstate__(self) -> dict[str, Any]:
        # Views of the data, which would be copies of it elsewhere.
        return {**vars(self), "_parts": {}}

    @property
    def xp(self) -> Any:
        """The namespace of vectors that multiply this matrix."""
        return np if self.sparse else namespace(self.X)

    @cached_property
    def squares(self) -> Array:
        """Sums of the squares in each column, the constant's last."""

        def of_columns(rows: slice, part: Any) -> Any:
            if self.sparse:
                return np.bincount(part.indices, part.data**2, self.columns)
            return np.einsum("ij,ij->j", part, part) if self.in_blocks else (part * part).sum(0)

        sums = to_numpy(self.visit(of_columns, 0.0))
        return np.append(sums, float(self.rows)) if self.intercept else sums

    def asarray(self, array: Any) -> Any:
        """Return a NumPy array in the library and device of the data; NumPy's are float64."""
        if self.in_blocks:
            return np.asarray(array, dtype=np.float64)
        return from_numpy(np.asarray(array), like=self.X)

    @cached_property
    def step(self) -> int:
        """Rows of a block that stays in the cache."""
        if not self.in_blocks:
            return self.rows
        if self.sparse:
            return max(1, BLOCK * int(self.X.shape[0]) // max(int(self.X.nnz), 1))
        return max(1, BLOCK // self.width)

    def raw(self, rows: Any) -> Any:
        """Return the matrix of some rows as it is stored."""
        return self.X[rows if self.chosen is None else self.chosen[rows]]

    def part(self, rows: slice) -> Any:
        """Return the matrix of some rows that follow each other, in float64; float64 is a view."""
        if not self.in_blocks:
            return self.X
        if self.chosen is not None or not self.sparse:
            return self.raw(rows).astype(np.float64, copy=False)
        if (known := self._parts.get((rows.start, rows.stop))) is not None:
            return known
        starts = self.X.indptr[rows.start : rows.stop + 1]
        entries = slice(starts[0], starts[-1])
        data = self.X.data[entries].astype(np.float64, copy=False)
        # SciPy's constructors copy a short slice of long arrays.
        shape = rows.stop - rows.start, self.columns
        part = scipy.sparse.csr_array(shape)
        part.flipped = scipy.sparse.csc_array(shape[::-1])
        for each in (part, part.flipped):
            each.data, each.indices = data, self.X.indices[entries]
            each.indptr = starts - starts[0]
        if self.X.dtype == np.float64:
            self._parts[rows.start, rows.stop] = part
        return part

    def predict(self, w: Any) -> Any:
        """Return ``X w``, plus the intercept."""
        if self.rows <= self.step:
            return self.push(self.part(slice(0, self.rows)), w)
        z = np.empty((self.rows, *w.shape[1:]))

        def fill(rows: slice, part: Any) -> None:
            z[rows] = self.push(part, w)

        self.visit(fill)
        return z

    def pull(self, residual: Any) -> Any:
        """Return ``Xᵀ residual``, with the intercept's entry last."""
        return self.visit(lambda rows, part: self.pull_part(part, residual[rows]), 0.0)

    def pull_mapped(self, w: Any, function: Callable[[slice, Any], Any]) -> Any:
        """Return ``Xᵀ f(rows, X w)``; a large table is read once, in blocks that are cached.

        ``f`` is given the rows of a block and their predictors.
        """

        def pull(rows: slice, part: Any) -> Any:
            return self.pull_part(part, function(rows, self.push(part, w)))

        return self.visit(pull, 0.0)

    def _cuts(self, first: int, end: int, step: int) -> list[slice]:
        return [slice(at, min(at + step, end)) for at in range(first, end, step)]

    def visit(self, function: Callable[[slice, Any], Any], zero: Any = None) -> Any:
        """Call ``f(rows, part)`` for blocks of rows, in several threads; return zero plus the sum.

        Without a zero nothing is added up.
        """

        def add_blocks(cut: slice) -> Any:
            total = zero
            # Trial points of a search may overflow: whoever asked sees it by the result.
            with np.errstate(over="ignore", invalid="ignore"):
                for rows in self._cuts(cut.start, cut.stop, self.step):
                    found = function(rows, self.part(rows))
                    total = None if zero is None else total + found
            return total

        if self.rows <= self.step:
            rows = slice(0, self.rows)
            with np.errstate(over="ignore", invalid="ignore"):
                return function(rows, self.part(rows))
        # The parts do not depend on the number of threads, so that neither does the sum.
        cuts = self._cuts(0, self.rows, self.step * math.ceil(self.rows / (self.step * PARTS)))
        threads, pools = min(thread_count(), len(cuts)), thread_pools()
        if threads == 1 or pools is None:
            found = [add_blocks(cut) for cut in cuts]
        else:
            # Threads of BLAS inside of ours would wait for each other; the limit is global.
            with (
                PASSES, pools.limit(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool
            ):  # fmt: skip
                found = [*pool.map(add_blocks, cuts)]
        with np.errstate(over="ignore", invalid="ignore"):
            return None if zero is None else sum(found)

    def push(self, X: Any, w: Any) -> Any:
        """Return ``X w`` of a block, plus the intercept."""
        return X @ w[:-1] + w[-1] if self.intercept else X @ w

    def pull_part(self, X: Any, residual: Any) -> Any:
        """Return ``Xᵀ residual`` of a block, with the intercept's entry last."""
        pulled = (X.flipped if hasattr(X, "flipped") else X.T) @ residual
        if not self.intercept:
            return pulled
        xp = self.xp
        total = xp.sum(residual, axis=0)
        return xp.concat([pulled, xp.reshape(total, (1, *pulled.shape[1:]))])

    @cached_property
    def gram_work(self) -> tuple[float, float]:
        """Nanoseconds of a Gram matrix by dense blocks and by sparse products, roughly."""
        dense = self.rows * self.width * (0.04 * self.width + 2.0)
        if not self.sparse:
            return dense, math.inf
        counts = np.diff(self.X.indptr).astype(np.float64)
        counts = counts if self.chosen is None else counts[self.chosen]
        return dense, 10.0 * float(counts @ counts + counts.sum())

    def gram(self, weights: Any) -> Any:
        """Return ``Xᵀ diag(weights) X`` for weights ≥ 0, in O(block + width²) extra memory."""
        dense, sparse = self.gram_work
        if sparse < dense:
            return self._sparse_gram(weights)
        roots, total = self.xp.sqrt(weights), 0.0
        step = max(1, BLOCK // self.width, self.width // 2) if self.in_blocks else self.rows
        for rows in self._cuts(0, self.rows, step):
            total += self._block_gram(rows, roots[rows, None])
        return total

    def _block_gram(self, rows: slice, roots: Any) -> Any:
        # The product turns blocks into float64, without a copy of them in that.
        part = self.raw(rows)
        scaled = (part.toarray() if self.sparse else part) * roots
        if self.intercept:
            scaled = self.xp.concat([scaled, roots], axis=1)
        return scaled.T @ scaled

    def _sparse_gram(self, weights: Any) -> Any:
        """Return the Gram matrix as a sum of sparse products."""
        total = np.zeros((self.width,) * 2)
        for cut in self._cuts(0, self.rows, self.step):
            rows = self.part(cut)
            data = rows.data * np.repeat(weights[cut], np.diff(rows.indptr))
            scaled = scipy.sparse.csr_array((data, rows.indices, rows.indptr), rows.shape)
            total[: self.columns, : self.columns] += (rows.T @ scaled).toarray()
        if self.intercept:
            total[-1] = total[:, -1] = self.pull(weights)
        return total

    def softmax_gram(self, p: Any, weights: Any) -> Any:
        """Return ``Xᵀ diag(weights)(diag(p) − p pᵀ) X``: a Gram matrix for each pair of classes."""
        xp, outputs = self.xp, int(p.shape[1])
        blocks = [[None] * outputs for _ in range(outputs)]
        for a in range(outputs):
            for b in range(a + 1):
                # Off the diagonal the weights are negative, and gram takes roots.
                variance = p[:, a] * (1 - p[:, a]) if a == b else p[:, a] * p[:, b]
                gram = self.gram(variance * weights)
                blocks[a][b] = blocks[b][a] = gram if a == b else -gram
        stacked = xp.stack([xp.stack(line) for line in blocks])
        return xp.reshape(xp.permute_dims(stacked, (2, 0, 3, 1)), (self.width * outputs,) * 2)

    def take(self, rows: Any) -> Design:
        """Return the design of some of the rows."""
        try:
            part = self.raw(rows)
            if part.ndim != 2 or part.shape[0] == 0:
                raise IndexError
        except (IndexError, TypeError, ValueError) as error:
            allowed = f"an array of row numbers from 0 to {self.rows - 1}"
            raise ValueError(message("batch", rows, allowed)) from error
        return Design(part, intercept=self.intercept, checked=True)

    def same_inputs(self, other: Design) -> bool:
        """Tell whether another design holds the same numbers, to the coarser of the two dtypes."""
        shapes = [(d.rows, d.columns, d.intercept) for d in (self, other)]
        if shapes[0] != shapes[1] or (self.X is other.X and self.chosen is other.chosen):
            return shapes[0] == shapes[1]
        # Blocks of rows: inputs that differ are told apart by the first, equal ones in one pass.
        sparse = self.sparse and other.sparse
        cuts = self._cuts(0, self.rows, self.rows if sparse else max(1, BLOCK // self.width))
        return all(_equal(self.raw(cut), other.raw(cut)) for cut in cuts)

    def largest_eigenvalue(self, weights: Any) -> float:
        """Return the largest eigenvalue of ``Xᵀ diag(weights) X``, never less than it is."""
        safety = 1 + max(1e-9, 64 * float(self.xp.finfo(self.X.dtype).eps))
        if self.width <= 512 or not (self.sparse or is_numpy_array(self.X)):
            return safety * float(self.xp.linalg.eigvalsh(self.gram(weights))[-1])
        operator = scipy.sparse.linalg.LinearOperator(
            (self.width, self.width),
            matvec=lambda v: self.pull(weights * self.predict(v.ravel())),
            dtype=np.float64,
        )
        start = np.random.default_rng(0).standard_normal(self.width)
        top = scipy.sparse.linalg.eigsh(operator, k=1, v0=start, return_eigenvectors=False)
        return safety * float(top[0])


def _equal(one: Any, other: Any) -> bool:
    if not (scipy.sparse.issparse(one) and scipy.sparse.issparse(other)):
        one, other = (
            x.toarray() if scipy.sparse.issparse(x) else to_numpy(x) for x in (one, other)
        )
    coarse = min(one.dtype, other.dtype, key=lambda dtype: dtype.itemsize)
    with np.errstate(over="ignore"):
        differ = one.astype(coarse, copy=False) != other.astype(coarse, copy=False)
    return not (differ.nnz if scipy.sparse.issparse(differ) else differ.any())


def _check_inputs(X: Any) -> Any:
    sparse = scipy.sparse.issparse(X)
    if not sparse:
        X = check.real_array("X", X, "a numeric matrix (NumPy, scipy.sparse or torch)")
    shape = Words(f"shape {tuple(X.shape)}")
    if X.ndim != 2 or 0 in X.shape:
        remedy = "Use X.reshape(-1, 1) for a single column." if X.ndim == 1 else ""
        allowed = "two-dimensional, with at least one row and one column"
        raise ValueError(message("X", shape, allowed, remedy))
    if sparse:
        # Row batches need rows: CSR data passes through untouched, other formats are converted.
        X = X.tocsr()
        dtype = check.floating("X", check.real_array("X", X.data)).dtype
        X = X if X.dtype == dtype else X.astype(dtype)
    elif is_numpy_array(X) or X.dtype in (namespace(X).float32, namespace(X).float64):
        X = check.floating("X", X)
    else:
        # A device may have neither room nor use for float64: its owner is to choose.
        got = Words(f"dtype {X.dtype}")
        raise TypeError(message("X", got, "of dtype float32 or float64", "Convert it first."))
    return X


def require_squares(argument: str, X: Any) -> None:
    """Refuse entries that are not finite, or so large that X'X is not."""
    sparse = scipy.sparse.issparse(X)
    entries = X.data if sparse else X
    if 0 in entries.shape:
        return
    largest = max(abs(float(entries.max())), abs(float(entries.min())))
    if not math.isfinite(largest):
        check.require_finite(argument, entries)
    limit = largest_entry(X)
    if largest > limit:
        got = Words(f"an entry of size {largest:.3g}")
        allowed = f"of entries up to {limit:.1e}, so that sums of their squares are finite"
        raise ValueError(message(argument, got, allowed, "Divide the columns by their scales."))


def largest_entry(X: Any) -> float:
    """Return the size of entries from which on X'X may not be finite."""
    xp = np if scipy.sparse.issparse(X) else namespace(X)
    return math.sqrt(float(xp.finfo(X.dtype).max) / (16 * (X.shape[1] + 1)))


class Encoded(NamedTuple):
    """Labels that a family has encoded already, where a model takes labels."""

    targets: Array


def encode_labels(family: Family, y: Any, rows: int) -> Array:
    """Return labels as the family's targets, one for each row."""
    if isinstance(y, Encoded):
        return y.targets
    y = label_array(y)
    if y.ndim != 1 or len(y) != rows:
        got = Words(f"an array of shape {tuple(y.shape)}")
        remedy = "Use y.ravel()." if y.ndim == 2 and y.size == rows else ""
        raise ValueError(message("y", got, f"one label for each of the {rows} rows", remedy))
    targets: Array = family.encode(y)
    return targets


def as_targets(design: Design, family: Family, codes: Array) -> Any:
    """Return encoded labels in the shape of the mean: one-hot rows for softmax."""
    if family.outputs == 1:
        return design.asarray(codes)
    return design.asarray(np.eye(family.outputs)[codes])


def row_weights(sample_weight: Any | None, rows: int) -> Array:
    """Return weights with mean one."""
    if sample_weight is None:
        return np.broadcast_to(np.float64(1.0), (rows,))
    allowed = f"one weight for each of the {rows} rows"
    weights: Array = to_numpy(check.real_array("sample_weight", sample_weight, allowed))
    with np.errstate(over="ignore"):
        weights = weights.astype(np.float64, copy=False)
    if weights.shape != (rows,):
        got = Words(f"an array of shape {weights.shape}")
        raise ValueError(message("sample_weight", got, allowed))
    largest = weights.max()
    if not np.isfinite(weights).all() or (weights < 0).any() or not largest > 0:
        got = Words(f"weights from {weights.min():g} to {largest:g}")
        raise ValueError(message("sample_weight", got, "finite, zero or more, not all zero"))
    # Their sum might overflow, or its inverse.
    weights = weights / largest
    scaled: Array = weights * (rows / weights.sum())
    return scaled


def row_offset(offset: Any, loss: GLM) -> Array:
    """Return what is added to the linear predictors, as float64."""
    outputs, rows = loss.family.outputs, loss.design.rows
    shape = (rows,) if outputs == 1 else (rows, outputs)
    values: Array = to_numpy(check.real_array("offset", offset))
    if values.shape != shape or not np.isfinite(values).all():
        got = Words(f"an array of shape {values.shape}{' with NaN' * (values.shape == shape)}")
        raise ValueError(message("offset", got, f"finite numbers in the shape {shape}"))
    return values.astype(np.float64, copy=False)


class LinearLoss(Summable):
    """Parameters, L2 term and full passes of a mean loss of linear predictors; abstract.

    A subclass has a ``design`` with its ``width`` and ``intercept``, a ``family``, the strength
    ``l2`` and a ``batch_size`` (None: all).
    """

    repeatable = True
    design: Any
    family: Family
    l2: float
    batch_size: int | None

    @cached_property
    def dim(self) -> int:
        """Number of parameters."""
        return int(self.design.width) * self.family.outputs

    def zeros(self) -> Vector:
        """Return the zero vector of parameters, in the library and dtype of the data."""
        return self.design.asarray(np.zeros(self.dim))

    @property
    def exact(self) -> bool:
        """Whether every gradient is of all rows; batches, however large, are drawn at random."""
        return self.batch_size is None

    def everything(self) -> Batch:
        """Return the batch of all rows."""
        return None

    def ridge(self, w: Vector) -> Any:
        """Return the gradient of the L2 term."""
        return self._strengths * w if self.l2 else 0.0

    @cached_property
    def _strengths(self) -> Vector:
        """The L2 term's strength for each parameter: zero for intercepts."""
        strengths = np.full((self.design.width, self.family.outputs), self.l2)
        if self.design.intercept:
            strengths[-1] = 0.0
        return self.design.asarray(strengths.ravel())


class GLM(LinearLoss, Paired):
    r"""Mean loss of a generalised linear model, plus ``l2/2 ‖w‖²`` without the intercept.

    .. math:: L(w) = \frac{1}{\sum s_i}\sum_i s_i\,\ell(x_i^\top w, t_i) + \frac{\ell_2}{2}\|w\|^2

    Usually built by :func:`linear_regression`, :func:`logistic_regression`,
    :func:`softmax_regression`, :func:`poisson_regression` or :func:`gamma_regression`. The
    parameters are one vector: the coefficients, then the intercept; for C classes the (d, C) matrix
    flattened row by row.

    Parameters
    ----------
    X : array or scipy.sparse matrix of shape (n, p)
        Inputs. CSR and dense arrays are used as they are, without a copy.
    y : array of shape (n,), optional
        Labels. Without them the model is label-free: still a proxy, and still an objective whose
        gradients come from observed labels through :meth:`gradient_from`.
    family : Family
        What the labels are and what ℓ is, such as ``proxyprox.problems.families.Logistic()``.
    l2 : float
        Strength of the L2 term.
    intercept : bool
        Whether a constant is fitted; it is never regularised.
    sample_weight : array of shape (n,), optional
        Weights ≥ 0 of the rows.
    batch_size : int, optional
        Rows drawn, uniformly with replacement, for each stochastic gradient. None means all.
    offset : array of shape (n,), of softmax (n, C), optional
        What is added to the linear predictors, such as the logarithm of each row's exposure.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox.problems.families import Poisson
    >>> GLM(np.ones((2, 1)), [0, 3], Poisson()).gradient(np.zeros(1))
    array([-0.5])
    """

    design: Design

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
        offset: Any | None = None,
    ) -> None:
        check.instance("family", family, Family, "a family such as Logistic()")
        self.design = design = X if isinstance(X, Design) else Design(X, intercept=intercept)
        self.family = family
        self.l2 = check.nonnegative("l2", l2)
        self.batch_size = _check_batch_size(batch_size)
        self.sample_weight = row_weights(sample_weight, design.rows)
        self.targets: Any = None if y is None else encode_labels(family, y, design.rows)
        self._weights = None if sample_weight is None else design.asarray(self.sample_weight)
        self._offset: Any = None
        if offset is not None:
            self._offset = design.asarray(row_offset(offset, self))
        # One slot: Newton-CG asks for many products at one point.
        self._curved: tuple[Vector, Any] | None = None

    # -- the loss ---------------------------------------------------------------------------

    def value(self, w: Vector) -> float:
        """Return L(w)."""
        design, totals, matrix = self.design, list[float](), self._by_output(w)

        def note(rows: slice, part: Any) -> None:
            losses = self._rows("loss", rows, design.push(part, matrix), self._labels_of(rows))
            totals.append(float(design.xp.sum(losses)))

        design.visit(note)
        return self._value_of(w, totals, design.rows)

    def gradient(self, w: Vector, batch: Batch = None) -> Vector:
        """Return ∇L(w), or its unbiased estimate from the rows of a batch."""
        return self._pass(w, batch)

    def value_and_gradient(self, w: Vector, batch: Batch = None) -> tuple[float, Vector]:
        """Return L(w) and ∇L(w) with one product less; of a batch, those of its rows."""
        totals: list[float] = []
        gradient = self._pass(w, batch, totals)
        return self._value_of(w, totals, self.samples(batch)), gradient

    def gradient_from(self, w: Vector, batch: Batch, observations: Any) -> Vector:
        """Return the batch's gradient from labels observed for its rows."""
        rows = np.arange(self.design.rows) if batch is None else np.atleast_1d(batch)
        codes = encode_labels(self.family, observations, len(rows))
        with np.errstate(over="ignore"):
            # Whoever asked meets what is not finite, and names it.
            return self._pass(w, rows, observed=as_targets(self.design, self.family, codes))

    def _pass(
        self, w: Vector, batch: Batch, totals: list[float] | None = None, observed: Any = None
    ) -> Vector:
        """Return the gradient on a batch, and enter the losses of blocks of rows in ``totals``."""
        design, name = self.design, "slope" if totals is None else "loss_and_slope"
        design = design if batch is None else design.take(batch)

        def slopes(block: slice, z: Any) -> Any:
            rows = block if batch is None else batch[block]
            targets = self._labels_of(rows) if observed is None else observed[block]
            found = self._rows(name, rows, z, targets)
            if totals is None:
                return found
            totals.append(float(design.xp.sum(found[0])))
            return found[1]

        return self._mean(design.pull_mapped(self._by_output(w), slopes), design) + self.ridge(w)

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return ∇²L(w) v in two passes over the data."""
        curvature, softmax = self._curvature(w), self.family.outputs > 1

        def bend(rows: slice, pushed: Any) -> Any:
            if softmax:
                mean = self.design.xp.sum(curvature[rows] * pushed, axis=1, keepdims=True)
                return self._weighed(rows, curvature[rows] * (pushed - mean))
            return curvature[rows] * pushed

        pulled = self.design.pull_mapped(self._by_output(v), bend)
        return self._mean(pulled, self.design) + self.ridge(v)

    def hessian(self, w: Vector) -> Matrix:
        """Return the d × d matrix ∇²L(w)."""
        curvature = self._curvature(w)
        scale = 1 / self.design.rows
        if self.family.outputs == 1:
            hessian = self.design.gram(curvature * scale)
        else:
            rows = scale if self._weights is None else scale * self._weights
            hessian = self.design.softmax_gram(curvature, rows)
        if self.l2:
            hessian = hessian + self.design.asarray(np.diag(to_numpy(self._strengths)))
        return hessian

    def units(self) -> Vector:
        """Return about the change of each parameter that matters: ``1/√H_jj`` of a constant model.

        The sums of squares are those of all rows, so that no rare column is missed. If some entries
        of a sparse table, where sums take a pass, show that its columns are alike, all have one.
        """
        design, squares = self.design, None
        if design.sparse and not design.intercept and "squares" not in vars(design):
            some = slice(None, None, max(1, design.X.nnz // SOME))
            found = np.bincount(design.X.indices[some], design.X.data[some] ** 2, design.width)
            if found.max() < ALIKE * found.min():
                squares = np.full(design.width, found.mean() * some.step)
                squares *= design.rows / design.X.shape[0]
        squares = design.squares if squares is None else squares
        family, rates = self.family, np.array([self.family.neutral])
        if self.targets is not None and family.outputs == 1:
            rates = np.atleast_1d(family.base_rate(self.targets, self.sample_weight))
        elif self.targets is not None:
            counts = np.bincount(self.targets, self.sample_weight, family.outputs)
            rates = family.base_rate(np.eye(family.outputs), counts)[None]
        with np.errstate(all="ignore"):
            bends = family.expected_curvature(family.link(rates))
            bends = np.diagonal(bends[0]) if family.outputs > 1 and bends.ndim == 3 else bends
            sizes = np.outer(squares / design.rows, bends).ravel()
            sizes = 1 / np.sqrt(sizes + to_numpy(self._strengths))
        # An empty column, or a family that knows nothing of its constant model.
        return design.asarray(np.where(np.isfinite(sizes) & (sizes > 0), sizes, 1.0))

    @property
    def work(self) -> Work:
        """About how long a gradient and a Hessian take."""
        design, outputs = self.design, self.family.outputs
        entries = design.X.nnz if design.sparse else design.rows * design.columns
        hessian = min(design.gram_work) * outputs * (outputs + 1) / 2
        # 20 µs of calls, two passes over the entries, and the family's function of each row.
        gradient = 2e4 + outputs * (2.0 * entries + 15.0 * design.rows)
        return Work(gradient, hessian, design.rows, design.width)

    @property
    def facts(self) -> Facts:
        """What else is known of the loss."""
        unready = ""
        if self.targets is None:
            unready = (
                "y of the target must be given, got None. "
                "Give y, or use Run and tell(observations=...), which buys labels."
            )
        return Facts(
            empirical=True, divisible=True, rows=self._counted_rows, start=self.zeros(),
            unready=unready, work=self.work, subsample=self.spread_sample, units=self.units,
            hessian_terms=((1.0, HessianOf(self)),),
            settings={"batch_size": self.batch_size, "l2": self.l2},
        )  # fmt: skip

    # -- constants --------------------------------------------------------------------------

    @cached_property
    def smoothness(self) -> float:
        """A bound H on the Hessian's largest eigenvalue; infinite if the family has none."""
        known = self.family.canonical or self.targets is not None
        bound = self.family.max_curvature if known else self.family.max_expected_curvature
        if math.isinf(bound):
            return math.inf
        rows = self.design.asarray(self.sample_weight / self.design.rows)
        return bound * self.design.largest_eigenvalue(rows) + self.l2

    @cached_property
    def strong_convexity(self) -> float:
        """A bound μ on the Hessian's smallest eigenvalue, over all w."""
        if self.family.quadratic and self.design.width <= 2000:
            exact = np.linalg.eigvalsh(to_numpy(self.hessian(self.zeros())))
            return max(float(exact[0]), 0.0)
        return 0.0 if self.design.intercept else self.l2

    # -- sampling ---------------------------------------------------------------------------

    def sample(self, rng: np.random.Generator) -> Batch:
        """Draw row numbers uniformly with replacement (None: all rows)."""
        if self.batch_size is None:
            return None
        return rng.integers(self.design.rows, size=self.batch_size)

    def samples(self, batch: Batch) -> int:
        """Return the number of rows (labels) of a batch."""
        return self.design.rows if batch is None else len(batch)

    # -- relatives --------------------------------------------------------------------------

    def label_free(self, X: Any | None = None) -> GLM:
        """Return the proxy that needs no labels.

        With a canonical link it has δ = 0 on the same inputs. With any other link the curvature
        sees the labels: the proxy then has the expected curvature (Fisher information).

        Parameters
        ----------
        X : array or sparse matrix, optional
            Other, unlabelled inputs; by default this model's own. Inputs equal to this model's
            own count as these, with their weights.
        """
        design = self.design if X is None else Design(X, intercept=self.design.intercept)
        if design.columns != self.design.columns:
            allowed = f"a table of {self.design.columns} columns, as the target's is"
            raise ValueError(message("X", Words(f"{design.columns} columns"), allowed))
        if design.same_inputs(self.design):
            # Recognised by content: then the rows have their weights, too.
            design = self.design
        own = design is self.design
        weights = self.sample_weight if own and self._weights is not None else None
        offset = self._offset if own else None
        return GLM(design, None, self.family, l2=self.l2, sample_weight=weights, offset=offset)

    def subsample(self, n: int, *, rng: np.random.Generator | int | None = None) -> GLM:
        """Return the same loss on ``n`` of its rows, drawn without replacement."""
        n = check.whole("n", n)
        if n > self.design.rows:
            raise ValueError(message("n", n, f"at most the number of rows, {self.design.rows}"))
        return self.rows(np.sort(check.generator(rng).choice(self.design.rows, n, replace=False)))

    def spread_sample(self, n: int) -> GLM:
        """Return the same loss on one row of each of n stretches of the table, drawn by a seed.

        A table that is sorted is then sampled evenly. A large sample is not copied.
        """
        remedy = "It is the number of rows of the sample."
        rows = self.design.rows
        n = check.whole("sample", n, most=rows, remedy=remedy)
        places = (np.arange(n) + np.random.default_rng(0).random(n)) * (rows / n)
        chosen = np.minimum(places.astype(np.intp), rows - 1)
        small = n * self.design.width <= 4 * BLOCK or n <= COPIED * rows
        return self.rows(chosen, copied=small or not self.design.in_blocks)

    def same_curvature(self, other: Any) -> bool:
        """Tell whether another loss is this one up to what its Hessian does not see.

        With a canonical link these are the labels; with another they must be the same, or absent
        in both.
        """
        return (
            isinstance(other, GLM)
            and type(other.family) is type(self.family)
            and other.family.settings() == self.family.settings()
            and (self.family.canonical or np.array_equal(other.targets, self.targets))
            and np.array_equal(other._offset, self._offset)
            and other.dim == self.dim
            and other.l2 == self.l2
            and other.design.same_inputs(self.design)
            and bool(np.allclose(other.sample_weight, self.sample_weight, rtol=1e-9, atol=0))
        )

    def fingerprint(self) -> str:
        """Return a text that only models of the same data, family, l2 and batch size share."""
        family, design = self.family, self.design
        kind = type(family).__name__, family.outputs, design.intercept, self.l2, self.batch_size
        settings = sorted(family.settings().items())
        return digest(
            *kind, design.X, design.chosen, self.targets, self._weights, self._offset, *settings
        )

    def rows(self, chosen: Any, *, sample_weight: Any | None = None, copied: bool = True) -> GLM:
        """Return the same loss on the chosen rows, with their weights or others."""
        design = self.design
        if copied:
            design = design.take(chosen)
        else:
            places = chosen if design.chosen is None else design.chosen[chosen]
            design = Design(design.X, intercept=design.intercept, checked=True, chosen=places)
        if sample_weight is None and self._weights is not None:
            sample_weight = self.sample_weight[chosen]
        labels = None if self.targets is None else Encoded(self.targets[chosen])
        return GLM(
            design, labels, self.family, l2=self.l2, sample_weight=sample_weight,
            offset=None if self._offset is None else self._offset[chosen],
        )  # fmt: skip

    def _counted_rows(self, chosen: Any, counts: Any) -> GLM:
        return self.rows(chosen, sample_weight=counts * self.sample_weight[chosen])

    def with_l2(self, l2: float) -> GLM:
        """Return the same loss with another strength; data and sums are shared."""
        twin = copy.copy(self)
        twin.l2 = check.nonnegative("l2", l2)
        for name in ("_strengths", "smoothness", "strong_convexity"):
            vars(twin).pop(name, None)
        return twin

    def with_batch_size(self, batch_size: int | None) -> GLM:
        """Return the same loss with another batch size; the data is shared."""
        twin = copy.copy(self)
        twin.batch_size = _check_batch_size(batch_size)
        return twin

    # -- internals --------------------------------------------------------------------------

    def _rows(self, name: str, rows: Any, z: Any, targets: Any | None) -> Any:
        """Return weighted losses, slopes or curvatures of rows; without labels the expected one."""
        z = z if self._offset is None else z + self._offset[rows]
        if targets is None and not self.family.canonical:
            found = getattr(self.family, f"expected_{name}")(z)
        else:
            found = getattr(self.family, name)(z, self._neutral if targets is None else targets)
        weigh = partial(self._weighed, rows)
        return tuple(map(weigh, found)) if isinstance(found, tuple) else weigh(found)

    @cached_property
    def _neutral(self) -> float:
        return self.family.neutral

    def _labels_of(self, rows: Any) -> Any:
        """Return the targets of some rows, as the family takes them, if known."""
        if self._labels is None or self.family.outputs == 1 or not self.design.in_blocks:
            return None if self._labels is None else self._labels[rows]
        # Block by block: a dense one-hot matrix of all rows could outweigh the data.
        return np.eye(self.family.outputs)[self._labels[rows]]

    def _by_output(self, w: Vector) -> Any:
        """Return parameters as the design multiplies them: of several outputs, a column each."""
        check.require_point("w", w, self.dim)
        outputs, design = self.family.outputs, self.design
        return w if outputs == 1 else design.xp.reshape(w, (design.width, outputs))

    def _value_of(self, w: Vector, totals: list[float], rows: int) -> float:
        # Rounded once: the order in which threads have added blocks does not matter.
        total = math.fsum(totals) / rows
        return total + dot(w, self.ridge(w)) / 2 if self.l2 else total

    def _weighed(self, rows: Any, terms: Any) -> Any:
        if self._weights is None:
            return terms
        weights = self._weights[rows]
        return terms * (weights if terms.ndim == 1 else weights[:, None])

    def _mean(self, pulled: Any, design: Design) -> Vector:
        """Return ``Xᵀ r`` of a design's rows as a vector, divided by their number."""
        return (pulled if pulled.ndim == 1 else design.xp.reshape(pulled, (-1,))) / design.rows

    def _curvature(self, w: Vector) -> Any:
        """Return each row's weighted curvature at a point, of softmax its probabilities."""
        # Read once and replaced whole: other threads may store their own point in between.
        known = self._curved
        if known is not None and bool(self.design.xp.all(known[0] == w)):
            return known[1]
        z, everything = self.design.predict(self._by_output(w)), slice(None)
        if self.family.outputs > 1:
            curvature = self.family.mean(z if self._offset is None else z + self._offset)
        else:
            curvature = self._rows("curvature", everything, z, self._labels)
        # A copy: the caller may change its array in place.
        self._curved = (copy_array(w), curvature)
        return curvature

    @cached_property
    def _labels(self) -> Any:
        """The targets as passes index them."""
        if self.targets is None or self.design.in_blocks:
            return self.targets
        return as_targets(self.design, self.family, self.targets)


GLM.__init__ = check.explain_names(GLM.__init__)  # type: ignore[method-assign]


def _check_batch_size(batch_size: Any) -> int | None:
    # More rows than memory can hold row numbers of are a slip, not a batch.
    return None if batch_size is None else check.whole("batch_size", batch_size, most=2**31)


def linear_regression(X: Any, y: Any = None, **options: Any) -> GLM:
    """Return the least-squares loss ``mean (xᵀw − y)²/2``; options as in :class:`GLM`.

    Examples
    --------
    >>> import numpy as np
    >>> loss = linear_regression(np.eye(2), [1.0, 2.0])
    >>> loss.value(np.zeros(2))
    1.25
    """
    return GLM(X, y, families.Linear(), **options)


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
    return GLM(X, y, families.Logistic(families.check_classes(classes, y, binary=True)), **options)


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
    return GLM(X, y, families.Softmax(families.check_classes(classes, y, binary=False)), **options)


def poisson_regression(X: Any, y: Any = None, **options: Any) -> GLM:
    """Return the Poisson loss ``mean exp(xᵀw) − y xᵀw``; options as in :class:`GLM`.

    Examples
    --------
    >>> import numpy as np
    >>> loss = poisson_regression(np.ones((2, 1)), [0, 3])
    >>> loss.value(np.zeros(1))
    1.0
    """
    return GLM(X, y, families.Poisson(), **options)


def gamma_regression(X: Any, y: Any = None, **options: Any) -> GLM:
    """Return half the Gamma deviance of amounts above zero; options as in :class:`GLM`.

    The mean is ``exp(xᵀw)``. This link is not the canonical one: the curvature sees the labels,
    so that a label-free proxy on the same inputs is close to the target, but δ is not zero.

    Examples
    --------
    >>> import numpy as np
    >>> loss = gamma_regression(np.ones((2, 1)), [1.0, 3.0])
    >>> loss.gradient(np.zeros(1)), loss.hessian(np.zeros(1))
    (array([-1.]), array([[2.]]))
    """
    return GLM(X, y, families.Gamma(), **options)
