"""Systems that can be stepped in batches, closed loops of them, and gradients through them."""

from __future__ import annotations

import copy
import inspect
import numbers
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.arrays import BLOCK
from proxyprox._util.extras import require
from proxyprox._util.validation import Words, message
from proxyprox.simulation.rollouts import STEP, Array, Task, differences


@dataclass(frozen=True)
class Parameter:
    """A physical parameter that :meth:`SimulatorProxy.fit` may identify.

    Parameters
    ----------
    value : float
        What the simulator assumes.
    lower, upper : float
        What is physically possible.
    apply : callable, optional
        ``apply(model, value)`` writes it into a copy of a MuJoCo model. A :class:`FunctionSystem`
        needs none: its function takes parameters by name.
    """

    value: float
    lower: float
    upper: float
    apply: Callable[[Any, float], None] | None = None

    def __post_init__(self) -> None:
        """Check the order."""
        for name in ("value", "lower", "upper"):
            check.instance(f"Parameter.{name}", getattr(self, name), numbers.Real, "a number")
        check.require_takes("apply", self.apply, ("model", "value"))
        if not self.lower <= self.value <= self.upper:
            allowed = f"between lower={self.lower} and upper={self.upper}"
            raise ValueError(message("Parameter.value", self.value, allowed))


def check_parameters(given: Any) -> dict[str, Parameter]:
    """Return a copy of a system's parameters by name."""
    allowed = "a dict of names and Parameter(value, lower, upper)"
    if not isinstance(given, Mapping | None):
        raise TypeError(message("parameters", given, allowed))
    for found in (given or {}).values():
        check.instance("parameters", found, Parameter, allowed)
    return dict(given or {})


