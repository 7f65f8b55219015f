"""What tells one loss from another: a digest of its data and settings."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import scipy.sparse
from array_api_compat import is_array_api_obj

from proxyprox._arrays import to_numpy


def fingerprint(loss: Any) -> str | None:
    """Return a text that only equal losses share, or None where the loss cannot give one."""
    offered = getattr(loss, "fingerprint", None)
    given = offered() if callable(offered) else None
    return None if given is None else str(given)


def combined(kind: str, losses: Any, *settings: Any) -> str | None:
    """Return the fingerprint of a loss made of others, if each of them has one."""
    parts = [fingerprint(loss) for loss in losses]
    return None if None in parts else digest(kind, *parts, *settings)


def digest(*items: Any) -> str:
    """Return a digest of arrays, sparse matrices, numbers and texts, in their order."""
    state = hashlib.blake2b(digest_size=16)
    for item in items:
        if scipy.sparse.issparse(item):
            rows = item.tocsr()
            state.update(f"sparse {rows.shape}".encode())
            for part in (rows.data, rows.indices, rows.indptr):
                _add(state, part)
        elif is_array_api_obj(item) and not isinstance(item, np.generic):
            _add(state, to_numpy(item))
        else:
            state.update(f"{type(item).__name__} {item!r};".encode())
    return state.hexdigest()


def _add(state: Any, array: np.ndarray[Any, Any]) -> None:
    state.update(f"{array.dtype.str} {array.shape};".encode())
    # As bytes, without a copy of what is contiguous already.
    state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
