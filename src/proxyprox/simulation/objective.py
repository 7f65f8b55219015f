"""The robot as an objective: gradients of a policy's cost from few real rollouts."""

from __future__ import annotations

import copy
import io
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.arrays import Vector
from proxyprox._util.journal import Event, Journal
from proxyprox._util.signals import critical, ending_signals
from proxyprox._util.validation import Words, message
from proxyprox.problems.protocols import Facts
from proxyprox.simulation.robots import GymnasiumRobot, ask_robot
from proxyprox.simulation.rollouts import (
    Array,
    RobotError,
    RolloutBudgetError,
    RolloutError,
    RolloutRequest,
    Task,
    Trajectory,
)

REMEDY = (
    "Gradients through a simulator need the full state: GymnasiumRobot(env, state=...), or "
    "Trajectory(states=...) with your estimate of it."
)


@dataclass(frozen=True)
class RolloutLedger:
    """Counts of what a robot has done.

    Attributes
    ----------
    rollouts : int
        Real rollouts that were started, those without an answer included, evaluations not.
    steps : int
        Their control steps.
    seconds : float
        Their seconds, as the robot tells them.
    aborted : int
        Those of them that ended early.
    unanswered : int
        Those that were started and never answered: the robot or this process died.
    evaluations : int
        Real rollouts that only measured.
    """

    rollouts: int = 0
    steps: int = 0
    seconds: float = 0.0
    aborted: int = 0
    unanswered: int = 0
    evaluations: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{name} {count:,.6g}" for name, count in asdict(self).items() if count)


@dataclass(frozen=True)
class RolloutBudget:
    """Limits on the columns of a :class:`RolloutLedger`.

    All are checked before a rollout starts; evaluations do not count. Rollouts and their steps are
    known ahead, so those limits are never exceeded; of seconds and aborted ones the rollout that
    reaches the limit is the last. A rollout counts when it starts, answered or not.

    Examples
    --------
    >>> RolloutBudget(rollouts=20, aborted=2).rollouts
    20
    """

    rollouts: int | None = None
    steps: int | None = None
    seconds: float | None = None
    aborted: int | None = None

    def __post_init__(self) -> None:
        """Check that each is positive."""
        for name, limit in vars(self).items():
            if limit is not None:
                check.positive(f"RolloutBudget.{name}", limit, "Leave it out for no limit.")

    def require(self, ledger: RolloutLedger, ahead: dict[str, int]) -> None:
        """Refuse what would exceed a limit."""
        for name, limit in vars(self).items():
            if limit is None:
                continue
            used, coming = getattr(ledger, name), ahead.get(name, 0)
            if used + coming > limit or (not coming and used >= limit):
                raise RolloutBudgetError(
                    f"The budget of {name} is spent: {used:g} of {limit:g}, and the next rollout "
                    f"takes {coming or 'more'}. Nothing was started."
                )


@dataclass
class _Rollout:
    """One question of the journal: the events of its attempts and of its answer."""

    evaluation: bool
    started: list[int] = field(default_factory=list)
    answer: int | None = None
    steps: int = 0
    seconds: float = 0.0
    aborted: bool = False


