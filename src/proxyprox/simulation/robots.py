"""Robots: a gymnasium environment, a second simulator that stands for one, or a function."""

from __future__ import annotations

import copy
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.validation import Words, message
from proxyprox.simulation.rollouts import (
    Array,
    RobotError,
    RolloutError,
    RolloutRequest,
    Task,
    Trajectory,
)
from proxyprox.simulation.systems import System, as_resets, closed_loops, draw_starts

FLATTEN = "Wrap the environment: gymnasium.wrappers.FlattenObservation(env)."
# Seconds after which one looks up from waiting: Windows does not interrupt a wait.
LOOK_UP = 0.2


def ask_robot(
    robot: Any, requests: Sequence[RolloutRequest], timeout: float | None = None
) -> Iterator[Any]:
    """Yield a robot's answers in the order of the requests, each when it comes.

    Parameters
    ----------
    robot : callable
        Called with one request, or its ``batch`` with all of them.
    requests : sequence of RolloutRequest
        What is asked; one of them if there is no ``batch``.
    timeout : float, optional
        Seconds for each request. The robot is then called in a thread. One that takes longer is
        left to itself: its requests are withdrawn, and what it answers later goes nowhere.

    Raises
    ------
    RobotError
        If the robot raises or is too slow.
    """
    if timeout is None:
        yield from _answers(robot, requests)
        return
    came: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            for one in _answers(robot, requests):
                # A robot may fill the same arrays again.
                came.put((copy.deepcopy(one), None))
                if requests[0].withdrawn:
                    return
            came.put((came, None))
        # Whatever it is, it is raised where the answer is waited for.
        except BaseException as error:
            came.put((None, error))

    seconds, number = timeout * len(requests), 0
    until = time.monotonic() + seconds
    threading.Thread(target=work, daemon=True, name="robot").start()
    try:
        while True:
            left = until - time.monotonic()
            try:
                one, error = came.get(timeout=min(max(left, 0.0), LOOK_UP))
            except queue.Empty:
                if left > 0:
                    continue
                if number == len(requests):
                    return
                which = f"{requests[number].id} ({number + 1} of"
                raise RobotError(
                    f"The robot did not answer the rollout {which} {len(requests)}) within "
                    f"{seconds:g} s. It is entered as started and unanswered, and is asked for "
                    "again when the run is repeated; a late answer is dropped. The rollouts before "
                    "are kept."
                ) from None
            if error is not None:
                raise error
            if one is came:
                return
            number += 1
            yield one
    finally:
        for request in requests:
            request.withdraw()


def _answers(robot: Any, requests: Sequence[RolloutRequest]) -> Iterator[Any]:
    """Yield a robot's answers; what it raises is named."""
    try:
        if not hasattr(robot, "batch"):
            for request in requests:
                yield robot(request)
            return
        made = robot.batch(requests)
        if not isinstance(made, Iterable):
            allowed = f"a list of {len(requests)} trajectories"
            raise RolloutError(message("the robot's answer", made, allowed))
        yield from made
    except RolloutError:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}".rstrip(".")
        raise RobotError(f"The robot raised {text}. The rollouts before are kept.") from error


