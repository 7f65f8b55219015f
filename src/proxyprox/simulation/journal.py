"""What rollouts have cost: a journal on disk that no crash loses, a ledger and limits."""

from __future__ import annotations

import io
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proxyprox._util import validation as check
from proxyprox.simulation.rollouts import (
    Array,
    RolloutBudgetError,
    RolloutError,
    RolloutRequest,
    Trajectory,
)

TABLES = """
CREATE TABLE about (task TEXT NOT NULL);
CREATE TABLE rollouts (
    id TEXT PRIMARY KEY, evaluation INTEGER NOT NULL, started INTEGER NOT NULL, w BLOB NOT NULL,
    steps INTEGER NOT NULL DEFAULT 0, seconds REAL NOT NULL DEFAULT 0,
    aborted INTEGER NOT NULL DEFAULT 0, trajectory BLOB
);
CREATE TABLE notes (name TEXT PRIMARY KEY, content BLOB NOT NULL);
PRAGMA user_version = 1;
"""


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


class RolloutJournal:
    """Every rollout that was started and every answer, in an SQLite file or in memory.

    An answer is on disk before anything uses it. A question that was answered is never asked
    again: a run that was killed is resumed without a new rollout, but for those that were under
    way.

    Parameters
    ----------
    path : path-like, optional
        The file; without one the journal lives in memory.
    task : str
        What the rollouts are of. A file of another task is refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, task: str = "") -> None:
        self._lock, self._memory = threading.RLock(), None
        self.path = None if path is None else Path(check.file_path("journal", path)).absolute()
        # Simulators leave nothing on disk; of an earlier process a checkpoint tells.
        self._simulators: list[SimulationCount] = []
        self._earlier = SimulationCount()
        if self.path is None:
            self._memory = sqlite3.connect(":memory:", check_same_thread=False)
        with self._transaction() as database:
            if not database.execute("SELECT name FROM sqlite_master").fetchall():
                for statement in TABLES.split(";")[:-1]:
                    database.execute(statement)
                database.execute("INSERT INTO about VALUES (?)", (task,))
            (known,) = database.execute("SELECT task FROM about").fetchone()
            (version,) = database.execute("PRAGMA user_version").fetchone()
        # Earlier versions numbered nothing, and the first of them stored costs that tasks computed.
        self.stores_computed_costs = version < 1
        if known != task:
            self.close()
            raise RolloutError(
                f"journal {self.path} is of another task ({known}, not {task}). Choose another."
            )

    def close(self) -> None:
        """Close a journal in memory; a file is open only while it is used."""
        if self._memory is not None:
            self._memory.close()

    def __del__(self) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Yield the database; what is done to it is on disk when the block ends, or not at all."""
        try:
            with self._lock:
                if self._memory is not None:
                    with self._memory:
                        yield self._memory
                    return
                with closing(sqlite3.connect(str(self.path), timeout=60)) as database, database:
                    database.execute("PRAGMA synchronous = EXTRA")
                    database.execute("BEGIN IMMEDIATE")
                    yield database
        except sqlite3.Error as error:
            text = f"journal {self.path} is damaged, of another kind or cannot be written ({error})"
            raise RolloutError(f"{text}. Restore a copy, or choose another file.") from error

    def start(self, request: RolloutRequest) -> None:
        """Enter that a rollout begins; one more for each attempt."""
        with self._transaction() as database:
            database.execute(
                "INSERT INTO rollouts (id, evaluation, started, w) VALUES (?, ?, 1, ?) "
                "ON CONFLICT (id) DO UPDATE SET started = started + 1",
                (request.id, int(request.evaluation), np.asarray(request.w, float).tobytes()),
            )

    def knows(self, request: RolloutRequest) -> bool:
        """Tell whether a rollout was started, with or without an answer."""
        with self._transaction() as database:
            row = database.execute("SELECT id FROM rollouts WHERE id = ?", (request.id,))
            return row.fetchone() is not None

    def answer(self, request: RolloutRequest, trajectory: Trajectory) -> None:
        """Enter an answer; a second one is refused."""
        with self._transaction() as database:
            known = database.execute(
                "SELECT trajectory IS NOT NULL FROM rollouts WHERE id = ?", (request.id,)
            ).fetchone()
            if known is None or known[0]:
                what = "was answered already" if known else "was never asked"
                raise RolloutError(
                    f"The rollout {request.id} {what}: the first answer counts. Answer each "
                    "request once, by its id."
                )
            database.execute(
                "UPDATE rollouts SET steps = ?, seconds = ?, aborted = ?, trajectory = ? "
                "WHERE id = ?",
                (len(trajectory.actions), trajectory.seconds, int(bool(trajectory.aborted)),
                 trajectory.to_bytes(), request.id),
            )  # fmt: skip

    def find(self, request: RolloutRequest) -> Trajectory | None:
        """Return the answer to a request, where there is one."""
        with self._transaction() as database:
            row = database.execute(
                "SELECT trajectory FROM rollouts WHERE id = ?", (request.id,)
            ).fetchone()
        return None if row is None or row[0] is None else Trajectory.from_bytes(row[0])

    def answered(self) -> list[tuple[Array, Trajectory]]:
        """Return the parameters and trajectories of all rollouts, evaluations left out.

        As they are stored: without the costs that are the task's to compute.
        """
        with self._transaction() as database:
            rows = database.execute(
                "SELECT w, trajectory FROM rollouts "
                "WHERE trajectory IS NOT NULL AND NOT evaluation ORDER BY rowid"
            ).fetchall()
        return [(np.frombuffer(w), Trajectory.from_bytes(data)) for w, data in rows]

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
        with self._transaction() as database:
            real = database.execute(
                "SELECT SUM(started), SUM(steps), SUM(seconds), "
                "SUM(aborted), SUM(started - (trajectory IS NOT NULL)) "
                "FROM rollouts WHERE NOT evaluation"
            ).fetchone()
            (measured,) = database.execute(
                "SELECT SUM(started) FROM rollouts WHERE evaluation"
            ).fetchone()
        rollouts, steps, seconds, aborted, lost = (part or 0 for part in real)
        simulated = [self._earlier, *self._simulators]
        return RolloutLedger(
            rollouts, steps, float(seconds), aborted, lost, measured or 0,
            sum(one.rollouts for one in simulated), sum(one.steps for one in simulated),
        )  # fmt: skip

    def empty(self) -> bool:
        """Tell whether no run has ever used it."""
        with self._transaction() as database:
            found = "SELECT EXISTS (SELECT 1 FROM rollouts) OR EXISTS (SELECT 1 FROM notes)"
            return not database.execute(found).fetchone()[0]

    def remember(self, name: str, make: Callable[[], Array]) -> Array:
        """Return an array that was made once; a resumed run gets the same bits."""
        with self._transaction() as database:
            row = database.execute("SELECT content FROM notes WHERE name = ?", (name,)).fetchone()
        if row is not None:
            return np.load(io.BytesIO(row[0]), allow_pickle=False)
        made = np.asarray(make())
        with io.BytesIO() as file:
            np.save(file, made)
            content = file.getvalue()
        with self._transaction() as database:
            database.execute("INSERT OR IGNORE INTO notes VALUES (?, ?)", (name, content))
        return made