class RolloutJournal:
    """Every rollout that was started and every answer, in an SQLite file or in memory.

    An answer is on disk before anything uses it. A question that was answered is never asked
    again: a run that was killed is resumed without a new rollout, but for those that were under
    way. A file that is damaged is refused; one that was put back from an older copy is not noticed.

    Parameters
    ----------
    path : path-like, optional
        The file; without one the journal lives in memory.
    task : str
        What the rollouts are of. A file of another task is refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, task: str = "") -> None:
        self.path = None if path is None else Path(check.file_path("journal", path)).absolute()
        self._rollouts: dict[str, _Rollout] = {}
        self._notes: dict[str, int] = {}
        self._task = ""
        first = [Event("task", content={"task": task})]
        self._journal = Journal(
            self.path, "rollout journal", RolloutError, self._replay, first=first
        )
        if self._task != task:
            text = f"journal {self.path} is of another task ({self._task}, not {task})"
            raise RolloutError(f"{text}. Choose another.")

    def _replay(self, event: Event) -> None:
        content = event.content
        match event.kind:
            case "task":
                self._task = content["task"]
            case "start":
                one = self._rollouts.setdefault(event.key, _Rollout(content["evaluation"]))
                one.started = [*dict.fromkeys([*one.started, event.number])]
            case "answer":
                one, one.answer = self._rollouts[event.key], event.number
                one.steps, one.seconds = content["steps"], content["seconds"]
                one.aborted = content["aborted"]
            case "note":
                self._notes.setdefault(event.key, event.number)
            case _:
                raise ValueError(event.kind)

    def start(self, request: RolloutRequest) -> None:
        """Enter that a rollout begins; one more for each attempt."""
        w = np.asarray(request.w, float).tobytes()
        with self._journal.transaction() as append:
            append("start", request.id, {"evaluation": bool(request.evaluation)}, w)

    def knows(self, request: RolloutRequest) -> bool:
        """Tell whether a rollout was started, with or without an answer."""
        with self._journal.transaction():
            return request.id in self._rollouts

    def answer(self, request: RolloutRequest, trajectory: Trajectory) -> None:
        """Enter an answer; a second one is refused."""
        content = {"steps": len(trajectory.actions), "seconds": float(trajectory.seconds)}
        content["aborted"] = bool(trajectory.aborted)
        with self._journal.transaction() as append:
            known = self._rollouts.get(request.id)
            if known is None or known.answer is not None:
                what = "was answered already" if known else "was never asked"
                raise RolloutError(
                    f"The rollout {request.id} {what}: the first answer counts. Answer each "
                    "request once, by its id."
                )
            append("answer", request.id, content, trajectory.to_bytes(), known.started[-1])

    def find(self, request: RolloutRequest) -> Trajectory | None:
        """Return the answer to a request, if there is one."""
        with self._journal.transaction():
            known = self._rollouts.get(request.id)
            if known is None or known.answer is None:
                return None
            return Trajectory.from_bytes(self._data([known.answer])[0])

    def answered(self) -> list[tuple[Array, Trajectory]]:
        """Return the parameters and trajectories of all rollouts, evaluations left out.

        As they are stored: without the costs that are the task's to compute.
        """
        with self._journal.transaction():
            kept = [one for one in self._rollouts.values() if one.answer and not one.evaluation]
            points = self._data([one.started[0] for one in kept])
            answers = self._data([one.answer or 0 for one in kept])
        pairs = zip(points, answers, strict=True)
        return [(np.frombuffer(w), Trajectory.from_bytes(data)) for w, data in pairs]

    def _data(self, numbers: list[int]) -> list[bytes]:
        return [event.data or b"" for event in self._journal.read(numbers)]

    def ledger(self) -> RolloutLedger:
        """Return what was paid."""
        with self._journal.transaction():
            real = [one for one in self._rollouts.values() if not one.evaluation]
            measured = [one for one in self._rollouts.values() if one.evaluation]
        asked = sum(len(one.started) for one in real)
        answered = sum(one.answer is not None for one in real)
        return RolloutLedger(
            asked, sum(one.steps for one in real), sum((one.seconds for one in real), 0.0),
            sum(one.aborted for one in real), asked - answered,
            sum(len(one.started) for one in measured),
        )  # fmt: skip

    def remember(self, name: str, make: Callable[[], Array]) -> Array:
        """Return an array that was made once; a resumed run gets the same bits."""
        with self._journal.transaction():
            known = self._data([self._notes[name]]) if name in self._notes else []
        if known:
            return np.load(io.BytesIO(known[0]), allow_pickle=False)
        with io.BytesIO() as file:
            np.save(file, np.asarray(make()), allow_pickle=False)
            content = file.getvalue()
        with self._journal.transaction() as append:
            if name not in self._notes:
                append("note", name, data=content)
        return self.remember(name, make)


Requests = Sequence[RolloutRequest]
Answers = Sequence[Trajectory]


@dataclass(frozen=True)
class TrajectoryAdjoint:
    """Real states and actions, the simulator's Jacobians: a gradient from a single rollout.

    Biased by ``(J_robot − J_simulator)ᵀ``, which is zero if the simulator is right. No theorem
    of the paper covers it; results say ``biased``. It needs the full state of the robot, or an
    estimate of it.

    Parameters
    ----------
    simulator : SimulatorProxy
        Whose Jacobians are taken.
    rollouts : int
        Rollouts of a gradient.

    Examples
    --------
    >>> TrajectoryAdjoint.biased
    True
    """

    simulator: Any
    rollouts: int = 2
    biased: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the parts."""
        check.whole("rollouts", self.rollouts)
        if not hasattr(self.simulator, "system"):
            raise TypeError(message("simulator", self.simulator, "a SimulatorProxy"))

    def requests(self, task: Task, w: Array, seeds: Array) -> list[RolloutRequest]:
        """Return the policy itself, with other resets each."""
        return [RolloutRequest(task, w, int(seed)) for seed in seeds]

    def gradient(self, task: Task, w: Array, requests: Requests, answers: Answers) -> Array:
        """Return the mean over rollouts; steps that were never taken have no gradient."""
        total = np.zeros(task.dim)
        for one in answers:
            if one.states is None:
                allowed = f"of {self.state_size} entries, as the simulator's"
                raise RolloutError(message("states of a rollout", None, allowed, REMEDY))
            if len(one.actions):
                states, actions = one.states[None], one.actions[None]
                whole = len(one.actions) == task.horizon
                total += self.simulator.linearise(w, states, actions, whole=whole).gradient()
        return total / len(answers)

    @property
    def state_size(self) -> int:
        """Entries that a robot's states must have."""
        return int(self.simulator.system.state_size)


