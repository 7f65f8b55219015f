"""Configurations as JSON and back: how a saved run knows what it was.

Only the package's own frozen dataclasses are ever rebuilt, by name from a fixed list; nothing in
a file can name anything else.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from proxyprox import averaging, corrections, inner, methods, stopping
from proxyprox._arrays import to_numpy
from proxyprox._code import code_digest

_MODULES = (averaging, corrections, inner, methods, stopping)
_CLASSES: dict[str, type] = {
    name: item
    for module in _MODULES
    for name, item in vars(module).items()
    if isinstance(item, type) and is_dataclass(item)
}


_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""Functions are compared as their instructions, which every version writes in its own way."""


class NotRebuildableError(ValueError):
    """A configuration holds something, such as a function, that only the user can supply."""


def encode(item: Any) -> Any:
    """Return a configuration as JSON data; two encodings are equal if the runs are the same."""
    if is_dataclass(item) and not isinstance(item, type):
        settings = {f.name: encode(getattr(item, f.name)) for f in fields(item) if f.init}
        return {"class": type(item).__name__, "settings": settings}
    if isinstance(item, (list, tuple)):
        return [encode(part) for part in item]
    if is_array_api_obj(item) and not isinstance(item, np.generic):
        digest = hashlib.sha256(np.ascontiguousarray(to_numpy(item)).tobytes()).hexdigest()
        return {"array": digest}
    if isinstance(item, np.generic):
        return item.item()
    if item is None or isinstance(item, (bool, int, float, str)):
        return item
    code = code_digest(item)
    known = {} if code is None else {"code": code, "python": _PYTHON}
    return {"function": _name(item), **known}


def decode(data: Any) -> Any:
    """Rebuild a configuration from :func:`encode`."""
    if isinstance(data, list):
        return tuple(decode(part) for part in data)
    if not isinstance(data, dict):
        return data
    if "class" not in data:
        shown = f"the function {data['function']}" if "function" in data else str(data)
        raise NotRebuildableError(f"{shown} can only be given anew")
    cls = _CLASSES.get(str(data["class"]))
    if cls is None:
        raise NotRebuildableError(f"{data['class']!r} is not a class of this package")
    settings = data.get("settings")
    if not isinstance(settings, dict):
        raise ValueError("settings must be a table")
    return cls(**{str(name): decode(value) for name, value in settings.items()})


def _name(item: Callable[..., Any] | Any) -> str:
    kind = item if hasattr(item, "__qualname__") else type(item)
    return f"{kind.__module__}.{kind.__qualname__}"
