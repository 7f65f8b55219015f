"""What tells one function from another of the same name, such as two lambdas: what it is made of.

Its instructions, constants, defaults, and the numbers, texts, tuples, arrays and functions of its
own module that it sees around it. What it could be changing (lists, dicts, variables that it sets
itself) and what objects hold is left out: a schedule that counts its calls is still the same.
"""

from __future__ import annotations

import dis
import functools
import hashlib
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from proxyprox._arrays import to_numpy

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


def code_digest(item: Any) -> str | None:
    """Return a digest of a function, method or partial; None for what has no code to look at.

    Examples
    --------
    >>> first, second, third = lambda k: 0.1, lambda k: 0.2, lambda n: 0.1
    >>> code_digest(first) == code_digest(second), code_digest(first) == code_digest(third)
    (False, True)
    >>> code_digest(max) is None
    True
    """
    if not isinstance(item, (FunctionType, MethodType, functools.partial)):
        return None
    reader = _Reader()
    reader.add(item)
    return reader.state.hexdigest()


class _Reader:
    """Takes values in, each once where they may refer to themselves."""

    def __init__(self) -> None:
        self.state = hashlib.sha256()
        self._seen: set[int] = set()

    def add(self, item: Any) -> None:
        if isinstance(item, _PLAIN):
            self._say(f"{type(item).__name__} {item!r}")
        elif isinstance(item, np.generic) or not is_array_api_obj(item):
            self._add_other(item)
        else:
            array = np.ascontiguousarray(to_numpy(item))
            self._say(f"array {array.dtype.str} {array.shape}")
            self.state.update(array.tobytes())

    def _say(self, text: str) -> None:
        self.state.update(text.encode("utf-8", "surrogatepass") + b"\0")

    def _add_other(self, item: Any) -> None:
        if isinstance(item, tuple):
            self._say(f"tuple {len(item)}")
            for part in item:
                self.add(part)
        elif isinstance(item, frozenset):
            self._say(f"set {sorted(map(repr, item))}")
        elif isinstance(item, np.generic):
            self._say(f"{item.dtype.str} {item!r}")
        elif isinstance(item, MethodType):
            self._say(f"method of {type(item.__self__).__qualname__}")
            self.add(item.__func__)
        elif isinstance(item, functools.partial):
            self._say("partial")
            self.add((item.func, item.args, tuple(sorted(item.keywords.items()))))
        elif isinstance(item, FunctionType):
            self._add_function(item)
        else:
            self._say(f"a {type(item).__qualname__}")

    def _add_function(self, function: FunctionType) -> None:
        if id(function) in self._seen:
            self._say("again")
            return
        self._seen.add(id(function))
        code = function.__code__
        self._add_code(code, docstring=function.__doc__)
        self.add(function.__defaults__ or ())
        self.add(tuple(sorted((function.__kwdefaults__ or {}).items())))
        read, written = _names(code, "LOAD_GLOBAL"), _names(code, "STORE_GLOBAL", "STORE_DEREF")
        around = {name: function.__globals__.get(name) for name in read}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                around[name] = cell.cell_contents
            except ValueError:  # not set yet
                continue
        for name in sorted(around.keys() - written):
            value = around[name]
            if isinstance(value, FunctionType) and value.__module__ != function.__module__:
                value = value.__qualname__
            self._say(name)
            self.add(value)

    def _add_code(self, code: CodeType, docstring: str | None = None) -> None:
        self._say(
            f"code {code.co_argcount} {code.co_kwonlyargcount} {code.co_flags} {code.co_names}"
        )
        self.state.update(code.co_code + code.co_exceptiontable)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._add_code(constant)
            elif docstring is None or constant != docstring:
                self.add(constant)


def _names(code: CodeType, *operations: str) -> set[str]:
    """Return the names that operations of a function, or of those inside it, refer to."""
    return {
        str(instruction.argval)
        for part in _nested(code)
        for instruction in dis.get_instructions(part)
        if instruction.opname in operations
    }


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
