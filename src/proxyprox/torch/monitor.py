"""What the optimisers show in TensorBoard, Lightning and other loggers."""

from __future__ import annotations

import importlib
import math
import sys
from typing import Any

from proxyprox._util.validation import message, offers

__doctest_requires__ = {"lightning_monitor": ["lightning"]}


def unwrap_optimizer(optimizer: Any) -> Any:
    """Return what is behind the wrappers of Lightning, Fabric and Accelerate."""
    # Some of them pass for its class, but with the attributes of the moment they were made.
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return optimizer


def read_metrics(optimizer: Any, prefix: str = "proxyprox") -> dict[str, float]:
    """Return ``optimizer.metrics()`` as loggers want it.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        One of this package, itself or in the wrapper of Lightning, Fabric or Accelerate.
    prefix : str
        Put before every name, with a slash.

    Returns
    -------
    metrics : dict of str to float
        θ, the displacement, the residual, the learning rate and what was paid, by names such as
        ``"proxyprox/theta"``. What was not measured is left out.

    Examples
    --------
    >>> import torch
    >>> from proxyprox.torch import ProxyProx
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = ProxyProx([w], lr=0.1, proxy=lambda: w.square().sum(), measure_residual=True)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> metrics = read_metrics(optimizer)
    >>> metrics["proxyprox/target_gradients"], metrics["proxyprox/residual"] > 0
    (1.0, True)
    """
    found = unwrap_optimizer(optimizer)
    if not offers(found, "metrics"):
        allowed = "an optimiser of proxyprox.torch, or one wrapped"
        raise TypeError(message("optimizer", type(found).__name__, allowed))
    values = found.metrics().items()
    return {f"{prefix}/{name}": value for name, value in values if not math.isnan(value)}


def log_metrics(
    writer: Any, optimizer: Any, step: int | None = None, prefix: str = "proxyprox"
) -> None:
    """Write ``optimizer.metrics()`` to TensorBoard.

    Parameters
    ----------
    writer : torch.utils.tensorboard.SummaryWriter
        Or anything else with ``add_scalar(name, value, step)``.
    optimizer : torch.optim.Optimizer
        One of this package, itself or in the wrapper of Lightning, Fabric or Accelerate.
    step : int, optional
        Where on the x-axis; by default the number of target gradients.
    prefix : str
        Put before every name, with a slash.

    Examples
    --------
    >>> import torch
    >>> from proxyprox.torch import ProxyProx
    >>> class Printer:
    ...     def add_scalar(self, name, value, step):
    ...         print(step, name, value)
    >>> w = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = ProxyProx([w], lr=0.5, proxy=lambda: w.square().sum(), correction_weight=0.5)
    >>> log_metrics(Printer(), optimizer)  # doctest: +ELLIPSIS
    0 proxyprox/theta 0.5
    0 proxyprox/lr 0.5
    ...
    """
    if not offers(writer, "add_scalar"):
        remedy = "For other loggers, log the dictionary that read_metrics(optimizer) returns."
        raise TypeError(message("writer", writer, "a writer with add_scalar", remedy))
    metrics = read_metrics(optimizer, prefix)
    at = int(metrics[f"{prefix}/target_gradients"]) if step is None else step
    for name, value in metrics.items():
        writer.add_scalar(name, value, at)


def lightning_monitor(prefix: str = "proxyprox") -> Any:
    """Return a Lightning callback that logs the metrics of every optimiser of this package.

    It calls ``log_dict`` as often as ``Trainer(log_every_n_steps=...)`` says, so that every logger
    has them and other callbacks know them. A fit without such an optimiser is refused.

    Parameters
    ----------
    prefix : str
        Put before every name, with a slash; the second optimiser's is ``prefix-1``.

    Returns
    -------
    callback : lightning.pytorch.Callback
        For ``Trainer(callbacks=[lightning_monitor()])``.

    Examples
    --------
    >>> callback = lightning_monitor()  # Trainer(callbacks=[callback], log_every_n_steps=10)
    >>> callable(callback.on_train_batch_end)
    True
    """
    # The same library under two names, with two classes: that of the user's trainer.
    old_name = "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules
    library = importlib.import_module("pytorch_lightning" if old_name else "lightning.pytorch")

    class LightningMonitor(library.Callback):  # type: ignore[misc,name-defined]
        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            if not self.found_in(trainer):
                got = [type(optimizer).__name__ for optimizer in trainer.optimizers]
                remedy = "Return one from configure_optimizers, or leave out lightning_monitor()."
                allowed = "an optimiser of proxyprox.torch"
                raise TypeError(message("optimizers of the fit", got, allowed, remedy))

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            every = trainer.log_every_n_steps
            if not every or trainer.global_step % every:
                return  # metrics wait for the device
            for i, optimizer in enumerate(self.found_in(trainer)):
                metrics = read_metrics(optimizer, f"{prefix}-{i}" if i else prefix)
                pl_module.log_dict(metrics, on_step=True, on_epoch=False)

        def found_in(self, trainer: Any) -> list[Any]:
            return [o for o in map(unwrap_optimizer, trainer.optimizers) if offers(o, "metrics")]

        def __reduce__(self) -> tuple[Any, ...]:
            # The class has no name at the module's level, by which pickles would find it.
            return lightning_monitor, (prefix,)

    return LightningMonitor()
