"""Where a cyclic run through a loader stands, so that a resumed run sees the same batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from proxyprox._checks import message


class Position:
    """Batches one after the other, over and over, with a position that can be saved.

    Parameters
    ----------
    batches : iterable
        A loader. If it has ``state_dict`` and ``load_state_dict`` these are used; otherwise the
        random state at the start of the pass is kept and the pass is replayed up to the position.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self.batches = batches
        self.count = 0
        self._iterator: Iterator[Any] | None = None
        self._start: Any | None = None

    def next(self) -> Any:
        """Return the next batch, starting a new pass where one ends."""
        if self._iterator is not None:
            try:
                batch = next(self._iterator)
            except StopIteration:
                self._iterator = None
            else:
                self.count += 1
                return batch
        self._start = self._random_state()
        self._iterator, self.count = iter(self.batches), 1
        try:
            return next(self._iterator)
        except StopIteration:
            allowed = "at least one batch, not empty"
            raise ValueError(message("batches", self.batches, allowed)) from None

    def __getstate__(self) -> dict[str, Any]:
        # A running iterator cannot be copied: the copy replays the pass instead.
        return {"batches": self.batches, "position": self.state_dict()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        Position.__init__(self, state["batches"])
        self.load_state_dict(state["position"])

    def state_dict(self) -> dict[str, Any]:
        """Return the position as numbers and tensors."""
        if hasattr(self.batches, "state_dict"):
            return {"loader": self.batches.state_dict()}
        if self._iterator is None:
            return {"count": 0}
        return {"count": self.count, "start": self._start, "now": self._random_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replay the pass up to a saved position."""
        self._iterator, self.count = None, 0
        if "loader" in state:
            self.batches.load_state_dict(state["loader"])  # type: ignore[attr-defined]
            return
        if not state.get("count"):
            return
        outside = self._random_state()
        self._set_random_state(state["start"])
        for _ in range(int(state["count"])):
            self.next()
        # A loader's own generator goes on from where it was; the global one is not ours to move.
        own = self._generator() is not None
        self._set_random_state(state["now"] if own else outside)
        self._start = _on_cpu(state["start"])

    def _generator(self) -> Any | None:
        loader: Any = self.batches
        found = getattr(loader, "generator", None)
        return found or getattr(getattr(loader, "sampler", None), "generator", None)

    def _random_state(self) -> Any:
        generator = self._generator()
        return torch.get_rng_state() if generator is None else generator.get_state()

    def _set_random_state(self, state: Any) -> None:
        generator = self._generator()
        if generator is None:
            torch.set_rng_state(_on_cpu(state))
        else:
            generator.set_state(_on_cpu(state))


def _on_cpu(state: Any) -> Any:
    # Launchers move whole state dicts to the accelerator; random states must come back.
    return state.detach().cpu().clone()
