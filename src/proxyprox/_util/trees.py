"""State trees: dataclasses, named tuples, dicts, lists, tuples, numbers, texts and arrays."""

from __future__ import annotations

import math
import sys
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Annotated, Any

import numpy as np
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Philox

from proxyprox._util.arrays import Vector
from proxyprox._util.validation import require_finite


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


def record_classes(tree: Any) -> list[type]:
    """Return the classes of a tree's records."""
    return list({type(item) for item in walk(tree) if field_names(type(item)) is not None})


def class_name(cls: Any) -> str:
    """Return ``module:qualname`` of a class or function.

    Examples
    --------
    >>> from proxyprox._util.arrays import Growing
    >>> class_name(Growing)
    'proxyprox._util.arrays:Growing'
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


@cache
def _declared(cls: Any) -> dict[str, Any]:
    """Return the fields of a record's class with what they are declared to hold."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {name: hints[name] for name in field_names(cls) or ()}


def require_form(name: str, value: Any, declared: Any, like: Vector) -> None:
    """Refuse a value that is not what it is declared to be.

    A ``Vector`` is a finite array of the library, dtype and shape of ``like``. Whole numbers are
    not negative. ``Annotated[Growing, row]`` says what each item of a sequence is.

    Examples
    --------
    >>> require_form("pair", (1, "a"), tuple[int, str], None)
    >>> require_form("pair", (1, 2), tuple[int, str], None)
    Traceback (most recent call last):
    ...
    ValueError: pair[1] is 2, not a str
    """
    kind, inner = typing.get_origin(declared), typing.get_args(declared)
    if declared == Vector:
        _require_array(name, value, like)
    elif kind is Annotated:
        require_form(name, value, inner[0], like)
        for at, item in enumerate(value):
            require_form(f"{name}[{at}]", item, inner[1], like)
    elif kind in (typing.Union, types.UnionType):
        if value is not None:
            require_form(name, value, inner[0], like)
    elif kind is tuple and type(value) is tuple:
        items = inner[:1] * len(value) if inner[-1:] == (...,) else inner
        if len(items) != len(value):
            raise ValueError(f"{name} has {len(value)} items, not {len(items)}")
        for at, item in enumerate(value):
            require_form(f"{name}[{at}]", item, items[at], like)
    elif declared is not Any:
        wanted = kind or declared
        allowed = {int: (int, np.integer), float: (int, float, np.floating, np.integer)}
        fits = isinstance(value, allowed.get(wanted, wanted))
        fits = fits and (wanted is bool or not isinstance(value, bool))
        if not fits or (wanted is int and value < 0):
            raise ValueError(f"{name} is {str(value)[:100]}, not a {wanted.__name__}")
        if field_names(wanted) is not None:
            require_record(name, value, like)


def require_record(name: str, record: Any, like: Vector) -> None:
    """Refuse a record with a field that is not as declared; NaN needs a default that is NaN."""
    cls: Any = type(record)
    defaults = field_defaults(cls)
    for part, declared in _declared(cls).items():
        value = getattr(record, part)
        require_form(f"{name}.{part}", value, declared, like)
        if declared is float and math.isnan(value) and not math.isnan(defaults.get(part, math.nan)):
            raise ValueError(f"{name}.{part} is not a number")


def _require_array(name: str, array: Any, like: Vector) -> None:
    """Refuse what is no finite array of the same library, dtype and shape."""
    if type(array) is not type(like) or array.dtype != like.dtype or array.shape != like.shape:
        raise ValueError(f"{name} is no array of shape {tuple(like.shape)} and dtype {like.dtype}")
    require_finite(name, array)


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
