"""Rollouts: the policy, the task, the limits, what a robot is asked and what it answers."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.arrays import digest
from proxyprox._util.validation import Words, message
from proxyprox.oracle import OutOfBudget

Array = Any

# Steps of central differences, as a share of the size of what is differentiated.
STEP = 1e-6


class RolloutError(RuntimeError):
    """A rollout that cannot be used: NaN, another length, another shape, or a second answer."""


class RobotError(RolloutError):
    """The robot or its environment raised in the middle of a rollout, or did not answer in time."""


class RolloutBudgetError(RolloutError, OutOfBudget):
    """The next rollout would exceed the budget; a run that asks for it ends there."""


# -- derivatives by differences -------------------------------------------------------------------


def differences(function: Callable[[Array], Array], x: Array, step: float = STEP) -> Array:
    """Return ``∂function_i/∂x_i`` of rows, by central differences in one call for all of them.

    Parameters
    ----------
    function : callable
        Takes rows of shape (2 k n, k), block after block of n; returns as many numbers or rows.
    x : array of shape (n, k)
        Where.
    step : float
        Half the width of a difference, as a share of the entry's size.

    Returns
    -------
    array of shape (n, ..., k)
        The derivatives, with those of ``function``'s own axes in the middle.
    """
    n, k = x.shape
    steps = step * np.maximum(1.0, np.abs(x))
    shifted = np.repeat(x[None], 2 * k, axis=0)
    for j in range(k):
        shifted[2 * j, :, j] += steps[:, j]
        shifted[2 * j + 1, :, j] -= steps[:, j]
    answers = np.asarray(function(shifted.reshape(2 * k * n, k)))
    answers = answers.reshape(k, 2, n, *answers.shape[1:])
    widths = (2 * steps).T.reshape(k, n, *[1] * (answers.ndim - 3))
    return np.moveaxis((answers[:, 0] - answers[:, 1]) / widths, 0, -1)


# -- policies -------------------------------------------------------------------------------------


class Policy:
    """A policy of your own: a function of parameters, observations and step numbers.

    Parameters
    ----------
    function : callable
        ``function(w, observations, t)`` with w of shape (n, dim) or (1, dim), observations of shape
        (n, size) and t of shape (n,); returns actions of shape (n, actions).
    dim : int
        Number of parameters.
    actions : int
        Number of entries of an action.

    Examples
    --------
    >>> import numpy as np
    >>> policy = Policy(lambda w, x, t: np.tanh((w * x).sum(axis=1, keepdims=True)), 2, 1)
    >>> slopes, _ = policy.jacobians(np.zeros(2), np.array([[1.0, 3.0]]), np.zeros(1))
    >>> slopes.round(6)
    array([[[1., 3.]]])
    """

    def __init__(self, function: Callable[..., Array], dim: int, actions: int) -> None:
        self.dim, self.actions = check.whole("dim", dim), check.whole("actions", actions)
        check.require_function("function", function, ("w", "observations", "t"))
        self._function = function

    def act(self, w: Array, observations: Array, t: Array) -> Array:
        """Return the actions of rows: w has a row for each, or one for all."""
        made = np.asarray(self._function(w, observations, t), dtype=np.float64)
        if made.shape != (len(observations), self.actions):
            got, allowed = Words(f"shape {made.shape}"), f"({len(observations)}, {self.actions})"
            raise ValueError(message("actions of the policy", got, f"of shape {allowed}"))
        return made

    def jacobians(self, w: Array, observations: Array, t: Array) -> tuple[Array, Array]:
        """Return ``∂a_i/∂w`` and ``∂a_i/∂observation_i`` of rows, by central differences."""
        n = len(observations)

        def along(points: Array) -> Array:
            many = len(points)
            seen, steps = np.tile(observations, (many, 1)), np.tile(t, many)
            return self.act(np.repeat(points, n, axis=0), seen, steps).reshape(many, n, -1)

        return differences(along, w[None])[0], self.observation_jacobian(w, observations, t)

    def observation_jacobian(self, w: Array, observations: Array, t: Array) -> Array:
        """Return ``∂a_i/∂observation_i`` of rows."""

        def along(rows: Array) -> Array:
            return self.act(w[None], rows, np.tile(t, len(rows) // len(observations)))

        return differences(along, observations)


class LinearPolicy(Policy):
    """``a = base(observation, t) + W φ(observation, t)``, w the rows of W one after another.

    Parameters
    ----------
    features : callable
        ``features(observations, t)``, of shape (n, size).
    size : int
        Number of features.
    actions : int
        Number of entries of an action.
    base : callable, optional
        ``base(observations, t)``, a controller that is not tuned; zero by default.

    Examples
    --------
    >>> import numpy as np
    >>> policy = LinearPolicy(lambda x, t: x, size=2, actions=1)
    >>> policy.act(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), np.zeros(1))
    array([[11.]])
    """

    def __init__(
        self,
        features: Callable[[Array, Array], Array],
        size: int,
        actions: int,
        base: Callable[[Array, Array], Array] | None = None,
    ) -> None:
        self.size = check.whole("size", size)
        check.require_function("features", features, ("observations", "t"))
        check.require_takes("base", base, ("observations", "t"))
        super().__init__(self._evaluate, self.size * check.whole("actions", actions), actions)
        self._features, self._base = features, base

    def _evaluate(self, w: Array, observations: Array, t: Array) -> Array:
        W, rows = w.reshape(-1, self.actions, self.size), self._features(observations, t)
        made = rows @ W[0].T if len(W) == 1 else np.einsum("nij,nj->ni", W, rows)
        return made if self._base is None else made + self._base(observations, t)

    def jacobians(self, w: Array, observations: Array, t: Array) -> tuple[Array, Array]:
        """Return both derivatives, that of w in closed form."""
        slopes = np.einsum("ij,nk->nijk", np.eye(self.actions), self._features(observations, t))
        own = slopes.reshape(len(observations), self.actions, self.dim)
        return own, self.observation_jacobian(w, observations, t)


# -- the task -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """What a rollout must not exceed; none of it is ever dropped from the costs.

    Parameters
    ----------
    action : pair (low, high), optional
        Numbers or arrays. Actions are clipped to it, on the robot and in the simulator.
    state : pair (low, high), optional
        Of every entry of the state (of the observation, where the robot shows no state). A rollout
        that leaves it is aborted, and its remaining steps cost ``worst`` each.
    worst : float, optional
        The largest cost of one step. It must be given if there are bounds on the state, and is
        what the missing steps of a rollout cost that ended early.

    Examples
    --------
    >>> Limits(action=(-1, 1), state=(-3, 3), worst=10.0).worst
    10.0
    """

    action: tuple[Any, Any] | None = None
    state: tuple[Any, Any] | None = None
    worst: float | None = None

    def __post_init__(self) -> None:
        """Check the bounds."""
        given = {"action": self.action, "state": self.state}
        for name, pair in ((name, pair) for name, pair in given.items() if pair is not None):
            allowed = "a pair (low, high) with low < high"
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(message(f"Limits.{name}", pair, allowed))
            if not np.all(np.asarray(pair[0]) < np.asarray(pair[1])):
                raise ValueError(message(f"Limits.{name}", pair, allowed))
        if self.worst is not None:
            check.nonnegative("Limits.worst", self.worst)
        elif self.state is not None:
            remedy = "Without it a rollout that is aborted early would look cheap."
            allowed = "the largest cost of a step, if there are bounds on the state"
            raise ValueError(message("Limits.worst", None, allowed, remedy))

    def clip(self, actions: Array) -> Array:
        """Return actions within their bounds."""
        return actions if self.action is None else np.clip(actions, *self.action)

    def saturated(self, actions: Array) -> Array:
        """Tell which entries of unclipped actions the bounds change."""
        return np.asarray(self.clip(actions) != actions)

    def exceeded(self, states: Array) -> Array:
        """Tell which rows are outside the bounds or not finite."""
        bad = ~np.isfinite(states).all(axis=-1)
        if self.state is not None:
            with np.errstate(invalid="ignore"):
                bad |= ((states < self.state[0]) | (states > self.state[1])).any(axis=-1)
        return bad


@dataclass(frozen=True)
class Task:
    """What robot and simulator have in common: the policy, the cost of a step and the horizon.

    Parameters
    ----------
    policy : Policy
        What acts.
    horizon : int
        Control steps of a rollout.
    cost : callable, optional
        ``cost(states, actions, t)`` of rows, of shape (n,). A gymnasium environment without one
        costs its negative reward; simulators need one.
    final : callable, optional
        ``final(states)``, a cost of the last state.
    observe : callable, optional
        ``observe(states)``, what the policy sees of rows; by default all of it.
    limits : Limits
        What a rollout must not exceed.

    Examples
    --------
    >>> import numpy as np
    >>> policy = LinearPolicy(lambda x, t: x, size=2, actions=1)
    >>> task = Task(policy, horizon=10, cost=lambda x, u, t: (x**2).sum(axis=1))
    >>> task.dim
    2
    """

    policy: Policy
    horizon: int
    cost: Callable[[Array, Array, Array], Array] | None = None
    final: Callable[[Array], Array] | None = None
    observe: Callable[[Array], Array] | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Check the parts."""
        check.instance("policy", self.policy, Policy, "a Policy")
        check.whole("horizon", self.horizon)
        check.require_takes("cost", self.cost, ("states", "actions", "t"))
        check.require_takes("final", self.final, ("states",))
        check.require_takes("observe", self.observe, ("states",))
        check.instance("limits", self.limits, Limits, "a Limits")

    @property
    def dim(self) -> int:
        """Number of the policy's parameters."""
        return self.policy.dim

    def observations(self, states: Array) -> Array:
        """Return what the policy sees of rows."""
        return states if self.observe is None else np.asarray(self.observe(states))

    def step_costs(self, states: Array, actions: Array, t: Array) -> Array:
        """Return the costs of rows."""
        if self.cost is None:
            raise TypeError(message("Task.cost", None, "given for a simulator"))
        with np.errstate(over="ignore", invalid="ignore"):
            costs = np.asarray(self.cost(states, actions, t), dtype=np.float64)
        if costs.shape != (len(states),):
            got, allowed = Words(f"shape {costs.shape}"), f"of shape ({len(states)},)"
            raise ValueError(message("Task.cost(states, actions, t)", got, allowed))
        return costs

    def total(self, trajectory: Trajectory) -> float:
        """Return the cost of a rollout, its missing steps at their worst."""
        total = float(trajectory.costs.sum()) + trajectory.final
        missing = self.horizon - len(trajectory.actions)
        if missing and self.limits.worst is None:
            remedy = "It is what the missing steps cost: a rollout is never dropped."
            allowed = f"given, because a rollout ended early ({trajectory.aborted})"
            raise RolloutError(message("Limits.worst", None, allowed, remedy))
        return total + missing * (self.limits.worst or 0.0)

    def checked(self, trajectory: Any, states_size: int | None = None) -> Trajectory:
        """Return a robot's answer, its costs filled in; one that cannot be used is refused."""
        found = self.priced(self.readable(trajectory, states_size))
        self.total(found)
        return found

    def readable(self, trajectory: Any, states_size: int | None = None) -> Trajectory:
        """Return a copy of a robot's answer, its shapes and numbers checked; nothing filled in."""
        if not isinstance(trajectory, Trajectory):
            raise RolloutError(message("the robot's answer", trajectory, "a Trajectory"))
        actions = _table("actions", trajectory.actions, None, self.policy.actions)
        taken = len(actions)
        if taken > self.horizon or (taken < self.horizon and not trajectory.aborted):
            remedy = "One that ended early says why: Trajectory(aborted='...')."
            got, allowed = Words(f"{taken} steps"), f"of {self.horizon} steps, the task's horizon"
            raise RolloutError(message("trajectory", got, allowed, remedy))
        states, observations = (
            None if table is None else _table(name, table, taken + 1, columns)
            for name, table, columns in (
                ("states", trajectory.states, states_size),
                ("observations", trajectory.observations, None),
            )
        )  # fmt: skip
        if states is None and observations is None:
            text = message("trajectory", Words("neither"), "with states or observations")
            raise RolloutError(text)
        costs = trajectory.costs
        if costs is not None:
            costs = _numbers("costs", costs)
            if costs.shape != (taken,):
                raise RolloutError(message("costs", Words(f"shape {costs.shape}"), f"({taken},)"))
        elif states is None:
            raise RolloutError(message("costs", None, "given where states are not"))
        final, seconds = (
            float(_numbers(name, part).reshape(()) if np.size(part) == 1 else np.nan)
            for name, part in (("final", trajectory.final), ("seconds", trajectory.seconds))
        )
        if not 0 <= seconds < math.inf:
            allowed = "a finite number, zero or more"
            raise RolloutError(message("seconds of a rollout", trajectory.seconds, allowed))
        beyond = np.abs(actions - self.limits.clip(actions)) > STEP * (1 + np.abs(actions))
        if beyond.any():
            got = Words(f"{actions[beyond][0]:g} in step {int(np.argwhere(beyond)[0][0])}")
            allowed = "within Limits.action, which request.act keeps to"
            raise RolloutError(message("actions of a rollout", got, allowed))
        found = Trajectory(
            actions, states, observations, costs, final, str(trajectory.aborted or ""), seconds
        )
        shown: Array = observations if states is None else states
        left = self.limits.exceeded(shown[1:])
        if left.any():
            # Also if the robot went on: what follows is charged at its worst.
            found = found.ended(int(np.argmax(left)) + 1, "the state left its bounds")
        _require_finite_costs(found)
        return found

    def priced(self, one: Trajectory) -> Trajectory:
        """Return a readable answer with what is the task's to compute: observations and costs."""
        observations, costs, final, taken = one.observations, one.costs, one.final, len(one.actions)
        if observations is None:
            observations = self.observations(one.states)
        if costs is None:
            costs = self.step_costs(one.states[:-1], one.actions, np.arange(taken))
            if self.final is not None and taken == self.horizon:
                final = float(np.asarray(self.final(one.states[-1:]))[0])
        found = replace(one, observations=observations, costs=costs, final=final)
        lost = ~np.isfinite(costs)
        if lost.any() and self.limits.worst is not None:
            # A glitch of a sensor, say: without this the rollout could never be read again.
            found = found.ended(int(np.argmax(lost)), "a cost was not finite")
        _require_finite_costs(found)
        return found


