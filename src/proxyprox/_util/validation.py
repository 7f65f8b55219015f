"""Checks of arguments, and the messages of what is refused."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import numbers
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import scipy.sparse
from array_api_compat import is_array_api_obj, is_numpy_array

from proxyprox._util.arrays import Matrix, Vector, namespace, to_numpy
from proxyprox._util.text import printable, short, unknown_argument

# What each optional capability is called in messages.
CAPABILITIES = {
    "value": "values, value(w)",
    "gradient": "gradients, gradient(w)",
    "hvp": "Hessian-vector products, hvp(w, v)",
    "hessian": "the Hessian, hessian(w)",
    "smoothness": "a finite smoothness constant H, the attribute smoothness",
    "solve_shifted": "a closed form, solve_shifted(v, eta)",
    "sample": "sampled gradients, sample(rng) and gradient(w, batch)",
    "everything": "full gradients, everything() and gradient(w, batch)",
    "outputs": "the outputs of a model, outputs(points)",
    "samples": "the number of samples of a batch, samples(batch)",
}
# The largest whole number up to which floats, JSON and 64-bit integers agree.
LARGEST_WHOLE = 2**53
AS_NUMBERS = "Convert it to real numbers first."

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


class Words(str):
    """What was got, in words: shown as they are, where a value would be quoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def count_words(count: int, name: str, plural: str = "") -> str:
    """Return a count with its noun, in the singular or the plural (by default with an s)."""
    return f"{count:,} {name if count == 1 else plural or name + 's'}"


def message(argument: str, got: Any, allowed: str, remedy: str = "") -> str:
    """Compose the one sentence every error of the package follows."""
    # Arguments may be named after columns, and what is allowed may list a user's classes.
    return printable(f"{argument} must be {allowed}, got {short(got, 80)}. {remedy}".rstrip())


def scalar(argument: str, value: Any) -> float:
    """Return a loss's value as a float, or refuse what is not one number."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(message(argument, value, "a number")) from error


def positive(argument: str, value: Any, remedy: str = "", *, allow_inf: bool = False) -> float:
    """Return ``value`` as a float if it is a positive number."""
    allowed = "a positive number" + (" (math.inf is allowed)" if allow_inf else "")
    if isinstance(value, float) and value == math.inf:
        allowed += ", and finite"
    most = math.inf if allow_inf else sys.float_info.max
    return _number(argument, value, allowed, remedy, math.ulp(0.0), most)


def nonnegative(argument: str, value: Any, remedy: str = "") -> float:
    """Return ``value`` as a float if it is a finite number ≥ 0."""
    most = sys.float_info.max
    return _number(argument, value, "a finite number, zero or more", remedy, 0.0, most)


def fraction(argument: str, value: Any, remedy: str = "") -> float:
    """Return ``value`` as a float if it lies in (0, 1]."""
    return _number(argument, value, "a number in (0, 1]", remedy, math.ulp(0.0), 1.0)


def below_one(argument: str, value: Any) -> float:
    """Return ``value`` as a float if it lies in [0, 1)."""
    return _number(argument, value, "a number in [0, 1)", "", 0.0, math.nextafter(1.0, 0.0))


def _number(
    argument: str, value: Any, allowed: str, remedy: str, least: float, most: float
) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(message(argument, value, allowed, remedy))
    number: Any = value
    if not least <= number <= most or sys.float_info.max < number < math.inf:
        raise ValueError(message(argument, value, allowed, remedy))
    return float(number)


def whole(
    argument: str, value: Any, least: int = 1, remedy: str = "", *, most: int = LARGEST_WHOLE
) -> int:
    """Return ``value`` as an int if it is a whole number from ``least`` to ``most``."""
    allowed = f"a whole number, {least} or more"
    exact = isinstance(value, numbers.Integral) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not exact:
        raise TypeError(message(argument, value, allowed, remedy))
    if not least <= value <= most:
        limit = f" and at most {most:,}" if value > most else ""
        raise ValueError(message(argument, value, allowed + limit, remedy))
    return int(value)


def flag(argument: str, value: Any) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(message(argument, value, "True or False"))
    return bool(value)


def generator(rng: Any) -> np.random.Generator:
    """Return the randomness of a run or a draw from what the user gave."""
    kinds = (np.random.Generator, np.random.BitGenerator, np.random.SeedSequence)
    if rng is None or isinstance(rng, kinds):
        return np.random.default_rng(rng)
    remedy = "Pass a seed to make it repeatable."
    return np.random.default_rng(whole("rng", rng, 0, remedy, most=2**128))


def file_path(argument: str, value: Any) -> Path:
    """Return ``value`` as a path if it names a file."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(message(argument, value, "a path: text or a pathlib.Path"))
    if not str(value) or "\0" in str(value):
        raise ValueError(message(argument, value, "the name of a file"))
    return Path(value)


