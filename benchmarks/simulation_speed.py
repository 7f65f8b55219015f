"""Simulated closed-loop control steps a second: the two-link arm, Euler, batches of policies.

    python benchmarks/simulation_speed.py [SECONDS]

Each control step is one call of ``mujoco.rollout`` for all rows, the policy and the cost included.
"""

import sys
import time

import numpy as np

from experiments.arm import TASK, XML, resets
from proxyprox.simulation import MuJoCoSystem
from proxyprox.simulation.systems import closed_loops

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0


def main() -> None:
    rng = np.random.default_rng(0)
    system = MuJoCoSystem(XML)
    for batch in (16, 128, 512):
        starts, W = resets(rng, batch), 0.1 * rng.standard_normal((batch, TASK.dim))
        best, begun = 0.0, time.perf_counter()
        while time.perf_counter() - begun < SECONDS:
            t0 = time.perf_counter()
            closed_loops(TASK, system, W, starts)
            best = max(best, batch * TASK.horizon / (time.perf_counter() - t0))
        print(f"batch {batch:4}  {best:10,.0f} steps/s (the best of repeats)")


if __name__ == "__main__":
    main()
