"""Trees as bytes: one encoder for states and for configurations.

A file is a header, a payload and a digest of the payload. The payload is one line of JSON, the
skeleton, and the raw arrays. It is written whole or not at all. Nothing is compressed and nothing
in a file is ever run: its records are of classes that the reader brings, no other class is looked
for, and every length is compared with the file's before memory is taken.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import json
import math
import os
import re
import types
import typing
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Philox

from proxyprox._util.arrays import Growing, Vector, digest, namespace, to_numpy
from proxyprox._util.files import atomic_output
from proxyprox._util.validation import require_finite

# -- trees -----------------------------------------------------------------------------------------


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: missing, damaged, or of another run."""


def field_names(cls: type) -> list[str] | None:
    """Return what a record of this class holds; None if it is no dataclass or named tuple."""
    if is_dataclass(cls):
        return [item.name for item in fields(cls)]
    return list(cls._fields) if issubclass(cls, tuple) and hasattr(cls, "_fields") else None


def field_defaults(cls: Any) -> dict[str, Any]:
    """Return the fields of such a class that have a plain default, with it."""
    if is_dataclass(cls):
        return {x.name: x.default for x in fields(cls) if x.default is not MISSING}
    return dict(getattr(cls, "_field_defaults", {}))


def walk(tree: Any) -> Iterator[Any]:
    """Yield every node of a tree."""
    yield tree
    names = field_names(type(tree))
    if names is not None:
        tree = [getattr(tree, name) for name in names]
    elif isinstance(tree, dict):
        tree = list(tree.values())
    for part in tree if isinstance(tree, (list, tuple)) else ():
        yield from walk(part)


def class_name(cls: Any) -> str:
    """Return ``module:qualname`` of a class or function.

    Examples
    --------
    >>> class_name(Growing)
    'proxyprox._util.arrays:Growing'
    """
    return f"{getattr(cls, '__module__', None)}:{getattr(cls, '__qualname__', cls.__name__)}"


def record_classes(tree: Any, others: Iterable[Any] = ()) -> dict[str, type]:
    """Return, by name, the classes of a tree's records and others, and what their fields declare.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Pair:
    ...     one: int
    ...     others: "Growing | None" = None
    >>> [cls.__name__ for cls in record_classes([Pair(1)]).values()]
    ['Pair']
    """
    found: dict[str, type] = {}
    left = [*map(type, walk(tree)), *others]
    while left:
        cls = left.pop()
        left += typing.get_args(cls)
        if isinstance(cls, type) and field_names(cls) is not None and class_name(cls) not in found:
            found[class_name(cls)] = cls
            # A user's annotations may name what only a type checker sees.
            with contextlib.suppress(NameError, TypeError):
                left += _declared(cls).values()
    return found