def one_of(argument: str, value: Any, names: Collection[str]) -> str:
    """Return ``value`` if it is one of the names."""
    if not isinstance(value, str) or value not in names:
        raise ValueError(message(argument, value, f"one of {', '.join(map(repr, names))}"))
    return value


def as_list(argument: str, value: Any, allowed: str) -> list[Any]:
    """Return the entries of a list, a tuple or another collection that is no text."""
    with contextlib.suppress(TypeError):
        if not isinstance(value, (str, bytes)):
            return list(value)
    raise TypeError(message(argument, value, allowed))


def square_matrix(argument: str, value: Any) -> Matrix:
    """Return ``value`` as a finite square matrix of float32 or float64."""
    matrix = real_array(argument, value, "a square matrix of numbers")
    rows = matrix.shape[0] if matrix.ndim else 0
    if matrix.shape != (rows, rows) or rows == 0:
        raise _wrong_shape(argument, matrix, "a square matrix")
    return require_finite(argument, floating(argument, matrix))


def vector(argument: str, value: Any, size: int | None = None) -> Vector:
    """Return ``value`` as a finite one-dimensional float32 or float64 array.

    Lists and integers become float64; arrays of other libraries stay what they are.
    """
    array = real_array(argument, value, "a one-dimensional array of numbers")
    if array.ndim != 1 or array.shape[0] == 0 or size not in (None, array.shape[0]):
        allowed = f"a one-dimensional array of length {size or '1 or more'}"
        raise _wrong_shape(argument, array, allowed, "Flatten it." if array.ndim > 1 else "")
    return require_finite(argument, floating(argument, array))


def _wrong_shape(argument: str, array: Any, allowed: str, remedy: str = "") -> ValueError:
    got = Words(f"shape {tuple(array.shape)}") if hasattr(array, "shape") else array
    return ValueError(message(argument, got, allowed, remedy))


def instance(argument: str, value: Any, kind: type | tuple[type, ...], allowed: str) -> None:
    """Refuse ``value`` unless it is an instance of ``kind``; the commonest slip is the class."""
    if isinstance(value, kind):
        return
    remedy = "Add parentheses to make an instance." if isinstance(value, type) else ""
    raise TypeError(message(argument, value, allowed, remedy))


def real_array(argument: str, value: Any, allowed: str = "an array of numbers") -> Any:
    """Return an array of real numbers in place of lists, tables, NumPy arrays and dense tensors.

    Nothing is converted that is not a number already: no text, dates, complex or masked entries.
    """
    given = value = without_mask(argument, value)
    if is_array_api_obj(value) and not is_numpy_array(value):
        kind = f"{value.dtype}, {getattr(value, 'layout', 'dense')}, on {value.device}"
        if any(word in kind for word in ("complex", "bfloat", "sparse", "meta")):
            raise TypeError(message(argument, Words(kind), f"{allowed}, real and dense"))
        # Without its graph: nothing goes back into data.
        return value.detach() if getattr(value, "requires_grad", False) else value
    try:
        if scipy.sparse.issparse(value):
            raise TypeError("It is sparse. Pass it dense: .toarray()")
        # As a plain array: matrices have other products.
        value = np.asarray(value)
        if value.dtype.kind == "O" and not is_numpy_array(given):
            # A table's columns may differ; text that looks like numbers is not converted.
            for entry in value.flat:
                if not isinstance(entry, (numbers.Real, np.bool_)):
                    raise TypeError(f"It holds {short(entry)}")
            value = value.astype(np.float64)
        if value.dtype.kind not in "biuf":
            raise TypeError(f"Its dtype is {value.dtype}. Convert it to real numbers, float64")
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(message(argument, given, allowed, f"{error}.")) from error
    return value.astype(value.dtype.newbyteorder("="), copy=False)


