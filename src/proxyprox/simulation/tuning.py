"""Tuning a policy on a robot: steps that are checked against what the robot was seen to cost."""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.arrays import Vector, all_finite, digest, dot, norm
from proxyprox._util.validation import count_words, message
from proxyprox.checkpoint import Checkpoint
from proxyprox.inner import Newton
from proxyprox.inner.base import InnerResult, NonFiniteError, Subproblem
from proxyprox.methods.base import Answers, Method, OuterStep, Request
from proxyprox.minimization import OracleError, Watcher, minimize
from proxyprox.observers import Ending
from proxyprox.oracle import Step
from proxyprox.problems import Problem
from proxyprox.result import Budget, Result, Status
from proxyprox.simulation.comparison import TUNING, Evidence, Observed
from proxyprox.simulation.objective import RolloutLedger, RolloutObjective, TrajectoryAdjoint
from proxyprox.simulation.rollouts import (
    RolloutBudgetError,
    RolloutError,
    RolloutRequest,
    Trajectory,
)
from proxyprox.simulation.simulator import Identification, SimulatorProxy
from proxyprox.stepsizes.auto import as_step_size
from proxyprox.stepsizes.base import Eta
from proxyprox.stopping import Relative, Steps

# Steps of Gauss and Newton in the simulator for each real step.
INNER_STEPS = 5


class _InUnits(Subproblem):
    """A subproblem whose distances are measured in units of the parameters."""

    def __init__(self, phi: Subproblem, units: Vector) -> None:
        super().__init__(phi.proxy, phi.linear, phi.centre, phi.eta)
        self._pulls = self.pull / units**2

    def value(self, w: Vector) -> float:
        away = w - self.centre
        model = float(self.proxy.value(w))
        return model + float(dot(self.linear, away) + dot(self._pulls * away, away) / 2)

    def gradient(self, w: Vector) -> Vector:
        return self.proxy.gradient(w) + self.linear + self._pulls * (w - self.centre)

    def hessian(self, w: Vector) -> Any:
        return self.proxy.hessian(w) + np.diag(self._pulls)


@dataclass(frozen=True)
class _NewtonInUnits(Newton):
    """Newton's method for steps whose lengths are measured in units of the parameters."""

    units: tuple[float, ...] = ()

    def solve(self, phi: Subproblem, *args: Any) -> InnerResult:
        """Solve the subproblem with distances in those units."""
        return super().solve(_InUnits(phi, np.asarray(self.units)), *args)


@dataclass(frozen=True)
class GuardedState:
    """The trial point, the point that steps start from, and the best one with its answer."""

    w: Vector
    k: int
    centre: Vector
    gradient: Vector
    value: float
    best: Vector
    best_gradient: Vector
    best_value: float
    move: Vector
    factor: float = 1.0
    start_value: float = math.nan
    start_slope: float = math.nan
    turned: list[int] = field(default_factory=list)
    reach: float = math.inf
    plain: bool = False
    bound: float = math.inf


