"""Every gradient against a slow exact one."""

from dataclasses import replace

import numpy as np
import pytest

from proxyprox import simulation as sim
from tests.simulation.cart_world import cart, cost, features, final, resets

W = np.array([-0.6, -0.5, 0.1])


def slow_gradient(function, w, step=1e-5):
    unit = np.eye(len(w))
    return np.array([(function(w + step * e) - function(w - step * e)) / (2 * step) for e in unit])


def own_tanh(w, x, t):
    return np.tanh((w[:, :2] * x).sum(axis=1, keepdims=True) + w[:, 2:] * np.cos(t)[:, None])


POLICIES = {
    "linear": sim.LinearPolicy(features, 3, 1),
    "based": sim.LinearPolicy(features, 3, 1, base=lambda x, t: -np.sin(x[:, :1])),
    "own": sim.Policy(own_tanh, 3, 1),
}


@pytest.mark.parametrize("name", POLICIES)
def test_several_policies_at_once_are_what_each_is_alone(name):
    policy, rng = POLICIES[name], np.random.default_rng(0)
    many, x, t = rng.normal(size=(5, policy.dim)), rng.normal(size=(5, 2)), np.arange(5)
    alone = [policy.act(many[i : i + 1], x[i : i + 1], t[i : i + 1])[0] for i in range(5)]
    np.testing.assert_allclose(policy.act(many, x, t), alone, atol=1e-12)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(
    "limits", [sim.Limits(), sim.Limits(action=(-0.5, 0.6))], ids=["free", "clipped"]
)
def test_adjoints_are_the_slow_gradient(name, limits):
    policy = POLICIES[name]
    task = sim.Task(policy, 12, cost, final, limits=limits)
    w = 0.5 * np.random.default_rng(1).normal(size=policy.dim)
    proxy = sim.SimulatorProxy(task, cart(), resets, count=3)
    slow = slow_gradient(proxy.value, w)
    np.testing.assert_allclose(proxy.gradient(w), slow, rtol=1e-5, atol=1e-6)


def test_the_trajectory_adjoint_has_the_bias_that_it_says(world):
    target, w = world.target(), np.array([-0.6, -0.5, 0.1])
    batch = target.sample(np.random.default_rng(0))
    exact = slow_gradient(lambda v: target.value_and_gradient(v, batch)[0], w)
    biased = target.gradient(w, batch)
    assert np.linalg.norm(biased - exact) > 0.02 * np.linalg.norm(exact)
    assert target.biased
    # The robot's own Jacobians take the bias away.
    system = sim.SimulatorProxy(world.task, cart(0.7, 0.4), resets)
    right = target.with_estimator(sim.TrajectoryAdjoint(system)).gradient(w, batch)
    np.testing.assert_allclose(right, exact, rtol=1e-4)


def test_states_that_the_robot_hides_are_refused_or_estimated(world):
    world.task = sim.Task(sim.LinearPolicy(features, 3, 1), 20, lambda x, u, t: cost(x, u, t))

    def priced(request):
        one = world.robot.robot(request)
        x, u = one.states, one.actions
        return sim.Trajectory(u, None, x[:, :1], cost(x[:-1], u, np.arange(20)))

    proxy = sim.SimulatorProxy(world.task, cart(), resets)
    target = sim.RolloutObjective(world.task, priced, sim.TrajectoryAdjoint(proxy))
    w, batch = np.array([-0.6, -0.5, 0.1]), np.array([1, 2])
    with pytest.raises(sim.RolloutError, match="states"):
        target.gradient(w, batch)
    assert target.ledger.rollouts == 2  # and they are kept

    def estimated(request):
        one = priced(request)
        speeds = np.gradient(one.observations, 0.1, axis=0)
        return replace(one, states=np.hstack([one.observations, speeds]))

    full, found = (
        sim.RolloutObjective(world.task, robot, sim.TrajectoryAdjoint(proxy)).gradient(w, batch)
        for robot in (world.robot, estimated)
    )
    assert found @ full > 0.98 * np.linalg.norm(found) * np.linalg.norm(full)


ARM = """<mujoco><option timestep="0.02" integrator="Euler"/>
<default><joint axis="0 1 0" damping="0.1"/><geom contype="0" conaffinity="0"/></default>
<worldbody><body><joint/><geom type="capsule" fromto="0 0 0 .4 0 0" size=".03" mass="1"/>
<body pos=".4 0 0"><joint/><geom type="capsule" fromto="0 0 0 .4 0 0" size=".03" mass="1"/>
</body></body></worldbody>
<actuator><motor joint="a"/><motor joint="b"/></actuator></mujoco>""".replace(
    "<joint/>", '<joint name="a"/>', 1
).replace("<joint/>", '<joint name="b"/>', 1)


