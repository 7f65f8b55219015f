"""Checkpoints: state trees in one file that grows by a frame at each save.

A state is a tree of dataclasses, named tuples, dicts, lists, tuples, numbers, texts and arrays;
``state_dict()`` of a run makes one and ``load_state_dict(tree)`` takes it back. A file is a header
and frames, each ``length, payload, digest``: the payload is one line of JSON, the skeleton, and the
raw arrays; the digest covers the frame and all frames before it. A frame holds the whole state, but
of the lists that only grow (:class:`Growing`) just what was added since the last frame, so a save
costs the same at every step. A file that ends in the middle of a frame was being written when the
machine stopped: the save before it counts. Nothing is compressed and nothing in a file is ever run:
classes are found by name among those that are imported already, and every length is compared with
the file's before memory is taken.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import itertools
import json
import math
import os
import re
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Philox

from proxyprox._util.arrays import namespace, to_numpy
from proxyprox._util.digests import digest, fingerprint
from proxyprox._util.files import atomic_output
from proxyprox._util.validation import file_path, message, positive, require_finite, whole

Tree = dict[str, Any]

HEADER = b"proxyprox checkpoint 6\n"
# Of files whose answer can be read, though no run goes on from them.
EARLIER = b"proxyprox checkpoint 5\n"
DIGEST = 16
# Of a frame: the length of its payload, and a checksum of that.
HEAD = struct.Struct("<QI")
# A file is written anew once its appended frames exceed this many bytes and its first frame.
SMALL = 1 << 20


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: missing, damaged, or of another run."""