class System:
    """What can be stepped in batches; abstract.

    Attributes
    ----------
    state_size, action_size : int
        Entries of a state and of an action.
    dt : float
        Seconds of a control step.
    parameters : dict of Parameter
        What may be identified, by name. One called "delay" is a number of control steps until an
        action arrives: the simulator is then of a plant with that delay, and its step has none.
    """

    state_size: int
    action_size: int
    dt: float
    parameters: dict[str, Parameter]

    def step(self, states: Array, actions: Array, t: Array | int = 0) -> Array:
        """Return the states one control step later, of rows at the control steps t.

        Rows are NaN if the simulation failed.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step(states, actions, t)")

    @property
    def delay(self) -> int:
        """Control steps until an action arrives."""
        return round(self.parameters["delay"].value) if "delay" in self.parameters else 0

    def with_parameters(self, values: Mapping[str, float]) -> System:
        """Return the system with other values of some of its parameters."""
        unknown = sorted(set(values) - set(self.parameters))
        if unknown:
            allowed = f"among {', '.join(self.parameters) or 'none'}"
            raise ValueError(message("parameters", unknown, allowed))
        other = copy.copy(self)
        other.parameters = {
            name: replace(known, value=float(values.get(name, known.value)))
            for name, known in self.parameters.items()
        }
        other.apply_parameters()
        return other

    def apply_parameters(self) -> None:
        """Make the values of the parameters count."""

    def jacobians(self, states: Array, actions: Array, t: Array | int = 0) -> tuple[Array, Array]:
        """Return ``∂next/∂state`` and ``∂next/∂action`` of rows, by central differences."""
        size, both = self.state_size, np.hstack([states, actions])
        width, steps = both.shape[1], np.broadcast_to(t, len(both))
        found = np.empty((len(both), size, width))
        # Each row is moved both ways along each of its entries.
        block = max(1, BLOCK // (2 * width * width))
        for at in range(0, len(both), block):
            part = steps[at : at + block]

            def move(rows: Array, part: Array = part) -> Array:
                many = np.tile(part, len(rows) // len(part))
                return self.step(rows[:, :size], rows[:, size:], many)

            found[at : at + block] = differences(move, both[at : at + block])
        return found[:, :, :size], found[:, :, size:]


class FunctionSystem(System):
    """A system that is a function, such as a solver of a differential equation.

    Parameters
    ----------
    function : callable
        ``function(states, actions, **parameters)`` of rows, the states one control step later. If
        it has an argument ``t``, that gets the numbers of the control steps, one for each row.
    states, actions : int
        Entries of a state and of an action.
    dt : float
        Seconds of a control step.
    parameters : dict of Parameter, optional
        What may be identified, by name.

    Examples
    --------
    >>> import numpy as np
    >>> push = FunctionSystem(lambda x, u: x + 0.1 * np.hstack([x[:, 1:], u]), 2, 1, dt=0.1)
    >>> push.step(np.array([[0.0, 1.0]]), np.array([[2.0]]))
    array([[0.1, 1.2]])
    """

    def __init__(
        self,
        function: Callable[..., Array],
        states: int,
        actions: int,
        *,
        dt: float = 1.0,
        parameters: Mapping[str, Parameter] | None = None,
    ) -> None:
        self.state_size = check.whole("states", states)
        self.action_size = check.whole("actions", actions)
        if not callable(function) or isinstance(function, type):
            raise TypeError(message("function", function, "a function of states and actions"))
        self.dt, self._function = check.positive("dt", dt), function
        self.parameters = check_parameters(parameters)
        self._timed = False
        with suppress(ValueError):  # some compiled functions do not tell
            known = inspect.signature(function).parameters
            self._timed = "t" in known and "t" not in self.parameters

    def step(self, states: Array, actions: Array, t: Array | int = 0) -> Array:
        """Return the states one control step later."""
        known = self.parameters.items()
        values: dict[str, Any] = {name: one.value for name, one in known if name != "delay"}
        if self._timed:
            values["t"] = np.broadcast_to(t, len(states))
        with np.errstate(all="ignore"):
            after = np.asarray(self._function(states, actions, **values), dtype=np.float64)
        if after.shape != states.shape:
            got = Words(f"shape {after.shape}")
            raise ValueError(message("function(states, actions)", got, f"of shape {states.shape}"))
        return after


class MuJoCoSystem(System):
    """A MuJoCo model whose states are stepped in batches by ``mujoco.rollout``.

    A state is positions, velocities and activations. A row that MuJoCo warns about, resets or
    freezes (its time then does not advance as it should) becomes NaN; the warnings are not printed,
    and no ``MUJOCO_LOG.TXT`` is written.

    Parameters
    ----------
    model : mujoco.MjModel, str or path-like
        The model, its XML, or the path of an XML file.
    frame_skip : int
        Steps of the model in a control step.
    parameters : dict of Parameter, optional
        What may be identified, each with its ``apply``.
    """

    def __init__(
        self, model: Any, frame_skip: int = 1, *, parameters: Mapping[str, Parameter] | None = None
    ) -> None:
        mujoco = require("mujoco", extra="sim", purpose="simulating a MuJoCo model")
        rollout = require("mujoco.rollout", extra="sim", purpose="simulating a MuJoCo model")
        if isinstance(model, os.PathLike) or (isinstance(model, str) and "<" not in model):
            path = check.file_path("model", model)
            if not path.is_file():
                allowed = "a mujoco.MjModel, its XML, or the path of a file that exists"
                raise ValueError(message("model", str(model), allowed))
            model = mujoco.MjModel.from_xml_path(str(path))
        elif isinstance(model, str):
            model = mujoco.MjModel.from_xml_string(model)
        check.instance("model", model, mujoco.MjModel, "a mujoco.MjModel, or its XML")
        self._original, self.frame_skip = model, check.whole("frame_skip", frame_skip)
        self.parameters = check_parameters(parameters)
        for name, known in self.parameters.items():
            if known.apply is None and name != "delay":
                allowed = "given: apply(model, value) writes into a copy of the model"
                raise ValueError(message(f"parameters[{name!r}].apply", None, allowed))
        self._spec = mujoco.mjtState.mjSTATE_FULLPHYSICS
        self.state_size = mujoco.mj_stateSize(model, self._spec) - 1
        self.action_size, self.dt = int(model.nu), float(model.opt.timestep * self.frame_skip)
        self._mujoco = mujoco
        self._pool = rollout.Rollout(nthread=0)
        self.apply_parameters()

    def apply_parameters(self) -> None:
        """Write the parameters into a copy of the model."""
        self.model = copy.copy(self._original)
        for known in self.parameters.values():
            if known.apply is not None:
                known.apply(self.model, known.value)
        if self.parameters:
            # Inertias and what else follows from masses.
            self._mujoco.mj_setConst(self.model, self._mujoco.MjData(self.model))
        self._data = [self._mujoco.MjData(self.model)]
        self._rest = np.append(self.model.qpos0, np.zeros(self.state_size - self.model.nq))

    def step(self, states: Array, actions: Array, t: Array | int = 0) -> Array:
        """Return the states one control step later."""
        n = len(states)
        # What MuJoCo would warn about and reset is not handed to it.
        with np.errstate(invalid="ignore"):
            both = np.abs(np.hstack([states, actions]))
            good = (both < self._mujoco.mjMAXVAL).all(axis=1)
        # The time is not 0, so that a reset shows.
        initial = np.ones((n, self.state_size + 1))
        initial[:, 1:] = np.where(good[:, None], states, self._rest)
        control = np.where(good[:, None], actions, 0.0)[:, None]
        if self.frame_skip > 1:
            control = np.repeat(control, self.frame_skip, axis=1)
        with _quietly(self._mujoco):
            after, _ = self._pool.rollout(self.model, self._data, initial, control)
        after = after[:, -1]
        good &= np.abs(after[:, 0] - 1.0 - self.dt) < 1e-9
        return np.where(good[:, None], after[:, 1:], np.nan)

    def state_of(self, data: Any) -> Array:
        """Return the state in a ``mujoco.MjData``."""
        full = np.empty(self.state_size + 1)
        self._mujoco.mj_getState(self.model, data, full, self._spec)
        return full[1:]


_HANDLER = threading.RLock()


@contextmanager
def _quietly(mujoco: Any) -> Iterator[None]:
    """Keep MuJoCo from writing warnings to the console and to a file; one thread at a time."""
    with _HANDLER:
        known = mujoco.get_mju_user_warning()
        mujoco.set_mju_user_warning(lambda warning: None)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(known)


# -- closed loops ---------------------------------------------------------------------------------


class Paths(NamedTuple):
    """Closed loops side by side: states (n, T+1, ·), actions (n, T, ·), costs (n, T), totals (n,).

    A row's states are NaN after its simulation failed, and its total is infinite.
    """

    states: Array
    actions: Array
    costs: Array
    totals: Array


def closed_loops(
    task: Task,
    system: System,
    W: Array,
    starts: Array,
    *,
    disturbance: Array | None = None,
    delay: int = 0,
) -> Paths:
    """Simulate policies side by side, one call of the system for each control step.

    Parameters
    ----------
    task : Task
        The policy and the cost.
    system : System
        What is simulated.
    W : array of shape (n, d) or (1, d)
        Parameters, a row for each loop or one for all.
    starts : array of shape (n, state_size)
        First states.
    disturbance : array of shape (n, T, actions), optional
        Added to what reaches the system, and not seen by anyone.
    delay : int
        Control steps until an action reaches the system, besides the system's own.
    """
    n, T, delay = len(starts), task.horizon, delay + system.delay
    states = np.full((n, T + 1, system.state_size), np.nan)
    actions, costs = np.zeros((n, T, task.policy.actions)), np.full((n, T), np.nan)
    states[:, 0] = starts
    with np.errstate(all="ignore"):
        for t in range(T):
            x, steps = states[:, t], np.full(n, t)
            u = task.limits.clip(task.policy.act(W, task.observations(x), steps))
            actions[:, t], costs[:, t] = u, task.step_costs(x, u, steps)
            applied = actions[:, t - delay] if t >= delay else np.zeros_like(u)
            if disturbance is not None:
                applied = applied + disturbance[:, t]
            states[:, t + 1] = system.step(x, applied, steps)
        totals = costs.sum(axis=1)
        if task.final is not None:
            totals = totals + np.asarray(task.final(states[:, -1]))
    failed = ~(np.isfinite(totals) & np.isfinite(states[:, -1]).all(axis=1))
    return Paths(states, actions, costs, np.where(failed, np.inf, totals))


class Linearised(NamedTuple):
    """First derivatives along rollouts of one length, and the second ones of the cost.

    ``A, B`` are the system's, B by the action that arrives, ``delay`` steps old; ``K, J`` those of
    the action by state and parameters, ``slopes`` and ``curvature`` those of a step's cost by state
    and action; ``last`` those of the final cost.
    """

    A: Array
    B: Array
    K: Array
    J: Array
    slopes: Array
    curvature: Callable[[], tuple[Array, Array]]
    last: Array
    delay: int

    def gradient(self) -> Array:
        r"""Return the gradient of the summed cost by the adjoint equations.

        .. math:: \lambda_t = c_x + A_t^\top\lambda_{t+1} + K_t^\top q_t,\quad
                  q_t = c_u + B_{t+s}^\top\lambda_{t+s+1},\quad \nabla = \sum_t J_t^\top q_t

        with the delay s.
        """
        T, size = self.A.shape[1:3]
        costate, pulls = self.last, self.slopes[:, :, size:].copy()
        for t in reversed(range(T)):
            slope = self.slopes[:, t]
            if t >= self.delay:
                pulls[:, t - self.delay] += _pull(self.B[:, t], costate)
            costate = (
                slope[:, :size] + _pull(self.A[:, t], costate) + _pull(self.K[:, t], pulls[:, t])
            )
        return np.einsum("ntij,nti->j", self.J, pulls)

    def gauss_newton(self) -> Array:
        """Return the Hessian of the summed cost without the curvature of system and policy."""
        n, T, size = self.A.shape[:3]
        steps, last = self.curvature()
        moved, total, waiting = np.zeros((n, size, self.J.shape[3])), 0.0, []
        for t in range(T):
            acted = self.K[:, t] @ moved + self.J[:, t]
            waiting.append(acted)
            arrived = waiting[t - self.delay] if t >= self.delay else 0 * acted
            both = np.concatenate([moved, acted], axis=1)
            total = total + np.einsum("nia,nij,njb->ab", both, steps[:, t], both, optimize=True)
            moved = self.A[:, t] @ moved + self.B[:, t] @ arrived
        return np.asarray(total + np.einsum("nia,nij,njb->ab", moved, last, moved, optimize=True))


def _pull(matrices: Array, vectors: Array) -> Array:
    return np.einsum("nij,ni->nj", matrices, vectors)


def linearise(
    task: Task, system: System, w: Array, states: Array, actions: Array, *, whole: bool = True
) -> Linearised:
    """Differentiate rollouts with the system's Jacobians.

    If the system made the states, gradients are exact but for differences; on a robot's states
    they are biased by ``(J_robot − J_system)ᵀ``.

    Parameters
    ----------
    task : Task
        The policy and the cost.
    system : System
        Whose Jacobians are taken.
    w : array of shape (d,)
        Parameters.
    states, actions : arrays of shape (n, T + 1, ·) and (n, T, ·)
        The rollouts, all of one length.
    whole : bool
        Whether they reach the horizon, where the final cost is charged.
    """
    n, T, width = actions.shape
    size = states.shape[2]
    x, u = states[:, :-1].reshape(n * T, size), actions.reshape(n * T, width)
    t = np.tile(np.arange(T), n)
    arrived = delayed(actions, system.delay).reshape(n * T, width)
    A, B = system.jacobians(x, arrived, t)
    both, ends = np.hstack([x, u]), states[:, -1]

    def cost(rows: Array) -> Array:
        steps = np.tile(t, len(rows) // len(both))
        return task.step_costs(rows[:, :size], rows[:, size:], steps)

    final = task.final if task.final is not None and whole else None

    def curvature() -> tuple[Array, Array]:
        last = np.zeros((n, size, size)) if final is None else _convex_hessians(final, ends)
        return _convex_hessians(cost, both).reshape(n, T, size + width, -1), last

    seen = task.observations(x)
    J, K = task.policy.jacobians(w, seen, t)
    if task.observe is not None:
        K = K @ differences(task.observations, x)
    # A clipped action depends on nothing.
    free = ~task.limits.saturated(task.policy.act(w[None], seen, t))[:, :, None]
    return Linearised(
        A.reshape(n, T, size, size), B.reshape(n, T, size, width),
        np.where(free, K, 0.0).reshape(n, T, width, size),
        np.where(free, J, 0.0).reshape(n, T, width, -1),
        differences(cost, both).reshape(n, T, -1), curvature,
        np.zeros((n, size)) if final is None else differences(final, ends), system.delay,
    )  # fmt: skip


def delayed(actions: Array, steps: int) -> Array:
    """Return the actions that arrive, of rows of rollouts: nothing does at first."""
    return np.concatenate([np.zeros_like(actions[:, :steps]), actions], axis=1)[
        :, : actions.shape[1]
    ]


def _convex_hessians(function: Callable[[Array], Array], x: Array) -> Array:
    """Return the Hessians of rows, their negative eigenvalues left out."""
    # Two differences of one length lose all digits: the outer one's is the root of the inner's.
    hessians = differences(lambda rows: differences(function, rows), x, STEP**0.5)
    values, vectors = np.linalg.eigh((hessians + np.swapaxes(hessians, 1, 2)) / 2)
    return (vectors * np.maximum(values, 0.0)[:, None]) @ np.swapaxes(vectors, 1, 2)


def as_resets(resets: Any) -> Any:
    """Return a function ``resets(rng, n)`` as it is, and anything else as a table of states."""
    if callable(resets):
        check.require_function("resets", resets, ("rng", "n"))
        return resets
    allowed = "a function resets(rng, n) or a table of states"
    table = np.atleast_2d(np.asarray(check.real_array("resets", resets, allowed), np.float64))
    if table.ndim != 2 or not table.size:
        raise ValueError(message("resets", Words(f"shape {table.shape}"), allowed))
    return check.require_finite("resets", table)


def draw_starts(resets: Any, rng: np.random.Generator, n: int, size: int) -> Array:
    """Return n first states from ``resets(rng, n)`` or from a table of states."""
    if callable(resets):
        made = np.asarray(resets(rng, n), dtype=np.float64)
    else:
        made = resets[:n] if n <= len(resets) else resets[np.arange(n) % len(resets)]
    if made.shape != (n, size):
        got = Words(f"shape {made.shape}")
        raise ValueError(message("resets", got, f"states of shape ({n}, {size})"))
    return check.require_finite("resets", made)
