"""A random generator's state as JSON data, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from proxyprox._restored import require_count


def encode_rng(rng: np.random.Generator) -> dict[str, Any]:
    """Return a generator's state as JSON data."""
    state = dict(rng.bit_generator.state)
    inner = state["state"]
    # Python's integers are unbounded, JSON readers' are not: text keeps every bit.
    state["state"] = {k: str(v) if isinstance(v, int) else v for k, v in inner.items()}
    return state


def decode_rng(state: dict[str, Any]) -> np.random.Generator:
    """Return the generator of a state that :func:`encode_rng` made, or that claims so."""
    kinds = {
        kind.__name__: kind
        for kind in (
            np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937,
            np.random.Philox, np.random.SFC64,
        )
    }  # fmt: skip
    bit_generator = kinds[state["bit_generator"]]()
    inner = {k: int(v) if isinstance(v, str) else v for k, v in state["state"].items()}
    restored: Any = {**state, "state": inner}
    # NumPy trusts these positions: one outside of its buffer would read foreign memory.
    _require_position(inner.get("pos", 0), 624)
    _require_position(state.get("buffer_pos", 0), 4)
    bit_generator.state = restored
    return np.random.Generator(bit_generator)


def _require_position(position: Any, last: int) -> None:
    require_count("the generator's position", position, int)
    if position > last:
        raise ValueError(f"the generator's position is {position}, beyond {last}")