@dataclass
class Checkpoint:
    """Where and how often :func:`~proxyprox.minimize` saves its run.

    If the file exists, ``minimize`` resumes from it, bit for bit. A file of another configuration,
    start, seed, penalty, batch size or data is refused. A function that is a setting, such as a
    schedule for eta, is compared by its module and name. Losses are compared by their
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
        Save when so many seconds have passed since the last time. If neither is given: a second, or
        twenty times what the last save took, at most a minute. What one step of a slow target has
        cost is then never lost.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from proxyprox import Checkpoint, Problem, Quadratic, minimize
    >>> target = Quadratic(np.eye(2), b=np.ones(2), noise=0.1)
    >>> problem = Problem(target, Quadratic(np.eye(2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     every = Checkpoint(f"{folder}/run", every_steps=10)
    ...     first = minimize(problem, steps=20, rng=0, checkpoint=every)
    ...     minimize(problem, steps=30, rng=0, checkpoint=every).steps
    30
    """

    path: str | os.PathLike[str]
    every_steps: int | None = None
    every_seconds: float | None = None
    _saved_at: float = field(default=0.0, init=False, repr=False, compare=False)
    _took: float = field(default=0.0, init=False, repr=False, compare=False)
    _writer: _Writer | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the path and both intervals."""
        path = file_path("checkpoint", self.path)
        if os.path.isdir(path) or not os.path.isdir(path.parent):
            allowed = "a file, not a folder, in a folder that exists"
            remedy = "" if os.path.isdir(path) else f"Create {path.parent} first."
            raise ValueError(message("checkpoint", str(path), allowed, remedy))
        if self.every_steps is not None:
            whole("every_steps", self.every_steps)
        if self.every_seconds is not None:
            positive("every_seconds", self.every_seconds)
        self._saved_at = time.monotonic()

    def due(self, steps: int) -> bool:
        """Tell whether it is time to save."""
        waited = time.monotonic() - self._saved_at
        by_steps = self.every_steps is not None and steps % self.every_steps == 0
        seconds = self.every_seconds
        if seconds is None and self.every_steps is None:
            seconds = min(max(1.0, 20 * self._took), 60.0)
        return by_steps or (seconds is not None and waited >= seconds)

    def save(self, run: Any) -> None:
        """Write the run to the file."""
        if self._writer is None or self._writer.path != os.fspath(self.path):
            self._writer = _Writer(os.fspath(self.path))
        begun = time.monotonic()
        self._writer.save(run.state_dict())
        self._saved_at = time.monotonic()
        self._took = self._saved_at - begun


def as_checkpoint(given: Any) -> Checkpoint | None:
    """Accept a Checkpoint or a path."""
    return given if given is None or isinstance(given, Checkpoint) else Checkpoint(given)


def save(path: str | os.PathLike[str], tree: Tree) -> None:
    """Write a state to a file of its own, whole or not at all."""
    _Writer(os.fspath(path)).save(tree)


def resume(path: str | os.PathLike[str], run: Any) -> list[str]:
    """Fill a freshly built run of the same call from a file; return what may not fit in it."""
    fresh = run.state_dict()
    arrays = (item for item in walk(fresh) if is_array_api_obj(item) and not is_numpy_array(item))
    with name_file_in_errors(path):
        tree = read(path).tree(like=next(arrays, None), classes=record_classes(fresh))
        run.load_state_dict(tree)
    return list(misfits("", _free_parts(tree), _free_parts(fresh), fresh.get("w0")))


@contextlib.contextmanager
def name_file_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say in every CheckpointError which file it is about."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"checkpoint {os.fspath(path)!r}: {error}") from error


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


def require_kind(tree: Any, kind: str) -> None:
    """Refuse a lone run's state where a safeguarded one's is wanted, and the other way round."""
    with refuse_damage():
        was = {"Run": False, "Guarded": True}[tree["kind"]]
    if was != (kind == "Guarded"):
        raise other_run_error([f"safeguard was {was}, now {not was}"])


def other_run_error(differences: list[str]) -> CheckpointError:
    """Return the error for a state of another run."""
    return CheckpointError(
        f"it belongs to another run: {'; '.join(differences)}. "
        "Give the same arguments to resume it, or another path to start again."
    )


# -- trees -----------------------------------------------------------------------------------------


class Growing:
    """A sequence that is never changed; :meth:`append` returns a longer one, mostly without a copy.

    It shares its list with those that it was made from. A branch, made when the list has gone on
    without it, gets a list of its own. A file gets what a sequence has in addition to an earlier
    one of the same list.
    """

    __slots__ = ("items", "length")

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self.items = list(items)
        self.length = len(self.items)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(self.items, self.length)

    def __getitem__(self, at: int) -> Any:
        return self.items[at + self.length if at < 0 else at]

    def __repr__(self) -> str:
        return f"Growing({list(self)!r})"

    def append(self, *added: Any) -> Growing:
        """Return the sequence with something at its end."""
        twin = Growing.__new__(Growing)
        twin.items = self.items if len(self.items) == self.length else self.items[: self.length]
        twin.items.extend(added)
        twin.length = self.length + len(added)
        return twin

    def continues(self, before: Growing) -> bool:
        """Tell whether an earlier one begins it."""
        return before.items is self.items and before.length <= self.length


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


def record_classes(tree: Any) -> list[type]:
    """Return the classes of a tree's records."""
    return list({type(item) for item in walk(tree) if field_names(type(item)) is not None})


def conform(name: str, saved: Any, fresh: Any) -> None:
    """Refuse a state whose records are not of the same classes as those of a fresh one."""
    names = field_names(type(fresh))
    if names is None or saved is None:
        return
    if type(saved) is not type(fresh):
        raise ValueError(f"{name} is a {class_name(type(saved))}, not {class_name(type(fresh))}")
    for part in names:
        conform(f"{name}.{part}", getattr(saved, part), getattr(fresh, part))


def _free_parts(tree: Tree) -> Tree:
    """Return what methods, step sizes and solvers fill as they like."""
    state = tree.get("state")
    if state is None:
        return {}
    return {"state": state.method, "step_size": state.step_size, "memory": state.memory}


def misfits(name: str, saved: Any, fresh: Any, like: Any) -> Iterator[str]:
    """Yield the fields that a run would hardly have written, judged by a fresh one.

    Methods may keep any tree, so that nothing is refused for this alone: it says what to name when
    the first step that follows fails.
    """
    names, remembered = field_names(type(saved)), name.startswith("memory")
    if names is not None:
        saved = {part: getattr(saved, part) for part in names}
        fresh = {part: getattr(fresh, part, None) for part in names}
    if isinstance(saved, dict):
        known = fresh if isinstance(fresh, dict) else {}
        for part in saved:
            yield from misfits(f"{name}.{part}".lstrip("."), saved[part], known.get(part), like)
    elif isinstance(saved, (list, tuple)) and isinstance(fresh, (list, tuple, type(None))):
        for at, part in enumerate(saved):
            yield from misfits(f"{name}[{at}]", part, like if remembered else None, like)
    elif not _fits(saved, fresh, like, remembered=remembered):
        yield name


