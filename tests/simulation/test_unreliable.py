"""Robots that hang, refuse a part or reuse their arrays, and tasks that are wrong."""

import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import simulation as sim
from tests.simulation.cart_world import Pair, World

W = np.array([-0.6, -0.5, 0.1])
BATCH = np.arange(1, 5)


class Fleet:
    """Four robots that work at once; ``change(k, answer)`` says what becomes of the answers."""

    def __init__(self, world, change=lambda k, one: one, pack=list):
        self.world, self.change, self.pack, self.count = world, change, pack, 0

    def __call__(self, request):
        return next(iter(self.batch([request])))

    def batch(self, requests):
        self.count += len(requests)
        made = self.world.robot.robot.batch(requests)
        return self.pack(self.change(k, one) for k, one in enumerate(made))

    def target(self, **options):
        estimator = sim.TrajectoryAdjoint(self.world.proxy, rollouts=4)
        return sim.RolloutObjective(self.world.task, self, estimator, **options)


def require_equal(a, b):
    """Compare gradients; rollouts that are simulated side by side differ in their last bits."""
    np.testing.assert_allclose(a.gradient(W, BATCH), b.gradient(W, BATCH), rtol=1e-6)


def spoil(*which):
    return lambda k, one: replace(one, states=one.states * np.nan) if k in which else one


@pytest.mark.parametrize("pack", [list, lambda made: made])
def test_good_answers_of_a_batch_are_stored_before_a_bad_one_is_refused(world, tmp_path, pack):
    fleet = Fleet(world, spoil(0, 2), pack)
    target = fleet.target(journal=tmp_path / "j")
    with pytest.raises(sim.RolloutError, match=r"states.*2 of 4"):
        target.gradient(W, BATCH)
    assert (target.ledger.rollouts, target.ledger.unanswered, fleet.count) == (4, 2, 4)
    left = target.outstanding(W, BATCH)
    assert [one.seed for one in left] == [1, 3]
    fleet.change = lambda k, one: one
    require_equal(target, Fleet(world).target())
    assert (target.ledger.rollouts, fleet.count) == (6, 6)


@pytest.mark.parametrize("timeout", [None, 20.0])
def test_what_a_batch_yielded_before_it_broke_is_kept(world, timeout):
    def breaking(made):
        for k, one in enumerate(made):
            if k == 2:
                raise ConnectionError("the third arm is off")
            yield one

    target = Fleet(world, pack=breaking).target(timeout=timeout)
    with pytest.raises(sim.RobotError, match="third arm"):
        target.gradient(W, BATCH)
    assert (target.ledger.rollouts, target.ledger.unanswered) == (4, 2)
    short = Fleet(world, pack=lambda made: (one for k, one in enumerate(made) if k < 3))
    target = short.target(timeout=timeout)
    with pytest.raises(sim.RolloutError, match="1 of 4"):
        target.gradient(W, BATCH)
    assert target.ledger.unanswered == 1


def test_a_batch_is_counted_only_as_far_as_the_budget_allows(world):
    fleet = Fleet(world)
    target = fleet.target(budget=sim.RolloutBudget(rollouts=6), timeout=30.0)
    require_equal(target, Fleet(world).target())
    with pytest.raises(sim.RolloutBudgetError, match="rollouts"):
        target.gradient(W, BATCH + 4)
    assert fleet.count == target.ledger.rollouts == 6
    assert target.ledger.unanswered == 0
    # A seed that a batch names twice is one rollout.
    target = world.target()
    target.gradient(W, np.array([7, 7]))
    assert world.robot.count == target.ledger.rollouts == 1


class Hanging:
    """A robot that hangs at some calls until it is let go, and answers then."""

    def __init__(self, robot, at=()):
        self.robot, self.at = robot, set(at)
        self.began, self.go = threading.Event(), threading.Event()
        self.count, self.late = 0, []

    def __call__(self, request):
        self.count += 1
        if self.count in self.at:
            self.began.set()
            self.go.wait(300)
            self.late.append(request)
        return self.robot(request)