class SimulatedRobot:
    """A second system that stands for the robot: other physics, noise, a delay.

    For rehearsals, and for targets that are fine simulators. The seed of a request fixes its reset
    and its noise, so rollouts can be repeated.

    Parameters
    ----------
    system : System
        The physics.
    resets : callable or array
        ``resets(rng, n)`` draws first states; a table is gone through by the seed.
    noise : float
        Standard deviation of what is added to the actions on their way.
    delay : int
        Control steps until an action arrives.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox.simulation import FunctionSystem, LinearPolicy, RolloutRequest, Task
    >>> task = Task(LinearPolicy(lambda x, t: x, 1, 1), 5, lambda x, u, t: (x**2).sum(axis=1))
    >>> robot = SimulatedRobot(FunctionSystem(lambda x, u: x + u, 1, 1), np.ones((1, 1)))
    >>> robot(RolloutRequest(task, np.array([-0.5]), seed=0)).states.ravel()
    array([1.     , 0.5    , 0.25   , 0.125  , 0.0625 , 0.03125])
    """

    repeatable = True

    def __init__(self, system: System, resets: Any, *, noise: float = 0.0, delay: int = 0) -> None:
        check.instance("system", system, System, "a System, such as a MuJoCoSystem")
        self.system, self.resets = system, as_resets(resets)
        self.noise, self.delay = check.nonnegative("noise", noise), check.whole("delay", delay, 0)

    def __call__(self, request: RolloutRequest) -> Trajectory:
        """Return one rollout."""
        return self.batch([request])[0]

    def batch(self, requests: Sequence[RolloutRequest]) -> list[Trajectory]:
        """Return the rollouts of requests of one task, simulated side by side."""
        task, size = requests[0].task, self.system.state_size
        starts, disturbances = [], []
        for request in requests:
            rng = np.random.default_rng([request.seed, 0])
            starts.append(draw_starts(self._resets(request), rng, 1, size)[0])
            shape = task.horizon, task.policy.actions
            disturbances.append(self.noise * rng.standard_normal(shape))
        paths = closed_loops(
            task, self.system, np.stack([request.w for request in requests]), np.stack(starts),
            disturbance=np.stack(disturbances) if self.noise else None, delay=self.delay,
        )  # fmt: skip
        return [self._cut(task, *path) for path in zip(paths.states, paths.actions, strict=True)]

    def _resets(self, request: RolloutRequest) -> Any:
        if callable(self.resets):
            return self.resets
        return self.resets[request.seed % len(self.resets)][None]

    def _cut(self, task: Task, states: Array, actions: Array) -> Trajectory:
        """Return a rollout up to the first state that the limits forbid."""
        bad = task.limits.exceeded(states[1:])
        made = Trajectory(actions, states, seconds=len(actions) * self.system.dt)
        if not bad.any():
            return made
        first = int(np.argmax(bad))
        finite = bool(np.isfinite(states[first + 1]).all())
        # What is not finite is not kept.
        taken = first + finite
        why = "the state left its bounds" if finite else "the simulation failed"
        return replace(made.ended(taken, why), seconds=taken * self.system.dt)


