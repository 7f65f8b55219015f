"""The guard of `tune` on plants with severe gaps: does the answer ever cost more than the start?

    python benchmarks/guard.py [--seeds 8] [--plants cart,drone] [--rollouts 16] --output FOLDER

Five plants. Each run draws its own gap, anywhere within the bounds of the plant's parameters (a
weak, strong or reversed motor, drag, wind) and with a delay in one of three; first states of small
and of large spread; robots that repeat a seed and robots that do not. The tables have the true cost
of the answer over that of the start, median and worst, how many ended more than 10 % above the
start, and the same for the simple rule that takes the policy with the lowest observed cost.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from experiments.records import kept, write_record
from proxyprox.simulation import (
    FunctionSystem,
    Limits,
    LinearPolicy,
    Parameter,
    RolloutObjective,
    RolloutRequest,
    SimulatedRobot,
    SimulatorProxy,
    Task,
    TrajectoryAdjoint,
    tune,
)
from proxyprox.simulation.tuning import observed

Array = Any
HELD_OUT = 400
# How far first states are spread, in units of the plant's own spread.
SPREADS = (1.0, 10.0)


def bumps(number: int, horizon: int) -> Callable[[Array, Array], Array]:
    """Return features of a feed-forward action: bumps over time."""
    centres, width = np.linspace(0, horizon, number), 0.8 * horizon / number
    return lambda x, t: np.exp(-0.5 * ((np.asarray(t)[:, None] - centres) / width) ** 2)


@dataclass(frozen=True)
class Plant:
    """A system, a task, and the bounds of the robot's parameters."""

    move: Callable[..., Array]
    states: int
    actions: int
    task: Task
    middle: tuple[float, ...]
    spread: tuple[float, ...]
    parameters: dict[str, Parameter]
    w0: tuple[float, ...] | None = None

    def system(self, **values: float) -> FunctionSystem:
        """Return the physics."""
        known = {
            name: Parameter(values.get(name, one.value), one.lower, one.upper)
            for name, one in self.parameters.items()
        }
        return FunctionSystem(self.move, self.states, self.actions, parameters=known)

    def gap(self, rng: np.random.Generator) -> tuple[dict[str, float], int]:
        """Return what the robot's parameters are, about half of them changed, and its delay."""
        names = [name for name in self.parameters if rng.random() < 0.5] or list(self.parameters)
        bounds = ((name, self.parameters[name]) for name in names)
        changed = {name: float(rng.uniform(one.lower, one.upper)) for name, one in bounds}
        return changed, int(rng.integers(1, 6)) if rng.random() < 1 / 3 else 0

    def resets(self, scale: float) -> Callable[[np.random.Generator, int], Array]:
        """Return what draws first states."""
        middle, spread = np.array(self.middle), scale * np.array(self.spread)
        return lambda rng, n: middle + spread * rng.standard_normal((n, self.states))


def cart() -> Plant:
    """A cart follows a sine; feed-forward force."""

    def move(x: Array, u: Array, force: float, drag: float, wind: float) -> Array:
        v = x[:, 1:] + 0.1 * (force * u - drag * x[:, 1:] + wind)
        return np.hstack([x[:, :1] + 0.1 * v, v])

    def cost(x: Array, u: Array, t: Array) -> Array:
        return (x[:, 0] - np.sin(0.15 * t)) ** 2 + 1e-3 * u[:, 0] ** 2

    task = Task(LinearPolicy(bumps(8, 40), size=8, actions=1), 40, cost)
    known = {
        "force": Parameter(1.0, -3.0, 3.0), "drag": Parameter(0.1, 0.0, 3.0),
        "wind": Parameter(0.0, -2.0, 2.0),
    }  # fmt: skip
    return Plant(move, 2, 1, task, (0.0, 1.5), (0.05, 0.05), known)


def pendulum() -> Plant:
    """A pendulum is held upright by linear feedback of a saturated torque."""

    def move(x: Array, u: Array, gain: float, length: float, drag: float) -> Array:
        a = 9.81 / length * np.sin(x[:, :1]) + gain * u - drag * x[:, 1:]
        v = x[:, 1:] + 0.04 * a
        return np.hstack([x[:, :1] + 0.04 * v, v])

    def cost(x: Array, u: Array, t: Array) -> Array:
        return 1 - np.cos(x[:, 0]) + 0.05 * x[:, 1] ** 2 + 1e-3 * u[:, 0] ** 2

    def features(x: Array, t: Array) -> Array:
        return np.stack([np.sin(x[:, 0]), x[:, 1], x[:, 0] ** 3], axis=1)

    limits = Limits(action=(-30, 30), state=(-8, 8), worst=6.0)
    task = Task(LinearPolicy(features, 3, 1), 60, cost, limits=limits)
    known = {
        "gain": Parameter(1.0, -3.0, 3.0), "length": Parameter(1.0, 0.3, 3.0),
        "drag": Parameter(0.1, 0.0, 2.0),
    }  # fmt: skip
    return Plant(move, 2, 1, task, (0.3, 0.0), (0.1, 0.1), known, w0=(-25.0, -6.0, 0.0))