def test_a_robot_that_hangs_is_named_and_asked_again(tmp_path):
    world = World()
    robot = Hanging(world.robot.robot, at=[4])
    target = sim.RolloutObjective(
        world.task, robot, sim.TrajectoryAdjoint(world.proxy), journal=tmp_path / "j", timeout=0.5
    )
    given = {"rollouts": 6, "checkpoint": tmp_path / "run"}
    with pytest.raises(pp.OracleError, match=r"did not answer.*0\.5 s") as failed:
        sim.tune(target, world.proxy, **given)
    assert isinstance(failed.value.__cause__, sim.RobotError)
    assert (target.ledger.rollouts, target.ledger.unanswered) == (4, 1)
    robot.go.set()
    while not robot.late:
        time.sleep(0.01)
    # The late answer went nowhere, and its request acts no longer.
    (late,) = robot.late
    with pytest.raises(sim.RobotError, match="withdrawn"):
        late.act(np.zeros(2), 0)
    patient = target.with_estimator(target.estimator)
    assert patient.timeout == 0.5
    patient.timeout = 30.0
    again = sim.tune(patient, world.proxy, **given)
    assert (again.ledger.rollouts, again.ledger.unanswered, robot.count) == (7, 1, 7)
    whole = World()
    np.testing.assert_array_equal(again.w, sim.tune(whole.target(), whole.proxy, rollouts=6).w)
    with pytest.raises(ValueError, match="timeout"):
        world.target(timeout=0.0)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals of POSIX")
def test_an_answer_that_came_is_stored_before_an_interrupt():
    world, late = World(), []

    def observe(x):
        if late:
            late.pop()
            signal.raise_signal(signal.SIGINT)
        return x

    def robot(request):
        made = world.robot.robot(request)
        late.append(1)
        return made

    task = replace(world.task, observe=observe)
    target = sim.RolloutObjective(task, robot, sim.TrajectoryAdjoint(world.proxy))
    with pytest.raises(KeyboardInterrupt):
        sim.tune(target, world.proxy, rollouts=4)
    assert (target.ledger.rollouts, target.ledger.unanswered) == (1, 0)


class Reusing:
    """A robot that fills the same arrays at every rollout."""

    def __init__(self, robot):
        self.robot, self.states, self.actions = robot, None, None

    def __call__(self, request):
        one = self.robot(request)
        if self.states is None:
            self.states, self.actions = np.empty_like(one.states), np.empty_like(one.actions)
        self.states[:], self.actions[:] = one.states, one.actions
        return sim.Trajectory(self.actions, self.states)


def test_arrays_that_a_robot_fills_again_are_copied(world):
    target = sim.RolloutObjective(
        world.task, Reusing(world.robot.robot), sim.TrajectoryAdjoint(world.proxy, rollouts=4)
    )
    require_equal(target, Fleet(world).target())

    class Line(Fleet):
        def batch(self, requests):
            return map(robot, requests)

    robot = Reusing(world.robot.robot)
    for timeout in (None, 20.0):
        target = Line(world).target(timeout=timeout)
        require_equal(target, Fleet(world).target())


def test_a_rollout_that_only_the_task_cannot_read_is_kept(world, tmp_path):
    def wrong(x, u, t):
        raise KeyError("speed")

    def robot(request):
        return world.robot(replace(request, task=world.task))

    def fall(request):
        one = robot(request)
        return replace(one, actions=[], states=one.states[:1], aborted="fell")

    def target(robot, **changes):
        task = replace(world.task, **changes)
        estimator = Pair()
        return sim.RolloutObjective(task, robot, estimator, journal=tmp_path / "j")

    for bad, word in ((wrong, "KeyError"), (lambda x, u, t: np.nan * t, "costs")):
        with pytest.raises((sim.RolloutError, KeyError), match=word):
            target(robot, cost=bad).gradient(W, BATCH[:2])
        assert (world.robot.count, target(None).ledger.unanswered) == (1, 0)
    with pytest.raises(sim.RolloutError, match="worst"):
        target(fall).gradient(W, BATCH[:2])
    assert world.robot.count == 2
    assert target(None).ledger.unanswered == 0
    mended = target(None, limits=sim.Limits(worst=3.0))
    value = mended.value_and_gradient(W, BATCH[:2])[0]
    kept = world.task.checked(robot(mended.requests(W, BATCH[:2])[0]))
    assert value == pytest.approx((world.task.total(kept) + 20 * 3.0) / 2)


