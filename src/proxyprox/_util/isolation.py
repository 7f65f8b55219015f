"""What a user's code is handed: copies, so that writing into its arguments changes no run.

Vectors are copied where a user's function is called, and so are its answers, since it may reuse
their buffer. Batches are copied where a run or an audit hands them out. Read-only arrays would not
do: compiled code refuses them, and ``torch.from_numpy`` warns. The package's own losses write into
nothing and are called as they are.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import scipy.sparse
from array_api_compat import is_array_api_obj, is_numpy_array

from proxyprox._util.arrays import copied

# Methods of losses and penalties that are handed vectors.
VECTORS = frozenset(
    ("value", "gradient", "hvp", "hessian", "solve_shifted", "gradient_from", "prox", "distance")
)


def is_ours(part: Any) -> bool:
    """Tell whether an object is of a class of this package; a user's subclass is not."""
    return type(part).__module__.startswith("proxyprox.")


def isolated(part: Any) -> Any:
    """Return a loss or a penalty that gets copies of vectors, with all else that it offers."""
    return part if part is None or is_ours(part) else Isolated(part)


class Isolated:
    """A user's loss or penalty, called with copies of vectors and answering with copies."""

    __slots__ = ("_part",)

    def __init__(self, part: Any) -> None:
        self._part = part

    def __reduce__(self) -> tuple[Any, ...]:
        return Isolated, (self._part,)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        return with_copies(found) if name in VECTORS and callable(found) else found


def with_copies(function: Any) -> Any:
    """Return a user's function that gets copies of vectors, and whose answer is copied.

    A Hessian is answered as it is: nothing here keeps it or writes into it. Batches, which are
    copied where they are handed out, are passed on.
    """
    given = function is None or isinstance(function, _Copying)
    return function if given else _Copying(function)


class _Copying:
    __slots__ = ("__wrapped__",)

    def __init__(self, function: Callable[..., Any]) -> None:
        # The name under which inspect.signature looks for the arguments.
        self.__wrapped__ = function

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        handed = [_vector_copied(argument) for argument in arguments]
        named = {name: _vector_copied(argument) for name, argument in named.items()}
        return _vector_copied(self.__wrapped__(*handed, **named))


def _vector_copied(x: Any) -> Any:
    return copied(x) if is_array_api_obj(x) and x.ndim == 1 else x


def copied_tree(x: Any, done: dict[int, Any] | None = None) -> Any:
    """Return a copy of the arrays in a batch or a state, however nested; what was one stays one.

    Objects of unknown classes are shared.
    """
    if x is None or isinstance(x, (int, float, str, bytes)):
        return x
    done = {} if done is None else done
    if isinstance(x, dict):
        twin = copy.copy(x)
        twin.update((key, copied_tree(item, done)) for key, item in x.items())
        return twin
    if isinstance(x, tuple):
        items = [copied_tree(item, done) for item in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    if isinstance(x, list):
        return [copied_tree(item, done) for item in x]
    if getattr(x, "requires_grad", False):
        # Its graph is the user's.
        return x
    if is_array_api_obj(x):
        if id(x) not in done:
            # The order of a matrix stays: products with it differ in the last bit.
            done[id(x)] = x.copy(order="K") if is_numpy_array(x) else copied(x)
        return done[id(x)]
    if scipy.sparse.issparse(x) or hasattr(x, "iloc") or isinstance(x, (set, bytearray)):
        return x.copy()
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        same: Any = copy.copy(x)
        for field in dataclasses.fields(x):
            if hasattr(x, field.name):
                object.__setattr__(same, field.name, copied_tree(getattr(x, field.name), done))
        return same
    return x
