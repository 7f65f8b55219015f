"""Nested state as arrays plus JSON, and back; the only thing ever written to a checkpoint."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array

from proxyprox._arrays import from_numpy, to_numpy
from proxyprox._files import atomic_write_bytes

_SKELETON = "state.json"


def write(path: Path, tree: dict[str, Any]) -> None:
    """Write a tree of dicts, lists, numbers, strings and arrays, whole or not at all."""
    arrays: list[np.ndarray[Any, Any]] = []
    skeleton = json.dumps(_split(tree, arrays))
    buffer = io.BytesIO()
    # Stored, not compressed: a reader's memory can then never exceed the file's size.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_SKELETON, skeleton)
        for number, array in enumerate(arrays):
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(f"{number}.npy", member.getvalue())
    atomic_write_bytes(path, buffer.getvalue())


def read(path: Path, like: Any) -> dict[str, Any]:
    """Read what :func:`write` wrote; arrays of the run's library come back in that of ``like``.

    Raises
    ------
    ValueError, KeyError, zipfile.BadZipFile, OSError
        For anything that is not such a file. No code in the file is ever run.
    """
    with zipfile.ZipFile(path) as archive:
        unread = {member.filename: member for member in archive.infolist()}
        for member in unread.values():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"member {member.filename!r} is compressed")
        skeleton = json.loads(archive.read(unread.pop(_SKELETON)))

        def load(number: int) -> np.ndarray[Any, Any]:
            # Each once: many references to one large member would fill the memory.
            data = archive.read(unread.pop(f"{int(number)}.npy"))
            array: np.ndarray[Any, Any] = np.lib.format.read_array(
                io.BytesIO(data), allow_pickle=False
            )
            if array.dtype.itemsize == 0 or array.size > len(data):
                raise ValueError(f"member {number} claims {array.size} entries")
            return array

        tree = _join(skeleton, load, like)
        if unread:
            raise ValueError(f"unknown members {sorted(unread)[:3]}")
    if not isinstance(tree, dict):
        raise ValueError("the state is not a table")
    return tree


def _split(item: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if is_array_api_obj(item) and not isinstance(item, np.generic):
        arrays.append(to_numpy(item))
        kind = "numpy" if is_numpy_array(item) else "native"
        return {"$array": len(arrays) - 1, "kind": kind}
    if isinstance(item, np.generic):
        return item.item()
    if isinstance(item, dict):
        if not all(isinstance(key, str) and not key.startswith("$") for key in item):
            raise TypeError("only text keys can be saved")
        return {key: _split(value, arrays) for key, value in item.items()}
    if isinstance(item, tuple):
        return {"$tuple": [_split(value, arrays) for value in item]}
    if isinstance(item, list):
        return [_split(value, arrays) for value in item]
    if item is None or isinstance(item, (bool, int, float, str)):
        return item
    raise TypeError(
        f"a {type(item).__name__} cannot be saved in a checkpoint; use numbers, text, arrays, "
        "and tuples, lists or dicts of them (for a batch: row numbers, a seed)"
    )


def _join(item: Any, load: Any, like: Any) -> Any:
    if isinstance(item, dict):
        if "$array" in item:
            array = load(item["$array"])
            return array if item.get("kind") == "numpy" else from_numpy(array, like)
        if "$tuple" in item:
            return tuple(_join(value, load, like) for value in item["$tuple"])
        return {key: _join(value, load, like) for key, value in item.items()}
    if isinstance(item, list):
        return [_join(value, load, like) for value in item]
    return item
