"""Differences of a slow simulator in joblib's worker processes.

A simulator without derivatives is differentiated by finite differences: d + 1 calls for one
gradient. Any executor with the interface of ``concurrent.futures`` runs them at once; joblib's
own (loky) starts processes again if they die, and takes functions that ``pickle`` refuses.

    python examples/joblib_executor.py            # seconds; needs scikit-learn, which brings joblib
"""

from __future__ import annotations

import time

import numpy as np
from joblib.externals.loky import ProcessPoolExecutor

from proxyprox import Budget, Problem, Result, ValueObjective, minimize


def misfit(w: np.ndarray, steps: int) -> float:
    """Return the squared misfit of a damped oscillator, integrated in ``steps`` steps."""
    stiffness, damping = np.exp(w)
    x, v, h, total = 1.0, 0.0, 10.0 / steps, 0.0
    for step in range(steps):
        v += h * (-stiffness * x - damping * v)
        x += h * v
        if (step + 1) % (steps // 10) == 0:
            t = h * (step + 1)
            total += (x - np.exp(-0.15 * t) * np.cos(1.4 * t)) ** 2
    return total / 10


def fine(w: np.ndarray) -> float:
    """Return the misfit of the fine model; the pause stands for a minute of a cluster."""
    time.sleep(0.02)
    return misfit(w, 2000)


def coarse(w: np.ndarray) -> float:
    """Return the misfit of the coarse model."""
    return misfit(w, 100)


def fit(workers: int = 2) -> Result:
    """Fit both constants; every gradient's differences are evaluated side by side."""
    with ProcessPoolExecutor(max_workers=workers) as executor:
        problem = Problem(ValueObjective(fine, workers=executor), coarse)
        return minimize(problem, np.log([1.0, 0.5]), budget=Budget(target_calls=60))


if __name__ == "__main__":
    result = fit()
    print(result)
    print("stiffness, damping:", np.exp(result.w).round(3))
