"""Short digests of data and files, by which answers and the rows they belong to are matched."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np
import scipy.sparse

BLOCK = 1 << 22
"""Entries that are hashed at a time: no copy of the data is made."""


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
    found = hashlib.blake2b(digest_size=8)
    found.update(repr(("csr" if scipy.sparse.issparse(X) else "dense", *X.shape)).encode())
    if scipy.sparse.issparse(X):
        X = X if X.has_sorted_indices else X.sorted_indices()
        for part, kind in ((X.indptr, np.int64), (X.indices, np.int64), (X.data, np.float64)):
            _update(found, part, kind)
    else:
        X = np.asarray(X)
        try:
            _update(found, X, np.float64)
        except (TypeError, ValueError):
            # Text, which a Pipeline makes numbers of.
            found.update(repr(X.tolist()).encode())
    return found.hexdigest()


def _update(found: Any, array: Any, kind: Any) -> None:
    step = max(1, BLOCK // max(1, int(np.prod(array.shape[1:]))))
    for start in range(0, len(array), step):
        found.update(np.ascontiguousarray(array[start : start + step], dtype=kind))