def drone() -> Plant:
    """A planar drone flies a curve; feed-forward thrust and torque beside a PD controller."""

    def move(x: Array, u: Array, thrust: float, turn: float, wind: float) -> Array:
        h = 0.05
        lift = thrust * (9.81 + u[:, 0])
        ax = -lift * np.sin(x[:, 2]) + wind - 0.1 * x[:, 3]
        az = lift * np.cos(x[:, 2]) - 9.81 - 0.1 * x[:, 4]
        v = x[:, 3:] + h * np.stack([ax, az, turn * u[:, 1]], 1)
        return np.hstack([x[:, :3] + h * v, v])

    def path(t: Array) -> tuple[Array, Array]:
        return np.sin(0.1 * t), 0.5 * np.sin(0.2 * t)

    def follow(x: Array, t: Array) -> Array:
        px, pz = path(t)
        tilt = np.clip(-0.25 * (px - x[:, 0]) + 0.25 * x[:, 3], -0.6, 0.6)
        return np.stack([4 * (pz - x[:, 1]) - 3 * x[:, 4], 20 * (tilt - x[:, 2]) - 6 * x[:, 5]], 1)

    def cost(x: Array, u: Array, t: Array) -> Array:
        px, pz = path(t)
        return (x[:, 0] - px) ** 2 + (x[:, 1] - pz) ** 2 + 1e-4 * (u**2).sum(axis=1)

    task = Task(LinearPolicy(bumps(8, 60), size=8, actions=2, base=follow), 60, cost,
                limits=Limits(action=(-15, 15)))  # fmt: skip
    known = {
        "thrust": Parameter(1.0, 0.3, 3.0), "turn": Parameter(1.0, 0.2, 4.0),
        "wind": Parameter(0.0, -4.0, 4.0),
    }  # fmt: skip
    return Plant(move, 6, 2, task, (0.0,) * 6, (0.05,) * 6, known)


def tank() -> Plant:
    """Two tanks, the level of the second is kept by the pump of the first."""

    def move(x: Array, u: Array, pump: float, leak: float, pipe: float) -> Array:
        first, second = x[:, :1], x[:, 1:]
        flow = pipe * np.tanh(first - second)
        a = first + 0.2 * (pump * u - flow)
        return np.hstack([a, second + 0.2 * (flow - leak * second)])

    def cost(x: Array, u: Array, t: Array) -> Array:
        return (x[:, 1] - 1.0 - 0.5 * (t > 30)) ** 2 + 0.02 * u[:, 0] ** 2

    def features(x: Array, t: Array) -> Array:
        return np.hstack([x, np.ones((len(x), 1)), np.asarray(t)[:, None] > 30])

    task = Task(LinearPolicy(features, 4, 1), 60, cost, limits=Limits(action=(-5, 5)))
    known = {
        "pump": Parameter(1.0, -2.0, 3.0), "leak": Parameter(0.3, 0.0, 2.0),
        "pipe": Parameter(1.0, 0.1, 4.0),
    }  # fmt: skip
    return Plant(move, 2, 1, task, (0.5, 0.5), (0.1, 0.1), known)


def crane() -> Plant:
    """A trolley carries a hanging load one metre; feed-forward force."""

    def move(x: Array, u: Array, force: float, rope: float, drag: float) -> Array:
        a = force * u - drag * x[:, 1:2]
        turn = -(9.81 * np.sin(x[:, 2:3]) + a * np.cos(x[:, 2:3])) / rope - 0.2 * x[:, 3:]
        speed, swing = x[:, 1:2] + 0.05 * a, x[:, 3:] + 0.05 * turn
        return np.hstack([x[:, :1] + 0.05 * speed, speed, x[:, 2:3] + 0.05 * swing, swing])

    def cost(x: Array, u: Array, t: Array) -> Array:
        away = x[:, 0] + np.sin(x[:, 2]) - np.minimum(t / 40, 1)
        return away**2 + 0.1 * x[:, 3] ** 2 + 1e-3 * u[:, 0] ** 2

    task = Task(LinearPolicy(bumps(8, 60), size=8, actions=1), 60, cost,
                limits=Limits(action=(-6, 6)))  # fmt: skip
    known = {
        "force": Parameter(1.0, -1.0, 2.5), "rope": Parameter(1.0, 0.5, 2.5),
        "drag": Parameter(0.2, 0.0, 2.0),
    }  # fmt: skip
    return Plant(move, 4, 1, task, (0.0,) * 4, (0.03,) * 4, known)


PLANTS = {"crane": crane, "cart": cart, "pendulum": pendulum, "drone": drone, "tank": tank}


