"""What tells one loss or table from another: a digest of its data and settings."""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import inspect
import os
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType
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
    """Return a text that only equal losses share, or None where the loss cannot give one."""
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


def code_digest(item: Any) -> str:
    """Return what tells one function from another of the same name, such as two lambdas.

    Its instructions, constants, defaults, and the numbers, texts, tuples, arrays and functions of
    its own module that it sees around it count. What it could be changing (lists, dicts, variables
    that it sets itself) and what objects hold does not: a schedule that counts its calls is still
    the same.

    Examples
    --------
    >>> first, second, third = lambda k: 0.1, lambda k: 0.2, lambda n: 0.1
    >>> code_digest(first) == code_digest(second), code_digest(first) == code_digest(third)
    (False, True)
    """
    return digest(*_code_parts(item, set()))


def _code_parts(item: Any, seen: set[int]) -> Iterator[Any]:
    plain = (type(None), bool, int, float, complex, str, bytes, type(...), np.generic)
    parts: Iterable[Any] = ()
    if isinstance(item, plain) or is_array_api_obj(item):
        yield item
        return
    if isinstance(item, (tuple, frozenset)):
        parts = item if isinstance(item, tuple) else sorted(map(repr, item))
    elif isinstance(item, MethodType):
        parts = type(item.__self__).__qualname__, item.__func__
    elif isinstance(item, functools.partial):
        parts = item.func, item.args, tuple(sorted(item.keywords.items()))
    elif isinstance(item, CodeType):
        called = item.co_argcount, item.co_kwonlyargcount, item.co_flags, item.co_names
        parts = called, item.co_code, item.co_exceptiontable, item.co_consts
    elif isinstance(item, FunctionType) and id(item) not in seen:
        seen.add(id(item))
        code, keywords = item.__code__, tuple(sorted((item.__kwdefaults__ or {}).items()))
        constants = tuple(None if part == item.__doc__ else part for part in code.co_consts)
        around = tuple(_surroundings(item))
        parts = code.replace(co_consts=constants), item.__defaults__, keywords, around
    yield f"{type(item).__qualname__} of {len(tuple(parts))}"
    for part in parts:
        yield from _code_parts(part, seen)


def _surroundings(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function reads from around it and never sets, by name."""
    with contextlib.suppress(ValueError):  # one of them is not set yet
        seen = inspect.getclosurevars(function)
        around = {**seen.globals, **seen.nonlocals}
        operations = dis.get_instructions(function)
        changed = {op.argval for op in operations if op.opname in ("STORE_GLOBAL", "STORE_DEREF")}
        for name in sorted(around.keys() - changed):
            value = around[name]
            if isinstance(value, FunctionType) and value.__module__ != function.__module__:
                value = value.__qualname__
            yield name, value
