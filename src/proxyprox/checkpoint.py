"""Checkpoints: state trees in one file that grows by a frame at each save.

A state is a tree of dataclasses, named tuples, dicts, lists, tuples, numbers, texts and arrays;
``state_dict()`` of a run makes one and ``load_state_dict(tree)`` takes it back. A file is a header
and frames, each ``head, payload, digest``: the head holds the payload's length and a checksum of
its own, the payload a JSON skeleton and the raw arrays, and the digest covers the frame and all
frames before it. A frame holds the whole state, but of the lists that only grow (:class:`Prefix`)
just what was added since the last frame; so a save costs the same at every step. A file that ends
in the middle of a frame was being written when the machine stopped: the save before it counts.
Nothing is compressed and nothing in a file is ever run: classes are found by name among those that
are imported already, and every length is compared with the file's before memory is taken.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import json
import math
import os
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array

from proxyprox._util.arrays import namespace, to_numpy
from proxyprox._util.digests import code_digest, digest, fingerprint
from proxyprox._util.files import atomic_output
from proxyprox._util.validation import message, positive, require_finite, whole

Tree = dict[str, Any]

HEADER = b"proxyprox checkpoint 2\n"
HEAD = struct.Struct("<4sQI")
"""Of a frame: its kind, the length of its payload, and a checksum of both."""

KIND = b"save"
DIGEST = 16
DEEPEST = 200
"""Levels of a tree; how deep Python itself can go depends on its version."""

SMALL = 1 << 20
"""A file is written anew once its appended frames exceed this many bytes and its first frame."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: missing, damaged, or of another run."""


class Savable(Protocol):
    """What a checkpoint can hold."""

    def state_dict(self) -> Tree:
        """Return everything that the rest of the run depends on."""

    def load_state_dict(self, tree: Tree) -> None:
        """Continue from what :meth:`state_dict` returned."""


@dataclass
class Checkpoint:
    """Where and how often :func:`~proxyprox.minimize` saves its run.

    If the file exists, ``minimize`` resumes from it, bit for bit. A file of another configuration,
    start, seed, penalty, batch size or data is refused. Losses are compared by their
    ``fingerprint()``; of those without one, such as plain functions, only the target's value and
    the proxy's gradient at the start are compared: a target that differs elsewhere, or has no
    value, is not noticed. A save appends to the file, costs the same at every step, and is lost
    alone if the machine stops in the middle of it. The file is also written when the run ends for
    any reason: an error, Ctrl-C, SIGTERM or SIGHUP. One run writes it at a time: a second one is
    refused before anything is paid.

    Parameters
    ----------
    path : path-like
        The file.
    every_steps : int, optional
        Save after so many outer steps.
    every_seconds : float, optional
        Save when so many seconds have passed since the last time; 60 if neither is given.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from proxyprox import Checkpoint, Problem, Quadratic, minimize
    >>> problem = Problem(Quadratic(np.eye(2), b=np.ones(2)), Quadratic(np.eye(2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     every = Checkpoint(f"{folder}/run", every_steps=10)
    ...     first = minimize(problem, steps=20, checkpoint=every)
    ...     minimize(problem, steps=30, checkpoint=every).steps
    30
    """

    path: str | os.PathLike[str]
    every_steps: int | None = None
    every_seconds: float | None = None
    _saved_at: float = field(default=0.0, init=False, repr=False, compare=False)
    _file: _GrowingFile | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the path and both intervals."""
        if not isinstance(self.path, (str, os.PathLike)):
            raise TypeError(message("checkpoint", self.path, "a path or a Checkpoint"))
        if not os.fspath(self.path):
            raise ValueError(message("checkpoint", self.path, "the name of a file"))
        folder = Path(self.path).parent
        if not os.path.isdir(folder):
            raise ValueError(
                message("checkpoint", str(self.path), "in a folder that exists")[:-1]
                + f". Create {folder} first."
            )
        if os.path.isdir(self.path):
            raise ValueError(message("checkpoint", str(self.path), "a file, not a folder"))
        if self.every_steps is not None:
            whole("every_steps", self.every_steps)
        if self.every_seconds is not None:
            positive("every_seconds", self.every_seconds)
        if self.every_steps is None and self.every_seconds is None:
            self.every_seconds = 60.0
        self._saved_at = time.monotonic()

    def due(self, steps: int) -> bool:
        """Tell whether it is time to save."""
        if self.every_steps is not None and steps % self.every_steps == 0:
            return True
        if self.every_seconds is None:
            return False
        return time.monotonic() - self._saved_at >= self.every_seconds

    def save(self, run: Savable) -> None:
        """Write the run to the file."""
        if self._file is None or self._file.path != os.fspath(self.path):
            self._file = _GrowingFile(os.fspath(self.path))
        self._file.save(run.state_dict())
        self._saved_at = time.monotonic()


def as_checkpoint(given: Any) -> Checkpoint | None:
    """Accept a Checkpoint or a path."""
    return given if given is None or isinstance(given, Checkpoint) else Checkpoint(given)


def save(path: str | os.PathLike[str], tree: Tree) -> None:
    """Write a state to a file of its own, whole or not at all."""
    _GrowingFile(os.fspath(path)).save(tree)


def resume(path: str | os.PathLike[str], run: Savable) -> None:
    """Fill a freshly built run of the same call from a file."""
    fresh = run.state_dict()
    arrays = (item for item in walk(fresh) if is_array_api_obj(item) and not is_numpy_array(item))
    with naming(path):
        saved = read(path)
        run.load_state_dict(saved.tree(like=next(arrays, None), classes=record_classes(fresh)))


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say in every CheckpointError which file it is about."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"checkpoint {os.fspath(path)!r}: {error}") from error


@contextlib.contextmanager
def structure() -> Iterator[None]:
    """Turn whatever a damaged or hostile tree can raise into one kind of error."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        raise damaged(f"{type(error).__name__}: {error}") from error