@functools.cache
def _declared(cls: Any) -> dict[str, Any]:
    """Return the fields of a record's class with what they are declared to hold."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {name: hints[name] for name in field_names(cls) or ()}


def require_form(name: str, value: Any, declared: Any, like: Vector) -> None:
    """Refuse a value that is not what it is declared to be.

    A ``Vector`` is a finite array of the library, dtype and shape of ``like``. Whole numbers are
    not negative, and a number is NaN only if that is its default. ``Annotated[Growing, row]`` says
    what each item of a sequence is.

    Examples
    --------
    >>> require_form("pair", (1, "a"), tuple[int, str], None)
    >>> require_form("pair", (1, 2), tuple[int, str], None)
    Traceback (most recent call last):
    ...
    ValueError: pair[1] is 2, not a str
    """
    kind, inner = typing.get_origin(declared), typing.get_args(declared)
    items: Any = ()
    if declared == Vector:
        if type(value) is not type(like) or (value.dtype, value.shape) != (like.dtype, like.shape):
            shape = f"{tuple(like.shape)} and dtype {like.dtype}"
            raise ValueError(f"{name} is no array of shape {shape}")
        require_finite(name, value)
    elif kind is Annotated:
        require_form(name, value, inner[0], like)
        items = inner[1:] * len(value)
    elif kind in (typing.Union, types.UnionType):
        if value is not None:
            require_form(name, value, inner[0], like)
    elif kind is tuple and type(value) is tuple:
        items = inner[:1] * len(value) if inner[-1:] == (...,) else inner
        if len(items) != len(value):
            raise ValueError(f"{name} has {len(value)} items, not {len(items)}")
    elif declared is not Any:
        wanted = kind or declared
        allowed = {int: (int, np.integer), float: (int, float, np.floating, np.integer)}
        fits = isinstance(value, allowed.get(wanted, wanted))
        fits = fits and (wanted is bool or not isinstance(value, bool))
        if not fits or (wanted is int and value < 0):
            raise ValueError(f"{name} is {str(value)[:100]}, not a {wanted.__name__}")
        if field_names(wanted) is not None:
            cls: Any = type(value)
            defaults = field_defaults(cls)
            for part, form in _declared(cls).items():
                entry = getattr(value, part)
                require_form(f"{name}.{part}", entry, form, like)
                missing = form is float and math.isnan(entry)
                if missing and not math.isnan(defaults.get(part, math.nan)):
                    raise ValueError(f"{name}.{part} is not a number")
    for at, item in enumerate(items and value):
        require_form(f"{name}[{at}]", item, items[at], like)


def restore_rng(state: Any, fresh: np.random.Generator) -> np.random.Generator:
    """Return a generator in a saved state; of NumPy's kinds, or of the fresh one's."""
    kinds: list[Any] = [type(fresh.bit_generator), PCG64, PCG64DXSM, MT19937, Philox, SFC64]
    bits = {kind.__name__: kind for kind in kinds}[state["bit_generator"]]()
    # NumPy trusts these positions: one outside of its buffer would read foreign memory.
    for position, most in ((state["state"].get("pos", 0), 624), (state.get("buffer_pos", 0), 4)):
        require_form("the generator's position", position, int, None)
        if position > most:
            raise ValueError(f"the generator's position is {position}")
    bits.state = state
    return np.random.Generator(bits)


# -- trees as bytes --------------------------------------------------------------------------------

# What JSON holds as it is.
PLAIN = {type(None), bool, int, float, str}
HEADER = b"proxyprox checkpoint 10\n"
DIGEST = 16
# Kinds of dtypes that arrays in a file may have: no objects.
KINDS = "biufcSUmM"
# What JSON cannot hold: its tag, how it is written, and how it is read.
TAGS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    complex: ("$complex", lambda z: [z.real, z.imag], lambda parts: complex(*parts)),
    bytes: ("$bytes", bytes.hex, bytes.fromhex),
    tuple: ("$tuple", list, tuple),
    dict: ("$dict", lambda table: [list(pair) for pair in table.items()], dict),
}
LISTED = (
    "A run finds the classes of its first state and those that are listed in states = (...) of the "
    "method, solver, rule or loss: list yours there."
)
READERS = {tag: reader for tag, _, reader in TAGS.values()}


class _Encoder:
    """Turns a tree into a line of JSON and raw arrays.

    Dicts with a single key that begins with "$" stand for what JSON cannot hold.
    """

    def __init__(self, classes: Mapping[str, type] | None = None) -> None:
        self._classes = classes
        self._buffers: list[bytes] = []
        self._size = 0
        # Arrays that are one object stay one; they are kept alive so that ids stay theirs.
        self._arrays: dict[int, tuple[Any, Any]] = {}

    def payload(self, tree: dict[str, Any]) -> bytes:
        skeleton = json.dumps(self.node(tree, ""), separators=(",", ":"))
        return b"".join([skeleton.encode("ascii"), b"\n", *self._buffers])

    def node(self, item: Any, where: str) -> Any:
        kind = type(item)
        if kind in PLAIN or (kind is list and {*map(type, item)} <= PLAIN):
            return item
        if kind is list:
            return [self.node(part, f"{where}[{at}]") for at, part in enumerate(item)]
        if kind is dict and all(type(key) is str and not key.startswith("$") for key in item):
            return {key: self.node(part, f"{where}.{key}") for key, part in item.items()}
        if kind in TAGS:
            tag, write, _ = TAGS[kind]
            return {tag: self.node(write(item), where)}
        if kind is Growing:
            rows = list(item)
            if isinstance(item.items, array):
                return {"$grown": self._array(np.array(rows), where)}
            if len({*map(type, rows)}) == 1 and hasattr(type(rows[0]), "_fields"):
                return {
                    "$table": [class_name(type(rows[0])), self.node(list(map(list, rows)), where)]
                }
            return {"$grown": self.node(rows, where)}
        if isinstance(item, np.generic):
            return {"$scalar": self._array(np.asarray(item), where)}
        if is_array_api_obj(item):
            return self._array(item, where)
        names = field_names(kind)
        if names is None:
            raise _refusal(where, item)
        if self._classes is not None and class_name(kind) not in self._classes:
            raise TypeError(f"{where.lstrip('.')} is a {class_name(kind)}. {LISTED}")
        values = {name: getattr(item, name) for name in names}
        return {"$record": [class_name(kind), self.node(values, where)]}

    def _array(self, item: Any, where: str) -> Any:
        if id(item) not in self._arrays:
            array = to_numpy(item)
            if type(array) not in (np.ndarray, np.memmap) or array.dtype.kind not in KINDS:
                raise _refusal(where, item)
            order = "F" if np.isfortran(array) else "C"
            content = [self._size, array.dtype.str, list(array.shape), order, library(item)]
            self._buffers.append(array.tobytes("A"))
            self._size += array.nbytes
            self._arrays[id(item)] = item, {"$array": content}
        return self._arrays[id(item)][1]


def _refusal(where: str, item: Any) -> TypeError:
    return TypeError(
        f"{where.lstrip('.')} is a {type(item).__name__}, which cannot be saved in a checkpoint; "
        "use numbers, text, arrays, and tuples, lists, dicts or dataclasses of them (for a batch: "
        "row numbers, a seed)"
    )


class _Decoder:
    """Turns a payload back into a tree; trusts nothing."""

    def __init__(self, like: Any, classes: Mapping[str, type]) -> None:
        self._like, self._classes = like, classes
        self.unlisted: list[str] = []
        self._readers: dict[str, Callable[[Any], Any]] = {
            **READERS, "$grown": self._growth, "$table": self._table, "$record": self._record,
            "$array": self._array, "$scalar": lambda array: array[()],
        }  # fmt: skip

    def tree(self, payload: bytes) -> Any:
        text, _, self._raw = payload.partition(b"\n")
        self._arrays: dict[str, Any] = {}
        return json.loads(text, object_hook=self._node)

    def _node(self, item: dict[str, Any]) -> Any:
        tag = next(iter(item), "")
        if not tag.startswith("$"):
            return item
        (content,) = item.values()
        return self._readers[tag](content)

    def _class(self, name: Any) -> Any:
        if name not in self._classes:
            self.unlisted.append(str(name)[:200])
        return self._classes.get(name)

    def _record(self, content: Any) -> Any:
        """Return a record with these fields, without running any code of its class."""
        name, values = content
        cls = self._class(name)
        if cls is None:
            return None
        # Fields with a default may be newer than the file.
        names, values = field_names(cls) or [], {**field_defaults(cls), **values}
        if set(values) != set(names):
            raise ValueError(f"a {name} with {list(values)}, not {field_names(cls)}")
        if issubclass(cls, tuple):
            return tuple.__new__(cls, (values[key] for key in names))
        record = object.__new__(cls)
        for key in names:
            object.__setattr__(record, key, values[key])
        return record

    def _growth(self, content: Any) -> Growing:
        if isinstance(content, np.ndarray) and content.ndim == 1:
            return Growing(array("d", content.tolist()))
        if type(content) is not list:
            raise ValueError("a sequence that is no list")
        return Growing(content)

    def _table(self, content: Any) -> Growing:
        name, rows = content
        cls = self._class(name)
        size = len(field_names(cls) or ()) if cls else None
        if any(type(row) is not list or len(row) != size for row in rows):
            raise ValueError(f"rows that are no {name}")
        return Growing(tuple.__new__(cls, row) for row in rows)

    def _array(self, content: Any) -> Any:
        key = repr(content)
        if key not in self._arrays:
            start, dtype_name, shape, order, kind = content
            dtype, count = np.dtype(str(dtype_name)), math.prod(shape[:32])
            if dtype.kind not in KINDS:
                raise ValueError(f"an array of {dtype_name!r}")
            # NumPy compares start and count with the buffer. A copy: it is aligned, may be
            # changed, and does not keep the frame alive.
            flat = np.frombuffer(self._raw, dtype, count, start) if count else np.empty(0, dtype)
            array = flat.reshape(shape, order=order).copy(order="K")
            self._arrays[key] = _in_library(array, kind, self._like)
        return self._arrays[key]


def describe(item: Any) -> Any:
    """Return a setting as JSON data that are equal if the settings are: a text, or fields by name.

    Functions go by their names, arrays by their digests. Of an object that is no dataclass, the
    plain values among its public attributes count.

    Examples
    --------
    >>> describe((1, 2.5))
    '(1, 2.5)'
    """
    if isinstance(item, functools.partial):
        return f"partial {describe([item.func, *item.args, item.keywords])}"
    if hasattr(item, "__name__"):
        return f"function {class_name(item)!r}"
    if isinstance(item, np.generic) or type(item) in (*PLAIN, complex, bytes):
        return repr(item.item() if isinstance(item, np.generic) else item)
    if is_array_api_obj(item):
        return f"array {digest(item)}"
    if isinstance(item, (list, tuple, dict)):
        parts = item.items() if isinstance(item, dict) else item
        return f"({', '.join(text_of(describe(part)) for part in parts)})"
    if is_dataclass(item):
        given = {part.name: getattr(item, part.name) for part in fields(item) if part.init}
    else:
        public = {k: v for k, v in getattr(item, "__dict__", {}).items() if k[:1] != "_"}
        plain = (*PLAIN, tuple, np.generic, np.ndarray)
        given = {k: v for k, v in public.items() if isinstance(v, plain) or is_dataclass(v)}
    return {"": class_name(type(item)), **{key: describe(part) for key, part in given.items()}}


def differences(name: str, was: Any, now: Any) -> list[str]:
    """Return in words each setting that differs, such as ``method.eta was 10.0, now 5.0``."""
    if was == now:
        return []
    if isinstance(was, dict) and isinstance(now, dict) and was[""] == now[""]:
        found = (differences(f"{name}.{x}", was.get(x), now.get(x)) for x in now | was)
        return [text for texts in found for text in texts]
    return [f"{name} was {text_of(was)}, now {text_of(now)}"]


def text_of(item: Any) -> str:
    """Return a described setting as a user would write it; a user's own classes in full."""
    if not isinstance(item, dict):
        return str(item)
    given = ", ".join(f"{key}={text_of(value)}" for key, value in item.items() if key)
    return f"{re.sub('^proxyprox[^:]*:', '', item[''])}({given})"


