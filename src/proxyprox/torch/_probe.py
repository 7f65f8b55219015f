"""A look at whether the proxy is a finite function of the parameters, at the first step."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from proxyprox._checks import message
from proxyprox._subproblem import NonFiniteError
from proxyprox.torch._linear import Tensors
from proxyprox.torch._proxy import Oracle

TOLERANCE = 1e-4
"""Relative difference above which two evaluations count as different; rounding stays below."""


class RandomProxyWarning(UserWarning):
    """The proxy's loss differs between two evaluations at the same point."""


class BatchStatisticsWarning(UserWarning):
    """Full passes over the proxy see other batches than inner steps, and BatchNorm sees both."""


def probe(oracle: Oracle, batch: Any = None) -> None:
    """Warn if the proxy's loss on one batch (or on everything) is random; refuse NaN.

    The random state is put back, so that a probed run is the same run.
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=list(devices)):
        try:
            first, second = float(oracle.loss(batch)), float(oracle.loss(batch))
        except RuntimeError as error:
            if "does not require grad" not in str(error):
                raise
            raise RuntimeError(
                "the proxy must return its loss and not call backward() on it: the optimiser does."
            ) from error
    finite(first)
    finite(second)
    if abs(first - second) <= TOLERANCE * max(abs(first), abs(second)):
        return
    warnings.warn(
        f"the proxy's loss differs between two evaluations at the same point ({first:.6g} and "
        f"{second:.6g}): its gradients at w and at w_k then differ by noise that the correction "
        "cannot cancel. Often that does no harm. Dropout or augmentation is the usual cause: pass "
        'model=... with proxy_mode="no_dropout", or draw the augmentation before the loss; or '
        "probe=False if it is meant.",
        RandomProxyWarning,
        stacklevel=2,
    )


def batches_mixed(oracle: Oracle, model: Any | None) -> None:
    """Warn if full passes and inner steps normalise by batches of different kinds."""
    if model is None or not getattr(oracle, "mixed", False):
        return
    if any(isinstance(module, _BatchNorm) and module.training for module in model.modules()):
        warnings.warn(
            "BatchNorm normalises by the batch, and the proxy's full passes use other batches "
            "than its inner steps: they differentiate two functions, and the method raises the "
            "one of the full passes; long runs fall apart. Leave out full= (full_batch= of a "
            'graphed proxy), so that both draw batches alike; or use anchor="paired".',
            BatchStatisticsWarning,
            stacklevel=2,
        )


def still_finite(params: Tensors, target: Tensors, k: int) -> None:
    """Refuse weights that are not finite after a step; this waits for the device."""
    if math.isfinite(float(_size(params))):
        return
    culprit = "the proxy's" if math.isfinite(float(_size(target))) else "the target's (.grad)"
    raise NonFiniteError(
        f"the weights must be finite after outer step {k}, got NaN or inf: a gradient of "
        f"{culprit} was not finite, or the inner steps diverged. The parameters are those before "
        "the step. Look at that loss's data, or use smaller inner steps."
    )


def _size(tensors: Tensors) -> Any:
    norms = [norm.double() for norm in torch._foreach_norm(list(tensors))]
    return torch.stack([norm.to(norms[0].device) for norm in norms]).norm()


def finite(value: Any) -> None:
    """Refuse a loss that is NaN or infinite; this waits for the device."""
    number = float(value)
    if not math.isfinite(number):
        remedy = "Look at the proxy's data and loss; the parameters were not changed."
        raise NonFiniteError(message("the proxy's loss", number, "finite", remedy))


def depends(params: Tensors) -> None:
    """Refuse a proxy whose backward pass has reached none of the parameters."""
    if all(p.grad is None for p in params):
        raise ValueError(
            "the proxy's loss must depend on the optimiser's parameters, got one that depends on "
            f"none of the {len(params)} tensors. Evaluate the network that is being trained; for "
            "no proxy at all, pass proxy=None."
        )