@dataclass(frozen=True)
class Trajectory:
    """One rollout as the robot saw it.

    Parameters
    ----------
    actions : array of shape (steps, actions)
        As they were commanded, within the limits.
    states : array of shape (steps + 1, size), optional
        The full states, the first before the first action. Gradients through the simulator need
        them.
    observations : array of shape (steps + 1, size), optional
        What the policy saw; by default the task's ``observe(states)``.
    costs : array of shape (steps,), optional
        By default the task's cost of the states.
    final : float
        A cost of the last state.
    aborted : str
        Why the rollout ended early; empty for one of full length.
    seconds : float
        How long it took.
    """

    actions: Array
    states: Array = None
    observations: Array = None
    costs: Array = None
    final: float = 0.0
    aborted: str = ""
    seconds: float = 0.0

    def ended(self, steps: int, why: str) -> Trajectory:
        """Return the rollout as aborted after some steps, as if nothing had followed.

        Parameters
        ----------
        steps : int
            How many of its steps count.
        why : str
            What happened then.
        """
        cut, tables = steps < len(self.actions), dict[str, Any]()
        for name, rows in (("actions", 0), ("costs", 0), ("states", 1), ("observations", 1)):
            table = getattr(self, name)
            tables[name] = None if table is None else table[: steps + rows]
        return replace(
            self, **tables, final=0.0 if cut else self.final,
            aborted=self.aborted or (why if cut else ""),
        )  # fmt: skip

    def to_bytes(self) -> bytes:
        """Return it as the content of an ``.npz`` file."""
        parts = {name: part for name, part in vars(self).items() if part is not None}
        with io.BytesIO() as file:
            np.savez(file, **parts)
            return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Trajectory:
        """Return what :meth:`to_bytes` made; no code in it is run."""
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            parts = {name: file[name] for name in file.files}
        for name, kind in (("final", float), ("aborted", str), ("seconds", float)):
            parts[name] = kind(parts[name])
        return cls(**parts)


