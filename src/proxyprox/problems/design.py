"""The data matrix of a linear model: products, row batches and weighted Gram matrices.

Dense NumPy, scipy-sparse and dense torch data behave alike behind it. Nothing here copies the
data: the intercept is arithmetic, and Gram matrices are summed over blocks of rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse
from array_api_compat import is_numpy_array

from proxyprox._util.arrays import from_numpy, namespace, to_numpy
from proxyprox._util.validation import (
    INSTEAD,
    Words,
    flag,
    floating,
    message,
    real_array,
    require_finite,
)

BLOCK_ELEMENTS = 1 << 18
"""Entries of the dense row blocks that Gram matrices are summed over (2 MiB of float64)."""


class Design:
    """A matrix of n rows and p columns, with a constant column appended if asked for."""

    def __init__(self, X: Any, *, intercept: bool = False, checked: bool = False) -> None:
        self.X = X if checked else _checked(X)
        self.XT = self.X.T
        self.sparse = scipy.sparse.issparse(self.X)
        self.intercept = flag("intercept", intercept)
        self.rows, self.columns = (int(size) for size in self.X.shape)
        self.width = self.columns + int(intercept)

    @property
    def xp(self) -> Any:
        """The namespace of vectors that multiply this matrix."""
        return np if self.sparse else namespace(self.X)

    def asarray(self, array: Any) -> Any:
        """Return a NumPy array in the library, dtype and device of the data."""
        if self.sparse:
            return np.asarray(array, dtype=self.X.dtype)
        return from_numpy(np.asarray(array), like=self.X)

    def predict(self, w: Any) -> Any:
        """Return ``X w``, plus the intercept."""
        return self.X @ w[:-1] + w[-1] if self.intercept else self.X @ w

    def pull(self, residual: Any) -> Any:
        """Return ``Xᵀ residual``, with the intercept's entry last."""
        pulled = self.XT @ residual
        if not self.intercept:
            return pulled
        xp = self.xp
        total = xp.sum(residual, axis=0)
        return xp.concat([pulled, xp.reshape(total, (1, *pulled.shape[1:]))])

    def gram(self, weights: Any) -> Any:
        """Return ``Xᵀ diag(weights) X`` for weights ≥ 0, in O(block + width²) extra memory."""
        xp = self.xp
        roots = xp.sqrt(weights)
        total: Any = 0.0
        step = max(1, BLOCK_ELEMENTS // max(self.width, 1))
        for start in range(0, self.rows, step):
            block = self.X[start : start + step]
            block = block.toarray() if self.sparse else block
            scaled = block * roots[start : start + step, None]
            if self.intercept:
                scaled = xp.concat([scaled, roots[start : start + step, None]], axis=1)
            total = total + scaled.T @ scaled
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
            part = self.X[rows]
        except (IndexError, TypeError, ValueError) as error:
            raise self._no_rows(rows) from error
        if part.ndim != 2 or part.shape[0] == 0:
            raise self._no_rows(rows)
        return Design(part, intercept=self.intercept, checked=True)

    def _no_rows(self, got: Any) -> ValueError:
        allowed = f"an array of row numbers from 0 to {self.rows - 1}"
        return ValueError(message("batch", got, allowed))

    def same_inputs(self, other: Design) -> bool:
        """Tell whether another design holds the same numbers, to the coarser of the two dtypes."""
        if other is self:
            return True
        if (self.rows, self.columns, self.intercept) != (
            other.rows, other.columns, other.intercept,
        ):  # fmt: skip
            return False
        if other.X is self.X:
            return True
        if self.sparse and other.sparse:
            one, two = _canonical(self.X), _canonical(other.X)
            places = ((one.indptr, two.indptr), (one.indices, two.indices))
            return all(np.array_equal(*pair) for pair in places) and _equal(one.data, two.data)
        # Blocks of rows: inputs that differ are told apart by the first, equal ones in one pass.
        step = max(1, BLOCK_ELEMENTS // self.columns)
        return all(
            _equal(self._dense(start, step), other._dense(start, step))
            for start in range(0, self.rows, step)
        )

    def _dense(self, start: int, count: int) -> Any:
        block = self.X[start : start + count]
        return block.toarray() if self.sparse else to_numpy(block)

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
    coarse = min(one.dtype, other.dtype, key=lambda dtype: dtype.itemsize)
    with np.errstate(over="ignore"):
        return bool(np.array_equal(one.astype(coarse), other.astype(coarse)))


def _canonical(X: Any) -> Any:
    if X.has_canonical_format and X.data.all():
        return X
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _checked(X: Any) -> Any:
    if scipy.sparse.issparse(X):
        if X.ndim != 2:
            raise ValueError(
                message("X", Words(f"shape {X.shape}"), "two-dimensional (rows × columns)")
            )
        if X.dtype not in (np.float64, np.float32) and X.dtype.kind not in "iub":
            got, remedy = Words(f"dtype {X.dtype}"), INSTEAD.get(X.dtype.kind, "Convert it first.")
            raise TypeError(message("X", got, "of dtype float32 or float64", remedy))
        # Row batches need rows: CSR data passes through untouched, other formats are converted.
        X = X.tocsr()
        if X.dtype not in (np.float64, np.float32):
            X = X.astype(np.float64)
    else:
        X = real_array("X", X, "a numeric matrix (NumPy, scipy.sparse or torch)")
        if X.ndim != 2:
            remedy = "Use X.reshape(-1, 1) for a single column." if X.ndim == 1 else ""
            got = Words(f"shape {tuple(X.shape)}")
            raise ValueError(message("X", got, "two-dimensional (rows × columns)", remedy))
        if not is_numpy_array(X) and X.dtype not in (namespace(X).float32, namespace(X).float64):
            # A device may have neither room nor use for float64: its owner is to choose.
            got = Words(f"dtype {X.dtype}")
            raise TypeError(message("X", got, "of dtype float32 or float64", "Convert it first."))
        X = floating("X", X)
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            message("X", Words(f"shape {tuple(X.shape)}"), "at least one row and one column")
        )
    require_squares("X", X)
    return X


def require_squares(argument: str, X: Any) -> None:
    """Refuse entries that are not finite, or so large that X'X is not."""
    sparse = scipy.sparse.issparse(X)
    entries = X.data if sparse else X
    if 0 in entries.shape:
        return
    largest = max(abs(float(entries.max())), abs(float(entries.min())))
    if not math.isfinite(largest):
        require_finite(argument, entries)
    xp = np if sparse else namespace(X)
    limit = math.sqrt(float(xp.finfo(X.dtype).max) / (16 * (X.shape[1] + 1)))
    if largest > limit:
        got = Words(f"an entry of size {largest:.3g}")
        allowed = f"of entries up to {limit:.1e}, so that sums of their squares are finite"
        raise ValueError(message(argument, got, allowed, "Divide the columns by their scales."))