def damaged(why: str) -> CheckpointError:
    """Return the one error for all that can be wrong with a file."""
    remedy = "Restore the file from a copy, or start again with another path."
    return CheckpointError(f"it is damaged or not a checkpoint ({why[:500]}). {remedy}")


def require_kind(tree: Any, kind: str) -> None:
    """Refuse a lone run's state where a safeguarded one's is wanted, and the other way round."""
    found = tree.get("kind") if isinstance(tree, dict) else None
    if found not in ("Run", "Guarded"):
        raise damaged("it holds no run")
    if found != kind:
        raise other_run([f"safeguard was {found == 'Guarded'}, now {kind == 'Guarded'}"])


def other_run(differences: list[str]) -> CheckpointError:
    """Return the error for a state of another run."""
    return CheckpointError(
        f"it belongs to another run: {'; '.join(differences)}. "
        "Give the same arguments to resume it, or another path to start again."
    )


# -- trees -----------------------------------------------------------------------------------------


class Prefix(Sequence[Any]):
    """A list that only grows, as long as it is now; made without a copy.

    The file gets what a later one of the same list has in addition.
    """

    def __init__(self, items: list[Any]) -> None:
        self.items, self.length = items, len(items)
        self.last = items[-1] if items else None

    def __len__(self) -> int:
        return self.length

    def continues(self, before: Prefix) -> bool:
        """Tell whether an earlier one begins it, and was not cut back and filled again."""
        if before.items is not self.items or before.length > self.length:
            return False
        return before.length == 0 or self.items[before.length - 1] is before.last

    def __getitem__(self, at: Any) -> Any:
        chosen = range(self.length)[at]
        if isinstance(at, slice):
            return [self.items[place] for place in chosen]
        return self.items[chosen]


def field_names(cls: type) -> tuple[str, ...] | None:
    """Return what a record of this class holds; None if it is no dataclass or named tuple."""
    if is_dataclass(cls):
        return tuple(item.name for item in fields(cls))
    return getattr(cls, "_fields", None) if issubclass(cls, tuple) else None


def record(cls: type, values: Sequence[Any]) -> Any:
    """Return a record with these fields, without running any code of its class."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, values)
    made = object.__new__(cls)
    for name, value in zip(field_names(cls) or (), values, strict=True):
        object.__setattr__(made, name, value)
    return made


def walk(tree: Any) -> Iterator[Any]:
    """Yield every node of a tree."""
    yield tree
    names = field_names(type(tree))
    parts: Iterable[Any] = ()
    if names is not None:
        parts = (getattr(tree, name) for name in names)
    elif isinstance(tree, dict):
        parts = tree.values()
    elif isinstance(tree, (list, tuple)):
        parts = tree
    for part in parts:
        yield from walk(part)


def record_classes(tree: Any) -> list[type]:
    """Return the classes of a tree's records."""
    return list({type(item) for item in walk(tree) if field_names(type(item)) is not None})


