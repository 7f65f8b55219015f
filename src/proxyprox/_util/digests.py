"""What tells one loss or table from another: a digest of its data and settings."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np
import scipy.sparse
from array_api_compat import is_array_api_obj

from proxyprox._util.arrays import to_numpy


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return 16 hex digits that another content of the file would change."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def text_digest(text: str) -> str:
    """Return 16 hex digits of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def data_digest(X: Any) -> str:
    """Return 16 hex digits that other values, another order or another shape would change.

    Parameters
    ----------
    X : array, DataFrame or CSR matrix
        Inputs; their precision and memory layout do not matter.
    """
    if scipy.sparse.issparse(X):
        return digest(X.sorted_indices().astype(np.float64))[:16]
    X = np.asarray(X)
    try:
        return digest(X.astype(np.float64, copy=False))[:16]
    except (TypeError, ValueError):
        # Text, which a Pipeline makes numbers of.
        return digest(repr(X.tolist()))[:16]


def fingerprint(loss: Any) -> str | None:
    """Return a text that only equal losses share, or None if the loss cannot give one."""
    offered = getattr(loss, "fingerprint", None)
    given = offered() if callable(offered) else None
    return None if given is None else str(given)


def combined_fingerprint(kind: str, losses: Any, *settings: Any) -> str | None:
    """Return the fingerprint of a loss made of others, if each of them has one."""
    parts = [fingerprint(loss) for loss in losses]
    return None if None in parts else digest(kind, *parts, *settings)


def digest(*items: Any) -> str:
    """Return a digest of arrays, sparse matrices, numbers and texts, in their order."""
    state: Any = hashlib.blake2b(digest_size=16)
    for item in items:
        arrays = [item] if is_array_api_obj(item) and not isinstance(item, np.generic) else []
        if scipy.sparse.issparse(item):
            rows = item.tocsr()
            state.update(f"sparse {rows.shape}".encode())
            arrays = [rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)]
        elif not arrays:
            state.update(f"{type(item).__name__} {item!r};".encode())
        for array in map(to_numpy, arrays):
            state.update(f"{array.dtype.str} {array.shape};".encode())
            # As bytes, without a copy of what is contiguous already.
            state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return str(state.hexdigest())
