"""gymnasium's InvertedPendulum with another pole as the robot: linear gains, and a small network.

The simulator is the environment's own model; the robot is the same environment with a heavier
pole, a weaker motor, more friction and, unless ``--tilt 0`` is given, a rail that is not level.
gymnasium alone steps the robot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import proxyprox as pp
from experiments.records import write_record
from experiments.rollouts import Antithetic, NetworkPolicy
from experiments.shared import guarded, start
from proxyprox._util.extras import require
from proxyprox.simulation import (
    GymnasiumRobot,
    Limits,
    LinearPolicy,
    MuJoCoSystem,
    Policy,
    RolloutObjective,
    SimulatorProxy,
    Task,
    TrajectoryAdjoint,
    gymnasium_resets,
    tune,
)
from proxyprox_app.cli.console import say, stdout

Array = Any
HORIZON = 60
GAINS = np.array([0.7, 8.0, 0.9, 1.5])
TILT = 0.05
MEASURES = ["src/proxyprox/simulation", "src/proxyprox/stepsizes"]


def cost(x: Array, u: Array, t: Array) -> Array:
    """Return the cost of a step: cart and pole away from the middle, speeds and force."""
    return (
        x[:, 0] ** 2 + 5 * x[:, 1] ** 2 + 0.05 * (x[:, 2:] ** 2).sum(axis=1) + 0.01 * u[:, 0] ** 2
    )


def features(x: Array, t: Array) -> Array:
    """Return the state and a one: gains, and a constant force."""
    return np.hstack([x, np.ones((len(x), 1))])


class Residual(NetworkPolicy):
    """A small network beside fixed gains, so that it does not begin with a fall."""

    def act(self, w: Array, observations: Array, t: Array) -> Array:
        """Return the gains' action and the network's."""
        return super().act(w, observations, t) + observations @ GAINS[:, None]

    def jacobians(self, w: Array, observations: Array, t: Array) -> tuple[Array, Array]:
        """Return both derivatives; the gains add theirs."""
        by_w, by_x = super().jacobians(w, observations, t)
        return by_w, by_x + GAINS


def make_env(gap: bool, tilt: float = 0.0) -> Any:
    """Return the environment, its model changed for the robot."""
    gymnasium = require("gymnasium", extra="sim", purpose="the cart and pole")
    env = gymnasium.make("InvertedPendulum-v5", reset_noise_scale=0.05)
    if gap:
        model = env.unwrapped.model
        model.body_mass[2] *= 1.6
        model.body_inertia[2] *= 2.2
        model.actuator_gear[:, 0] *= 0.7
        model.dof_damping[:] += 0.5
        model.opt.gravity[:] = 9.81 * np.array([np.sin(tilt), 0.0, -np.cos(tilt)])
    return env


def run(kind: str, rollouts: int, estimator: str, seed: int, tilt: float) -> dict[str, Any]:
    """Return the costs before and after, and what was paid."""
    network = Residual((4, 8, 1))
    policy: Policy = LinearPolicy(features, 5, 1) if kind == "linear" else network
    first = np.append(GAINS, 0.0) if kind == "linear" else network.start(seed)
    task = Task(policy, HORIZON, cost, limits=Limits(action=(-3, 3), worst=3.0))
    with make_env(False) as env, make_env(True, tilt) as real:
        system = MuJoCoSystem(env.unwrapped.model, frame_skip=env.unwrapped.frame_skip)
        proxy = SimulatorProxy(task, system, gymnasium_resets(env, 8))
        start = proxy.minimum(first, steps=15)
        robot = GymnasiumRobot(real, repeatable=True)
        ours = estimator == "adjoint"
        choice: Any = TrajectoryAdjoint(proxy, rollouts=2) if ours else Antithetic(4, 0.1)
        target = RolloutObjective(task, robot, choice)
        if ours:
            w = tune(target, proxy, start, rollouts=rollouts, rng=seed).w
        else:
            budget = pp.Budget(target_samples=rollouts)
            w = pp.minimize(
                pp.Problem(target), start, method=pp.Adam(0.1), budget=budget, rng=seed
            ).w
        best = _optimum(proxy, real, start)
        policies = (("before", start), ("after", w), ("least", best))
        costs = {name: target.evaluate(at, 20) for name, at in policies}
        return {
            "policy": kind, "estimator": estimator, "seed": seed, "tilt": tilt,
            "parameters": task.dim,
            **{name: found.mean for name, found in costs.items()},
            "aborted": {name: found.aborted for name, found in costs.items()},
            "ledger": vars(target.ledger),
        }  # fmt: skip


def _optimum(proxy: SimulatorProxy, real: Any, start: Array) -> Array:
    """Return the best policy that the robot's own model finds."""
    system = MuJoCoSystem(real.unwrapped.model, frame_skip=real.unwrapped.frame_skip)
    return proxy.with_system(system).minimum(start, steps=15)


@guarded
def cartpole(
    rollouts: Annotated[int, typer.Option(min=8, help="Real rollouts of each run.")] = 16,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds.")] = 2,
    tilt: Annotated[float, typer.Option(help="Slope of the robot's rail, in radians.")] = TILT,
    output: Annotated[Path, typer.Option(help="Folder of the summary.")] = Path("runs/cartpole"),
) -> None:
    """Tune gains and a small network on a gymnasium cart-pole with other physics."""
    output.mkdir(parents=True, exist_ok=True)
    records = []
    for kind in ("linear", "network"):
        for estimator in ("adjoint", "ES, Adam"):
            for seed in range(seeds):
                found = run(kind, rollouts, estimator, seed, tilt)
                records.append(found)
                text = f"{kind:8} {estimator:9} {found['before']:.3f} → {found['after']:.3f}"
                paid = f"after {found['ledger']['rollouts']} rollouts"
                say(stdout(), f"{text} {paid}, least {found['least']:.3f}")
    write_record(output / "summary.json", {"records": records}, measures=MEASURES)


if __name__ == "__main__":
    start(cartpole)
