"""A cart on a line, as a simulator and as a robot with other physics; small enough for tests."""

import numpy as np

from proxyprox import simulation as sim


def cart(force=1.0, drag=0.1):
    """Return a cart with a force and a drag, one of whose terms is not linear."""

    def move(x, u, force, drag):
        speed = x[:, 1:] + 0.1 * (force * u - drag * x[:, 1:] - 0.3 * np.sin(x[:, :1]))
        return np.hstack([x[:, :1] + 0.1 * speed, speed])

    known = {"force": sim.Parameter(force, -5.0, 5.0), "drag": sim.Parameter(drag, 0.0, 2.0)}
    return sim.FunctionSystem(move, 2, 1, dt=0.1, parameters=known)


def cost(x, u, t):
    return (x**2).sum(axis=1) + 0.1 * u[:, 0] ** 2 + 0.01 * t * x[:, 0]


def final(x):
    return 3 * x[:, 0] ** 2


def resets(rng, n):
    return np.array([1.0, 0.0]) + 0.1 * rng.standard_normal((n, 2))


def features(x, t):
    return np.hstack([x, np.sin(0.2 * np.asarray(t, dtype=float))[:, None]])


class Pair:
    """An estimator of the user's own: two perturbed policies, and their costs alone."""

    biased, rollouts = False, 2

    def requests(self, task, w, seeds):
        return [sim.RolloutRequest(task, w + 0.1 * side, int(seeds[0])) for side in (1, -1)]

    def gradient(self, task, w, requests, answers):
        one, other = map(task.total, answers)
        return np.full(len(w), (one - other) / 0.2)


class Counted:
    """Counts rollouts on its own, and may fail, as robots do."""

    def __init__(self, robot, fail_at=()):
        self.robot, self.count, self.fail_at, self.asked = robot, 0, set(fail_at), []
        self.repeatable = True

    def __call__(self, request):
        self.count += 1
        self.asked.append(request.id)
        if self.count in self.fail_at:
            raise ConnectionError("the arm is off")
        return self.robot(request)


class World:
    """A task, its simulator and its robot."""

    def __init__(self, horizon=20, limits=None, noise=0.02, **physics):
        self.task = sim.Task(
            sim.LinearPolicy(features, 3, 1), horizon, cost, final, limits=limits or sim.Limits()
        )
        self.proxy = sim.SimulatorProxy(self.task, cart(), resets, count=4)
        self.robot = Counted(
            sim.SimulatedRobot(cart(**{"force": 0.7, "drag": 0.4, **physics}), resets, noise=noise)
        )

    def target(self, estimator=None, **options):
        estimator = estimator or sim.TrajectoryAdjoint(self.proxy, rollouts=2)
        return sim.RolloutObjective(self.task, self.robot, estimator, **options)
