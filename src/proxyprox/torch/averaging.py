"""An average of the weights along the way, and BatchNorm statistics that belong to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from proxyprox._util.validation import as_list, fraction, message
from proxyprox.torch.distributed import copy_into
from proxyprox.torch.inner import copy_tensors
from proxyprox.torch.proxy import set_attributes


class WeightAverage:
    """``v ← v + (1 − decay)(w − v)``: smoother weights, for one more copy of them.

    Parameters
    ----------
    params : iterable of tensors
        The weights; the average starts at their values.
    decay : float
        In (0, 1); the average looks back over about ``1/(1 − decay)`` updates.

    Examples
    --------
    >>> w = torch.nn.Parameter(torch.zeros(2))
    >>> average = WeightAverage([w], decay=0.5)
    >>> with torch.no_grad():
    ...     _ = w.fill_(1.0)
    >>> average.update()
    >>> with average.applied():
    ...     w.tolist()
    [0.5, 0.5]
    >>> w.tolist()
    [1.0, 1.0]
    """

    def __init__(self, params: Iterable[Any], decay: float) -> None:
        self.params = as_list("params", params, "the parameters, as model.parameters() gives them")
        if not self.params or not all(isinstance(p, torch.Tensor) for p in self.params):
            raise TypeError(message("params", self.params, "one tensor or more"))
        self.decay = fraction("decay", decay)
        with torch.no_grad():
            self.values = copy_tensors(self.params)

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def update(self) -> None:
        """Include the present weights."""
        torch._foreach_lerp_(self.values, self.params, 1 - self.decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the average into the parameters for the time of a block."""
        with torch.no_grad():
            before = copy_tensors(self.params)
            copy_into(self.params, self.values)
        try:
            yield
        finally:
            with torch.no_grad():
                copy_into(self.params, before)

    def state_dict(self) -> dict[str, Any]:
        """Return the average."""
        return {"values": list(self.values)}

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the average."""
        copy_into(self.values, list(state["values"]))


@contextmanager
def refreshed_batchnorm(
    model: Any, batches: Iterable[Any], forward: Callable[[Any], Any]
) -> Iterator[None]:
    """Give BatchNorm the statistics of the present weights for the time of a block.

    Running statistics lag behind weights that move fast, and mean nothing for averaged ones. They
    are replaced by the plain mean over the batches, and put back afterwards.

    Parameters
    ----------
    model : torch.nn.Module
        The network.
    batches : iterable
        Data to measure on; the proxy's costs nothing.
    forward : callable
        ``forward(batch)`` runs the network on a batch.

    Examples
    --------
    >>> x = torch.tensor([[1.0], [3.0]])
    >>> model = torch.nn.BatchNorm1d(1)
    >>> with refreshed_batchnorm(model, [x], model):
    ...     model.running_mean.item()
    2.0
    >>> model.running_mean.item()
    0.0
    """
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    saved = [(buffer, buffer.clone()) for layer in layers for buffer in layer.buffers()]
    changes: list[tuple[Any, str, Any]]
    changes = [(module, "training", True) for module in model.modules()]
    # Without momentum the running statistics are a cumulative mean.
    changes += [(layer, "momentum", None) for layer in layers]
    try:
        with torch.no_grad(), set_attributes(changes):
            for layer in layers:
                layer.reset_running_stats()
            for batch in batches:
                forward(batch)
        yield
    finally:
        for buffer, value in saved:
            buffer.copy_(value)