def _fits(saved: Any, fresh: Any, like: Any, *, remembered: bool) -> bool:
    if is_array_api_obj(saved):
        real = np.asarray(to_numpy(saved)).dtype.kind in "biuf"
        shaped = saved.ndim == 0 or like is None or saved.shape[-1] == like.shape[-1]
        # A table of no rows, say, is in the place of an array only.
        return real and shaped and bool(np.isfinite(to_numpy(saved)).all()) and (
            fresh is None or is_array_api_obj(fresh)
        )  # fmt: skip
    if saved is None:
        return fresh is None and not remembered
    if isinstance(saved, (bool, int, float, np.generic)):
        number = fresh is None or isinstance(fresh, (bool, int, float, np.generic))
        return number and (saved == saved or fresh != fresh)
    return type(saved) is type(fresh)


def require_array(name: str, array: Any, like: Any) -> None:
    """Refuse what is no finite array of the same library, dtype and shape."""
    if type(array) is not type(like) or array.dtype != like.dtype or array.shape != like.shape:
        raise ValueError(f"{name} is no array of shape {tuple(like.shape)} and dtype {like.dtype}")
    require_finite(name, array)


def require_count(name: str, value: Any, kind: type = int, most: float = math.inf) -> None:
    """Refuse what is not a number of a kind from 0 to ``most``; whole numbers are floats too."""
    allowed = (int, np.integer) if kind is int else (int, float, np.number)
    if not isinstance(value, allowed) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r}, not a {kind.__name__} from 0 to {most}")


def restore_rng(state: Any, fresh: np.random.Generator) -> np.random.Generator:
    """Return a generator in a saved state; of NumPy's kinds, or of the fresh one's."""
    kinds: list[Any] = [type(fresh.bit_generator), PCG64, PCG64DXSM, MT19937, Philox, SFC64]
    bits = {kind.__name__: kind for kind in kinds}[state["bit_generator"]]()
    # NumPy trusts these positions: one outside of its buffer would read foreign memory.
    require_count("the generator's position", state["state"].get("pos", 0), most=624)
    require_count("the generator's position", state.get("buffer_pos", 0), most=4)
    bits.state = state
    return np.random.Generator(bits)


# -- trees as bytes --------------------------------------------------------------------------------

# Kinds of dtypes that arrays in a file may have: no objects.
KINDS = "biufcSUmM"
# What JSON cannot hold: its tag, how it is written, and how it is read.
TAGS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    complex: ("$complex", lambda z: [z.real, z.imag], lambda parts: complex(*parts)),
    bytes: ("$bytes", bytes.hex, bytes.fromhex),
    tuple: ("$tuple", list, tuple),
    dict: ("$dict", lambda table: [list(pair) for pair in table.items()], dict),
}
READERS = {tag: reader for tag, _, reader in TAGS.values()}