def conform(name: str, saved: Any, fresh: Any, *, own: bool = False) -> None:
    """Refuse a state whose parts are not of the same sort as those of a fresh one.

    Records must be of the same class; numbers may become arrays, lists tuples, and anything None,
    and back. The package's own classes (``own``) are known better: finite numbers stay finite, and
    their arrays keep shape and dtype.
    """
    if saved is None or fresh is None:
        return
    if _sort(saved) != _sort(fresh):
        raise ValueError(f"{name} is a {_sort(saved)}, not a {_sort(fresh)}")
    if (names := field_names(type(fresh))) is not None:
        own = own or class_name(type(fresh)).startswith("proxyprox")
        for part in names:
            conform(f"{name}.{part}", getattr(saved, part), getattr(fresh, part), own=own)
    elif isinstance(fresh, dict):
        for key in fresh if own else fresh.keys() & saved.keys():
            conform(f"{name}[{key!r}]", saved[key], fresh[key], own=own)
    elif own and is_array_api_obj(fresh) and not isinstance(fresh, np.generic):
        require_array(name, saved, fresh)
    elif own and is_number(fresh) and not is_number(saved):
        raise ValueError(f"{name} is {saved!r}, not a number")
    elif own and is_number(fresh) and math.isfinite(fresh) and not math.isfinite(saved):
        raise ValueError(f"{name} is {saved!r}, not a finite number")


def _sort(item: Any) -> str:
    if field_names(type(item)) is not None:
        return class_name(type(item))
    names: dict[type, str] = {list: "list", tuple: "list", dict: "dict", str: "text"}
    return names.get(type(item), "number or array")


def require_array(name: str, array: Any, like: Any) -> None:
    """Refuse what is no finite array of the same library, dtype and shape."""
    if type(array) is not type(like) or array.dtype != like.dtype or array.shape != like.shape:
        raise ValueError(f"{name} is no array of shape {tuple(like.shape)} and dtype {like.dtype}")
    require_finite(name, array)


def is_number(item: Any) -> bool:
    """Tell whether an item is a number; truth values are not."""
    return isinstance(item, (int, float, np.number)) and not isinstance(item, bool)


def require_count(name: str, value: Any, kind: type = int) -> None:
    """Refuse what is not a number of a kind, zero or more; whole numbers are floats too."""
    allowed = (int, np.integer) if kind is int else (int, float, np.number)
    if not isinstance(value, allowed) or not is_number(value) or not value >= 0:
        raise ValueError(f"{name} is {value!r}, not a {kind.__name__} ≥ 0")


def restored_rng(state: Any, fresh: np.random.Generator) -> np.random.Generator:
    """Return a generator in a saved state; of NumPy's kinds, or of the fresh one's."""
    numpy_kinds = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
    kinds = {name: getattr(np.random, name) for name in numpy_kinds}
    kinds.setdefault(type(fresh.bit_generator).__name__, type(fresh.bit_generator))
    bits = kinds[state["bit_generator"]]()
    # NumPy trusts these positions: one outside of its buffer would read foreign memory.
    for position, last in ((state["state"].get("pos", 0), 624), (state.get("buffer_pos", 0), 4)):
        require_count("the generator's position", position)
        if position > last:
            raise ValueError(f"the generator's position is {position}, beyond {last}")
    bits.state = state
    return np.random.Generator(bits)


# -- trees as bytes --------------------------------------------------------------------------------