class Evaluation(NamedTuple):
    """A cost that was measured on the robot: mean, standard error, and the share that aborted."""

    mean: float
    error: float
    aborted: float


class RolloutObjective:
    r"""The mean cost of a policy's rollouts on a robot: an objective for any method.

    ``sample`` draws seeds alone; ``gradient`` has the rollouts made. Each rollout is entered in the
    journal when it starts and when it ends, and what is in the journal is never asked of the robot
    again.

    Parameters
    ----------
    task : Task
        Policy, cost and limits.
    robot : callable, gymnasium.Env or None
        ``robot(request)`` returns a :class:`Trajectory`; a gymnasium environment becomes a
        :class:`GymnasiumRobot`. With ``batch(requests)`` several are made at once. None for a
        robot that is asked and told by hand: :meth:`outstanding` and :meth:`record`.
    estimator : Antithetic or TrajectoryAdjoint
        How rollouts become a gradient.
    journal : path-like or RolloutJournal, optional
        A file that a killed run is resumed from; in memory by default.
    budget : RolloutBudget, optional
        Limits, checked before every rollout; started ones count, whether they were answered or not.
    timeout : float, optional
        Seconds for one rollout; a ``batch`` of n has n times as many. A robot that takes longer
        raises :class:`RobotError`: the rollout counts as started, its late answer is dropped, its
        request acts no longer (``request.act`` raises), and it is asked for again when the run is
        repeated. The robot is then called in a thread. By default one waits as long as it takes.

    Examples
    --------
    >>> import numpy as np
    >>> import proxyprox as pp
    >>> from proxyprox.simulation import FunctionSystem, LinearPolicy, SimulatedRobot
    >>> from proxyprox.simulation import SimulatorProxy, Task
    >>> policy = LinearPolicy(lambda x, t: x, 1, 1)
    >>> task = Task(policy, 8, lambda x, u, t: (x**2 + u**2).sum(axis=1))
    >>> start = np.ones((1, 1))
    >>> simulator = SimulatorProxy(task, FunctionSystem(lambda x, u: x + u, 1, 1), start)
    >>> robot = SimulatedRobot(FunctionSystem(lambda x, u: x + 0.8 * u, 1, 1), start)
    >>> target = RolloutObjective(task, robot, TrajectoryAdjoint(simulator, rollouts=1))
    >>> problem = pp.Problem(target, simulator)
    >>> result = pp.minimize(problem, simulator.minimum(), method=pp.ProxyProx(1.0), steps=4)
    >>> result.biased, target.ledger.rollouts
    (True, 4)
    """

    exact: ClassVar[bool] = False

    def __init__(
        self,
        task: Task,
        robot: Any,
        estimator: Any,
        *,
        journal: Any = None,
        budget: RolloutBudget | None = None,
        timeout: float | None = None,
    ) -> None:
        check.instance("task", task, Task, "a Task")
        if robot is not None and not callable(robot) and hasattr(robot, "step"):
            robot = GymnasiumRobot(robot)
        if isinstance(robot, type) or (robot is not None and not callable(robot)):
            allowed = "callable as robot(request), a gymnasium environment, or None"
            raise TypeError(message("robot", robot, allowed))
        if isinstance(estimator, type) or not hasattr(estimator, "requests"):
            allowed = "an estimator, such as TrajectoryAdjoint(simulator)"
            raise TypeError(message("estimator", estimator, allowed))
        check.instance("budget", budget, (RolloutBudget, type(None)), "a RolloutBudget")
        if getattr(estimator, "state_size", None) and not getattr(robot, "shows_states", True):
            allowed = "one that shows its full state"
            raise RolloutError(message("robot", Words("one without states"), allowed, REMEDY))
        self.task, self.robot, self.estimator, self.budget = task, robot, estimator, budget
        self.dim = task.dim
        self.timeout = None if timeout is None else check.positive("timeout", timeout)
        about = f"{task.dim} parameters, {task.policy.actions} actions, {task.horizon} steps"
        own = isinstance(journal, RolloutJournal)
        self.journal = journal if own else RolloutJournal(journal, about)

    def with_estimator(self, estimator: Any) -> RolloutObjective:
        """Return the same robot and journal with another estimator."""
        other = copy.copy(self)
        other.estimator = estimator
        return other

    # -- what a run asks ----------------------------------------------------------------------

    @property
    def biased(self) -> bool:
        """Whether gradients are known not to be those of the cost, even on average."""
        return bool(self.estimator.biased)

    @property
    def repeatable(self) -> bool:
        """Whether a batch may be evaluated at a second point with the same randomness."""
        return bool(getattr(self.robot, "repeatable", False))

    @property
    def facts(self) -> Facts:
        """What else is known of the loss."""
        refuses = {}
        if not self.repeatable:
            once = "a robot cannot repeat a rollout with the same noise"
            refuses["measured step sizes"] = f'eta="auto" compares two points on one batch: {once}'
        elif self.biased:
            reason = "the gradient is biased, and what is measured of it is not the robot's"
            refuses["measured step sizes"] = f"{reason}; name an eta"
        return Facts(
            biased=self.biased, gradient_source=self.gradient_source, refuses=refuses,
            start=self.zeros(), memory=self,
        )  # fmt: skip

    @property
    def gradient_source(self) -> str:
        """How gradients are made, for results."""
        text = f"{type(self.estimator).__name__}, {self.estimator.rollouts} rollouts each"
        return f"{text}, BIASED: the simulator's Jacobians" if self.biased else text

    @property
    def evaluations(self) -> int:
        """Real rollouts so far, evaluations left out."""
        return self.journal.ledger().rollouts

    def zeros(self) -> Vector:
        """Return the zero vector of parameters."""
        return np.zeros(self.dim)

    def sample(self, rng: np.random.Generator) -> Array:
        """Return the seeds of one gradient's rollouts."""
        return rng.integers(1 << 62, size=self.estimator.rollouts)

    def samples(self, batch: Array) -> int:
        """Return the rollouts of a batch."""
        return len(batch)

    def gradient(self, w: Vector, batch: Array) -> Vector:
        """Return the estimate of ∇L(w) from a batch's rollouts."""
        return self.value_and_gradient(w, batch)[1]

    def value_and_gradient(self, w: Vector, batch: Array) -> tuple[float, Vector]:
        """Return the mean cost of a batch's rollouts, and their gradient."""
        return self.gradient_from(w, batch, self.collect(w, batch))

    def gradient_from(
        self, w: Vector, batch: Array, observations: Sequence[Trajectory]
    ) -> tuple[float, Vector]:
        """Return the mean cost and the gradient of rollouts that were told, as they were asked.

        An aborted rollout is never left out of the mean.
        """
        size = getattr(self.estimator, "state_size", None)
        answers = [self.task.checked(one, size) for one in observations]
        if len(answers) != len(batch):
            got = Words(f"{len(answers)} rollouts")
            raise RolloutError(message("observations", got, f"{len(batch)}, one for each request"))
        cost = float(np.mean([self.task.total(one) for one in answers]))
        requests, point = self.requests(w, batch), np.asarray(w, dtype=np.float64)
        return cost, np.asarray(self.estimator.gradient(self.task, point, requests, answers))

    # -- rollouts -----------------------------------------------------------------------------

    def requests(self, w: Vector, batch: Array) -> list[RolloutRequest]:
        """Return what the robot is asked for a gradient at w: a list of perturbed policies."""
        point = np.asarray(w, dtype=np.float64)
        check.require_finite("w", point)
        return list(self.estimator.requests(self.task, point, batch))

    def outstanding(self, w: Vector, batch: Array) -> list[RolloutRequest]:
        """Return the requests that have no answer yet; a robot that was silent is asked again."""
        return [one for one in self.requests(w, batch) if self._find(one) is None]

    def record(self, request: RolloutRequest, trajectory: Trajectory) -> None:
        """Enter a robot's answer; a second one to the same request is refused.

        Raises
        ------
        RolloutError
            If it cannot be used. The rollout counts as started, and may be repeated.
        """
        check.instance("request", request, RolloutRequest, "a RolloutRequest of outstanding()")
        if not self.journal.knows(request):
            self.begin(request)
        self._keep(request, trajectory)

    def _keep(self, request: RolloutRequest, given: Any) -> Trajectory:
        """Enter an answer and return it with its costs; states of another width are refused."""
        # Costs that the task computes are computed again when they are read: they may change.
        plain = self.task.readable(given, getattr(self.estimator, "state_size", None))
        try:
            kept = self.task.priced(plain)
            self.task.total(kept)
        except Exception as error:
            # The robot did its part: what the task lacks can be given later.
            self.journal.answer(request, plain)
            text = str(error)
            if not isinstance(error, RolloutError):
                text = f"A function of the task raised {type(error).__name__}: {text}".rstrip(".")
                text += "."
            remedy = "The rollout is kept: correct the task and repeat the run."
            raise RolloutError(f"{text} {remedy}") from error
        self.journal.answer(request, plain)
        worst, dearest = self.task.limits.worst, max(kept.costs, default=-math.inf)
        if worst is not None and dearest > worst:
            warnings.warn(
                f"Limits.worst is {worst:g}, but a step of a rollout cost {dearest:g}: rollouts "
                "that are aborted look cheaper than they are. Raise it.",
                stacklevel=2,
            )
        return kept

    def _find(self, request: RolloutRequest) -> Trajectory | None:
        """Return the answer that the journal has, with the costs of the task as it is now."""
        found = self.journal.find(request)
        return None if found is None else self.task.checked(found)

    def begin(self, request: RolloutRequest) -> None:
        """Enter that a rollout begins, if the budget allows it; again for each attempt."""
        if self.budget is not None and not request.evaluation:
            self.budget.require(self.ledger, {"rollouts": 1, "steps": self.task.horizon})
        self.journal.start(request)

    def collect(self, w: Vector, batch: Array) -> list[Trajectory]:
        """Return a batch's rollouts; those that the journal does not have are made now."""
        return self._make(self.requests(w, batch))

    def _make(self, requests: Sequence[RolloutRequest]) -> list[Trajectory]:
        """Return the rollouts of requests, new ones from the robot."""
        found = {request.id: self._find(request) for request in requests}
        # A batch may name a seed twice; it is one rollout.
        new = list({one.id: one for one in requests if found[one.id] is None}.values())
        if new and self.robot is None:
            raise RobotError(
                "robot=None: there is nothing to ask. Answer the outstanding requests by record(), "
                "or give RolloutObjective a robot."
            )
        whole = hasattr(self.robot, "batch")
        for group in [new] if whole and new else [[request] for request in new]:
            begun: list[RolloutRequest] = []
            spent: RolloutBudgetError | None = None
            for request in group:
                try:
                    self.begin(request)
                except RolloutBudgetError as error:
                    spent = error
                    break
                begun.append(request)
            found |= self._ask(begun)
            if spent is not None:
                raise spent
        return [one for request in requests if (one := found[request.id]) is not None]

    def _ask(self, group: Sequence[RolloutRequest]) -> dict[str, Trajectory]:
        """Have rollouts made; all answers that can be used are entered before one is refused."""
        kept: dict[str, Trajectory] = {}
        refused: list[RolloutError] = []
        answers = ask_robot(self.robot, group, self.timeout) if group else ()
        for request, one in zip_longest(group, answers):
            if request is None:
                allowed = f"{len(group)} trajectories"
                refused.append(RolloutError(message("the robot's answer", Words("more"), allowed)))
                break
            try:
                with ending_signals(), critical():  # the answer is paid for
                    kept[request.id] = self._keep(request, one)
            except RolloutError as error:
                refused.append(error)
        if refused:
            if len(group) == 1:
                raise refused[0]
            text = f"{refused[0]} {len(refused)} of {len(group)} answers cannot be used"
            raise RolloutError(f"{text}; the others are kept.") from refused[0]
        return kept

    def evaluate(self, w: Vector, rollouts: int, seed: int = 0) -> Evaluation:
        """Measure the cost of a policy on the robot; in its own column of the ledger.

        Parameters
        ----------
        w : array
            The policy.
        rollouts : int
            How many.
        seed : int
            Of their resets; those of gradients are never the same.
        """
        rng = np.random.default_rng([check.whole("seed", seed, 0), 1])
        seeds = rng.integers(1 << 62, size=check.whole("rollouts", rollouts))
        point = np.asarray(w, dtype=np.float64)
        answers = self._make(
            [RolloutRequest(self.task, point, int(one), evaluation=True) for one in seeds]
        )
        costs = np.array([self.task.total(one) for one in answers])
        error = float(costs.std(ddof=1) / math.sqrt(len(costs))) if len(costs) > 1 else math.nan
        return Evaluation(
            float(costs.mean()), error, float(np.mean([bool(a.aborted) for a in answers]))
        )

    def repeat(self, points: Sequence[Vector], seed: int) -> None:
        """Have several policies run on one seed: a robot that repeats resets runs all from one."""
        self._make([RolloutRequest(self.task, np.asarray(w, float), int(seed)) for w in points])

    # -- what was spent -----------------------------------------------------------------------

    @property
    def ledger(self) -> RolloutLedger:
        """What the robot has done, for an earlier process as well."""
        return self.journal.ledger()

    def trajectories(self) -> list[Trajectory]:
        """Return all rollouts that were paid for, for :meth:`SimulatorProxy.fit`."""
        return [self.task.checked(one) for _, one in self.journal.answered()]

    def __repr__(self) -> str:
        return f"RolloutObjective({self.gradient_source})"

    def state_dict(self) -> dict[str, Any]:
        """Return how much the journal must hold."""
        return {"rollouts": self.ledger.rollouts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume; a journal that lacks rollouts of the saved run is refused."""
        if self.journal.ledger().rollouts < state["rollouts"]:
            raise RolloutError(
                f"The saved run had made {state['rollouts']} rollouts, the journal has "
                f"{self.journal.ledger().rollouts}: they would be made again. Give the journal "
                "that it began with."
            )