def library(array: Any) -> str:
    """Return the name of the library that an array is of, such as "numpy" or "torch"."""
    return str(namespace(array).__name__.removeprefix("array_api_compat."))


def _in_library(array: np.ndarray[Any, Any], name: str, like: Any) -> Any:
    """Return a NumPy array as one of a library, on the device of ``like`` where that is of it."""
    if name == "numpy":
        return array
    if like is not None and library(like) == name:
        return namespace(like).asarray(array, device=like.device)
    if name == "torch":
        return importlib.import_module("torch").from_numpy(array)
    raise CheckpointError(f"it holds arrays of {name}. Pass w0, an array of that library.")


# -- the file -------------------------------------------------------------------------------------


def require_listed(tree: dict[str, Any]) -> None:
    """Refuse a tree that holds records of classes that were not given."""
    for name in tree.get("unlisted", ()):
        raise CheckpointError(f"it holds a {name!r}. {LISTED}")


@contextlib.contextmanager
def refuse_damage() -> Iterator[None]:
    """Turn whatever a damaged or hostile tree can raise into one kind of error."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"it is damaged or not a checkpoint ({type(error).__name__}: {str(error)[:500]}). "
            "Restore the file from a copy, or start again with another path."
        ) from error


def save(
    path: str | os.PathLike[str], tree: dict[str, Any], classes: Mapping[str, type] | None = None
) -> None:
    """Write a tree to a file, whole or not at all; refuse records of other classes."""
    payload = _Encoder(classes).payload(tree)
    with atomic_output(path) as file:
        file.writelines([HEADER, payload, _digest(payload)])


def _digest(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=DIGEST).digest()


def read(
    path: str | os.PathLike[str], classes: Mapping[str, type], *, like: Any = None
) -> dict[str, Any]:
    """Return the tree of a file, with one kind of error for all that can be wrong with it.

    Arrays of another library than NumPy go where ``like`` is. Records are of the classes that are
    given; None takes the place of any other, whose class's name is in ``tree["unlisted"]``: what a
    run is about can be compared all the same, and :func:`require_listed` refuses the rest.
    """
    if not os.path.isfile(path):
        raise CheckpointError("it must be an existing file.")
    with refuse_damage():
        data = Path(path).read_bytes()
        if not data.startswith(HEADER):
            raise ValueError("no version, or another version, of proxyprox wrote it")
        payload = data[len(HEADER) : -DIGEST]
        if data[-DIGEST:] != _digest(payload):
            raise ValueError("it differs from its checksum")
        decoder = _Decoder(like, classes)
        tree: dict[str, Any] = decoder.tree(payload)
        return {**tree, "unlisted": decoder.unlisted}