class _Encoder:
    """Turns a tree into JSON data and raw arrays.

    ``written`` says how much of the growing lists the file has already, ``lengths`` how much it
    will have. Dicts with a single key that begins with "$" stand for what JSON cannot hold.
    """

    def __init__(self, written: dict[str, Prefix]) -> None:
        self.written, self.lengths = written, dict[str, Prefix]()
        self.buffers: list[Any] = []
        self._size = 0
        # Arrays that are one object stay one; they are kept alive so that ids stay theirs.
        self._arrays: dict[int, tuple[Any, Any]] = {}

    def payload(self, tree: Tree) -> list[Any]:
        try:
            node = self.node(tree, "")
            _require_shallow(node)
        except (RecursionError, ValueError) as error:
            raise TypeError("a state that holds itself, or is nested too deep, cannot be saved") \
                from error  # fmt: skip
        skeleton = json.dumps(node, allow_nan=False, separators=(",", ":")).encode("ascii")
        return [struct.pack("<Q", len(skeleton)), skeleton, *self.buffers]

    def node(self, item: Any, where: str) -> Any:
        kind = type(item)
        if item is None or kind in (bool, str):
            return item
        if kind is int:
            return item if abs(item) < 1 << 63 else {"$int": hex(item)}
        if kind is float:
            return item if math.isfinite(item) else {"$float": repr(item)}
        if kind is complex:
            return {"$complex": [self.node(item.real, where), self.node(item.imag, where)]}
        if kind is bytes:
            return {"$bytes": item.hex()}
        if kind is list:
            return [self.node(part, f"{where}[{at}]") for at, part in enumerate(item)]
        if kind is tuple:
            return {"$tuple": self.node(list(item), where)}
        if kind is dict:
            if all(type(key) is str and not key.startswith("$") for key in item):
                return {key: self.node(part, f"{where}.{key}") for key, part in item.items()}
            return {"$dict": self.node([list(pair) for pair in item.items()], where)}
        if kind is Prefix:
            return {"$grown": self._grown(item, where)}
        if isinstance(item, np.generic):
            return {"$scalar": self._array(np.asarray(item), where)}
        if is_array_api_obj(item):
            return self._array(item, where)
        names = field_names(kind)
        if names is None:
            raise self._refusal(where, item)
        values = {name: self.node(getattr(item, name), f"{where}.{name}") for name in names}
        return {"$record": [class_name(kind), values]}

    def _array(self, item: Any, where: str) -> Any:
        if id(item) in self._arrays:
            return self._arrays[id(item)][1]
        array = to_numpy(item)
        if type(array) not in (np.ndarray, np.memmap) or array.dtype.kind not in _Decoder.KINDS:
            raise self._refusal(where, item)
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        raw = np.ascontiguousarray(array.T if fortran else array).reshape(-1).view(np.uint8)
        node = {"$array": [
            self._size, array.dtype.str, list(array.shape), "F" if fortran else "C", library(item),
        ]}  # fmt: skip
        self.buffers.append(raw)
        self._size += raw.nbytes
        self._arrays[id(item)] = (item, node)
        return node

    def _grown(self, item: Prefix, where: str) -> Any:
        before, self.lengths[where] = self.written.get(where), item
        first = 0 if before is None or not item.continues(before) else before.length
        added = item[first:]
        kinds = {type(part) for part in added}
        names = field_names(kinds.pop()) if len(kinds) == 1 else None
        if names is None:
            return [first, self.node(added, where)]
        columns = {name: self._column([getattr(a, name) for a in added], where) for name in names}
        return [first, {"$table": [class_name(type(added[0])), columns]}]

    def _column(self, values: list[Any], where: str) -> Any:
        """Return a column as one array where its values are of one kind that an array keeps."""
        kinds = {type(value) for value in values}
        kind = kinds.pop() if len(kinds) == 1 else None
        small = kind is not int or all(abs(value) < 1 << 63 for value in values)
        if kind in (int, float, bool) and small:
            return self._array(np.array(values, {int: "<i8", float: "<f8"}.get(kind, "?")), where)
        if kind is not None and issubclass(kind, np.number):
            return {"$scalars": self._array(np.array(values), where)}
        return self.node(values, where)

    @staticmethod
    def _refusal(where: str, item: Any) -> TypeError:
        return TypeError(
            f"{where.lstrip('.')} is a {type(item).__name__}, which cannot be saved in a "
            "checkpoint; use numbers, text, arrays, and tuples, lists, dicts or dataclasses of "
            "them (for a batch: row numbers, a seed)"
        )


