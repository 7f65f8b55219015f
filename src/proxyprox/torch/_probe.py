"""A look, at the first step, at whether the proxy is a fixed, finite function like the target."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from proxyprox._arrays import LEAST_SQUARE, norm
from proxyprox._checks import message
from proxyprox._subproblem import NonFiniteError
from proxyprox.torch._linear import Tensors
from proxyprox.torch._proxy import Oracle

TOLERANCE = 1e-4
"""Relative difference above which two evaluations count as different; rounding stays below."""

SCALE = 30.0
"""So many times the target's gradient, the proxy's is taken for one in other units."""


INSIDE = ("proxyprox", "torch", "contextlib")
"""Packages whose lines are between the user's and a warning."""


class RandomProxyWarning(UserWarning):
    """The proxy's loss differs between two evaluations at the same point."""


class BatchStatisticsWarning(UserWarning):
    """BatchNorm in the proxy's passes sees what it should not: see the message."""


class ProxyScaleWarning(UserWarning):
    """The proxy's gradient is far larger than the target's."""


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
    cause = (
        "Dropout or augmentation is the usual cause, and often does no harm: pass model=... with "
        'proxy_mode="no_dropout", or draw the augmentation before the loss'
    )
    if batch is None:
        cause = (
            "A function that draws a minibatch is not a proxy: pass Proxy(loader, loss), which "
            "knows the batches. " + cause
        )
    _warn(
        f"the proxy's loss differs between two evaluations at the same point ({first:.6g} and "
        f"{second:.6g}): its gradients at w and at w_k then differ by noise that the correction "
        f"cannot cancel. {cause}; or probe=False if it is meant.",
        RandomProxyWarning,
    )


def same_units(anchor: Tensors, target: Tensors) -> None:
    """Warn if the proxy's gradient is far larger than the target's; this waits for the device."""
    ours, theirs = _size(anchor), _size(target)
    if theirs > 0 and math.isfinite(ours) and ours > SCALE * theirs:
        _warn(
            f"the proxy's gradient is {ours / theirs:.3g} times as long as the target's at the "
            "first step. Is its loss a sum and the target's a mean, or was the target's gradient "
            "clipped hard? The two must be in the same units: inner steps that suit the target "
            "diverge on such a proxy. If it is meant, probe=False.",
            ProxyScaleWarning,
        )


@contextmanager
def statistics_noticed(model: Any | None, look: bool) -> Iterator[None]:
    """Warn if BatchNorm of a network that the optimiser does not know follows the proxy's data."""
    if model is not None or not look:
        yield
        return
    seen: list[Any] = []

    def before_forward(module: Any, inputs: Any) -> None:
        if isinstance(module, _BatchNorm) and module.training and module.track_running_stats:
            seen.append(module)

    handle = torch.nn.modules.module.register_module_forward_pre_hook(before_forward)
    try:
        yield
    finally:
        handle.remove()
    if seen:
        _warn(
            "BatchNorm's running statistics follow the proxy's data in every inner step, and "
            "evaluations use them. Pass model=..., the network, so that they see the target's "
            'batches only; with proxy_mode="train" if it is meant.',
            BatchStatisticsWarning,
        )


def batches_mixed(oracle: Oracle, model: Any | None) -> None:
    """Warn if full passes and inner steps normalise by batches of different kinds."""
    if model is None or not getattr(oracle, "mixed", False):
        return
    if any(isinstance(module, _BatchNorm) and module.training for module in model.modules()):
        _warn(
            "BatchNorm normalises by the batch, and the proxy's full passes use other batches "
            "than its inner steps: they differentiate two functions, and the method raises the "
            "one of the full passes; long runs fall apart. Leave out full= (full_batch= of a "
            'graphed proxy), so that both draw batches alike; or use anchor="paired".',
            BatchStatisticsWarning,
        )


def still_finite(params: Tensors, target: Tensors, k: int) -> None:
    """Refuse weights that are not finite after a step; this waits for the device."""
    if math.isfinite(_size(params)):
        return
    culprit = "the proxy's" if math.isfinite(_size(target)) else "the target's (.grad)"
    raise NonFiniteError(
        f"the weights must be finite after outer step {k}, got NaN or inf: a gradient of "
        f"{culprit} was not finite, or the inner steps diverged. The parameters are those before "
        "the step. Look at that loss's data, or use smaller inner steps."
    )


def _size(tensors: Tensors) -> float:
    """Return the norm of all entries together; this waits for the device."""
    norms = [size.double() for size in torch._foreach_norm(list(tensors))]
    size = float(torch.stack([size.to(norms[0].device) for size in norms]).norm())
    if LEAST_SQUARE**0.5 <= size < math.inf:
        return size
    # Squares in single precision may have under- or overflowed.
    flat = [torch.view_as_real(t) if t.is_complex() else t for t in tensors]
    return math.hypot(*(norm(t.detach().double().reshape(-1)) for t in flat))


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


def _warn(text: str, category: type[Warning]) -> None:
    """Warn at the line that called into the optimiser, past this package's and torch's own."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in INSIDE:
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
