"""What a state dict holds besides torch's own two entries."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from proxyprox._ledger import Ledger
from proxyprox.stopping import Steps
from proxyprox.torch._proxy import Oracle
from proxyprox.torch.inner import Stepper, described

EXTRA = "proxyprox"
"""Its key."""


def settings_of(optimizer: Any, stepper: Stepper) -> dict[str, str]:
    """Return what a run was configured with and its state is read by, as text."""
    stop = optimizer.stop
    return {
        "correction": described(optimizer.correction),
        "correction_weight": repr(optimizer.correction_weight),
        "anchor": optimizer.anchor,
        "proxy": type(optimizer.proxy).__name__,
        "proxy_mode": optimizer.proxy_mode if optimizer.model is not None else "without a model",
        "inner": stepper.name,
        "stop": described(Steps(stop) if isinstance(stop, int) else stop),
    }


def pack(
    optimizer: Any, k: int, rng: np.random.Generator, oracle: Oracle | None, stepper: Stepper
) -> dict[str, Any]:
    """Return the rest of the state as numbers, text and tensors, safe for ``weights_only``."""
    return {
        "k": k,
        "ledger": optimizer.ledger.as_dict(),
        "settings": settings_of(optimizer, stepper),
        # Its integers have 128 bits, more than readers of pickles without code allow: text.
        "rng": json.dumps(rng.bit_generator.state),
        "proxy": {} if oracle is None else oracle.state_dict(),
        "inner": stepper.state_dict(),
    }


def extra_of(state_dict: Mapping[str, Any], optimizer: Any, stepper: Stepper) -> Mapping[str, Any]:
    """Return the entry, or say whose state this is not.

    Another kind of correction is refused, as its estimate means something else; whatever else
    differs may be meant, and is warned of.
    """
    if EXTRA not in state_dict:
        raise ValueError(
            f"state_dict must hold the key {EXTRA!r}, got {sorted(map(str, state_dict))}. It was "
            "saved by another optimiser."
        )
    extra: Mapping[str, Any] = state_dict[EXTRA]
    now = settings_of(optimizer, stepper)
    saved = {**now, **extra.get("settings", {})}  # older states do not tell
    differing = [
        f"{name}={now[name]} (saved with {saved[name]})" for name in now if now[name] != saved[name]
    ]
    if not differing:
        return extra
    found = "the optimiser differs from the one that saved this state: " + ", ".join(differing)
    if _kind(saved["correction"]) != _kind(now["correction"]):
        raise ValueError(
            f"{found}. Make the optimiser with the saved correction, or start another without "
            "the state."
        )
    warnings.warn(f"{found}. The run goes on with the new settings.", UserWarning, stacklevel=3)
    return extra


def _kind(correction: str) -> str:
    return correction.partition("(")[0]


def unpack(
    extra: Mapping[str, Any], rng: np.random.Generator, oracle: Oracle | None, stepper: Stepper
) -> tuple[int, Ledger]:
    """Put generator, proxy and inner optimiser where they were; return k and the ledger."""
    rng.bit_generator.state = json.loads(extra["rng"])
    if oracle is not None:
        oracle.load_state_dict(extra["proxy"])
    stepper.load_state_dict(extra["inner"])
    return int(extra["k"]), Ledger(**extra["ledger"])