class _Decoder:
    """Turns the payload of a frame back into a tree; trusts nothing."""

    KINDS = "biufcSUmM"

    def __init__(
        self, payload: bytes, grown: dict[str, list[Any]], like: Any, classes: Sequence[type]
    ) -> None:
        (length,) = struct.unpack_from("<Q", payload)
        if length > len(payload) - 8:
            raise ValueError(f"a skeleton of {length} bytes in a frame of {len(payload)}")
        text, self._raw = str(payload[8 : 8 + length], "ascii"), memoryview(payload)[8 + length :]
        self.skeleton = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
        _require_shallow(self.skeleton)
        if not isinstance(self.skeleton, dict):
            raise ValueError("the state is not a table")
        self._grown, self._like, self._classes = grown, like, classes
        self._arrays: dict[str, Any] = {}

    def tree(self, keys: Iterable[str] | None = None) -> Tree:
        keys = self.skeleton if keys is None else keys
        return {key: self.node(self.skeleton[key], f".{key}") for key in keys}

    def node(self, item: Any, where: str) -> Any:
        if isinstance(item, list):
            return [self.node(part, f"{where}[{at}]") for at, part in enumerate(item)]
        if not isinstance(item, dict):
            return item
        tag = next(iter(item), "")
        if not tag.startswith("$"):
            return {key: self.node(part, f"{where}.{key}") for key, part in item.items()}
        (content,) = item.values()
        return self._READERS[tag](self, content, where)

    def _record(self, content: Any, where: str) -> Any:
        name, values = content
        cls = find_class(name, self._classes)
        names = field_names(cls) or ()
        if set(values) != set(names):
            raise ValueError(f"a {name} with {sorted(values)}, not {sorted(names)}")
        return record(cls, [self.node(values[part], f"{where}.{part}") for part in names])

    def _array(self, content: Any, where: str) -> Any:
        key = repr(content)
        if key not in self._arrays:
            start, dtype_name, shape, order, kind = content
            dtype = np.dtype(str(dtype_name))
            if dtype.kind not in self.KINDS or dtype.str != dtype_name or not dtype.itemsize:
                raise ValueError(f"an array of {dtype_name!r}")
            if len(shape) > 32:
                raise ValueError(f"an array of {len(shape)} dimensions")
            for size in (start, *shape):
                require_count("the size of an array", size)
            count = math.prod(shape)
            if start + count * dtype.itemsize > len(self._raw):
                raise ValueError(f"an array of {count} entries, more than the file holds")
            # A copy: it is aligned, may be changed, and does not keep the frame alive.
            flat = np.frombuffer(self._raw, dtype, count, start) if count else np.empty(0, dtype)
            if order not in ("C", "F"):
                raise ValueError(f"an array in the order {order!r}")
            array = flat.reshape(shape, order=order).copy(order="K")
            self._arrays[key] = in_library(array, kind, self._like)
        return self._arrays[key]

    def _growth(self, content: Any, where: str) -> list[Any]:
        first, added = content
        known = self._grown.setdefault(where, [])
        if first == 0:
            known = self._grown[where] = []
        elif type(first) is not int or first != len(known):
            raise ValueError(f"{where} continues at {first}, after {len(known)}")
        if isinstance(added, dict):
            name, columns = added["$table"]
            cls = find_class(name, self._classes)
            parts = [self._column(columns.pop(part), where) for part in field_names(cls) or ()]
            if columns:
                raise ValueError(f"a {name} has no {sorted(columns)}")
            known += [record(cls, row) for row in zip(*parts, strict=True)]
        else:
            known += self.node(added, where)
        return known

    def _column(self, content: Any, where: str) -> list[Any]:
        column = self.node(content, where)
        if is_numpy_array(column) and column.ndim == 1:
            return list(column.tolist())
        if not isinstance(column, list):
            raise ValueError(f"a column of {where} is no list")
        return column

    _READERS: ClassVar[dict[str, Callable[[_Decoder, Any, str], Any]]] = {
        "$int": lambda self, content, where: int(content, 16),
        "$float": lambda self, content, where: float(content),
        "$complex": lambda self, content, where: complex(*self.node(content, where)),
        "$bytes": lambda self, content, where: bytes.fromhex(content),
        "$tuple": lambda self, content, where: tuple(self.node(list(content), where)),
        "$dict": lambda self, content, where: _unique(self.node(list(content), where)),
        "$scalar": lambda self, content, where: self.node(content, where)[()],
        "$scalars": lambda self, content, where: list(self.node(content, where).reshape(-1)),
        "$array": _array,
        "$record": _record,
        "$grown": _growth,
    }


def _require_shallow(node: Any) -> None:
    """Refuse a tree of too many levels, without recursion."""
    level, depth = [node], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"a state of more than {DEEPEST} levels")
        inner = (item.values() if isinstance(item, dict) else item for item in level)
        level = [part for items in inner for part in items if isinstance(part, (dict, list))]