class Plant:
    """The least of a gymnasium environment; ``parts`` replace its own."""

    def __init__(self, shape=(1,), reward=-1.0, ends=9, cut=False, hangs=0, **parts):
        self.action_space, self.seen = type("Box", (), {"shape": shape})(), np.zeros(3)
        self.reward, self.ends, self.cut, self.hangs = reward, ends, cut, hangs
        self.go, self.inside, self.clash = threading.Event(), 0, False
        vars(self).update(parts)

    def reset(self, seed=None):
        self.clash |= self.inside > 0
        self.t = 0
        return self.show(), {}

    def show(self):
        self.seen[:] = self.t
        return self.seen

    def step(self, action):
        self.inside += 1
        self.t += 1
        if self.t == self.hangs:
            self.hangs = 0
            self.go.wait(30)
        action[:] = 0.0
        self.inside -= 1
        return self.show(), self.reward, self.t == self.ends, self.cut, {}


def fail(*args, **kwargs):
    raise OSError("no power")


PLAIN = sim.Task(sim.LinearPolicy(lambda x, t: x, 3, 1), 5)
NAN = np.full(3, np.nan)


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ({"reset": fail}, "reset"),
        ({"step": lambda action: (np.ones(3), -1.0, False, {})}, "step 0"),
        ({"step": lambda action: (NAN, -1.0, False, False, {})}, "worst"),
        ({"show": lambda: {"angle": 1.0}}, "observation"),
        ({"reward": np.nan}, "costs"),
        ({"ends": 2}, "worst"),
    ],
)
def test_environments_that_go_wrong_are_named(parts, word):
    target = sim.RolloutObjective(PLAIN, Plant(**parts), Pair())
    with pytest.raises(sim.RolloutError, match=word):
        target.gradient(np.ones(3), BATCH[:2])
    assert target.ledger.rollouts == 1


def test_arrays_that_an_environment_fills_again_are_copied():
    target = sim.RolloutObjective(PLAIN, Plant(), Pair())
    one = target.collect(np.ones(3), BATCH[:2])[0]
    np.testing.assert_array_equal(one.observations[:, 0], np.arange(6))
    assert np.all(one.actions[1:] != 0)


def test_an_environment_that_ends_early_or_returns_nan_costs_its_worst():
    def nan_at_three():
        return np.full(3, 1.0 if plant.t < 3 else np.nan)

    task = replace(PLAIN, limits=sim.Limits(worst=7.0))
    for plant in (Plant(ends=2), Plant(show=nan_at_three)):
        target = sim.RolloutObjective(task, plant, Pair())
        found = target.evaluate(np.ones(3), 1)
        assert found == pytest.approx((2 + 3 * 7.0, np.nan, 1.0), nan_ok=True)


def test_an_environment_that_hung_makes_one_rollout_at_a_time():
    env = Plant(hangs=3)
    target = sim.RolloutObjective(PLAIN, env, Pair(), timeout=0.5)
    with pytest.raises(sim.RobotError, match="did not answer"):
        target.gradient(np.zeros(3), BATCH[:2])
    target.timeout = 30.0
    threading.Timer(0.3, env.go.set).start()
    target.gradient(np.zeros(3), BATCH[:2])
    assert not env.clash
    assert (target.ledger.rollouts, target.ledger.unanswered) == (3, 1)
