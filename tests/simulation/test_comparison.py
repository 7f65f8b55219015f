"""Which policy is clearly cheaper than the first one, and what it takes to know."""

import numpy as np
import pytest
import scipy.stats

import proxyprox as pp
from proxyprox import simulation as sim
from proxyprox.simulation.comparison import Evidence, Observed
from proxyprox.simulation.tuning import observed as seen_of
from tests.simulation.cart_world import World


def observed(w, costs, excess=0.0):
    return Observed(np.array([w]), np.array(costs), excess + np.zeros(len(costs)))


def one_sided(other, first):
    """Return the probability of Student's test, with two degrees of freedom fewer for the tails."""
    found = scipy.stats.ttest_ind(other, first)
    return scipy.stats.t.cdf(found.statistic, found.df - 2)


FIRST, OTHER = [4.0, 5.5, 6.0, 4.4], [2.0, 4.1, 3.5]


@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_costs_are_compared_as_ratios_with_one_spread_for_all(margin):
    first, other = observed(0.0, FIRST), observed(1.0, OTHER)
    evidence = Evidence([first, other], first.w, each=2, margin=margin)
    exact = one_sided(np.log(OTHER), np.log(FIRST) + np.log1p(margin))
    assert evidence.doubt(other) == pytest.approx(exact)
    # Where some are negative, as differences.
    first, other = observed(0.0, np.array(FIRST) - 5), observed(1.0, np.array(OTHER) - 5)
    evidence = Evidence([first, other], first.w, each=2, margin=margin)
    exact = one_sided(OTHER, np.array(FIRST) + margin * abs(np.mean(FIRST) - 5))
    assert evidence.doubt(other) == pytest.approx(exact)


def test_what_the_simulator_says_of_a_start_is_subtracted_where_that_helps():
    far = np.array([3.0, -1.0, 0.5, -2.0])  # dearer and cheaper starts
    first = observed(0.0, 5.0 + far + [0.1, 0.0, -0.1, 0.0], excess=far)
    other = observed(1.0, 4.0 - far + [0.0, 0.1, 0.0, -0.1], excess=-far)
    evidence = Evidence([first, other], first.w, each=4)
    assert evidence.promising().costs == pytest.approx([4.0, 4.1, 4.0, 3.9])
    wrong = [first._replace(excess=-far), other._replace(excess=far)]
    assert Evidence(wrong, first.w, each=4).promising() is None


def test_the_lowest_of_many_must_be_clearer_than_one_alone():
    first, low = observed(0.0, [5.0, 6.0]), observed(1.0, [3.8, 4.6])
    same = [observed(2.0 + k, [5.0, 6.0]) for k in range(20)]
    many = Evidence([first, low, *same], first.w, each=2)
    assert 0.05 / 21 < many.doubt(low) < 0.05
    assert many.promising() is None
    lower = observed(1.0, [2.3, 2.7])
    assert Evidence([first, lower, *same], first.w, each=2).promising() is lower


def test_a_policy_is_trusted_by_rollouts_that_it_was_not_chosen_by():
    first, low = observed(0.0, [100.0, 108.0]), observed(1.0, [10.0, 11.0])
    assert Evidence([first, low], first.w, each=2).promising() is low
    assert Evidence([first, low], first.w, each=2).trusted() is None
    lucky = observed(1.0, [10.0, 11.0, 150.0, 10.5])
    assert Evidence([first, lucky], first.w, each=2).trusted() is None
    good = observed(1.0, [10.0, 11.0, 12.0, 10.5])
    assert Evidence([first, good], first.w, each=2).trusted() is good
    # How much crashes differ says nothing of policies that do not crash.
    crashed = observed(2.0, [300.0, 90000.0])
    assert Evidence([first, good, crashed], first.w, each=2).trusted().mean == good.mean
    # Two rollouts of each do not say how much costs spread.
    few = [observed(0.0, [100.0]), observed(1.0, [11.0, 12.0, 10.5])]
    assert Evidence(few, first.w, each=1).trusted() is None


def test_a_worst_cost_that_is_exceeded_is_named():
    world = World(limits=sim.Limits(worst=0.5))
    with pytest.warns(UserWarning, match="worst"):
        world.target().gradient(np.zeros(3), np.array([1, 2]))


def test_a_run_that_broke_anywhere_ends_as_one_that_did_not(tmp_path):
    def run(name, fail_at=()):
        world = World(force=0.5, drag=0.2, noise=0.5)
        world.robot.fail_at = set(fail_at)
        target = world.target(journal=tmp_path / name)
        start = world.proxy.minimum() + 0.8
        given = {"rollouts": 10, "checkpoint": tmp_path / f"{name}.run"}
        return world, target, lambda: sim.tune(target, world.proxy, start, **given)

    world, _, call = run("whole")
    whole, count = call(), world.robot.count
    for k in (2, 5, count):
        world, target, call = run(f"broken {k}", [k])
        with pytest.raises(pp.OracleError, match="the arm is off") as failed:
            call()
        assert isinstance(failed.value.__cause__, sim.RobotError)
        assert (target.ledger.rollouts, target.ledger.unanswered) == (k, 1)
        # Called again it goes on: one rollout was lost, no other is repeated.
        np.testing.assert_array_equal(call().w, whole.w)
        assert world.robot.count == count + 1


class Lottery:
    """A robot whose costs are mostly luck; other policies than the first are twice as dear."""

    def __init__(self, robot, seed, start):
        self.robot, self.rng, self.start = robot, np.random.default_rng(seed), start

    def __call__(self, request):
        one = self.robot(request)
        price = np.exp(1.5 * self.rng.standard_normal())
        price *= 1.0 if np.array_equal(request.w, self.start) else 2.0
        return sim.Trajectory(one.actions, one.states, costs=np.full(len(one.actions), price))


@pytest.mark.slow
def test_luck_is_not_taken_for_a_gain():
    kept, lowest = [], []
    for seed in range(8):
        world = World()
        start = world.proxy.minimum()
        robot = Lottery(world.robot, seed, start)
        target = sim.RolloutObjective(world.task, robot, sim.TrajectoryAdjoint(world.proxy))
        tuned = sim.tune(target, world.proxy, start, rollouts=14, rng=seed)
        kept.append(np.array_equal(tuned.w, start))
        seen = seen_of(target, world.proxy, [start], since=0)
        lowest.append(np.array_equal(min(seen, key=lambda one: one.mean).w, start))
        assert target.ledger.rollouts <= 14
    assert np.mean(lowest) < np.mean(kept)
    assert np.mean(kept) >= 0.8


def test_rollouts_that_were_kept_back_are_used_where_the_gain_is_clear():
    world = World()
    target = world.target()
    tuned = sim.tune(target, world.proxy, world.proxy.minimum() + 1.0, rollouts=16)
    assert (tuned.result.ledger.target_samples, world.robot.count) == (14, 16)
    assert tuned.observed in str(tuned)


def test_an_answer_that_is_not_clear_is_run_beside_the_start_on_the_same_seeds():
    world, asked = World(noise=2.0), []  # little to gain, much noise

    def robot(request):
        asked.append((request.w.tobytes(), request.seed))
        return world.robot(request)

    target = sim.RolloutObjective(world.task, robot, sim.TrajectoryAdjoint(world.proxy))
    start = world.proxy.minimum()
    tuned = sim.tune(target, world.proxy, start, rollouts=16, rng=2)
    checks = asked[int(tuned.result.ledger.target_samples) :]
    own = {number for w, number in checks if w == start.tobytes()}
    assert own & {number for w, number in checks if w != start.tobytes()}
    assert len(asked) <= 16
