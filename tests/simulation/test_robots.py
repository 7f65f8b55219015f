"""Robots that fail, fall silent or answer twice: named errors, and nothing paid is lost."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import simulation as sim
from tests.simulation.cart_world import Counted, Pair, World, cart, cost, features, resets

W = np.array([-0.6, -0.5, 0.1])
BATCH = np.array([1, 2])
FLAT = sim.Policy(lambda w, x, t: (w[:, :2] * x).sum(axis=1), 3, 1)
FLAT_PROXY = sim.SimulatorProxy(sim.Task(FLAT, 5, cost), cart(), resets)


def test_rollouts_are_counted_as_an_independent_counter_counts_them(world):
    target = world.target(budget=sim.RolloutBudget(rollouts=8))
    tuned = sim.tune(target, world.proxy, world.proxy.minimum() + 2.0, rollouts=8)
    paid = world.robot.count
    assert paid == tuned.ledger.rollouts <= 8
    assert tuned.result.ledger.target_samples == tuned.result.ledger.target_calls <= paid - 2
    assert tuned.result.biased
    assert tuned.ledger.steps == paid * 20
    assert tuned.ledger.seconds == pytest.approx(paid * 20 * 0.1)
    measured = target.evaluate(tuned.w, 5)
    assert measured.error > 0
    assert world.robot.count == paid + 5
    assert (target.ledger.rollouts, target.ledger.evaluations) == (paid, 5)
    assert "BIASED" in str(tuned)


def test_by_hand_a_robot_may_be_silent_but_not_answer_twice(world):
    target = sim.RolloutObjective(world.task, None, sim.TrajectoryAdjoint(world.proxy, rollouts=3))
    run = pp.Run(pp.Problem(target, world.proxy), W, method=sim.GuardedProxyProx(1.0), rng=0)
    query = run.ask()
    asked = target.outstanding(query.points[0], query.batch)
    assert len(asked) == 3
    with pytest.raises(sim.RobotError, match="robot=None"):
        target.gradient(query.points[0], query.batch)
    target.record(asked[0], world.robot(asked[0]))
    with pytest.raises(sim.RolloutError, match="answered already"):
        target.record(asked[0], world.robot(asked[0]))
    # It said nothing to the second: it is asked again, by the same name.
    left = target.outstanding(query.points[0], query.batch)
    assert [one.id for one in left] == [one.id for one in asked[1:]]
    for request in left:
        target.begin(request)
        target.record(request, world.robot(request))
    answers = target.collect(query.points[0], query.batch)
    step = run.tell(observations=answers)
    assert step.value == pytest.approx(np.mean([world.task.total(one) for one in answers]))
    assert target.ledger.rollouts == 3
    run.ask()
    with pytest.raises(sim.RolloutError, match="observations"):
        run.tell(observations=answers[:2])
    assert run.steps == 1


@pytest.mark.parametrize(
    ("word", "changes"),
    [
        ("steps", [lambda one: replace(one, actions=one.actions[:-1], states=one.states[:-1])]),
        ("actions", [lambda one: replace(one, actions=np.hstack([one.actions] * 2))]),
        ("states", [
            lambda one: replace(one, states=one.states[1:]),
            lambda one: replace(one, states=np.hstack([one.states, one.states[:, :1]])),
            lambda one: replace(one, states=None, observations=None),
        ]),
        ("costs", [
            lambda one: replace(one, costs="free"),
            lambda one: replace(one, final=np.zeros(2)),
        ]),
        ("seconds", [
            lambda one: replace(one, seconds=None),
        ]),
        ("answer", [lambda one: [1.0, 2.0], lambda one: None]),
    ],
)  # fmt: skip
def test_answers_that_cannot_be_used_are_named(world, word, changes):
    for change in changes:
        target = sim.RolloutObjective(
            world.task,
            lambda one, f=change: f(world.robot(one)),
            sim.TrajectoryAdjoint(world.proxy),
        )
        with pytest.raises(sim.RolloutError, match=word):
            target.gradient(W, np.array([1, 2]))
        assert target.ledger.rollouts == target.ledger.unanswered == 1


def test_an_aborted_rollout_costs_its_worst_and_is_never_dropped():
    world = World(limits=sim.Limits(action=(-2, 2), state=(-1.3, 1.3), worst=50.0))
    target = world.target()
    push = np.array([3.0, 0.0, 0.0])  # away from the origin
    batch = np.array([1, 2])
    value, gradient = target.value_and_gradient(push, batch)
    answers = target.collect(push, batch)
    short = max(len(one.actions) for one in answers)
    assert short < 20
    assert answers[0].aborted
    assert np.abs(answers[0].actions).max() <= 2
    assert value > 50.0 * (20 - short)
    assert np.isfinite(gradient).all()
    assert target.ledger.aborted == 2
    tuned = sim.tune(target, world.proxy, push, rollouts=4, change=0.01)
    assert "were aborted" in str(tuned)
    with pytest.raises(ValueError, match="worst"):
        sim.Limits(state=(-1, 1))


def test_budgets_are_checked_before_a_rollout_starts(world):
    for budget in (sim.RolloutBudget(rollouts=3), sim.RolloutBudget(steps=50)):
        fresh = World()
        fresh.robot.fail_at = {1}  # it counts as a rollout, without steps
        target = fresh.target(budget=budget)
        with pytest.raises(pp.OracleError):
            sim.tune(target, fresh.proxy, rollouts=8)
        tuned = sim.tune(target, fresh.proxy, rollouts=8)
        assert tuned.result.status is pp.Status.BUDGET_SPENT
        assert (fresh.robot.count, tuned.ledger.unanswered) == (3, 1)
    target = world.target(budget=sim.RolloutBudget(rollouts=2))
    target.gradient(W, np.array([1, 2]))
    with pytest.raises(sim.RolloutBudgetError, match="rollouts"):
        target.gradient(W, np.array([3, 4]))
    with pytest.raises(ValueError, match="rollouts"):
        sim.RolloutBudget(rollouts=0)
    # Rollouts of perturbed policies say nothing of a policy itself.
    blind = sim.tune(world.target(Pair()), world.proxy, rollouts=4)
    assert (blind.ledger.rollouts, blind.observed) == (4, "")


def test_the_guard_ends_no_worse_than_the_start_where_plain_steps_diverge():
    world = World(force=-0.6, noise=0.0)  # the robot's motor turns the other way
    start, target = np.array([-0.3, -0.3, 0.0]), world.target()
    before = target.evaluate(start, 5).mean
    tuned = sim.tune(target, world.proxy, start, rollouts=10, eta=5.0)
    assert target.evaluate(tuned.w, 5).mean <= 1.1 * before
    assert "turned back" in tuned.result.message
    problem = pp.Problem(world.target(), world.proxy)
    plain = pp.minimize(problem, start, method=pp.ProxyProx(5.0), steps=5, rng=0)
    assert not target.evaluate(plain.last, 5).mean <= 1.1 * before


def test_no_step_is_longer_than_the_change_that_is_allowed(world):
    seen = [world.proxy.minimum() + 1.0]
    follow = {"callback": lambda step: seen.append(step.w)}
    sim.tune(world.target(), world.proxy, seen[0], rollouts=8, change=0.2, **follow)
    # From the accepted point, which is the one before where nothing was turned back.
    assert all(np.linalg.norm(b - a) <= 0.2 + 1e-9 for a, b in pairwise(seen))


def test_with_scales_the_tuning_does_not_depend_on_the_units_of_parameters():
    world, units, found = World(), np.array([1.0, 1e-3, 30.0]), {}
    start = np.array([-0.5, -0.5, 0.1])
    for factors in (np.ones(3), units):
        policy = sim.LinearPolicy(lambda x, t, by=factors: features(x, t) / by, 3, 1)
        task = replace(world.task, policy=policy)
        proxy = sim.SimulatorProxy(task, cart(), resets, count=4)
        for scales in (None, factors):
            target = sim.RolloutObjective(task, world.robot, sim.TrajectoryAdjoint(proxy))
            tuned = sim.tune(target, proxy, factors * start, rollouts=10, scales=scales)
            found[factors[1], scales is None] = tuned.w / factors
    assert not np.allclose(found[1.0, True], start, rtol=0.1)
    assert found[1.0, False] == pytest.approx(found[1.0, True], rel=1e-6)
    assert found[1e-3, False] == pytest.approx(found[1.0, True], rel=1e-2)
    before = world.robot.count
    with pytest.raises(ValueError, match="scales"):
        sim.tune(world.target(), world.proxy, rollouts=10, scales=[1, 1, 0], identify=True)
    assert world.robot.count == before


def test_a_journal_of_another_task_is_refused(world, tmp_path):
    world.target(journal=tmp_path / "j").gradient(W, np.array([1, 2]))
    with pytest.raises(sim.RolloutError, match="another task"):
        World(horizon=5).target(journal=tmp_path / "j")


def test_a_gymnasium_pendulum_is_a_robot_with_a_simulator():
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("mujoco")

    def price(x, u, t):
        return x[:, 0] ** 2 + 3 * x[:, 1] ** 2 + 0.1 * (x[:, 2:] ** 2).sum(axis=1)

    limits = sim.Limits(action=(-3, 3), worst=2.0)
    task = sim.Task(sim.LinearPolicy(lambda x, t: x, 4, 1), 40, price, limits=limits)
    with gymnasium.make("InvertedPendulum-v5") as env:
        system = sim.MuJoCoSystem(env.unwrapped.model, frame_skip=env.unwrapped.frame_skip)
        proxy = sim.SimulatorProxy(task, system, sim.gymnasium_resets(env, 4))
        target = sim.RolloutObjective(task, env, sim.TrajectoryAdjoint(proxy, rollouts=1))
        w = np.array([0.5, 10.0, 0.8, 2.0])
        one = target.collect(w, np.array([3]))[0]
        assert one.states.shape == (41, 4)
        # The environment's own steps are those of the simulator, which is the same model.
        np.testing.assert_allclose(system.step(one.states[:-1], one.actions), one.states[1:])
        assert np.isfinite(target.gradient(w, np.array([3]))).all()
        assert target.ledger.rollouts == 1


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda world: sim.Task(len, 5, cost), "policy"),
        (lambda world: sim.Limits(action=(1, 0)), "action"),
        (lambda world: sim.SimulatorProxy(world.task, cart(), np.ones((2, 3))), "resets"),
        (lambda world: world.proxy.fit([], ["mass"]), "names"),
        (lambda world: sim.RolloutObjective(world.task, 3, Pair()), "robot"),
        (lambda world: sim.TrajectoryAdjoint(world.task), "simulator"),
        (lambda world: sim.tune(world.target(), world.proxy, rollouts=1), "rollouts"),
        (lambda world: world.target().gradient(W * np.nan, np.array([1, 2])), "w"),
        (lambda world: sim.MuJoCoSystem(3), "model"),
        (lambda world: FLAT_PROXY.value(W), "policy"),
    ],
)  # fmt: skip
def test_arguments_that_cannot_work_are_named(world, make, word):
    if word == "model":
        pytest.importorskip("mujoco")
    with pytest.raises((TypeError, ValueError, sim.RolloutError), match=word):
        make(world)
    assert world.robot.count == 0


# -- limits, trials and standing still -----------------------------------------------------------


def test_answers_are_held_to_the_limits():
    world = World(limits=sim.Limits(action=(-2, 2), state=(-1.3, 1.3), worst=50.0))
    target, batch = world.target(), np.array([1, 2])
    request, other = target.requests(W, batch)
    answer = world.robot(request)
    strong = replace(answer, actions=answer.actions + 9.0)
    with pytest.raises(sim.RolloutError, match="actions"):
        target.record(request, strong)
    # The robot went on where it should have stopped: what follows is charged at its worst.
    states = answer.states.copy()
    states[5:] = 2.0
    target.record(request, replace(answer, states=states, observations=None))
    found = target.trajectories()[0]
    assert (len(found.actions), bool(found.aborted)) == (5, True)
    # A glitch whose cost is infinite ends the rollout too, and the journal can still be read.
    wide = World(limits=sim.Limits(worst=50.0)).target()
    glitch = answer.states.copy()
    glitch[7] = 1e200
    wide.record(other, replace(answer, states=glitch, observations=None, costs=None))
    assert len(wide.trajectories()[0].actions) == 7


def raised(curvature, level):
    """Return a loss whose least value is above zero, as costs are."""
    return (lambda w: level + 0.5 * float(curvature @ (w - 1) ** 2), lambda w: curvature * (w - 1))


def test_trials_after_a_bad_one_stay_near_and_take_turns_with_the_gradient():
    curvature = np.array([1.0, 30.0])
    target = raised(curvature, 20.0)
    wrong = pp.Quadratic(np.diag([1.0, 0.1]))
    problem = pp.Problem(target, wrong)
    found = pp.minimize(problem, np.zeros(2), method=sim.GuardedProxyProx(10.0), steps=20)
    assert problem.value(found.w) < problem.value(np.zeros(2)) - 10
    values = found.trace["value"]
    assert (values[2:] <= 3 * values[0]).all()
    assert "turned back (trial" in found.message


def test_a_simulator_that_is_blind_for_the_policy_gives_way_to_the_gradient():
    # Its own minimum is far too steep to leave.
    stiff = pp.Quadratic(1e9 * np.eye(2))
    problem = pp.Problem(raised(np.ones(2), 1.0), stiff)
    found = pp.minimize(problem, np.zeros(2), method=sim.GuardedProxyProx(1.0), steps=12)
    np.testing.assert_allclose(found.w, 1.0, atol=0.1)


def test_a_plateau_is_crossed_in_the_direction_of_the_last_move():
    # As at a saturated actuator: nothing slopes between 1 and 2, and the cost falls beyond.
    def value(w):
        return 12.0 - float(min(w[0], 1) + np.clip(w[0] - 2, 0, 6))

    def slope(w):
        return -np.array([1.0 if w[0] < 1 or 2 < w[0] < 8 else 0.0])

    problem = pp.Problem((value, slope), pp.Quadratic(1e9 * np.eye(1)))
    found = pp.minimize(problem, np.zeros(1), method=sim.GuardedProxyProx(4.0), steps=12)
    assert value(found.w) < 10


def test_the_simulators_minimum_has_a_small_gradient_or_a_warning(world):
    found, again = world.proxy.minimum(), World().proxy
    first = np.linalg.norm(again.gradient(again.zeros()))
    assert np.linalg.norm(again.gradient(found)) < 1e-3 * first
    assert world.proxy.value(found) == again.value(found)
    with pytest.warns(UserWarning, match="best policy"):
        world.proxy.minimum(np.array([-3.0, 0.5, 2.0]), steps=1)


# -- mistakes are found before a rollout is paid for, and nothing wrong is stored -----------------


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
