"""A made-up experiment of realistic size: 3 panels, 8 methods, 5 seeds, 40 points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

_METHODS = {  # name: (rate, floor, proxy gradients a step, seconds a step)
    "SGD": (1.1, 1.2e-3, 0, 2e-4),
    "ProxyProx, 20 GD steps": (1.2, 1.0e-3, 21, 4e-3),
    "ProxyProx, exact": (3.4, 1.0e-5, 9, 6e-3),
    "ProxyProx, EMA, exact": (3.0, 4.0e-6, 9, 6e-3),
    "ProxyProx, mean, exact": (2.8, 2.0e-6, 9, 6e-3),
    "AuxMom, 20 GD steps": (2.0, 1.4e-4, 21, 4e-3),
    "AuxMVR, 20 GD steps": (1.9, 1.7e-4, 42, 8e-3),
    "ERM on rows seen": (2.2, 3.0e-5, 0, 1e-2),
}
_PANELS = {
    "batch 1024": (1024, 0.7),
    "batch 256": (256, 1.0),
    "batch 256, subsampled proxy": (256, 1.6),
}


def make_records(seeds: int = 5, points: int = 40) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    records = []
    for panel, (batch, noise) in _PANELS.items():
        for method, (rate, floor, proxy, seconds) in _METHODS.items():
            for seed in range(seeds):
                for i in range(points):
                    step = round(1000 * i / (points - 1))
                    level = 0.69 * (1 + step / 8) ** -rate + noise * floor * (step > 0)
                    value = level * math.exp(0.25 * rng.standard_normal() * (step > 0))
                    records.append(
                        {
                            "panel": panel,
                            "method": method,
                            "batch_size": batch,
                            "eta": None if method.startswith("ERM") else 8.0,
                            "seed": seed,
                            "target_gradients": step,
                            "target_samples": step * batch,
                            "proxy_gradients": step * proxy,
                            "seconds": step * seconds,
                            "suboptimality": value,
                        }
                    )
    return records


@pytest.fixture(scope="session")
def records() -> list[dict[str, Any]]:
    return make_records()