def without_mask(argument: str, value: Any) -> Any:
    """Return the data of a masked array, refusing one that has entries to be ignored."""
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if np.ma.is_masked(value):
        remedy = "Drop those rows, or fill the entries: array.filled(...)."
        raise ValueError(message(argument, value, "an array without masked entries", remedy))
    return np.asarray(value.data)


def floating(argument: str, value: Any) -> Any:
    """Return an array of float32 or float64, converting whole numbers and booleans."""
    xp = namespace(value)
    if value.dtype in (xp.float32, xp.float64):
        return value
    kind = str(value.dtype)
    if "int" in kind or "bool" in kind:
        return value.astype(np.float64) if is_numpy_array(value) else value.to(xp.float64)
    got = Words(f"dtype {value.dtype}")
    raise TypeError(message(argument, got, "of dtype float32 or float64", "Convert it first."))


def require_point(argument: str, w: Any, size: int) -> None:
    """Refuse what is no vector of the right size; cheap enough for every call."""
    if getattr(w, "shape", None) != (size,):
        raise _wrong_shape(argument, w, f"a one-dimensional array of length {size}")


def to_plain(argument: str, value: Any) -> Any:
    """Return a tensor as a NumPy array and an unmasked array as its data; the rest as it is."""
    value = without_mask(argument, value)
    return to_numpy(real_array(argument, value)) if hasattr(value, "detach") else value


def require_finite(argument: str, array: Any) -> Any:
    """Return an array without NaN and infinities; otherwise say how many and where the first is."""
    bad = ~np.isfinite(to_numpy(array))
    if not bad.any():
        return array
    first = ", ".join(map(str, np.argwhere(bad)[0]))
    got = Words(f"{bad.sum()} NaN or infinite entries (the first at {first})")
    raise ValueError(message(argument, got, "finite", "Drop or impute those entries."))


def has(oracle: Any, capability: str) -> bool:
    """Tell whether an objective or a proxy offers an optional capability."""
    offered = getattr(oracle, capability, None)
    return offered is not None and (capability != "smoothness" or math.isfinite(offered))


def offers(given: Any, *methods: str) -> bool:
    """Tell whether an object, not a class, has these methods, its own or by ``__getattr__``.

    ``isinstance`` with a runtime protocol does not see the latter from Python 3.12 on.
    """
    return not isinstance(given, type) and all(
        callable(getattr(given, method, None)) for method in methods
    )


def require(user: str, role: str, oracle: Any, needs: Iterable[str], instead: str) -> None:
    """Refuse, before the first step, a part whose oracle lacks what it needs."""
    missing = [CAPABILITIES[need] for need in needs if not has(oracle, need)]
    if missing:
        raise TypeError(
            f"{user} needs {' and '.join(missing)} from the {role}, "
            f"but {type(oracle).__name__} does not offer that. {instead}"
        )


# Methods of classes are asked about again and again.
signature_of = functools.lru_cache(inspect.signature)


def takes(function: Any, count: int) -> bool:
    """Tell whether something can be called with a number of arguments, as far as it can be seen.

    A class is none, since it answers with an instance; ``int`` and ``float`` answer with numbers.
    """
    if not callable(function) or (isinstance(function, type) and function not in (int, float)):
        return False
    try:
        method = getattr(function, "__func__", None)
        known = inspect.signature(function) if method is None else signature_of(method)
        known.bind(*[None] * (count + (method is not None)))
    except ValueError:  # some compiled functions do not tell
        return True
    except TypeError:
        return False
    return True


def require_function(name: str, function: Any, arguments: Sequence[str]) -> None:
    """Refuse what cannot be called as it will be."""
    if not takes(function, len(arguments)):
        called = f"{name.rsplit('.', maxsplit=1)[-1]}({', '.join(arguments)})"
        raise TypeError(message(name, function, f"callable as {called}"))


def require_takes(name: str, function: Any, arguments: Sequence[str]) -> None:
    """Refuse an optional function that cannot be called as it will be."""
    if function is not None:
        require_function(name, function, arguments)


def explain_names(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Make a function answer arguments that it does not have with what to write instead."""
    known = [name for name in inspect.signature(function).parameters if name != "self"]
    called = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        if unknown := [name for name in kwargs if name not in known]:
            raise unknown_argument(called, unknown[0], kwargs[unknown[0]], known)
        return function(*args, **kwargs)

    return checked