def _unique(pairs: list[Any]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in a table")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def library(array: Any) -> str:
    """Return the name of the library that an array is of, such as "numpy" or "torch"."""
    return str(namespace(array).__name__.removeprefix("array_api_compat."))


def in_library(array: np.ndarray[Any, Any], name: str, like: Any = None) -> Any:
    """Return a NumPy array as one of a library, on the device of ``like`` where that is of it."""
    if name == "numpy":
        return array
    if like is not None and library(like) == name:
        return namespace(like).asarray(array, device=like.device)
    if name == "torch":
        return importlib.import_module("torch").from_numpy(array)
    raise CheckpointError(f"it holds arrays of {name}. Pass w0, an array of that library.")


# -- the file --------------------------------------------------------------------------------------


class _GrowingFile:
    """A checkpoint file as its writer knows it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stamp: tuple[int, ...] | None = None
        self._written: dict[str, Prefix] = {}
        self._digest = b""
        self._first = self._appended = 0

    def save(self, tree: Tree) -> None:
        """Append a frame; write the file anew where that is not safe, or not worth it."""
        stamp, self._stamp = self._stamp, None  # until the save has succeeded
        if stamp is None or not self._append(tree, stamp):
            encoder = _Encoder({})
            frame, self._digest = _frame(encoder.payload(tree), b"")
            with atomic_output(self.path) as file:
                file.write(HEADER)
                file.writelines(frame)
            self._first, self._appended = sum(map(len, frame)), 0
            self._written = encoder.lengths
        self._stamp = _stamp(os.stat(self.path))

    def _append(self, tree: Tree, stamp: tuple[int, ...]) -> bool:
        encoder = _Encoder(self._written)
        frame, final = _frame(encoder.payload(tree), self._digest)
        size = sum(map(len, frame))
        if self._appended + size > max(self._first, SMALL):
            return False
        try:
            file = open(self.path, "r+b", buffering=0)  # noqa: SIM115
        except FileNotFoundError:
            return False
        with file:
            if _stamp(os.fstat(file.fileno())) != stamp:
                return False
            end = file.seek(0, os.SEEK_END)
            try:
                # One buffer, and in full: an unbuffered file may take less than it is given.
                left = memoryview(b"".join(frame))
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except BaseException:
                with contextlib.suppress(OSError):
                    file.truncate(end)
                raise
        self._digest, self._written = final, encoder.lengths
        self._appended += size
        return True


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _frame(payload: list[Any], before: bytes) -> tuple[list[Any], bytes]:
    """Return a frame in parts, and its digest, which covers that of the frame before."""
    start = struct.pack("<4sQ", KIND, sum(map(len, payload)))
    parts = [start + struct.pack("<I", zlib.crc32(start)), *payload]
    final = _digest(before, parts)
    return [*parts, final], final


def _digest(before: bytes, parts: Iterable[Any]) -> bytes:
    state = hashlib.blake2b(before, digest_size=DIGEST)
    for part in parts:
        state.update(part)
    return state.digest()


class Saved(NamedTuple):
    """The frames of a file, checked against their digests."""

    payloads: list[bytes]

    def tree(
        self, keys: Iterable[str] | None = None, *, like: Any = None, classes: Sequence[type] = ()
    ) -> Tree:
        """Return the last state saved, or some of it; other libraries' arrays go with ``like``."""
        with structure():
            grown: dict[str, list[Any]] = {}
            # The states before the last are of no use, but what they added to lists is.
            for payload in self.payloads[:-1] if keys is None else ():
                _Decoder(payload, grown, like, classes).tree()
            return _Decoder(self.payloads[-1], grown, like, classes).tree(keys)


def read(path: str | os.PathLike[str]) -> Saved:
    """Read a file's frames, with one kind of error for all that can be wrong with it."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(message("path", path, "the name of a checkpoint file"))
    if not os.path.isfile(path):
        raise CheckpointError("it must be an existing file.")
    with structure(), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        _require_header(file.read(len(HEADER)))
        payloads: list[bytes] = []
        final = b""
        while len(head := file.read(HEAD.size)) == HEAD.size:
            kind, length, check = HEAD.unpack(head)
            whole_head = kind == KIND and check == zlib.crc32(head[:-4])
            if whole_head and length > size - file.tell() - DIGEST:
                break
            payload = file.read(length) if whole_head else b""
            final = _digest(final, [head, payload])
            if not whole_head or file.read(DIGEST) != final:
                # Some file systems fill what was not written yet with zeros.
                file.seek(-DIGEST, os.SEEK_END)
                if any(file.read()):
                    raise ValueError(f"save {len(payloads) + 1} differs from its checksum")
                break
            payloads.append(payload)
        if not payloads:
            raise ValueError("it ends before its first save does")
        return Saved(payloads)


def _require_header(header: bytes) -> None:
    if header == HEADER:
        return
    again = "with the version that wrote it, or start again with another path."
    if header.startswith(b"PK\x03\x04"):
        raise CheckpointError(f"it was written by proxyprox 0.1. Finish the run {again}")
    if header.startswith(HEADER[:-2]):
        raise CheckpointError(f"it was written by another version of proxyprox. Go on {again}")
    raise ValueError("no checkpoint begins like this")


# -- classes and configurations --------------------------------------------------------------------


def class_name(cls: Any) -> str:
    """Return ``module:qualname`` of a class or function; of the package's public ones, where from.

    Examples
    --------
    >>> from proxyprox.corrections import Mean
    >>> class_name(Mean), class_name(Prefix)
    ('proxyprox:Mean', 'proxyprox.checkpoint:Prefix')
    """
    module = getattr(cls, "__module__", None)
    name = str(getattr(cls, "__qualname__", None) or getattr(cls, "__name__", "?"))
    if str(module).startswith("proxyprox.") and "." not in name:
        package = sys.modules["proxyprox"]
        if name in package.__all__ and getattr(package, name) is cls:
            module = "proxyprox"
    return f"{module}:{name}"


def find_class(name: Any, classes: Iterable[type] = ()) -> type:
    """Return the dataclass or named tuple of a name: a given one, one of ours, or an imported one.

    Nothing but modules of this package is ever imported.
    """
    module_name, _, path = str(name).partition(":")
    for cls in classes:
        if class_name(cls) == name:
            return cls
    ours = module_name.split(".")[0] == "proxyprox" and "__main__" not in module_name
    if ours:
        with contextlib.suppress(ImportError):
            importlib.import_module(module_name)
    found: Any = sys.modules.get(module_name)
    for part in path.split(".") if found is not None else ():
        # What an object computes when it is asked is not looked at, except in this package.
        found = getattr(found, part, None) if ours else getattr(found, "__dict__", {}).get(part)
    if isinstance(found, type) and field_names(found) is not None and class_name(found) == name:
        return found
    raise CheckpointError(
        f"it holds a {str(name)[:200]!r}, which is no dataclass of an imported module. Import "
        f"{module_name[:100]!r} first, or pass the class: Run.load(..., classes=[...])."
    )


def describe(item: Any) -> Any:
    """Return a configuration as JSON data; two are equal if the settings are.

    Of an object that is no dataclass, the plain values among its public attributes count.
    """
    if item is None or isinstance(item, (bool, int, float, str)):
        return item
    if isinstance(item, np.generic):
        return item.item()
    if is_array_api_obj(item):
        return {"array": digest(item)}
    if isinstance(item, list):
        return [describe(part) for part in item]
    if isinstance(item, tuple) and field_names(type(item)) is None:
        return {"tuple": [describe(part) for part in item]}
    if isinstance(item, dict):
        return {"dict": [[describe(key), describe(value)] for key, value in item.items()]}
    if is_dataclass(item) and not isinstance(item, type):
        settings = {f.name: describe(getattr(item, f.name)) for f in fields(item) if f.init}
        return {"class": class_name(type(item)), "settings": settings}
    if isinstance(item, (FunctionType, MethodType, functools.partial)):
        named = item.func if isinstance(item, functools.partial) else item
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        return {"function": class_name(named), "code": code_digest(item), "python": python}
    if isinstance(item, type) or hasattr(item, "__name__"):
        return {"function": class_name(item)}
    plain = (type(None), bool, int, float, str, tuple, np.generic, np.ndarray)
    settings = {
        name: describe(value)
        for name, value in getattr(item, "__dict__", {}).items()
        if not name.startswith("_") and (isinstance(value, plain) or is_dataclass(value))
    }
    return {"object": class_name(type(item)), "settings": settings}


def rebuild(data: Any, classes: Iterable[type] = ()) -> Any:
    """Return the configuration that :func:`describe` described, if it is all dataclasses."""
    if isinstance(data, list):
        return [rebuild(part, classes) for part in data]
    if not isinstance(data, dict):
        return data
    if "tuple" in data:
        return tuple(rebuild(part, classes) for part in data["tuple"])
    if "dict" in data:
        return {rebuild(key, classes): rebuild(value, classes) for key, value in data["dict"]}
    if "class" not in data:
        raise CheckpointError(
            f"it cannot be loaded on its own: {_shown(data)} can only be given anew. Build the "
            "run with the same arguments and use minimize(..., checkpoint=path) to resume it."
        )
    settings = {str(name): rebuild(value, classes) for name, value in data["settings"].items()}
    return find_class(data["class"], classes)(**settings)


def differences(name: str, was: Any, now: Any) -> list[str]:
    """Return in words each setting that differs, such as ``method.eta was 10.0, now 5.0``."""
    if was == now or (was != was and now != now):
        return []
    if isinstance(was, dict) and isinstance(now, dict):
        for key in ("class", "object"):
            if key in now and was.get(key) == now[key]:
                before, after = was["settings"], now["settings"]
                names = [*after, *(part for part in before if part not in after)]
                pairs = [(f"{name}.{part}", before.get(part), after.get(part)) for part in names]
                return [text for pair in pairs for text in differences(*pair)]
        if "function" in now and was.get("function") == now["function"]:
            # Every version of Python writes instructions in its own way.
            if None in (was.get("python"), now.get("python")) or was["python"] != now["python"]:
                return []
            return [f"{name} was another function than now, though both are {_shown(now)}"]
    shown = _shown(was), _shown(now)
    if shown[0] == shown[1]:
        shown = _shown(was, full=True), _shown(now, full=True)
    return [f"{name} was {shown[0]}, now {shown[1]}"]


def _shown(item: Any, *, full: bool = False) -> str:
    """Return a described setting as a user would write it."""
    if isinstance(item, list):
        return f"[{', '.join(_shown(part, full=full) for part in item)}]"
    if not isinstance(item, dict):
        return repr(item)
    if "tuple" in item:
        return f"({', '.join(_shown(part, full=full) for part in item['tuple'])})"
    if "function" in item:
        return str(item["function"]).replace(":", ".")
    if "settings" not in item:
        return "an array of other values" if "array" in item else str(item)
    name = str(item.get("class", item.get("object")))
    settings = [f"{key}={_shown(value, full=full)}" for key, value in item["settings"].items()]
    return f"{name if full else name.split(':')[-1].split('.')[-1]}({', '.join(settings)})"


# -- which problem ---------------------------------------------------------------------------------

SETTINGS = ("batch_size", "repeatable", "l2", "noise")
"""Attributes of a loss that are named where they differ; its fingerprint covers the rest."""


def identity(
    problem: Any, w0: Any, seed: int | None, value: Callable[[], Any], gradient: Any | None
) -> Tree:
    """Return, as JSON data, what a run is about; costly, as data may be large.

    ``value`` returns the loss at w0 and ``gradient`` is the proxy's (None where none is used):
    both are asked of losses without a fingerprint, which cannot be told apart otherwise.
    """
    parts = {"objective": problem.objective, "proxy": problem.proxy}
    marks = {name: fingerprint(loss) for name, loss in parts.items()}
    return {
        "rng": seed,
        "penalty": describe(problem.penalty),
        **marks,
        "settings": {
            name: {key: describe(getattr(loss, key)) for key in SETTINGS if hasattr(loss, key)}
            for name, loss in parts.items()
        },
        "value": value() if marks["objective"] is None else None,
        "slope": _slope(gradient, w0) if marks["proxy"] is None and gradient is not None else None,
    }


def _slope(gradient: Callable[[Any], Any], w0: Any) -> list[float] | None:
    """Return the norm of a gradient and its product with a direction that has no symmetries."""
    try:
        with np.errstate(all="ignore"):
            slope = to_numpy(gradient(w0)).astype(np.float64).reshape(-1)
            along = np.cos(np.arange(1.0, slope.size + 1))
            found = [float(np.linalg.norm(slope)), float(slope @ along)]
    except Exception:
        # The first step will meet it again, and report it.
        return None
    return found if np.isfinite(found).all() else None


def other_identity(saved: Tree, now: Tree, *, dtype: str, same_start: bool) -> list[str]:
    """Return in words what differs; what either side does not know is not compared.

    Values and gradients are taken at the start: without ``same_start`` they say nothing.
    """
    found = differences("penalty", saved["penalty"], now["penalty"])
    for name in ("objective", "proxy"):
        before, after = saved["settings"][name], now["settings"][name]
        named = []
        for key in (key for key in after if key in before):
            named += differences(f"{name}.{key}", before[key], after[key])
        if not named and None not in (saved[name], now[name]) and saved[name] != now[name]:
            named = [f"the {name}'s data is not that of the saved run"]
        found += named
    # Sums of the same data may be taken in another order on another machine.
    if same_start and _differ(saved["slope"], now["slope"], 1e-9 if "64" in dtype else 1e-3):
        found.append("the proxy's gradient at w0 is not that of the saved run")
    was, is_now = saved["value"], now["value"]
    known = same_start and isinstance(was, float) and isinstance(is_now, float)
    if known and _differ([was], [is_now], 1e-9):
        found.append(f"the loss at w0 was {was!r}, now {is_now!r}")
    if None not in (saved["rng"], now["rng"]) and saved["rng"] != now["rng"]:
        found.append(f"rng was {saved['rng']!r}, now {now['rng']!r}")
    return found


def _differ(was: list[float] | None, now: list[float] | None, slack: float) -> bool:
    """Tell whether two lists of numbers differ by more than a share of the first ones."""
    if was is None or now is None:
        return False
    allowed = slack * max(abs(was[0]), abs(now[0]))
    return any(abs(one - other) > allowed for one, other in zip(was, now, strict=True))