@dataclass(frozen=True)
class RolloutRequest:
    """What a robot is asked: one rollout of the policy with parameters w.

    Attributes
    ----------
    task : Task
        The policy and its limits.
    w : array
        The parameters, perturbed where the estimator perturbs them.
    seed : int
        Randomness of the reset and of a simulated robot's noise. A physical robot ignores it.
    evaluation : bool
        Whether the rollout only measures.
    """

    task: Task
    w: Array
    seed: int
    evaluation: bool = False

    def __post_init__(self) -> None:
        """Check the parameters, and keep a copy that no robot can change."""
        check.instance("task", self.task, Task, "a Task")
        check.whole("seed", self.seed, 0, most=1 << 63)
        check.flag("evaluation", self.evaluation)
        w = np.array(check.real_array("w", self.w), dtype=np.float64)
        check.require_finite("w", w)
        if w.shape != (self.task.dim,):
            got = Words(f"shape {w.shape}")
            raise ValueError(message("w", got, f"of {self.task.dim} entries, the policy's"))
        w.setflags(write=False)
        object.__setattr__(self, "w", w)

    @cached_property
    def id(self) -> str:
        """A name that only this question has: a second answer to it is refused."""
        # The third was noise on the actions; journals know their rollouts by it.
        return digest(self.w, self.seed, 0.0, self.evaluation)

    @property
    def withdrawn(self) -> bool:
        """Whether nobody waits for the answer any more, because it took too long."""
        return bool(vars(self).get("_withdrawn", False))

    def withdraw(self) -> None:
        """Say that nobody waits any more: the policy acts for this request no longer."""
        object.__setattr__(self, "_withdrawn", True)

    def act(self, observation: Array, t: int) -> Array:
        """Return the action for an observation at a step, within the limits.

        Raises
        ------
        RobotError
            If the request was withdrawn: a rollout that nobody waits for ends here.
        RolloutError
            If the policy's action is not finite.
        """
        if self.withdrawn:
            raise RobotError(f"The rollout {self.id} was withdrawn at step {t}: it took too long.")
        seen = np.asarray(observation, dtype=np.float64).reshape(1, -1)
        action = self.task.policy.act(self.w[None], seen, np.array([t]))[0]
        if not np.isfinite(action).all():
            what = f"the policy's action at step {t}"
            raise RolloutError(message(what, action, "finite", "Nothing was sent."))
        return self.task.limits.clip(action)


def _numbers(name: str, given: Any) -> Array:
    """Return a copy, as numbers: a robot may fill its arrays again."""
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RolloutError(message(f"{name} of a rollout", given, "numbers")) from error


def _require_finite_costs(one: Trajectory) -> None:
    if not np.isfinite(np.append(() if one.costs is None else one.costs, one.final)).all():
        raise RolloutError(message("costs of a rollout", Words("NaN or infinite"), "finite"))


def _table(name: str, given: Any, rows: int | None, columns: int | None) -> Array:
    """Return a table of finite numbers of the wanted shape."""
    table = _numbers(name, given)
    if not table.size and rows is None and columns is not None:
        table = table.reshape(0, columns)
    shape = f"({', '.join(str(want or 'any') for want in (rows, columns))})"
    fits = table.ndim == 2 and all(
        want is None or want == got for want, got in zip((rows, columns), table.shape, strict=True)
    )
    if not fits:
        got = Words(f"shape {table.shape}")
        raise RolloutError(message(f"{name} of a rollout", got, f"of shape {shape}"))
    if not np.isfinite(table).all():
        raise RolloutError(message(f"{name} of a rollout", Words("NaN or infinite"), "finite"))
    return table
