"""Generators whose states are values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Philox

from proxyprox._util.trees import require_form


class Randomness:
    """A generator that is brought to the states of runs; it knows in which one it is."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self._at: Mapping[str, Any] | None = None

    def at(self, state: Mapping[str, Any]) -> np.random.Generator:
        """Return the generator in a state."""
        if self._at is not state:
            self.generator.bit_generator.state = state
        self._at = None  # until it is asked where it is: whoever has it may draw
        return self.generator

    def now(self) -> Mapping[str, Any]:
        """Return the state that it is in."""
        self._at = state = self.generator.bit_generator.state
        return state


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
