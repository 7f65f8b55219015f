"""gymnasium's InvertedPendulum with another pole as the robot: linear gains, and a small network.

Beside ours stand identification alone, SGD with the same gradients (the best of three steps on the
runs shown) and evolution strategies, all with the same number of rollouts.

The simulator is the environment's own model; the robot is the same environment with a heavier
pole, a weaker motor, more friction and, unless ``--tilt 0`` is given, a rail that is not level.
gymnasium alone steps the robot.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import proxyprox as pp
from experiments.records import kept, write_record
from experiments.rollouts import Antithetic, NetworkPolicy
from experiments.shared import guarded, start
from proxyprox._util.extras import require
from proxyprox.simulation import (
    GymnasiumRobot,
    Limits,
    LinearPolicy,
    MuJoCoSystem,
    Parameter,
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


def set_pole(model: Any, factor: float) -> None:
    """Multiply the pole's mass and inertia."""
    model.body_mass[2] *= factor
    model.body_inertia[2] *= factor


def set_gear(model: Any, factor: float) -> None:
    """Multiply the motor's force."""
    model.actuator_gear[:, 0] *= factor


def set_damping(model: Any, more: float) -> None:
    """Add friction to both joints."""
    model.dof_damping[:] += more


PARAMETERS = {
    "pole": Parameter(1.0, 0.3, 3.0, set_pole),
    "gear": Parameter(1.0, 0.3, 3.0, set_gear),
    "damping": Parameter(0.0, 0.0, 2.0, set_damping),
}
METHODS = ("adjoint", "adjoint, identified", "SGD 0.3", "SGD 1", "SGD 3", "Adam, ES")


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


def run(kind: str, rollouts: int, method: str, seed: int, tilt: float) -> list[dict[str, Any]]:
    """Return the costs before and after, and what was paid."""
    network = Residual((4, 8, 1))
    policy: Policy = LinearPolicy(features, 5, 1) if kind == "linear" else network
    first = np.append(GAINS, 0.0) if kind == "linear" else network.start(seed)
    task = Task(policy, HORIZON, cost, limits=Limits(action=(-3, 3), worst=3.0))
    with make_env(False) as env, make_env(True, tilt) as real:
        skip = env.unwrapped.frame_skip
        system = MuJoCoSystem(env.unwrapped.model, skip, parameters=PARAMETERS)
        proxy = SimulatorProxy(task, system, gymnasium_resets(env, 8))
        start = proxy.minimum(first, steps=15)
        choice: Any = TrajectoryAdjoint(proxy) if "ES" not in method else Antithetic(4, 0.1)
        target = RolloutObjective(task, GymnasiumRobot(real, repeatable=True), choice)
        policies = {}
        if method.startswith("adjoint"):
            identify = "identified" in method
            tuned = tune(target, proxy, start, rollouts=rollouts, identify=identify, rng=seed)
            policies[method] = tuned.w
            if identify:
                policies["identification alone"] = tuned.proxy.minimum(start)
        else:
            own: Any = pp.Adam(0.1)
            if method.startswith("SGD"):
                own = pp.SGD(float(method.removeprefix("SGD ")) / proxy.top_curvature(start))
            budget = pp.Budget(target_samples=rollouts)
            found = pp.minimize(pp.Problem(target), start, method=own, budget=budget, rng=seed)
            policies[method] = found.w
        paid, before = vars(target.ledger), target.evaluate(start, 20)
        records = []
        for name, w in policies.items():
            after = target.evaluate(w, 20)
            records.append({
                "policy": kind, "estimator": name, "seed": seed, "tilt": tilt,
                "parameters": task.dim, "before": before.mean, "after": after.mean,
                "aborted": after.aborted, "ledger": paid,
            })  # fmt: skip
        if kind == "linear" and method == "adjoint" and seed == 0:
            # The best policy that the robot's own model finds.
            best = proxy.with_system(MuJoCoSystem(real.unwrapped.model, skip)).minimum(start, 15)
            records[0]["least"] = target.evaluate(best, 20).mean
        return records


@guarded
def cartpole(
    rollouts: Annotated[int, typer.Option(min=8, help="Real rollouts of each run.")] = 16,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds.")] = 5,
    tilt: Annotated[float, typer.Option(help="Slope of the robot's rail, in radians.")] = TILT,
    output: Annotated[Path, typer.Option(help="Folder of the summary.")] = Path("runs/cartpole"),
    parts: Annotated[Path | None, typer.Option(help="Folder of what is not run again.")] = None,
) -> None:
    """Tune gains and a small network on a gymnasium cart-pole with other physics."""
    output.mkdir(parents=True, exist_ok=True)
    records = []
    for kind, method, seed in product(("linear", "network"), METHODS, range(seeds)):
        name = f"{kind} {rollouts} {method} {seed} {tilt}"
        for found in kept(parts, name, partial(run, kind, rollouts, method, seed, tilt)):
            records.append(found)
            text = f"{kind:8} {found['estimator']:20} {found['before']:.3f} → {found['after']:.3f}"
            say(stdout(), f"{text} after {found['ledger']['rollouts']} rollouts")
    write_record(output / "summary.json", {"records": records}, measures=MEASURES)


if __name__ == "__main__":
    start(cartpole)
