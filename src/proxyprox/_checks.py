"""All the wording of errors: the argument, the value got, what is allowed, what to do."""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array

from proxyprox._arrays import Vector, namespace, to_numpy

CAPABILITIES = {
    "value": "values, value(w)",
    "gradient": "gradients, gradient(w)",
    "hvp": "Hessian-vector products, hvp(w, v)",
    "hessian": "the Hessian, hessian(w)",
    "smoothness": "a finite smoothness constant H, the attribute smoothness",
    "solve_shifted": "a closed form, solve_shifted(v, eta)",
    "sample": "sampled gradients, sample(rng) and gradient(w, batch)",
    "everything": "full gradients, everything() and gradient(w, batch)",
}
"""What each optional capability is called in messages."""


class Words(str):
    """What was got, in words: shown as they are, where a value would be quoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def message(argument: str, got: Any, allowed: str, remedy: str = "") -> str:
    """Compose the one sentence every error of the package follows."""
    shown = repr(got)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    return f"{argument} must be {allowed}, got {shown}." + (f" {remedy}" if remedy else "")


def positive(argument: str, value: Any, remedy: str = "", *, allow_inf: bool = False) -> float:
    """Return ``value`` as a float if it is a positive number."""
    allowed = "a positive number" + (" (math.inf is allowed)" if allow_inf else "")
    number = _number(argument, value, allowed, remedy)
    if not number > 0 or (math.isinf(number) and not allow_inf):
        raise ValueError(message(argument, value, allowed, remedy))
    return number


def nonnegative(argument: str, value: Any, remedy: str = "") -> float:
    """Return ``value`` as a float if it is a finite number ≥ 0."""
    allowed = "a finite number, zero or more"
    number = _number(argument, value, allowed, remedy)
    if not (0 <= number < math.inf):
        raise ValueError(message(argument, value, allowed, remedy))
    return number


def fraction(argument: str, value: Any, remedy: str = "") -> float:
    """Return ``value`` as a float if it lies in (0, 1]."""
    allowed = "a number in (0, 1]"
    number = _number(argument, value, allowed, remedy)
    if not 0 < number <= 1:
        raise ValueError(message(argument, value, allowed, remedy))
    return number


def whole(argument: str, value: Any, least: int = 1, remedy: str = "") -> int:
    """Return ``value`` as an int if it is a whole number ≥ ``least``."""
    allowed = f"a whole number, {least} or more"
    exact = isinstance(value, numbers.Integral) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not exact:
        raise TypeError(message(argument, value, allowed, remedy))
    if value < least:
        raise ValueError(message(argument, value, allowed, remedy))
    return int(value)


def _number(argument: str, value: Any, allowed: str, remedy: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(message(argument, value, allowed, remedy))
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(message(argument, value, allowed, remedy)) from error


def instance(argument: str, value: Any, kind: type | tuple[type, ...], allowed: str) -> None:
    """Refuse ``value`` unless it is an instance of ``kind``; the commonest slip is the class."""
    if isinstance(value, kind):
        return
    remedy = "Add parentheses to make an instance." if isinstance(value, type) else ""
    raise TypeError(message(argument, value, allowed, remedy))


def vector(argument: str, value: Any, size: int | None = None) -> Vector:
    """Return ``value`` as a finite one-dimensional float32 or float64 array.

    Lists and integers become float64; arrays of other libraries stay what they are.
    """
    if not is_array_api_obj(value):
        try:
            value = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            allowed = "a one-dimensional array of numbers"
            raise TypeError(message(argument, value, allowed)) from error
    if value.ndim != 1:
        allowed = "a one-dimensional array"
        raise ValueError(
            message(
                argument, Words(f"an array of shape {tuple(value.shape)}"), allowed, "Flatten it."
            )
        )
    if size is not None and value.shape[0] != size:
        raise ValueError(
            message(argument, Words(f"an array of length {value.shape[0]}"), f"of length {size}")
        )
    if value.shape[0] == 0:
        raise ValueError(message(argument, Words("an empty array"), "of length 1 or more"))
    value = _floating(argument, value)
    require_finite(argument, value)
    return value


def _floating(argument: str, value: Any) -> Any:
    xp = namespace(value)
    if value.dtype in (xp.float32, xp.float64):
        return value
    kind = str(value.dtype)
    if "int" in kind or "bool" in kind:
        return value.astype(np.float64) if is_numpy_array(value) else value.to(xp.float64)
    got = Words(f"an array of dtype {kind}")
    raise TypeError(message(argument, got, "of dtype float32 or float64", "Convert it first."))


def require_finite(argument: str, array: Any) -> None:
    """Refuse an array that holds NaN or an infinity, saying how many and where the first is."""
    bad = ~np.isfinite(to_numpy(array))
    if not bad.any():
        return
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    where = first[0] if len(first) == 1 else first
    got = f"{int(bad.sum())} NaN or infinite entries (the first at {where})"
    raise ValueError(f"{argument} must be finite, got {got}. Drop or impute those entries.")


def has(oracle: Any, capability: str) -> bool:
    """Tell whether an objective or a proxy offers an optional capability."""
    offered = getattr(oracle, capability, None)
    if offered is None:
        return False
    return math.isfinite(offered) if capability == "smoothness" else True


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


def takes(function: Callable[..., Any], count: int) -> bool:
    """Tell whether a function can be called with so many arguments, as far as it can be seen."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def require_takes(name: str, function: Any, arguments: Sequence[str]) -> None:
    """Refuse an optional method that cannot be called as it will be."""
    called = f"{name.rsplit('.', maxsplit=1)[-1]}({', '.join(arguments)})"
    if function is None:
        return
    if not callable(function):
        raise TypeError(message(name, function, f"a method, called as {called}"))
    if not takes(function, len(arguments)):
        raise TypeError(message(name, function, f"callable as {called}"))
