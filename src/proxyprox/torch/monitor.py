"""What the optimisers show in loggers."""

from __future__ import annotations

import math
from typing import Any

from proxyprox._util.validation import message, offers


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
