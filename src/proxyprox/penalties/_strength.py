"""Strengths of penalties: one number, or one for each coordinate."""

from __future__ import annotations

from typing import Any

from array_api_compat import is_array_api_obj

from proxyprox._arrays import Vector, from_numpy, to_numpy
from proxyprox._checks import message, nonnegative
from proxyprox._checks import vector as checked_vector


def checked_strength(argument: str, value: Any) -> Any:
    """Return a strength as a float, or as a vector of numbers ≥ 0."""
    if not is_array_api_obj(value) and not isinstance(value, (list, tuple)):
        return nonnegative(argument, value)
    strengths = checked_vector(argument, value)
    if bool((strengths < 0).any()):
        raise ValueError(message(argument, value, "zero or more in every coordinate"))
    return strengths


def strength_like(strength: Any, w: Vector) -> Any:
    """Return a strength in the library and dtype of ``w``, so that a prox keeps them."""
    if isinstance(strength, float) or (type(strength), strength.dtype) == (type(w), w.dtype):
        return strength
    return from_numpy(to_numpy(strength), like=w)