def test_mujoco_jacobians_are_those_of_mujoco():
    mujoco = pytest.importorskip("mujoco")
    system = sim.MuJoCoSystem(ARM)
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(6, 4)), rng.normal(size=(6, 2))
    found = system.jacobians(x, u)
    data = mujoco.MjData(system.model)
    for i in range(6):
        A, B = np.zeros((4, 4)), np.zeros((4, 2))
        data.qpos[:], data.qvel[:], data.ctrl[:] = x[i, :2], x[i, 2:], u[i]
        np.testing.assert_allclose(system.state_of(data), x[i])
        mujoco.mjd_transitionFD(system.model, data, 1e-6, True, A, B, None, None)
        np.testing.assert_allclose(found[0][i], A, atol=1e-6)
        np.testing.assert_allclose(found[1][i], B, atol=1e-6)
        mujoco.mj_step(system.model, data)
        np.testing.assert_allclose(
            system.step(x[i : i + 1], u[i : i + 1])[0], system.state_of(data)
        )


def test_what_mujoco_freezes_or_resets_is_nan(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)  # where MuJoCo would write its warnings
    system = sim.MuJoCoSystem(ARM, frame_skip=2)
    x, u = np.zeros((5, 4)), np.zeros((5, 2))
    x[1, 2], x[2, 0], u[3, 0], u[4, 0] = 1e12, np.nan, np.nan, 1e9
    u[4] = 9e9  # finite, and an acceleration that MuJoCo refuses
    after = system.step(x, u)
    assert np.isfinite(after).all(axis=1).tolist() == [True, False, False, False, False]
    task = sim.Task(
        sim.LinearPolicy(lambda x, t: 1e9 * x, 4, 2), 5, lambda x, u, t: (x**2).sum(axis=1)
    )
    proxy = sim.SimulatorProxy(task, system, 0.1 + np.zeros((2, 4)))
    assert proxy.value(np.ones(8)) == np.inf
    assert np.isnan(proxy.gradient(np.ones(8))).all()
    assert not list(tmp_path.iterdir())


def late_cart(force, drag, delay, wind=0.5):
    """Return a cart whose wind turns at the eighth step, and whose actions arrive late."""

    def move(x, u, force, drag, t):
        blown = wind * np.where(np.asarray(t)[:, None] < 8, 1, -1)
        speed = x[:, 1:] + 0.1 * (force * u - drag * x[:, 1:] + blown)
        return np.hstack([x[:, :1] + 0.1 * speed, speed])

    known = {"force": sim.Parameter(force, 0, 5), "drag": sim.Parameter(drag, 0, 2)}
    known["delay"] = sim.Parameter(delay, 0, 4)
    return sim.FunctionSystem(move, 2, 1, dt=0.1, parameters=known)


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_delays_and_systems_that_change_with_time_have_exact_gradients(delay):
    task = sim.Task(sim.LinearPolicy(features, 3, 1), 20, cost, final)
    proxy, w = sim.SimulatorProxy(task, late_cart(1.0, 0.1, delay), resets, count=3), -W
    np.testing.assert_allclose(proxy.gradient(w), slow_gradient(proxy.value, w), rtol=1e-5)
    # Open loop, with a quadratic cost, Gauss and Newton's Hessian is exact.
    open_loop = sim.Task(sim.LinearPolicy(lambda x, t: np.eye(4)[t % 4], 4, 1), 20, cost, final)
    proxy = sim.SimulatorProxy(open_loop, late_cart(1.0, 0.1, delay), resets, count=2)
    slow = slow_gradient(proxy.gradient, np.arange(4.0), 1e-2)
    np.testing.assert_allclose(proxy.hessian(np.arange(4.0)), slow, rtol=1e-4, atol=1e-6)


def test_a_delay_is_identified_with_the_other_parameters():
    task = sim.Task(sim.LinearPolicy(features, 3, 1), 20, cost, final)
    robot = sim.SimulatedRobot(late_cart(0.7, 0.4, 2), resets, noise=0.02)
    proxy = sim.SimulatorProxy(task, late_cart(1.0, 0.1, 0), resets)
    target = sim.RolloutObjective(task, robot, sim.TrajectoryAdjoint(proxy))
    found = proxy.fit(target.collect(-W, np.array([1, 2])))
    assert found.estimates["delay"] == found.proxy.system.delay == 2
    assert found.intervals["force"][0] < 0.7 < found.intervals["force"][1]
    assert found.unexplained < 0.01 < found.unexplained_before
