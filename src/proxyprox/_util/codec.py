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
HEADER = b"proxyprox checkpoint 11\n"
DIGEST = 16
# Kinds of dtypes that arrays in a file may have: no objects.
KINDS = "biufcSUmM"


def _grown(items: Any) -> Growing:
    """Return the sequence of a list, or of floats in an array."""
    if isinstance(items, np.ndarray) and items.ndim == 1:
        return Growing(array("d", items.tolist()))
    if type(items) is not list:
        raise ValueError("a sequence that is no list")
    return Growing(items)


# What JSON cannot hold: its tag, how it is written, and how it is read.
TAGS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    complex: ("$complex", lambda z: [z.real, z.imag], lambda parts: complex(*parts)),
    bytes: ("$bytes", bytes.hex, bytes.fromhex),
    tuple: ("$tuple", list, tuple),
    dict: ("$dict", lambda table: [list(pair) for pair in table.items()], dict),
    Growing: (
        "$grown", lambda g: np.array(list(g)) if isinstance(g.items, array) else list(g), _grown,
    ),
}  # fmt: skip
LISTED = (
    "A run finds the classes of its first state and those that are listed in states = (...) of the "
    "method, solver, rule or loss: list yours there."
)


def _encoded(tree: dict[str, Any], classes: Mapping[str, type] | None) -> bytes:
    """Return a tree as a line of JSON and raw arrays.

    Dicts with a single key that begins with "$" stand for what JSON cannot hold.
    """
    buffers, size = list[bytes](), 0
    # Arrays that are one object stay one; they are kept alive so that ids stay theirs.
    known: dict[int, tuple[Any, Any]] = {}

    def node(item: Any, where: str) -> Any:
        kind = type(item)
        if kind in PLAIN or (kind is list and {*map(type, item)} <= PLAIN):
            return item
        if kind is list:
            return [node(part, f"{where}[{at}]") for at, part in enumerate(item)]
        if kind is dict and all(type(key) is str and not key.startswith("$") for key in item):
            return {key: node(part, f"{where}.{key}") for key, part in item.items()}
        if kind in TAGS:
            tag, write, _ = TAGS[kind]
            return {tag: node(write(item), where)}
        if is_array_api_obj(item):
            return buffered(item, where)
        names = field_names(kind)
        if names is None:
            raise _refusal(where, item)
        if classes is not None and class_name(kind) not in classes:
            raise TypeError(f"{where.lstrip('.')} is a {class_name(kind)}. {LISTED}")
        values = list(item) if isinstance(item, tuple) else {x: getattr(item, x) for x in names}
        return {"$record": [class_name(kind), node(values, where)]}

    def buffered(item: Any, where: str) -> Any:
        nonlocal size
        if id(item) not in known:
            one = isinstance(item, np.generic)
            flat = np.asarray(item) if one else to_numpy(item)
            if type(flat) not in (np.ndarray, np.memmap) or flat.dtype.kind not in KINDS:
                raise _refusal(where, item)
            order, kind = "F" if np.isfortran(flat) else "C", "scalar" if one else library(item)
            content = [size, flat.dtype.str, list(flat.shape), order, kind]
            buffers.append(flat.tobytes("A"))
            size += flat.nbytes
            known[id(item)] = item, {"$array": content}
        return known[id(item)][1]

    skeleton = json.dumps(node(tree, ""), separators=(",", ":"))
    return b"".join([skeleton.encode("ascii"), b"\n", *buffers])


def _refusal(where: str, item: Any) -> TypeError:
    return TypeError(
        f"{where.lstrip('.')} is a {type(item).__name__}, which cannot be saved in a checkpoint; "
        "use numbers, text, arrays, and tuples, lists, dicts or dataclasses of them (for a batch: "
        "row numbers, a seed)"
    )


def _decoded(payload: bytes, like: Any, classes: Mapping[str, type]) -> dict[str, Any]:
    """Return the tree of a payload, and under "unlisted" the classes that are not given."""
    text, _, raw = payload.partition(b"\n")
    unlisted, known = list[str](), dict[str, Any]()

    def record(content: Any) -> Any:
        """Return a record with these fields, without running any code of its class."""
        name, values = content
        if name not in classes:
            unlisted.append(str(name)[:200])
            return None
        cls: Any = classes[name]
        names = field_names(cls) or []
        if issubclass(cls, tuple):
            values = dict(zip(names, values, strict=True))
            return tuple.__new__(cls, values.values())
        # Fields with a default may be newer than the file.
        values = {**field_defaults(cls), **values}
        if set(values) != set(names):
            raise ValueError(f"a {name} with {list(values)}, not {names}")
        made = object.__new__(cls)
        for key in names:
            object.__setattr__(made, key, values[key])
        return made

    def restored(content: Any) -> Any:
        key = repr(content)
        if key not in known:
            start, dtype_name, shape, order, kind = content
            dtype, count = np.dtype(str(dtype_name)), math.prod(shape[:32])
            if dtype.kind not in KINDS:
                raise ValueError(f"an array of {dtype_name!r}")
            # NumPy compares start and count with the buffer. A copy: it is aligned, may be
            # changed, and does not keep the frame alive.
            flat = np.frombuffer(raw, dtype, count, start) if count else np.empty(0, dtype)
            known[key] = _in_library(flat.reshape(shape, order=order).copy(order="K"), kind, like)
        return known[key]

    readers = {tag: read for tag, _, read in TAGS.values()}
    readers |= {"$record": record, "$array": restored}

    def node(item: dict[str, Any]) -> Any:
        tag = next(iter(item), "")
        if not tag.startswith("$"):
            return item
        (content,) = item.values()
        return readers[tag](content)

    return {**json.loads(text, object_hook=node), "unlisted": unlisted}


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
    if name in ("numpy", "scalar"):
        return array if name == "numpy" else array[()]
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
    payload = _encoded(tree, classes)
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
        return _decoded(payload, like, classes)