class _Encoder:
    """Turns a tree into a line of JSON and raw arrays.

    ``written`` says how much of the growing lists the file has already, ``prefixes`` how much it
    will have. Dicts with a single key that begins with "$" stand for what JSON cannot hold.
    """

    def __init__(self, written: dict[str, Growing]) -> None:
        self.written, self.prefixes = written, dict[str, Growing]()
        self._buffers: list[bytes] = []
        self._size = 0
        # Arrays that are one object stay one; they are kept alive so that ids stay theirs.
        self._arrays: dict[int, tuple[Any, Any]] = {}

    def payload(self, tree: Tree) -> bytes:
        skeleton = json.dumps(self.node(tree, ""), separators=(",", ":"))
        return b"".join([skeleton.encode("ascii"), b"\n", *self._buffers])

    def node(self, item: Any, where: str) -> Any:
        kind = type(item)
        if item is None or kind in (bool, str, int, float):
            return item
        if kind is list:
            return [self.node(part, f"{where}[{at}]") for at, part in enumerate(item)]
        if kind is dict and all(type(key) is str and not key.startswith("$") for key in item):
            return {key: self.node(part, f"{where}.{key}") for key, part in item.items()}
        if kind in TAGS:
            tag, write, _ = TAGS[kind]
            return {tag: self.node(write(item), where)}
        if kind is Growing:
            before, self.prefixes[where] = self.written.get(where), item
            first = before.length if before is not None and item.continues(before) else 0
            return {"$grown": [where, first, self.node(item.items[first : item.length], where)]}
        if isinstance(item, np.generic):
            return {"$scalar": self._array(np.asarray(item), where)}
        if is_array_api_obj(item):
            return self._array(item, where)
        names = field_names(kind)
        if names is None:
            raise _refusal(where, item)
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
    """Turns the payloads of frames back into trees; trusts nothing."""

    def __init__(self, like: Any, classes: Iterable[type]) -> None:
        self._like, self._classes = like, classes
        self._grown: dict[str, Growing] = {}
        self._readers: dict[str, Callable[[Any], Any]] = {
            **READERS,
            "$grown": self._growth,
            "$record": self._record,
            "$array": self._array,
            "$scalar": lambda array: array[()],
        }

    def tree(self, payload: memoryview, keys: Iterable[str] | None = None) -> Any:
        text, _, self._raw = bytes(payload).partition(b"\n")
        self._arrays: dict[str, Any] = {}
        if keys is not None:
            skeleton = json.loads(text)
            text = json.dumps({key: skeleton[key] for key in keys}).encode("ascii")
        return json.loads(text, object_hook=self._node)

    def _node(self, item: dict[str, Any]) -> Any:
        tag = next(iter(item), "")
        if not tag.startswith("$"):
            return item
        (content,) = item.values()
        return self._readers[tag](content)

    def _record(self, content: Any) -> Any:
        """Return a record with these fields, without running any code of its class."""
        name, values = content
        cls = find_class(name, self._classes)
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
        where, first, added = content
        known = self._grown.get(where, Growing()) if first else Growing()
        if (type(first), type(added)) != (int, list) or first != len(known):
            raise ValueError(f"{where} continues at {first}, after {len(known)}")
        self._grown[where] = known.append(*added)
        return self._grown[where]

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


# -- the file --------------------------------------------------------------------------------------


class _Writer:
    """A checkpoint file as its writer knows it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stamp: tuple[int, ...] | None = None
        self._written: dict[str, Growing] = {}
        self._digest = b""
        self._first = self._appended = 0

    def save(self, tree: Tree) -> None:
        """Append a frame; write the file anew where that is not safe, or not worth it."""
        stamp, self._stamp = self._stamp, None  # until the save has succeeded
        append = stamp is not None and self._appended <= max(self._first, SMALL)
        append = append and os.path.exists(self.path) and _stamp(self.path) == stamp
        encoder = _Encoder(self._written if append else {})
        frame = _frame(encoder.payload(tree), self._digest if append else b"")
        if append:
            # If this fails half way, the save before it counts, and the next one starts anew.
            with open(self.path, "ab") as file:
                file.write(frame)
                file.flush()
                os.fsync(file.fileno())
            self._appended += len(frame)
        else:
            with atomic_output(self.path) as file:
                file.write(HEADER)
                file.write(frame)
            self._first, self._appended = len(frame), 0
        self._digest, self._written = frame[-DIGEST:], encoder.prefixes
        self._stamp = _stamp(self.path)


def _stamp(path: str) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev


def _frame(payload: bytes, before: bytes) -> bytes:
    length = len(payload)
    frame = HEAD.pack(length, zlib.crc32(length.to_bytes(8, "little"))) + payload
    return frame + _digest(before, frame)


def _digest(before: bytes, frame: bytes | memoryview) -> bytes:
    state = hashlib.blake2b(before, digest_size=DIGEST)
    state.update(frame)
    return state.digest()


class Saved(NamedTuple):
    """The frames of a file, checked against their digests."""

    payloads: list[memoryview]

    def tree(
        self, keys: Iterable[str] | None = None, *, like: Any = None, classes: Iterable[type] = ()
    ) -> Tree:
        """Return the last state saved, or some of it; other libraries' arrays go with ``like``."""
        with refuse_damage():
            decoder = _Decoder(like, classes)
            # The states before the last are of no use, but what they added to lists is.
            for payload in self.payloads[:-1] if keys is None else ():
                decoder.tree(payload)
            return decoder.tree(self.payloads[-1], keys)  # type: ignore[no-any-return]


