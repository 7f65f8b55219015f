"""The simulator as a proxy: deterministic, differentiated in batches, fitted to real rollouts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize

from proxyprox._util import validation as check
from proxyprox._util.arrays import Vector
from proxyprox._util.validation import Words, message
from proxyprox.inner import Newton
from proxyprox.inner.base import NonFiniteError, Subproblem
from proxyprox.problems.parametric import identify
from proxyprox.problems.protocols import Facts
from proxyprox.simulation.rollouts import Array, RolloutError, Task, Trajectory
from proxyprox.simulation.systems import (
    Linearised,
    Paths,
    System,
    as_resets,
    closed_loops,
    delayed,
    draw_starts,
    linearise,
)
from proxyprox.stopping import Relative, Steps

# The share of its first gradient at which the search for a minimum ends.
SMALL = 1e-6
# Stands for the value of a simulation that failed, where a solver wants a number.
LARGE = 1e300


class SimulatorProxy:
    """The mean cost of a policy over fixed resets of a simulator: a proxy.

    Resets are drawn once, so values and gradients are deterministic. Where the simulation fails
    (NaN, a warning of MuJoCo, a time that does not advance) the value is infinite and the gradient
    NaN, and inner solvers turn back.

    Parameters
    ----------
    task : Task
        Policy and cost.
    system : System
        The simulator.
    resets : callable or array
        ``resets(rng, n)`` draws first states, or a table of them.
    count : int, optional
        How many resets; by default 16, or all of a table.
    seed : int
        Of the resets.

    Notes
    -----
    A gradient costs ``2 (states + actions)`` steps of the system for each step of a rollout,
    whatever the number of parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox.simulation import FunctionSystem, LinearPolicy, Task
    >>> policy = LinearPolicy(lambda x, t: x, 1, 1)
    >>> task = Task(policy, 8, lambda x, u, t: (x**2 + u**2).sum(axis=1))
    >>> proxy = SimulatorProxy(task, FunctionSystem(lambda x, u: x + u, 1, 1), np.ones((1, 1)))
    >>> proxy.minimum().round(2)
    array([-0.62])
    """

    def __init__(
        self, task: Task, system: System, resets: Any, *, count: int | None = None, seed: int = 0
    ) -> None:
        check.instance("task", task, Task, "a Task")
        check.instance("system", system, System, "a System, such as a MuJoCoSystem")
        if task.cost is None:
            raise TypeError(message("Task.cost", None, "given for a simulator"))
        if task.policy.actions != system.action_size:
            got = Words(f"{task.policy.actions} entries")
            raise ValueError(message("actions of the policy", got, f"of {system.action_size}"))
        self.task, self.system, self.dim = task, system, task.dim
        resets = as_resets(resets)
        number = check.whole(
            "count", count if count is not None else 16 if callable(resets) else len(resets)
        )
        rng = np.random.default_rng(check.whole("seed", seed, 0))
        self.starts = draw_starts(resets, rng, number, system.state_size)
        self._paths: tuple[bytes, Paths] | None = None
        self._last: tuple[bytes, Linearised | None] | None = None

    def with_system(self, system: System) -> SimulatorProxy:
        """Return the proxy of another system: same task, same resets."""
        return SimulatorProxy(self.task, system, self.starts)

    @property
    def facts(self) -> Facts:
        """What else is known of the loss."""
        return Facts(convex=False, exact_curvature=False, start=self.zeros())

    def zeros(self) -> Vector:
        """Return the zero vector of parameters."""
        return np.zeros(self.dim)

    # -- values and gradients -----------------------------------------------------------------

    def paths(self, w: Vector) -> Paths:
        """Return the closed loops of all resets."""
        point = np.asarray(w, dtype=np.float64)
        if self._paths is None or self._paths[0] != point.tobytes():
            made = closed_loops(self.task, self.system, point[None], self.starts)
            self._paths = point.tobytes(), made
        return self._paths[1]

    def value(self, w: Vector) -> float:
        """Return the mean cost; infinite if a simulation failed."""
        return float(self.paths(w).totals.mean())

    def excess(self, w: Vector, starts: Array, among: Array) -> Array:
        """Return by how much rollouts from some states cost more than the mean over others.

        Zero where a simulation failed, or where states have another width.
        """
        both = np.concatenate([starts, among])
        if both.shape[1] != self.system.state_size:
            return np.zeros(len(starts))
        totals = closed_loops(self.task, self.system, np.asarray(w, float)[None], both).totals
        if not np.isfinite(totals).all():
            return np.zeros(len(starts))
        return totals[: len(starts)] - totals[len(starts) :].mean()

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient of the mean cost; NaN if a simulation failed."""
        along = self._linearised(w)
        return np.full(self.dim, np.nan) if along is None else along.gradient() / len(self.starts)

    def hessian(self, w: Vector) -> Array:
        """Return the Gauss–Newton Hessian of the mean cost: that of the cost along the paths."""
        along, nothing = self._linearised(w), np.full((self.dim, self.dim), np.nan)
        return nothing if along is None else along.gauss_newton() / len(self.starts)

    def _linearised(self, w: Vector) -> Linearised | None:
        """Return the derivatives along the paths of w, those of the last point kept."""
        point = np.asarray(w, dtype=np.float64)
        if self._last is None or self._last[0] != point.tobytes():
            paths, found = self.paths(point), None
            if np.isfinite(paths.totals).all():
                found = self.linearise(point, paths.states, paths.actions)
            self._last = point.tobytes(), found
        return self._last[1]

    def linearise(
        self, w: Vector, states: Array, actions: Array, *, whole: bool = True
    ) -> Linearised:
        """Return the derivatives along any paths, with this simulator's Jacobians."""
        with np.errstate(all="ignore"):
            return linearise(self.task, self.system, w, states, actions, whole=whole)

    def minimum(self, w0: Vector | None = None, steps: int = 40) -> Vector:
        """Return the simulator's best policy from w0 (zeros); a warning says if it may not be one.

        Gauss and Newton's steps lead there; where they stop at a gradient that is not small, as at
        a saturated actuator, L-BFGS goes on.
        """
        start = self.zeros() if w0 is None else check.vector("w0", w0, self.dim)
        if not math.isfinite(self.value(start)):
            remedy = "Give w0, a policy that the simulator survives."
            raise RolloutError(message("the simulator's cost at w0", math.inf, "finite", remedy))
        phi, most = Subproblem(self, 0 * start, start, math.inf), check.whole("steps", steps)
        rule, rng = Steps(most) | Relative(SMALL), np.random.default_rng(0)
        try:
            found = Newton().solve(phi, start, rule, {}, rng).w
        except NonFiniteError as error:
            raise RolloutError(f"The simulator's best policy was not found: {error}.") from error
        first, left = (float(np.linalg.norm(self.gradient(w))) for w in (start, found))
        if left > SMALL * first and most > 1:
            # L-BFGS takes an infinite value for a step that was too long.
            solved = scipy.optimize.minimize(
                lambda w: min(self.value(w), LARGE), found, method="L-BFGS-B",
                jac=lambda w: np.nan_to_num(self.gradient(w)), options={"maxiter": 10 * most},
            )  # fmt: skip
            if solved.fun < self.value(found):
                found = solved.x
                left = float(np.linalg.norm(self.gradient(found)))
        if left > math.sqrt(SMALL) * first:
            warnings.warn(
                f"The simulator's best policy was not reached in {most} steps: its gradient fell "
                f"from {first:.3g} to {left:.3g} only. Give more steps, or a better w0.",
                stacklevel=2,
            )
        return found

    def top_curvature(self, w: Vector, units: Any = 1.0) -> float:
        """Return the largest eigenvalue of the Gauss–Newton Hessian, parameters in such units."""
        sizes = np.broadcast_to(units, self.dim)
        return float(np.linalg.eigvalsh(self.hessian(w) * np.outer(sizes, sizes))[-1])

    # -- identification -----------------------------------------------------------------------

    def parameter_names(self, argument: str, names: Sequence[str] | None = None) -> list[str]:
        """Return the names of parameters that can be identified, all by default."""
        known = self.system.parameters
        if not known:
            remedy = "Give the system some: parameters={'mass': Parameter(1.0, 0.5, 2.0)}."
            allowed = "left out, because the simulator's system has no parameters to fit"
            raise ValueError(message(argument, True if names is None else names, allowed, remedy))
        allowed = f"a list of some of {', '.join(known)}"
        chosen = list(known) if names is None else check.as_list(argument, names, allowed)
        unknown = [name for name in chosen if name not in known]
        if unknown or not chosen:
            raise ValueError(message(argument, unknown or chosen, allowed))
        return chosen

    def fit(
        self,
        trajectories: Sequence[Trajectory],
        names: Sequence[str] | None = None,
        *,
        confidence: float = 0.95,
    ) -> Identification:
        """Identify physical parameters from rollouts that are paid for already.

        Each real state and action is put into the simulator, and parameters are chosen by least
        squares so that it predicts the next state; entries of the state are weighed by how well
        they can be predicted. A parameter called "delay" is a number of control steps: all within
        its bounds are tried.

        Parameters
        ----------
        trajectories : sequence of Trajectory
            With states.
        names : sequence of str, optional
            Which of the system's parameters; all by default.
        confidence : float
            Of the intervals. They are of the model's own parameters: where the model cannot
            explain the robot at any value, they do not cover what a better model would say.

        Returns
        -------
        Identification
            The estimates, their intervals, and the fitted proxy.
        """
        chosen, known = self.parameter_names("names", names), self.system.parameters
        confidence = check.below_one("confidence", confidence)
        parts = [one for one in trajectories if one.states is not None and len(one.actions)]
        if not parts or parts[0].states.shape[1] != self.system.state_size:
            allowed = f"rollouts with states of {self.system.state_size} entries"
            raise RolloutError(message("trajectories", Words(f"{len(parts)} of them"), allowed))
        before = np.concatenate([one.states[:-1] for one in parts])
        after = np.concatenate([one.states[1:] for one in parts])
        times = np.concatenate([np.arange(len(one.actions)) for one in parts])
        smooth = [name for name in chosen if name != "delay"]
        start, low, high = (
            np.array([getattr(known[name], what) for name in smooth])
            for what in ("value", "lower", "upper")
        )
        # Errors of neighbouring steps depend on each other: a rollout of T steps has T^⅔ blocks.
        numbers: list[Array] = []
        for length in (len(one.actions) for one in parts):
            first = int(numbers[-1][-1]) + 1 if numbers else 0
            numbers.append(first + np.arange(length) // math.ceil(length ** (1 / 3)))
        blocks = np.repeat(np.concatenate(numbers), before.shape[1])

        def errors(values: Mapping[str, float]) -> Array:
            system = self.system.with_parameters(values)
            arrived = [delayed(one.actions[None], system.delay)[0] for one in parts]
            made = system.step(before, np.concatenate(arrived), times)
            return np.nan_to_num(made - after, nan=1e3)

        def at(delay: float | None) -> tuple[float, dict[str, float], Any]:
            """Return how well the best of the other parameters predict, with them."""
            fixed = {} if delay is None else {"delay": float(delay)}
            best, found = {**dict(zip(smooth, start, strict=True)), **fixed}, None
            for _ in range(2 if smooth else 0):
                weights = 1 / np.maximum(errors(best).std(axis=0), 1e-12)

                def misfit(values: Array, weights: Array = weights) -> Array:
                    named = dict(zip(smooth, values, strict=True))
                    return np.asarray((errors({**named, **fixed}) * weights).ravel())

                found = identify(
                    misfit, [best[name] for name in smooth], (low, high), blocks=blocks,
                    confidence=confidence, diff_step=1e-4,
                )  # fmt: skip
                best = {**dict(zip(smooth, map(float, found.values), strict=True)), **fixed}
            missed = np.maximum((errors(best) ** 2).mean(axis=0), 1e-24)
            return float(np.log(missed).sum()), best, found

        delays: list[float | None] = [None]
        if "delay" in chosen:
            delays = [*np.arange(known["delay"].lower, known["delay"].upper + 1)]
        _, estimates, found = min(map(at, delays), key=lambda one: one[0])
        intervals = {name: (value, value) for name, value in estimates.items()}
        bounds = []
        for k, name in enumerate(smooth):
            intervals[name] = (float(max(found.low[k], low[k])), float(min(found.high[k], high[k])))
            near = 1e-3 * (high[k] - low[k])
            if min(estimates[name] - low[k], high[k] - estimates[name]) <= near:
                bounds.append(name)
        shares = [_worst_share(error, after - before) for error in (errors(estimates), errors({}))]
        proxy = self.with_system(self.system.with_parameters(estimates))
        return Identification(estimates, intervals, shares[0], proxy, tuple(bounds), shares[1])


@dataclass(frozen=True)
class Identification:
    """What rollouts say about physical parameters.

    Attributes
    ----------
    estimates : dict of float
        By name.
    intervals : dict of pairs
        Confidence intervals, by name, within the parameter's bounds; errors of a few neighbouring
        steps may depend on each other.
    unexplained : float
        Share of the changes of the state in a step that the fitted simulator does not predict: the
        sum of squared errors over the sum of squared changes, of the entry where it is largest. It
        is the robot's noise where the simulator is right, and more where something is missing.
    proxy : SimulatorProxy
        The fitted simulator.
    at_bound : tuple of str
        Parameters that ended at a bound: the bound is wrong, or they make up for something else.
    unexplained_before : float
        The share before the fit; where it is not larger, the simulator was right from the start.
    """

    estimates: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    unexplained: float
    proxy: SimulatorProxy
    at_bound: tuple[str, ...] = ()
    unexplained_before: float = math.nan

    def __str__(self) -> str:
        lines = [
            f"{name} = {self.estimates[name]:.4g} in [{low:.4g}, {high:.4g}]"
            + (" (at its bound)" if name in self.at_bound else "")
            for name, (low, high) in self.intervals.items()
        ]
        lines.append(
            f"{self.unexplained:.1%} of the state's changes in a step are not explained "
            f"({self.unexplained_before:,.1%} before the fit), nor covered by the intervals"
        )
        return "; ".join(lines)


def _worst_share(errors: Array, changes: Array) -> float:
    """Return the share of changes that are not predicted, of the entry where it is largest."""
    missed, moved = (errors**2).sum(axis=0), (changes**2).sum(axis=0)
    # An entry that never moves is explained by any simulator that does not move it.
    shares = np.where(missed > 1e-18, np.inf, 0.0)
    return float(np.divide(missed, moved, out=shares, where=moved > 0).max())