class GymnasiumRobot:
    """A gymnasium environment with a box of actions.

    Parameters
    ----------
    env : gymnasium.Env
        The environment; its own time limit must not be shorter than the task's horizon.
    state : callable, optional
        ``state(env)``, the full state. MuJoCo environments need none: positions and velocities are
        read from them. If neither is known, trajectories have observations alone, and
        ``shows_states`` is False. That of ``Pendulum-v1`` is ``lambda env: env.unwrapped.state``.
    repeatable : bool
        Whether a seed repeats a rollout.

    Examples
    --------
    >>> import gymnasium
    >>> import numpy as np
    >>> from proxyprox.simulation import LinearPolicy, RolloutRequest, Task
    >>> with gymnasium.make("Pendulum-v1") as env:
    ...     task = Task(LinearPolicy(lambda x, t: x, 3, 1), horizon=20)
    ...     rollout = GymnasiumRobot(env)(RolloutRequest(task, np.zeros(3), seed=0))
    >>> rollout.observations.shape, rollout.states is None
    ((21, 3), True)
    """

    def __init__(
        self, env: Any, *, state: Callable[[Any], Array] | None = None, repeatable: bool = False
    ) -> None:
        if not (hasattr(env, "reset") and hasattr(env, "step")):
            raise TypeError(message("env", env, "a gymnasium environment"))
        self.env, self.repeatable = env, check.flag("repeatable", repeatable)
        box, seen = (getattr(env, f"{name}_space", None) for name in ("action", "observation"))
        shape, kind = getattr(box, "shape", None), getattr(box, "dtype", None) or np.float64
        if not shape or len(shape) != 1 or not np.issubdtype(kind, np.floating):
            allowed = "an environment with a box of actions, real numbers in a row"
            raise TypeError(message("env.action_space", box, allowed))
        if seen is not None and getattr(seen, "shape", None) is None:
            raise TypeError(message("env.observation_space", seen, "one of arrays", FLATTEN))
        self._shape = tuple(shape)
        # One rollout at a time: a step that was given up for lost may still be under way.
        self._free = threading.Lock()
        plain = getattr(env, "unwrapped", env)
        data = getattr(plain, "data", None)
        mujoco = hasattr(data, "qpos") and hasattr(data, "qvel")
        self._state = state or (_mujoco_state if mujoco else None)
        self.shows_states = self._state is not None

    def __call__(self, request: RolloutRequest) -> Trajectory:
        """Return one rollout, aborted where the limits say so.

        Raises
        ------
        RobotError
            If the environment raises; nothing of the rollout is kept.
        """
        task = request.task
        if (task.policy.actions,) != self._shape:
            got = Words(f"{task.policy.actions} entries")
            raise RolloutError(message("actions of the policy", got, f"of shape {self._shape}"))
        while not self._free.acquire(timeout=LOOK_UP):
            if request.withdrawn:
                raise RobotError("The environment is still in the rollout before. Make a new one.")
        try:
            return self._roll(request, task)
        finally:
            self._free.release()

    def _roll(self, request: RolloutRequest, task: Task) -> Trajectory:
        """Return one rollout."""
        begun = time.perf_counter()
        seed = int(request.seed % (1 << 31))
        seen, _ = self._call("reset", lambda: self.env.reset(seed=seed), 2)
        seen = _observation(seen)
        observations, states, actions, costs = [seen], [self._read_state()], [], []
        why = ""
        for t in range(task.horizon):
            action = request.act(seen, t)
            # A copy: an environment may clip in place.
            answer = self._call(f"step {t}", partial(self.env.step, action.copy()), 5)
            seen, reward, terminated, truncated, _ = answer
            seen = _observation(seen)
            actions.append(action)
            observations.append(seen)
            states.append(self._read_state())
            costs.append(-float(reward))
            bounded = states[-1] if self._state is not None else seen
            if not (np.isfinite(seen).all() and np.isfinite(states[-1]).all()):
                why = f"the environment failed in step {t}"
                # What is not finite is not kept.
                for part in (actions, observations, states, costs):
                    part.pop()
            elif bool(task.limits.exceeded(np.asarray(bounded)[None])[0]):
                why = "the state left its bounds"
            elif terminated:
                why = "the environment ended the episode"
            elif truncated and t + 1 < task.horizon:
                got = Words(f"truncated after {t + 1} steps")
                raise RolloutError(message("env", got, f"one that allows {task.horizon} steps"))
            if why:
                break
        short = why if len(actions) < task.horizon else ""
        known = None if self._state is None else np.stack(states)
        own = task.cost is not None and known is not None
        return Trajectory(
            np.reshape(actions, (-1, *self._shape)), known, np.stack(observations),
            None if own else np.array(costs),
            aborted=short, seconds=time.perf_counter() - begun,
        )  # fmt: skip

    def _read_state(self) -> Array:
        if self._state is None:
            return np.zeros(0)
        return np.asarray(self._state(self.env), dtype=np.float64).ravel().copy()

    def _call(self, what: str, action: Callable[[], Any], parts: int) -> Any:
        try:
            made = action()
        except Exception as error:
            text = f"The environment raised in {what}: {type(error).__name__}: {error}"
            raise RobotError(f"{text.rstrip('.')}. The rollouts before are kept.") from error
        if not isinstance(made, tuple) or len(made) != parts:
            allowed = f"{parts} values, as gymnasium's"
            raise RobotError(message(f"what the environment returns from {what}", made, allowed))
        return made


def _observation(seen: Any) -> Array:
    """Return a copy of an observation, as numbers in a row."""
    try:
        return np.array(seen, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise RobotError(message("an observation", seen, "an array of numbers", FLATTEN)) from error


def _mujoco_state(env: Any) -> Array:
    data = env.unwrapped.data
    return np.concatenate([data.qpos, data.qvel, data.act])


def gymnasium_resets(env: Any, n: int, seed: int = 0) -> Array:
    """Return n first states of a MuJoCo environment, for a simulator of it.

    Parameters
    ----------
    env : gymnasium.Env
        A *simulated* environment: it is reset n times.
    n : int
        How many.
    seed : int
        Of the first reset.
    """
    states = []
    for k in range(check.whole("n", n)):
        env.reset(seed=seed + k)
        states.append(_mujoco_state(env))
    return np.stack(states)
