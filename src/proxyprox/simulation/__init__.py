"""A robot and its simulator: policies tuned with few real rollouts.

>>> import numpy as np
>>> from proxyprox.simulation import (
...     FunctionSystem, LinearPolicy, RolloutObjective, SimulatedRobot, SimulatorProxy, Task,
...     TrajectoryAdjoint, tune,
... )
>>> policy = LinearPolicy(lambda x, t: x, 2, 1)
>>> task = Task(policy, 30, lambda x, u, t: (x**2).sum(axis=1) + (u**2).sum(axis=1))
>>> def cart(force):
...     return FunctionSystem(lambda x, u: x + 0.1 * np.hstack([x[:, 1:], force * u]), 2, 1, dt=0.1)
>>> def resets(rng, n):
...     return np.array([1.0, 0.0]) + 0.1 * rng.standard_normal((n, 2))
>>> simulator = SimulatorProxy(task, cart(1.0), resets)
>>> target = RolloutObjective(task, SimulatedRobot(cart(0.6), resets), TrajectoryAdjoint(simulator))
>>> tuned = tune(target, simulator, rollouts=8)
>>> tuned.result.biased, tuned.ledger.rollouts
(True, 8)
"""

from proxyprox.simulation.objective import (
    Evaluation,
    RolloutBudget,
    RolloutJournal,
    RolloutLedger,
    RolloutObjective,
    TrajectoryAdjoint,
)
from proxyprox.simulation.robots import GymnasiumRobot, SimulatedRobot, gymnasium_resets
from proxyprox.simulation.rollouts import (
    Limits,
    LinearPolicy,
    Policy,
    RobotError,
    RolloutBudgetError,
    RolloutError,
    RolloutRequest,
    Task,
    Trajectory,
)
from proxyprox.simulation.simulator import Identification, SimulatorProxy
from proxyprox.simulation.systems import FunctionSystem, MuJoCoSystem, Parameter, System
from proxyprox.simulation.tuning import GuardedProxyProx, Tuned, tune

__all__ = [
    "Evaluation", "FunctionSystem", "GuardedProxyProx", "GymnasiumRobot", "Identification",
    "Limits", "LinearPolicy", "MuJoCoSystem", "Parameter", "Policy", "RobotError",
    "RolloutBudget", "RolloutBudgetError", "RolloutError", "RolloutJournal", "RolloutLedger",
    "RolloutObjective", "RolloutRequest", "SimulatedRobot", "SimulatorProxy", "System", "Task",
    "Trajectory", "TrajectoryAdjoint", "Tuned", "gymnasium_resets", "tune",
]  # fmt: skip
