"""What rollouts have cost: a journal on disk that no crash loses, a ledger and limits."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from proxyprox._util import validation as check
from proxyprox._util.journal import Event, Journal
from proxyprox.simulation.rollouts import (
    Array,
    RolloutBudgetError,
    RolloutError,
    RolloutRequest,
    Trajectory,
)


@dataclass(frozen=True)
class RolloutLedger:
    """Counts of what a robot and its simulators have done.

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
    simulated : int
        Simulated rollouts: all that the estimator's simulator, the proxy of :func:`tune` and the
        simulators made from them (fitted, randomised) have made, each once. A run that is resumed
        goes on from the count of its checkpoint.
    simulated_steps : int
        Their control steps, those of Jacobians and of fits included.
    """

    rollouts: int = 0
    steps: int = 0
    seconds: float = 0.0
    aborted: int = 0
    unanswered: int = 0
    evaluations: int = 0
    simulated: int = 0
    simulated_steps: int = 0

    def as_dict(self) -> dict[str, float]:
        """Return the counts as a plain dictionary."""
        return asdict(self)

    def __str__(self) -> str:
        return ", ".join(f"{name} {count:,.6g}" for name, count in asdict(self).items() if count)


@dataclass
class SimulationCount:
    """What a simulator and all that were made from it have done."""

    rollouts: int = 0
    steps: int = 0

    def add(self, rollouts: int, steps: int) -> None:
        """Enter what is about to be simulated."""
        self.rollouts += rollouts
        self.steps += steps


@dataclass(frozen=True)
class RolloutBudget:
    """Limits on the columns of a :class:`RolloutLedger`.

    All are checked when a real rollout starts, and only then. Real rollouts, their steps and
    evaluations are known ahead, so those limits are never exceeded; of seconds and aborted ones the
    rollout that reaches the limit is the last. What is simulated between two real rollouts (the
    simulator's own minimum, a fit, an inner solve) is finished however much it takes: limits on
    simulated ones stop the next real rollout, not a simulation. A rollout counts when it starts,
    whether it is answered or not.

    Examples
    --------
    >>> RolloutBudget(rollouts=20, aborted=2).rollouts
    20
    """

    rollouts: int | None = None
    steps: int | None = None
    seconds: float | None = None
    aborted: int | None = None
    evaluations: int | None = None
    simulated: int | None = None
    simulated_steps: int | None = None

    def __post_init__(self) -> None:
        """Check that each is positive."""
        for name, limit in vars(self).items():
            if limit is not None:
                check.positive(f"RolloutBudget.{name}", limit, "Leave it out for no limit.")

    def require(self, ledger: RolloutLedger, ahead: dict[str, int]) -> None:
        """Refuse what would exceed a limit."""
        for name, limit in vars(self).items():
            measuring = "evaluations" in ahead and name in ("rollouts", "steps", "seconds")
            if limit is None or measuring:
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

    @property
    def unanswered(self) -> int:
        return len(self.started) - (self.answer is not None)


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
        # Simulators leave nothing on disk; of an earlier process a checkpoint tells.
        self._simulators: list[SimulationCount] = []
        self._earlier = SimulationCount()
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

    def watch(self, count: SimulationCount) -> None:
        """Have the ledger count what a simulator does; twice is once."""
        if not any(count is known for known in self._simulators):
            self._simulators.append(count)

    def resume_simulated(self, rollouts: int, steps: int) -> None:
        """Count on from what an earlier process has simulated; what is repeated counts once."""
        now = self.ledger()
        self._earlier.add(max(0, rollouts - now.simulated), max(0, steps - now.simulated_steps))

    def ledger(self) -> RolloutLedger:
        """Return what was paid, and what the simulators that are watched have done."""
        with self._journal.transaction():
            real = [one for one in self._rollouts.values() if not one.evaluation]
            measured = [one for one in self._rollouts.values() if one.evaluation]
        simulated = [self._earlier, *self._simulators]
        return RolloutLedger(
            sum(len(one.started) for one in real), sum(one.steps for one in real),
            sum((one.seconds for one in real), 0.0), sum(one.aborted for one in real),
            sum(one.unanswered for one in real), sum(len(one.started) for one in measured),
            sum(one.rollouts for one in simulated), sum(one.steps for one in simulated),
        )  # fmt: skip

    def empty(self) -> bool:
        """Tell whether no run has ever used it."""
        with self._journal.transaction():
            return not (self._rollouts or self._notes)

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