def read_answer(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Return the last iterate, or the average kept, and the ledger in a checkpoint.

    The file may be of this version or of the one before.

    Parameters
    ----------
    path : path-like
        The file; it need not fit any problem.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from proxyprox import Problem, ProxyProx, Quadratic, Run
    >>> problem = Problem(Quadratic(np.eye(2)), Quadratic(np.eye(2)))
    >>> run = Run(problem, np.ones(2), method=ProxyProx(1.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(f"{folder}/run")
    ...     w, ledger = read_answer(f"{folder}/run")
    >>> w, ledger["target_gradients"]
    (array([1., 1.]), 0)
    """
    with name_file_in_errors(path), refuse_damage():
        (payload,) = read(path, (HEADER, EARLIER)).payloads[-1:]
        tree = _Loose(None, ()).tree(payload)
        run = tree.get("run", tree)
        held = run["state"] if "method" in run["state"] else run
        state, average = held.get("method", held.get("state")), held.get("average")
        return state["w"] if average is None else average, dict(run["ledger"])


class _Loose(_Decoder):
    """Reads records as tables: their classes may have changed since."""

    def _record(self, content: Any) -> Any:
        return content[1]

    def _growth(self, content: Any) -> Growing:
        return Growing()


def read(path: str | os.PathLike[str], headers: tuple[bytes, ...] = (HEADER,)) -> Saved:
    """Read a file's frames, with one kind of error for all that can be wrong with it."""
    if not os.path.isfile(path):
        raise CheckpointError("it must be an existing file.")
    with refuse_damage():
        data = memoryview(Path(path).read_bytes())
        header = bytes(data[: len(HEADER)])
        if header == EARLIER and EARLIER not in headers:
            raise CheckpointError(
                "an earlier version wrote it, whose runs this one cannot continue. Its answer and "
                "its ledger can be read: proxyprox.checkpoint.read_answer(path). Start again with "
                "another path, and w0 from there."
            )
        if header not in headers:
            raise ValueError("no version, or another version, of proxyprox wrote it")
        payloads: list[memoryview] = []
        at, final = len(HEADER), b""
        while at + HEAD.size <= len(data):
            length, check = HEAD.unpack(data[at : at + HEAD.size])
            known = check == zlib.crc32(data[at : at + 8])
            end = at + HEAD.size + length
            if known and end + DIGEST > len(data):
                break
            final = _digest(final, data[at:end]) if known else b""
            if not known or data[end : end + DIGEST] != final:
                # Some file systems fill what was not written yet with zeros.
                if any(data[-DIGEST:]):
                    raise ValueError(f"save {len(payloads) + 1} differs from its checksum")
                break
            payloads.append(data[at + HEAD.size : end])
            at = end + DIGEST
        if not payloads:
            raise ValueError("it ends before its first save does")
        return Saved(payloads)


# -- classes and configurations --------------------------------------------------------------------


def class_name(cls: Any) -> str:
    """Return ``module:qualname`` of a class or function.

    Examples
    --------
    >>> class_name(Growing)
    'proxyprox.checkpoint:Growing'
    """
    return f"{getattr(cls, '__module__', None)}:{getattr(cls, '__qualname__', cls.__name__)}"


def find_class(name: Any, classes: Iterable[type] = ()) -> type:
    """Return the dataclass or named tuple of a name: a given one, or an imported one."""
    module_name, _, path = str(name).partition(":")
    found: Any = next((cls for cls in classes if class_name(cls) == name), None)
    if found is None:
        found = sys.modules.get(module_name)
        for part in path.split("."):
            # What an object computes when it is asked is not looked at.
            found = getattr(found, "__dict__", {}).get(part)
    if isinstance(found, type) and field_names(found) is not None and class_name(found) == name:
        return found
    raise CheckpointError(
        f"it holds a {str(name)[:200]!r}, which is no dataclass of an imported module. Import "
        f"{module_name[:100]!r} first, or pass the class: Run.load(..., classes=[...])."
    )


PLAIN = (type(None), bool, int, float, str)
# Where the methods, solvers, rules, averages, corrections and step sizes of a run come from.
PARTS_OF_RUNS = {
    f"proxyprox.{name}"
    for name in ("methods", "inner", "stopping", "averaging", "corrections", "stepsizes")
}
# What a part that derives from none of them has: a correction, an inner solver, an average.
FORMS = (("__call__", "two_points"), ("solve", "needs", "handles_penalty"), ("share",))


def _is_part(cls: type) -> bool:
    """Tell whether a dataclass derives from a part of a run, or has the form of one."""
    homes = {".".join(base.__module__.split(".")[:2]) for base in cls.__mro__}
    return bool(homes & PARTS_OF_RUNS) or any(
        all(hasattr(cls, name) for name in form) for form in FORMS
    )


def describe(item: Any) -> Any:
    """Return a configuration as JSON data; two are equal if the settings are.

    Of an object that is no dataclass, the plain values among its public attributes count.
    """
    item = item.item() if isinstance(item, np.generic) else item
    if isinstance(item, PLAIN):
        return item
    if is_array_api_obj(item):
        return {"array": digest(item)}
    if isinstance(item, list):
        return [describe(part) for part in item]
    if isinstance(item, tuple) and field_names(type(item)) is None:
        return {"tuple": describe(list(item))}
    if isinstance(item, dict):
        return {"dict": [[describe(key), describe(value)] for key, value in item.items()]}
    if isinstance(item, functools.partial):
        return {"partial": describe([item.func, *item.args, item.keywords])}
    if hasattr(item, "__name__"):
        return {"function": class_name(item)}
    if is_dataclass(item):
        kind, settings = "class", {x.name: getattr(item, x.name) for x in fields(item) if x.init}
    else:
        kind, plain = "object", (*PLAIN, tuple, np.generic, np.ndarray)
        public = {k: v for k, v in getattr(item, "__dict__", {}).items() if k[:1] != "_"}
        settings = {k: v for k, v in public.items() if isinstance(v, plain) or is_dataclass(v)}
    described = {name: describe(value) for name, value in settings.items()}
    return {kind: class_name(type(item)), "settings": described}


def rebuild(data: Any, classes: Iterable[type] = ()) -> Any:
    """Return the configuration that :func:`describe` described, if it is all dataclasses."""
    if isinstance(data, list):
        return [rebuild(part, classes) for part in data]
    if not isinstance(data, dict):
        return data
    for kind, make in (("tuple", tuple), ("dict", dict)):
        if kind in data:
            return make(rebuild(data[kind], classes))
    if "class" not in data:
        raise CheckpointError(
            f"it cannot be loaded on its own: {_text_of(data)} can only be given anew. Build the "
            "run with the same arguments and use minimize(..., checkpoint=path) to resume it."
        )
    cls = find_class(data["class"], classes)
    # What is called is a part of a run. Any other dataclass might open files or start programs.
    if cls not in list(classes) and not _is_part(cls):
        raise CheckpointError(
            f"it holds a {data['class'][:200]!r}, which is no part of a run. If it is yours, "
            "pass the class: Run.load(..., classes=[...])."
        )
    settings = {str(name): rebuild(value, classes) for name, value in data["settings"].items()}
    return cls(**settings)


def differences(name: str, was: Any, now: Any) -> list[str]:
    """Return in words each setting that differs, such as ``method.eta was 10.0, now 5.0``."""
    if was == now or (was != was and now != now):
        return []
    if isinstance(was, dict) and isinstance(now, dict) and "settings" in now:
        old, new = was.get("settings", {}), now["settings"]
        if {**was, "settings": new} == now:
            found = (differences(f"{name}.{x}", old.get(x), new.get(x)) for x in new | old)
            return [text for texts in found for text in texts]
    return [f"{name} was {_text_of(was)}, now {_text_of(now)}"]


def _text_of(item: Any) -> str:
    """Return a described setting as a user would write it; a user's own classes in full."""
    if isinstance(item, list):
        return f"[{', '.join(map(_text_of, item))}]"
    if not isinstance(item, dict):
        return repr(item)
    if "settings" not in item:
        return " ".join(f"{kind} {_text_of(content)}" for kind, content in item.items())
    name = str(item.get("class", item.get("object")))
    settings = [f"{key}={_text_of(value)}" for key, value in item["settings"].items()]
    return f"{re.sub('^proxyprox[^:]*:', '', name)}({', '.join(settings)})"


# -- which problem ---------------------------------------------------------------------------------

# Attributes of a loss that are named where they differ; its fingerprint covers the rest.
SETTINGS = ("batch_size", "repeatable", "l2", "noise")


def identity(
    problem: Any, w0: Any, seed: int | None, value: Callable[[], Any], gradient: Any
) -> Tree:
    """Return, as JSON data, what a run is about; costly, as data may be large.

    ``value`` returns the loss at w0 and ``gradient`` is the proxy's (None where none is used):
    both are asked of losses without a fingerprint, which cannot be told apart otherwise.
    """
    parts = {name: describe(getattr(problem, name)) for name in ("penalty", "scales")}
    about: Tree = {"rng": seed, **parts, "settings": {}}
    for name in ("objective", "proxy"):
        loss = getattr(problem, name)
        about[name] = fingerprint(loss)
        known = {key: describe(getattr(loss, key)) for key in SETTINGS if hasattr(loss, key)}
        about["settings"][name] = known
    asked = about["proxy"] is None and gradient is not None
    about["value"] = value() if about["objective"] is None else None
    about["slope"] = _slope(gradient, w0) if asked else None
    return about


def _slope(gradient: Callable[[Any], Any], w0: Any) -> list[float] | None:
    """Return the norm of a gradient and its product with a direction that has no symmetries."""
    # The first step will meet an error or a number that is not finite again, and report it.
    with contextlib.suppress(Exception), np.errstate(all="ignore"):
        slope = to_numpy(gradient(w0)).astype(np.float64).reshape(-1)
        along = np.cos(np.arange(1.0, slope.size + 1))
        found = [float(np.linalg.norm(slope)), float(slope @ along)]
        return found if np.isfinite(found).all() else None
    return None


def identity_differences(saved: Tree, now: Tree, *, dtype: str, same_start: bool) -> list[str]:
    """Return in words what differs; what either side does not know is not compared.

    Values and gradients are taken at the start: without ``same_start`` they say nothing.
    """
    found = differences("penalty", saved["penalty"], now["penalty"])
    found += differences("scales", saved["scales"], now["scales"])
    for name in ("objective", "proxy"):
        before, after = (tree["settings"][name] for tree in (saved, now))
        named = []
        for key in before.keys() & after.keys():
            named += differences(f"{name}.{key}", before[key], after[key])
        if not named and _differ(saved[name], now[name]):
            named = [f"the {name}'s data is not that of the saved run"]
        found += named
    # Sums of the same data may be taken in another order on another machine.
    slack = 1e-9 if "64" in dtype else 1e-3
    if same_start and _differ(saved["slope"], now["slope"], slack):
        found.append("the proxy's gradient at w0 is not that of the saved run")
    if same_start and _differ(saved["value"], now["value"], 1e-9):
        found.append(f"the loss at w0 was {saved['value']!r}, now {now['value']!r}")
    if _differ(saved["rng"], now["rng"]):
        found.append(f"rng was {saved['rng']!r}, now {now['rng']!r}")
    return found


def _differ(was: Any, now: Any, slack: float = 0.0) -> bool:
    """Tell whether two known things differ; numbers by more than a share of the first ones."""
    if was is None or now is None or was == now:
        return False
    if not slack:
        return True
    was, now = np.atleast_1d(was), np.atleast_1d(now)
    return bool((np.abs(was - now) > slack * max(abs(was[0]), abs(now[0]))).any())
