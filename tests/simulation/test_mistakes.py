"""Mistakes that cost rollouts: found before the first one, and nothing wrong is stored."""

from dataclasses import replace

import numpy as np
import pytest

from proxyprox import simulation as sim
from tests.simulation.cart_world import Counted, Pair, World, cart, cost, resets

W = np.array([-0.6, -0.5, 0.1])
BATCH = np.array([1, 2])


def test_costs_of_a_journal_are_those_of_the_task_as_it_is_now(world, tmp_path):
    first = world.target(journal=tmp_path / "j")
    value = first.value_and_gradient(W, BATCH)[0]
    dearer = replace(world.task, cost=lambda x, u, t: 2 * cost(x, u, t), final=None)
    proxy = sim.SimulatorProxy(dearer, cart(), resets, count=4)
    again = sim.RolloutObjective(
        dearer, world.robot, sim.TrajectoryAdjoint(proxy), journal=tmp_path / "j"
    )  # fmt: skip
    paths = first.trajectories()
    expected = np.mean([2 * one.costs.sum() for one in paths])
    assert again.value_and_gradient(W, BATCH)[0] == pytest.approx(expected)
    assert world.robot.count == 2
    # The start and the step size are of the new cost, too.
    sim.tune(again, proxy, rollouts=2)
    np.testing.assert_allclose(again.journal.answered()[-1][0], proxy.minimum())
    assert first.value_and_gradient(W, BATCH)[0] == value


def test_a_fitted_simulator_is_retrained_from_zero_as_well():
    # The cost of the only step has a poor minimum near w = 3 and a good one near 0.
    def price(x, u, t):
        return np.minimum((u[:, 0] - 3) ** 2 + 1.0, 4 * (u[:, 0] - 0.1) ** 2) + 0 * t

    def plant(gain):
        known = {"gain": sim.Parameter(gain, 0.1, 3.0)}
        return sim.FunctionSystem(lambda x, u, gain: x + gain * u, 1, 1, parameters=known)

    first = np.ones((1, 1))
    task = sim.Task(sim.LinearPolicy(lambda x, t: np.ones((len(x), 1)), 1, 1), 3, price)
    proxy = sim.SimulatorProxy(task, plant(1.0), first)
    robot = sim.SimulatedRobot(plant(0.8), first)
    target = sim.RolloutObjective(task, robot, sim.TrajectoryAdjoint(proxy, rollouts=1))
    tuned = sim.tune(target, proxy, np.array([2.9]), rollouts=4, identify=True)
    assert tuned.w == pytest.approx(0.1, abs=0.01)
    # A start near the good one stays with it.
    tuned = sim.tune(target, proxy, np.array([0.2]), rollouts=4, identify=True)
    assert tuned.w == pytest.approx(0.1, abs=0.01)


class Blind(Counted):
    """A robot that says that it shows no states."""

    shows_states = False


def test_mistakes_are_found_before_a_rollout(world, tmp_path):
    for wrong in (["mass"], "force", []):
        with pytest.raises((TypeError, ValueError), match="identify"):
            sim.tune(world.target(), world.proxy, rollouts=4, identify=wrong)
    plain = sim.FunctionSystem(lambda x, u: x + u, 2, 1)
    proxy = sim.SimulatorProxy(
        sim.Task(sim.Policy(lambda w, x, t: x[:, :1] * w[:, :1], 1, 1), 5, cost), plain, resets
    )
    target = sim.RolloutObjective(proxy.task, world.robot, sim.TrajectoryAdjoint(proxy))
    with pytest.raises(ValueError, match="no parameters"):
        sim.tune(target, proxy, rollouts=4, identify=True)
    blind = Blind(world.robot.robot)
    with pytest.raises(sim.RolloutError, match="without states"):
        sim.RolloutObjective(world.task, blind, sim.TrajectoryAdjoint(world.proxy))
    with pytest.raises(ValueError, match="identify"):
        sim.tune(sim.RolloutObjective(world.task, blind, Pair()), world.proxy, rollouts=4,
             identify=True)  # fmt: skip
    sim.tune(world.target(journal=tmp_path / "j"), world.proxy, rollouts=2, identify=True,
         checkpoint=tmp_path / "run")  # fmt: skip
    paid = world.robot.count
    (tmp_path / "j").unlink()
    with pytest.raises(sim.RolloutError, match="journal"):
        sim.tune(world.target(journal=tmp_path / "j"), world.proxy, rollouts=4, identify=True,
             checkpoint=tmp_path / "run")  # fmt: skip
    assert (paid, world.robot.count, blind.count) == (2, 2, 0)


def test_a_fit_says_where_a_bound_holds_it_and_what_it_leaves():
    world, narrow = World(noise=0.05), cart()
    paths = world.target().collect(W, BATCH)
    found = world.proxy.fit(paths)
    assert 0 < found.unexplained < found.unexplained_before
    assert "bound" not in str(found)
    assert "20.0% of the state's changes" in str(replace(found, unexplained=0.2))
    narrow.parameters["drag"] = sim.Parameter(0.1, 0.0, 0.2)  # the robot's is 0.4
    found = world.proxy.with_system(narrow).fit(paths)
    assert found.at_bound == ("drag",)
    assert found.intervals["drag"][1] <= 0.2
    assert "at its bound" in str(found)
    # What is left is a share of what moved: nothing where the simulator is right, and much where
    # there is a delay, which is nothing that force and drag could explain.
    exact = World(force=1.0, drag=0.1, noise=0.0)
    assert exact.proxy.fit(exact.target().collect(W, BATCH)).unexplained < 1e-9
    world.robot.robot.delay = 3
    assert world.proxy.fit(world.target().collect(W * 4, BATCH)).unexplained > 0.05
