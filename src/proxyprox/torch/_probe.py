"""A look at whether the proxy is a function: two evaluations at one point."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from proxyprox.torch._proxy import Oracle

TOLERANCE = 1e-4
"""Relative difference above which two evaluations count as different; rounding stays below."""


class RandomProxyWarning(UserWarning):
    """The proxy's loss differs between two evaluations at the same point."""


def probe(oracle: Oracle, batch: Any = None) -> None:
    """Warn if the proxy's loss on one batch (or on everything) is random.

    The random state is put back, so that a probed run is the same run.
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=list(devices)):
        first, second = float(oracle.loss(batch)), float(oracle.loss(batch))
    if abs(first - second) <= TOLERANCE * max(abs(first), abs(second)):
        return
    warnings.warn(
        f"the proxy's loss differs between two evaluations at the same point ({first:.6g} and "
        f"{second:.6g}): its gradients at w and at w_k then differ by noise that the correction "
        "cannot cancel. Dropout or augmentation is the usual cause: pass model=... with "
        'proxy_mode="eval", or draw the augmentation before the loss; or probe=False if it is '
        "meant.",
        RandomProxyWarning,
        stacklevel=2,
    )