class Unrepeatable:
    """A robot that draws its own resets and noise, whatever the seed."""

    def __init__(self, robot: SimulatedRobot, seed: int) -> None:
        self.robot, self.rng = robot, np.random.default_rng([seed, 9])

    def __call__(self, request: RolloutRequest) -> Any:
        seed = int(self.rng.integers(1 << 62))
        return self.robot(RolloutRequest(request.task, request.w, seed))


@dataclass(frozen=True)
class Case:
    """One run."""

    number: int
    plant: str
    spread: float
    repeats: bool
    identify: bool
    seed: int


def true_cost(robot: SimulatedRobot, task: Task, w: Array) -> float:
    """Return the mean cost of many rollouts, the same for all policies."""
    made = robot.batch([RolloutRequest(task, w, seed) for seed in range(HELD_OUT)])
    return float(np.mean([task.total(task.checked(one)) for one in made]))


def run(case: Case, rollouts: int, each: int) -> dict[str, Any]:
    """Return the true cost of the start and of the answer."""
    plant = PLANTS[case.plant]()
    changed, delay = plant.gap(np.random.default_rng([case.seed, case.number]))
    resets = plant.resets(case.spread)
    simulator = SimulatorProxy(plant.task, plant.system(), resets, count=8)
    real = SimulatedRobot(plant.system(**changed), resets, noise=0.1, delay=delay)
    robot: Any = real if case.repeats else Unrepeatable(real, case.seed)
    target = RolloutObjective(plant.task, robot, TrajectoryAdjoint(simulator, each))
    begun = time.process_time()
    start = simulator.minimum(plant.w0)
    tuned = tune(target, simulator, start, rollouts=rollouts, identify=case.identify, rng=case.seed)
    seconds = time.process_time() - begun
    seen = observed(target, simulator, [start], since=0)
    policies = start, tuned.w, min(seen, key=lambda one: one.mean).w
    first, last, lowest = (true_cost(real, plant.task, w) for w in policies)
    return {
        **vars(case), "gap": changed, "delay": delay, "start": first, "answer": last,
        "lowest": lowest, "kept": bool(np.array_equal(start, tuned.w)),
        "paid": tuned.ledger.rollouts, "seconds": round(seconds, 2),
    }  # fmt: skip


def main() -> None:
    """Run the cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--plants", default=",".join(PLANTS))
    parser.add_argument("--rollouts", type=int, default=16)
    parser.add_argument("--each", type=int, default=2, help="rollouts of a gradient")
    parser.add_argument("--output", type=Path, required=True, help="a folder")
    parser.add_argument("--parts", type=Path, help="a folder of what is not run again")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds, flags = range(given.first_seed, given.first_seed + given.seeds), (True, False)
    options = product(seeds, given.plants.split(","), SPREADS, flags, flags)
    records = []
    for number, (seed, plant, spread, repeats, identify) in enumerate(options):
        case = Case(number, plant, spread, repeats, identify, seed)
        name = " ".join(map(str, vars(case).values()))
        records.append(
            kept(given.parts, name, lambda case=case: run(case, given.rollouts, given.each))
        )
        print(records[-1], flush=True)
    measures = ["src/proxyprox/simulation", "src/proxyprox/stepsizes"]
    write_record(given.output / "records.jsonl", records, measures=measures)
    text = write_page(records)
    (given.output / "table.md").write_text(text, encoding="utf-8")
    print(text)


def write_page(records: list[dict[str, Any]]) -> str:
    """Return the tables as a page."""
    tables = (table(records, names) for names in (("repeats", "spread", "identify"), ("plant",)))
    return "\n\n".join((TITLE, *tables)) + "\n"


TITLE = """# Is the answer of `tune` ever worse than the start?

`python benchmarks/guard.py --output docs/results/guard` ([records](records.jsonl)): true costs (400
held-out rollouts) of the answer and of the policy with the lowest observed cost, both over that of
the start. Each run drew its own gap. `repeats`: whether the robot repeats a reset for a seed;
`spread`: of first states, in units of the plant's."""


def table(records: list[dict[str, Any]], names: tuple[str, ...]) -> str:
    """Return a Markdown table with a line for each value of some columns."""
    heads = (
        *names, "runs", "answer / start: median", "worst", "over 1.1", "start kept",
        "lowest observed: median", "worst", "over 1.1",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for key in dict.fromkeys(tuple(one[name] for name in names) for one in records):
        own = [one for one in records if tuple(one[name] for name in names) == key]
        ours, lowest = (
            np.array([one[name] / one["start"] for one in own]) for name in ("answer", "lowest")
        )
        cells = (
            *key, len(own), *_ratios(ours), f"{np.mean([one['kept'] for one in own]):.0%}",
            *_ratios(lowest),
        )  # fmt: skip
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines)


def _ratios(found: Array) -> tuple[str, str, int]:
    return f"{np.median(found):.3f}", f"{found.max():.3f}", int((found > 1.1).sum())


if __name__ == "__main__":
    main()
