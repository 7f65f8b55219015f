"""What BatchNorm and Dropout do while the optimiser evaluates the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

MODES = {
    "frozen": "as the model is, but running statistics are not updated",
    "no_dropout": "as frozen, with everything but normalisation in evaluation mode",
    "eval": "every module in evaluation mode: running statistics used, no dropout",
    "train": "as the model is, running statistics included",
}
"""The policies, and what each means."""


@contextmanager
def proxy_mode(model: Any | None, mode: str) -> Iterator[None]:
    """Put a model into the state in which proxy passes run, and back.

    Parameters
    ----------
    model : torch.nn.Module or None
        The network; without it nothing can be switched.
    mode : str
        One of :data:`MODES`.

    Notes
    -----
    "frozen" keeps batch statistics in the forward pass, as training has them, and leaves
    ``running_mean``, ``running_var`` and ``num_batches_tracked`` bit for bit as they were: an
    outer step makes tens of passes over proxy data, which would otherwise replace the target's
    statistics by the proxy's. "no_dropout" does so too, and makes the proxy a fixed function of a
    batch. "eval" makes it one of a sample, but another than the target's, which normalises by the
    batch: with BatchNorm it is stable for small step sizes only.
    """
    saved: list[tuple[Any, str, Any]] = []

    def switch(module: Any, name: str, value: Any) -> None:
        saved.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    try:
        for module in [] if model is None or mode == "train" else model.modules():
            if mode == "eval":
                switch(module, "training", False)
            elif isinstance(module, _BatchNorm) and module.training:
                # In training, a BatchNorm that tracks nothing still normalises by the batch.
                switch(module, "track_running_stats", False)
            elif isinstance(module, _InstanceNorm) and module.training:
                switch(module, "momentum", 0.0)
            elif mode == "no_dropout":
                switch(module, "training", False)
        yield
    finally:
        for module, name, value in saved:
            setattr(module, name, value)
