"""What a state dict holds besides torch's own two entries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from proxyprox._ledger import Ledger
from proxyprox.torch._proxy import Oracle
from proxyprox.torch.inner import Stepper

EXTRA = "proxyprox"
"""Its key."""


def pack(
    k: int, ledger: Ledger, rng: np.random.Generator, oracle: Oracle | None, stepper: Stepper
) -> dict[str, Any]:
    """Return the rest of the state as numbers, text and tensors, safe for ``weights_only``."""
    return {
        "k": k,
        "ledger": ledger.as_dict(),
        # Its integers have 128 bits, more than readers of pickles without code allow: text.
        "rng": json.dumps(rng.bit_generator.state),
        "proxy": {} if oracle is None else oracle.state_dict(),
        "inner": stepper.state_dict(),
    }


def extra_of(state_dict: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entry, or say whose state this is not."""
    if EXTRA not in state_dict:
        raise ValueError(
            f"state_dict must hold the key {EXTRA!r}, got {sorted(map(str, state_dict))}. It was "
            "saved by another optimiser."
        )
    extra: Mapping[str, Any] = state_dict[EXTRA]
    return extra


def unpack(
    extra: Mapping[str, Any], rng: np.random.Generator, oracle: Oracle | None, stepper: Stepper
) -> tuple[int, Ledger]:
    """Put generator, proxy and inner optimiser where they were; return k and the ledger."""
    rng.bit_generator.state = json.loads(extra["rng"])
    if oracle is not None:
        oracle.load_state_dict(extra["proxy"])
    stepper.load_state_dict(extra["inner"])
    return int(extra["k"]), Ledger(**extra["ledger"])