@dataclass(frozen=True)
class GuardedProxyProx(Method):
    r"""ProxyProx whose steps are accepted or rejected by the costs that were observed.

    A trial that costs more than ``(1 + tolerance)`` times the lowest cost so far, more than three
    times what the first one did, or is not finite, is turned back: the next trial starts from the
    best point, with its gradient and a quarter of η, and is at most a quarter as far away.
    It goes along the gradient alone, as SGD does, if the one before followed the simulator, and the
    other way round; so does a trial if the simulator promises next to nothing, as at a saturated
    actuator. If all slopes are zero there, as they are if all actions are at their bounds, the last
    move is made again, twice as long. After a trial that is the cheapest so far η and the
    distance double again; after another η is halved. No step is longer than ``change``. The answer
    is the point with the lowest observed cost.

    Parameters
    ----------
    eta : float, callable or StepSize
        Step size of ProxyProx.
    change : float, optional
        The largest ``‖w − w_k‖`` of a step, in units of ``scales``; by default ``‖w0‖``, if w0 is
        not zero.
    tolerance : float
        Relative increase of the observed cost that noise may explain.
    scales : tuple of float, optional
        A typical size of each parameter, which lengths of steps and gradients are measured by.
    first : tuple of float, optional
        The first trial, in place of a step: the minimum of a simulator that was just fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import proxyprox as pp
    >>> target = pp.Quadratic(np.diag([1.0, 10.0]), b=np.array([-1.0, -1.0]))
    >>> problem = pp.Problem(target, proxy=pp.Quadratic(np.diag([1.0, 1.0])))  # a bad one
    >>> plain = pp.minimize(problem, method=pp.ProxyProx(1.0), steps=30)
    >>> guarded = pp.minimize(problem, method=GuardedProxyProx(1.0), steps=30)
    >>> plain.success, bool(target.value(guarded.w) < target.value(np.zeros(2)))
    (False, True)
    """

    eta: Eta
    change: float | None = None
    tolerance: float = 0.1
    scales: tuple[float, ...] | None = None
    first: tuple[float, ...] | None = None

    backtracks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the numbers."""
        if as_step_size(self.eta).measures:
            raise ValueError(message("eta", self.eta, "a number or a function of k"))
        if self.change is not None:
            check.positive("change", self.change)
        check.nonnegative("tolerance", self.tolerance)
        for name, given in (("scales", self.scales), ("first", self.first)):
            check.instance(name, given, (tuple, type(None)), "a tuple of numbers")
            check.require_finite(name, check.real_array(name, given or (), "numbers"))
        for scale in self.scales or ():
            check.positive("scales", scale)

    def init(self, w0: Vector, problem: Any) -> GuardedState:
        """Start at w0, of which nothing is known yet."""
        bound = self.change or self._length(w0) or math.inf
        nil = 0 * w0
        return GuardedState(w0, 0, w0, nil, math.nan, w0, nil, math.nan, nil, bound=bound)

    def ask(self, state: GuardedState) -> Request:
        """Ask for cost and gradient at the trial point."""
        return Request((state.w,), value=True)

    def tell(self, state: GuardedState, answers: Answers, step: OuterStep) -> GuardedState:
        """Accept or reject the trial, and solve for the next one."""
        gradient, value = answers.gradients[0], answers.value
        if value is None:
            raise TypeError(
                "GuardedProxyProx needs costs with gradients: value_and_gradient(w, batch), or "
                "tell(..., value=...)."
            )
        first = math.isnan(state.value)
        limit = state.best_value + self.tolerance * abs(state.best_value)
        if state.start_value > 0 and self.tolerance < TUNING.multiple:
            limit = min(limit, TUNING.multiple * state.start_value)
        good = all_finite(gradient) and math.isfinite(value) and (first or value <= limit)
        away = self._length(state.w - state.centre)
        if first:
            slope = self._slope(gradient)
            state = replace(state, start_value=value, start_slope=slope)
        if good:
            better = first or value < state.best_value
            state = replace(
                state, centre=state.w, gradient=gradient, value=value, move=state.w - state.centre,
                factor=min(1.0, 2 * state.factor) if better else state.factor / 2,
            )  # fmt: skip
            if better:
                reach = max(state.reach, 2 * away)
                state = replace(
                    state, best=state.w, best_gradient=gradient, best_value=value, reach=reach
                )
        else:
            state = replace(
                self._back(state), factor=state.factor / 4, turned=[*state.turned, state.k + 1],
                reach=TUNING.nearer * away, plain=not state.plain,
            )  # fmt: skip
        if first and self.first is not None:
            trial, factor = np.asarray(self.first), 1.0
        else:
            if self._flat(state) and not state.plain:
                state = replace(self._back(state), plain=True)
            trial, factor = self._next(state, step)
            promise = -dot(state.gradient, trial - state.centre)
            if self._flat(state):
                # Nobody knows what is there.
                state = replace(state, reach=min(state.reach, TUNING.nearer * state.bound))
                trial = state.centre + 2 * state.move
            elif state.plain or not promise > TUNING.promise * abs(state.value):
                trial = self._along_gradient(state, step)
        return replace(state, w=self._within(state, trial), k=state.k + 1, factor=factor)

    def _slope(self, gradient: Vector) -> float:
        return float(norm(gradient * self._units(gradient)))

    def _flat(self, state: GuardedState) -> bool:
        """Tell whether all slopes are zero, as they are if all actions are at their bounds."""
        return self._slope(state.gradient) < TUNING.promise * state.start_slope

    @staticmethod
    def _back(state: GuardedState) -> GuardedState:
        """Return to the best point, if steps start from another."""
        if np.array_equal(state.centre, state.best):
            return state
        return replace(
            state, centre=state.best, gradient=state.best_gradient, value=state.best_value,
            move=0 * state.move,
        )  # fmt: skip

    def _along_gradient(self, state: GuardedState, step: OuterStep) -> Vector:
        """Return a step of SGD's to half of the cost, not far beyond the simulator's curvature.

        If one over the curvature is shorter, it is the mean of both.
        """
        slope = state.gradient * self._units(state.gradient) ** 2
        fall = max(dot(state.gradient, slope), math.ulp(0.0))
        # Half of a cost means something if no cost is below zero.
        aimed = TUNING.halfway * state.value / fall if state.value > 0 else math.inf
        length = min(aimed, step.eta, math.sqrt(aimed * step.eta / TUNING.eta))
        return state.centre - length * slope

    def _within(self, state: GuardedState, trial: Vector) -> Vector:
        """Return the trial, drawn towards the centre if it is too far away."""
        most = min(state.reach, state.bound)
        away = self._length(trial - state.centre)
        return trial if away <= most else state.centre + (trial - state.centre) * (most / away)

    def _units(self, like: Vector) -> Any:
        return 1.0 if self.scales is None else np.asarray(self.scales)

    def _length(self, move: Vector) -> float:
        return float(norm(move / self._units(move)))

    def _next(self, state: GuardedState, step: OuterStep) -> tuple[Vector, float]:
        """Return the next trial point; a subproblem that is not finite gets a shorter step."""
        factor, centre = state.factor, state.centre
        linear = state.gradient - step.proxy.gradient(centre)
        while factor > np.finfo(np.float64).eps:
            try:
                return step.solve(linear, centre, step.eta * factor), factor
            except NonFiniteError:
                factor /= 4
        return centre, factor

    def answer(self, state: GuardedState) -> Vector:
        """Return the point with the lowest observed cost."""
        return state.best

    def note(self, state: GuardedState) -> str:
        """Say which steps were turned back, and what to try."""
        if not state.turned:
            return ""
        which = ", ".join(map(str, state.turned))
        text = (
            f"{len(state.turned)} of {state.k} trial policies cost too much and were turned back "
            f"(trial {which}): the next were at most a quarter as far away."
        )
        if 2 * len(state.turned) > state.k:
            text += (
                " The simulator misleads here: identify=True fits its parameters, more rollouts "
                "per gradient lower the noise, and change= keeps trials near."
            )
        return text


@dataclass(frozen=True)
class Tuned:
    """A policy that was tuned on a robot.

    SciPy's names ``x``, ``fun``, ``nfev``, ``njev``, ``nit``, ``message`` and ``success`` are those
    of ``result``; ``fun`` is the mean cost observed of the answer.

    Attributes
    ----------
    w : array
        The answer: the cheapest policy that was clearly not worse than the first one, or the first
        one where none was.
    result : Result
        How the run ended; ``result.biased`` says that gradients were.
    ledger : RolloutLedger
        What was paid.
    identification : Identification or None
        What was learnt about the simulator's parameters.
    proxy : SimulatorProxy
        The simulator, fitted where that was asked for.
    observed : str
        The observed costs of the first policy and of the answer.
    """

    w: Vector
    result: Result
    ledger: RolloutLedger
    identification: Identification | None
    proxy: Any
    observed: str = ""

    def __getattr__(self, name: str) -> Any:
        if name in ("x", "fun", "nfev", "njev", "nit", "message", "success"):
            return getattr(self.result, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __str__(self) -> str:
        parts = [str(self.result), f"  rollouts      {self.ledger}"]
        if self.observed:
            parts.append(f"  costs         {self.observed}")
        if self.identification is not None:
            parts.append(f"  identified    {self.identification}")
        return "\n".join(parts)


def tune(
    target: RolloutObjective,
    proxy: SimulatorProxy,
    w0: Vector | None = None,
    *,
    rollouts: int,
    identify: Sequence[str] | bool = False,
    eta: float | None = None,
    change: float | None = None,
    scales: Sequence[float] | None = None,
    tolerance: float = 0.1,
    rng: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: Callable[[Step], Any] | None = None,
) -> Tuned:
    """Tune a policy on a robot with the help of a simulator.

    The cheapest policy may have been cheap by luck, so it is run again. At least two rollouts that
    it was not chosen by must show, with 95 % confidence, that it costs no more than the first
    policy plus the tolerance. Before costs are compared, what the simulator predicts for the states
    that the rollouts began in is subtracted, where that halves their spread. Two fifths of the
    rollouts are kept back for this; all but two of them go to gradients where a gain is clear. If
    nothing is shown, the first policy is returned.

    Parameters
    ----------
    target : RolloutObjective
        The robot. Give it a journal on disk: with the same journal and checkpoint a killed call is
        repeated without any rollout that was finished.
    proxy : SimulatorProxy
        The simulator.
    w0 : array, optional
        Where to begin; the simulator's best policy by default.
    rollouts : int
        Answered rollouts at most, those of identification included. Rollouts that were started and
        failed come on top; ``RolloutBudget(rollouts=...)`` of the target limits all of them.
    identify : bool or list of names
        Fit the simulator's parameters (all, or these) to the first rollouts, which are those of the
        first gradient, retrain in it, from the old policy and from zero, and go on from there.
    eta : float, optional
        Step size; by default 30 over the simulator's largest curvature at the start, 10 over it
        after identification, both in units of ``scales``.
    change : float, optional
        The largest change of the policy in a step, as a norm in units of ``scales``; by default the
        norm of the first policy.
    scales : sequence of float, optional
        A typical size of each parameter, if they have different units: with them the tuning does
        not depend on the units.
    tolerance : float
        Relative increase of the observed cost that noise may explain, and by which the answer's
        cost may exceed that of the first policy.
    rng : int
        Seed of the resets.
    checkpoint : path-like, optional
        Where the run is saved after every step.
    callback : callable, optional
        Called with every step; return True to stop.

    Returns
    -------
    Tuned
        The policy, and what it took.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox.simulation import FunctionSystem, LinearPolicy, Parameter, SimulatedRobot
    >>> from proxyprox.simulation import RolloutObjective, SimulatorProxy, Task, TrajectoryAdjoint
    >>> policy = LinearPolicy(lambda x, t: x, 1, 1)
    >>> task = Task(policy, 8, lambda x, u, t: (x**2 + u**2).sum(axis=1))
    >>> def cart(gain):
    ...     parameters = {"gain": Parameter(gain, 0.1, 3.0)}
    ...     step = lambda x, u, gain: x + gain * u
    ...     return FunctionSystem(step, 1, 1, parameters=parameters)
    >>> start = np.ones((1, 1))
    >>> simulator = SimulatorProxy(task, cart(1.0), start)
    >>> robot = SimulatedRobot(cart(0.7), start)
    >>> target = RolloutObjective(task, robot, TrajectoryAdjoint(simulator, rollouts=1))
    >>> tuned = tune(target, simulator, rollouts=4, identify=True)
    >>> round(tuned.identification.estimates["gain"], 3), tuned.ledger.rollouts
    (0.7, 4)
    """
    rollouts = check.whole("rollouts", rollouts, target.estimator.rollouts)
    units = None if scales is None else tuple(check.vector("scales", scales, target.dim).tolist())
    guard = GuardedProxyProx(1.0 if eta is None else eta, change, tolerance, units)
    seed = check.whole("rng", rng, 0)
    names: list[str] = []
    if identify is not False:
        names = proxy.parameter_names("identify", None if identify is True else identify)
        if not getattr(target.robot, "shows_states", True):
            allowed = "False for a robot without states"
            raise ValueError(message("identify", identify, allowed))
    if checkpoint is not None and os.path.exists(checkpoint) and not target.ledger.rollouts:
        raise RolloutError(
            f"The checkpoint {os.fspath(checkpoint)} is there, but the journal of its rollouts is "
            "empty: they would be made again. Give the journal that it began with, or another "
            "checkpoint."
        )
    # Made once: on another machine the last bits would differ, and with them every request.
    given = None if w0 is None else check.vector("w0", w0, target.dim)
    # A journal that is used again with another cost has another start and another step size.
    about = f"{proxy.value(proxy.zeros() if given is None else given):.4g}"
    start = target.journal.remember(
        f"w0 {about}", lambda: proxy.minimum() if given is None else given
    )
    if given is not None and not np.allclose(start, given, rtol=1e-6, atol=1e-9):
        start = given
    found = None
    if identify is not False:
        made = target.collect(start, target.sample(np.random.default_rng(seed)))
        found = proxy.fit(made, names)
        proxy = found.proxy
        if isinstance(target.estimator, TrajectoryAdjoint):
            target = target.with_estimator(replace(target.estimator, simulator=proxy))

    def plan() -> Vector:
        """Return the step size, and the first trial if the simulator was fitted."""
        top = proxy.top_curvature(start, 1.0 if units is None else units)
        scale = TUNING.eta if found is None else TUNING.eta_fitted
        own = scale / top if math.isfinite(top) and top > 0 else 1.0
        return np.append(own, [] if found is None else _retrained(proxy, start))

    own, *first = target.journal.remember(
        f"plan {seed} {about} {names} {units or ''}".rstrip(), plan
    ).tolist()
    method = replace(guard, eta=own if eta is None else eta, first=tuple(first) or None)
    checks = _Checks(target, proxy, start, tolerance, rollouts, seed)
    result = minimize(
        Problem(target, proxy), start, method=method,
        inner=Newton() if units is None else _NewtonInUnits(units=units),
        stop=Steps(INNER_STEPS) | Relative(1e-2), rng=seed,
        budget=Budget(target_samples=rollouts), observers=[checks], callback=callback,
        checkpoint=None if checkpoint is None else Checkpoint(checkpoint, every_steps=1),
    )  # fmt: skip
    checks.spend(result)
    chosen, text = checks.choose(result)
    # The losses of a result are what was observed while policies were chosen: low by luck.
    fun, seen = checks.describe(chosen)
    text, ledger = f"{result.message} {text}".rstrip(), target.ledger
    if 2 * ledger.aborted > ledger.rollouts:
        text += (
            f" {ledger.aborted} of {ledger.rollouts} rollouts were aborted, and the rest of their "
            "costs is Limits.worst, which says nothing of slopes: begin at a more cautious w0, or "
            "let identify=True fit the simulator."
        )
    result = replace(result, w=chosen, fun=fun, jac=None, values=None, message=text)
    return Tuned(chosen, result, target.ledger, found, proxy, seen)


def _retrained(proxy: SimulatorProxy, start: Vector) -> Vector:
    """Return a simulator's best policy, from the start or, if that is better, from zero."""
    found = [start]
    for w in (start, proxy.zeros()):
        # A warning of the search would be of a simulator that the caller has not seen.
        with contextlib.suppress(RolloutError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(proxy.minimum(w))
    return min(found, key=proxy.value)


def observed(
    target: RolloutObjective, simulator: Any, points: Sequence[Vector], since: int | None = None
) -> list[Observed]:
    """Return the costs of policies that a robot was seen to run, evaluations left out.

    The simulator says what each rollout should have cost from where it began, and from where the
    others did. ``points`` are policies; with ``since`` all that were first run after that
    many rollouts are added.
    """
    wanted = {np.asarray(w, dtype=np.float64).tobytes() for w in points}
    rollouts: dict[bytes, list[Trajectory]] = {}
    for number, (w, one) in enumerate(target.journal.answered()):
        key = w.tobytes()
        if key in wanted or (since is not None and number >= since):
            wanted.add(key)
            rollouts.setdefault(key, []).append(target.task.checked(one))
    firsts = {key: [one.states for one in made] for key, made in rollouts.items()}
    every = [states for some in firsts.values() for states in some]
    known, found = all(states is not None for states in every), []
    for key, made in rollouts.items():
        w, expected = np.frombuffer(key), np.zeros(len(made))
        if known:
            began, all_began = (np.stack([s[0] for s in some]) for some in (firsts[key], every))
            expected = simulator.excess(w, began, all_began)
        costs = np.array([target.task.total(one) for one in made])
        found.append(Observed(w, costs, expected))
    return found


class _Checks(Watcher):
    """Keeps rollouts back, and spends them on the answer and on the start until costs tell.

    All it knows is in the journal, so that a run that was killed is repeated with the same end.
    """

    def __init__(
        self,
        target: RolloutObjective,
        proxy: SimulatorProxy,
        start: Vector,
        margin: float,
        rollouts: int,
        seed: int,
    ) -> None:
        self._target, self._proxy, self._start, self._margin = target, proxy, start, margin
        one_gradient = np.arange(target.estimator.rollouts)
        # Rollouts of the policy itself, not perturbed, in one of its gradients.
        asked = target.requests(start, one_gradient)
        self._each = sum(np.array_equal(one.w, start) for one in asked)
        kept = min(
            max(2 * TUNING.checks, 2 * (rollouts // TUNING.kept)), rollouts - 2 * len(one_gradient)
        )
        self._kept = 0 if kept < TUNING.checks else kept
        self._rollouts, self._name = rollouts, f"checks {seed} {rollouts} {digest(start)}"
        # Policies of other runs that the journal knows are not this one's answers.
        note, journal = f"{self._name} begun", target.journal
        self._begun = int(journal.remember(note, lambda: np.array(len(journal.answered()))))
        # The same for all policies: a robot that can repeat a reset runs them from one.
        self._seeds = np.random.default_rng([seed, 3]).integers(1 << 62, size=rollouts).tolist()

    def look(self) -> Ending | None:
        """End the run before a gradient whose rollouts are kept."""
        if self.run.held:
            return None
        ahead = self.run.price(self.run.open_question())["target_samples"]
        kept = self._keeps(int(self.run.ledger.target_samples + ahead))
        return Ending(Status.BUDGET_SPENT, "Limit: target_samples.") if kept else None

    def _keeps(self, rollouts: int) -> bool:
        """Tell whether no gradient may be had that makes it this many rollouts."""
        if not self._kept or rollouts <= self._rollouts - self._kept:
            return False
        if rollouts > self._rollouts - TUNING.checks:
            return True
        # Decided once: rollouts of a step that was cut short must not change it.
        note = f"{self._name} {rollouts}"
        return bool(self._target.journal.remember(note, lambda: np.array(self._unclear())))

    def _unclear(self) -> bool:
        """Tell whether some policy seems to be cheaper than the start, and none surely is."""
        evidence = self._evidence()
        seems = evidence.cheapest() is not evidence.first
        return evidence.first is None or (seems and evidence.promising() is None)

    def spend(self, result: Result) -> None:
        """Run the policy that seems the cheapest, and the start until that one is trusted."""
        if result.status is not Status.BUDGET_SPENT or not self._kept:
            return
        left = self._rollouts - int(result.ledger.target_samples)
        for _ in range(left):
            evidence = self._evidence(result.w)
            made = {self._start.tobytes(): 0, result.w.tobytes(): 0}
            made |= {one.w.tobytes(): self._made(one) for one in evidence.observed}
            answer, trusted = self._candidate(evidence, made, result), evidence.trusted()
            if np.array_equal(answer, self._start) or sum(made.values()) >= left:
                return
            number, own = made[answer.tobytes()], made[self._start.tobytes()]
            if trusted is None and number >= max(TUNING.checks, own + 1):
                answer, number = self._start, own
            try:
                self._target.repeat([answer], self._seeds[number])
            except RolloutBudgetError:
                return
            except RolloutError as error:
                text = f"{error} Repeat the call with the same journal and checkpoint."
                raise OracleError(text, result) from error

    def _candidate(self, evidence: Evidence, made: dict[bytes, int], result: Result) -> Vector:
        """Return the policy that seems the cheapest, or one as good whose check has begun."""
        cheapest = evidence.cheapest() if self._each else None
        if cheapest is None or evidence.trusted() is not None:
            return result.w if cheapest is None else cheapest.w
        limit = cheapest.mean + self._margin * abs(cheapest.mean)
        begun = [
            one for one in evidence.others
            if made[one.w.tobytes()] and (one.mean <= limit or evidence.speaks_for(one))
        ]  # fmt: skip
        return min(begun, key=lambda one: one.mean, default=cheapest).w

    def _made(self, one: Observed) -> int:
        """Return how many rollouts of a policy were made to check it."""
        if len(one.costs) <= self._each:
            return 0
        asked = (RolloutRequest(self._target.task, one.w, seed) for seed in self._seeds)
        return sum(self._target.journal.find(request) is not None for request in asked)

    def _evidence(self, *points: Vector) -> Evidence:
        since = self._begun if self._each else None
        seen = observed(self._target, self._proxy, (self._start, *points), since)
        return Evidence(seen, self._start, each=self._each, margin=self._margin)

    def choose(self, result: Result) -> tuple[Vector, str]:
        """Return the answer, and why it is the start where it is."""
        evidence = self._evidence(result.w)
        found = evidence.trusted()
        if not self._kept and evidence.spread_known:
            found = evidence.promising()
        if found is not None:
            return found.w, ""
        if evidence.cheapest() is evidence.first:
            return self._start, "No policy cost less than the first one, which is returned."
        text = "No policy was shown to be as good as the first one, which is returned: take more "
        return self._start, f"{text}rollouts, or more per gradient."

    def describe(self, chosen: Vector) -> tuple[float, str]:
        """Return the chosen policy's observed cost, and in words that of the first one, too."""
        evidence = self._evidence(chosen)
        first = evidence.first
        if first is None:
            return math.nan, ""
        answer = next((one for one in evidence.others if np.array_equal(one.w, chosen)), first)
        number = count_words(len(answer.costs), "rollout")
        text = f"{first.mean:.4g}, observed in {number}"
        if answer is not first:
            costs = f"{first.mean:.4g} → {answer.mean:.4g}"
            text = f"{costs}, observed in {len(first.costs)} and {number}"
        adjusted = ", less what the simulator says of their starts" if evidence.adjusted else ""
        return answer.mean, text + adjusted
