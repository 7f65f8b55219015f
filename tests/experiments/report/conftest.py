"""A made-up experiment: 3 panels, 4 methods, 5 seeds, 12 points."""

import math

import numpy as np
import pytest

# name: (rate, floor, proxy gradients a step)
METHODS = {
    "SGD": (1.1, 1.2e-3, 0),
    "ProxyProx, 20 GD steps": (1.2, 1.0e-3, 21),
    "ProxyProx, exact": (3.4, 1.0e-5, 9),
    "ERM on rows seen": (2.2, 3.0e-5, 0),
}
PANELS = {"batch 1024": 0.7, "batch 256": 1.0, "batch 256, subsampled proxy": 1.6}


@pytest.fixture(scope="session")
def records():
    rng = np.random.default_rng(0)
    return [
        {
            "panel": panel,
            "method": method,
            "batch_size": 256,
            "eta": None if method.startswith("ERM") else 8.0,
            "seed": seed,
            "target_gradients": step,
            "proxy_gradients": step * proxy,
            "seconds": step / 250,
            "suboptimality": (0.69 * (1 + step / 8) ** -rate + noise * floor * (step > 0))
            * math.exp(0.25 * rng.standard_normal() * (step > 0)),
        }
        for panel, noise in PANELS.items()
        for method, (rate, floor, proxy) in METHODS.items()
        for seed in range(5)
        for step in range(0, 1200, 100)
    ]
