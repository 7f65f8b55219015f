"""Tune every entry on a grid with equal effort, then run the best of each for every seed.

Jobs spread over processes, each with a pipe of its own.

Nothing is shared between workers, neither lock nor queue: whichever is ended, at whatever moment,
the others and the parent are not held up. A pool with common queues can hang when a worker is
killed while it holds the queue's lock, and an interrupted tournament kills its workers.

Tune every entry on a grid with equal effort, then run the best of each for every seed.

Runs are independent, so they are spread over processes; each finished run is on disk before it
counts, so an interrupted tournament goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import IO, Any, Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from threadpoolctl import threadpool_limits

from proxyprox import __version__
from proxyprox._util.files import locked
from proxyprox._util.signals import critical, ending_signals
from proxyprox._util.text import printable
from proxyprox.experiments.records import Point, RecordStore

J = TypeVar("J")
R = TypeVar("R")

_PATIENCE = 5.0
"""Seconds that a worker gets to end before it is killed."""


_SAME_MOMENT = 0.2
"""Seconds within which a signal reaches all processes of a group."""


class WorkerLostError(RuntimeError):
    """A worker process was ended from outside."""


class _RemoteError(Exception):
    """The traceback of an error in a worker, as its text."""


def spread(
    jobs: Sequence[J], play: Callable[[Any, J], R], config: Any, workers: int
) -> Iterator[tuple[J, R]]:
    """Yield each job with what ``play(config, job)`` returned, in the order they finish.

    Parameters
    ----------
    jobs : sequence
        What to run; begun in this order.
    play : callable
        Importable by name, as are its arguments and results.
    config : object
        Handed to every call.
    workers : int
        Number of processes. They are ended when the iteration is, however it is.

    Raises
    ------
    WorkerLostError
        When a worker is ended from outside.
    """
    # Fresh processes: forked ones would inherit the progress display's thread in mid-air.
    context: Any = multiprocessing.get_context("spawn")
    if os.name != "nt":
        # The first spawned process would start it, and starting it lets interrupts through.
        resource_tracker.ensure_running()
    # Unpacked only when the worker watches its parent: what it imports may take long.
    task = pickle.dumps((play, config))
    processes: list[Any] = []
    pipes: list[Any] = []
    todo = iter(jobs)
    finished = False
    try:
        with critical(), _not_for_children():
            for _ in range(min(workers, len(jobs))):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, task), daemon=True)
                process.start()
                theirs.close()  # the worker holds the only other end: its death is an EOF here
                processes.append(process)
                pipes.append(ours)
        busy: dict[Any, J] = {}
        for pipe in pipes:
            _hand_out(pipe, todo, busy)
        while busy:
            ready: list[Any] = wait(list(busy))
            for pipe in ready:
                job = busy.pop(pipe)
                yield job, _received(pipe)
                _hand_out(pipe, todo, busy)
        finished = True
    finally:
        with critical():
            _end(processes, pipes, gently=finished)


def _hand_out(pipe: Any, todo: Iterator[J], busy: dict[Any, J]) -> None:
    for job in todo:
        try:
            pipe.send(job)
        except OSError as error:
            raise _lost() from error
        busy[pipe] = job
        return


def _received(pipe: Any) -> Any:
    try:
        result, error, text = pipe.recv()
    except (EOFError, OSError) as lost:
        raise _lost() from lost
    if error is not None:
        raise error from _RemoteError(text)
    return result


def _lost() -> WorkerLostError:
    # What ends a whole group of processes ends this one, too: its own signal is the better news.
    time.sleep(_SAME_MOMENT)
    return WorkerLostError("a worker process was ended from outside")


def _end(processes: Sequence[Any], pipes: Sequence[Any], *, gently: bool) -> None:
    for pipe in pipes:
        pipe.close()  # an idle worker reads the end of its pipe and returns
    for process in processes:
        if not gently:
            process.terminate()
    for process in processes:
        process.join(_PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()


def _serve(pipe: Any, task: bytes) -> None:
    """Answer jobs until the pipe ends: one thread, and Ctrl-C left to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    play, config = pickle.loads(task)
    threadpool_limits(1)
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        while True:
            job = pipe.recv()
            answer: tuple[Any, Exception | None, str]
            try:
                answer = (play(config, job), None, "")
            except Exception as error:
                answer = (None, _portable(error), traceback.format_exc())
            pipe.send(answer)


def _end_with_parent() -> None:
    # A parent killed outright cannot end its workers, and a job may take long.
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _portable(error: Exception) -> Exception:
    """Return the error if it survives the pipe, else its words."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@contextlib.contextmanager
def _not_for_children() -> Iterator[None]:
    """Keep Ctrl-C from processes started inside, even while they still import.

    They would print a traceback of their own. The mask is inherited; it does not hold a Ctrl-C
    back here, where another thread may receive it.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


TUNING_SEED = 1_000_000
"""Seed of the grid runs; no final run uses it, so no step size is tuned on what is shown."""


@dataclass(frozen=True)
class Entry:
    """A curve to be drawn: a method on a panel, with the step sizes to try."""

    panel: str
    method: str
    batch_size: int | None
    etas: tuple[float | str | None, ...]
    effort: float = 1.0


@dataclass(frozen=True)
class Job:
    """One run: an entry, a step size, a seed and a budget of target gradients."""

    panel: str
    method: str
    batch_size: int | None
    eta: float | str | None
    seed: int
    budget: int
    effort: float

    def key(self) -> dict[str, Any]:
        """Return the fields that name the run in the records."""
        names = ("panel", "method", "batch_size", "eta", "seed")
        return {name: getattr(self, name) for name in names}


class Display(Protocol):
    """Something that shows how far a tournament is."""

    def begin(self, stage: str, effort: float, done: float) -> None:
        """Start a stage of so much work, some of which an earlier run has done."""

    def advance(self, job: Job) -> None:
        """Tell that a run has finished."""


@dataclass(frozen=True)
class Outcome:
    """Records of the final runs, the step size each entry was run with, and what finding it cost.

    ``tuning`` holds the target gradients of all grid runs of an entry, which its final runs do not
    count as theirs.
    """

    records: list[Point]
    chosen: dict[tuple[str, str], float | str | None]
    at_edge: list[tuple[str, str]]
    tuning: dict[tuple[str, str], int] = field(default_factory=dict)


Play = Callable[[Any, Job], list[Point]]
"""Run a job under a configuration; must be importable by name, for worker processes."""


def hold(
    entries: Sequence[Entry],
    play: Play,
    config: Any,
    *,
    folder: Path,
    seeds: int,
    tuning_budget: int,
    budget: int,
    workers: int,
    display: Display,
    metric: str = "suboptimality",
) -> Outcome:
    """Tune, run and record all entries.

    Parameters
    ----------
    entries : sequence of Entry
        What to run.
    play : callable
        ``play(config, job)`` returns the points of one run.
    config : dataclass
        Settings that the records depend on; kept with them.
    folder : Path
        Where ``grid.jsonl`` and ``records.jsonl`` go.
    seeds : int
        Final runs of each entry.
    tuning_budget, budget : int
        Target gradients of a grid run and of a final run.
    workers : int
        Processes; 1 runs everything in this one.
    display : Display
        Shown the progress.
    metric : str
        What is minimised by tuning: its median over the last third of a grid run.

    Raises
    ------
    LockedError
        When another process writes the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ending_signals(), locked(folder, again=True):
        # Another version may compute other numbers: its records are not mixed in.
        settings = {"proxyprox": __version__, **asdict(config)}
        grid = RecordStore(folder / "grid.jsonl", config=settings)
        final = RecordStore(folder / "records.jsonl", config=settings)
        tuning = [
            Job(e.panel, e.method, e.batch_size, eta, TUNING_SEED, tuning_budget, e.effort)
            for e in entries
            if len(e.etas) > 1
            for eta in e.etas
        ]
        _run_all("tuning step sizes", tuning, grid, play, config, workers, display)
        chosen = {(e.panel, e.method): _best(e, grid, metric) for e in entries}
        runs = [
            Job(e.panel, e.method, e.batch_size, chosen[e.panel, e.method], seed, budget, e.effort)
            for e in entries
            for seed in range(seeds)
        ]
        _run_all("final runs", runs, final, play, config, workers, display)
        grid.finalise(job.key() for job in tuning)
        final.finalise(job.key() for job in runs)
    edge = [
        (e.panel, e.method)
        for e in entries
        if len(e.etas) > 1 and chosen[e.panel, e.method] in (e.etas[0], e.etas[-1])
    ]
    spent = {
        (e.panel, e.method): tuning_budget * len(e.etas) if len(e.etas) > 1 else 0 for e in entries
    }
    return Outcome(final.points(), chosen, edge, spent)


def _best(entry: Entry, grid: RecordStore, metric: str) -> float | str | None:
    if len(entry.etas) == 1:
        return entry.etas[0]

    def score(eta: float | str | None) -> float:
        key = {"panel": entry.panel, "method": entry.method, "batch_size": entry.batch_size}
        points = grid.points({**key, "eta": eta, "seed": TUNING_SEED})
        # The last third, not the last point: a step size that swings is not chosen for one lucky
        # moment.
        late = [point[metric] for point in points[-max(1, len(points) // 3) :]]
        return median(math.inf if value is None else float(value) for value in late)

    return min(entry.etas, key=score)


def _run_all(
    stage: str,
    jobs: Sequence[Job],
    store: RecordStore,
    play: Play,
    config: Any,
    workers: int,
    display: Display,
) -> None:
    todo = [job for job in jobs if job.key() not in store]
    # The long ones first: a long run that starts last leaves the other core idle.
    todo.sort(key=lambda job: -job.effort * job.budget)
    total = sum(job.effort * job.budget for job in jobs)
    display.begin(stage, total, total - sum(job.effort * job.budget for job in todo))
    # Closed whatever happens: a full disk must not leave workers behind.
    with contextlib.closing(_results(todo, play, config, workers)) as results:
        for job, points in results:
            store.append([{**job.key(), **point} for point in points])
            display.advance(job)


def _results(
    jobs: Sequence[Job], play: Play, config: Any, workers: int
) -> Generator[tuple[Job, list[Point]], None, None]:
    if workers == 1 or len(jobs) < 2:
        with threadpool_limits(1):
            for job in jobs:
                yield job, play(config, job)
        return
    yield from spread(jobs, play, config, workers)


def cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LiveDisplay:
    """Progress bars on stderr; a context manager."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description:<17}", markup=False),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            # The estimate follows the last minutes: entries differ in cost.
            TimeRemainingColumn(elapsed_when_finished=True, compact=True),
            TextColumn(
                "{task.fields[last]}",
                style="dim",
                markup=False,
                table_column=Column(no_wrap=True),
            ),
            console=console,
            speed_estimate_period=120,
        )
        self._task = self._bars.add_task("starting", total=None, last="")

    def __enter__(self) -> LiveDisplay:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def begin(self, stage: str, effort: float, done: float) -> None:
        """Start a bar for the stage."""
        if self._bars.tasks[-1].description == "starting":
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(printable(stage), total=max(effort, 1e-9), last="")
        self._bars.update(self._task, completed=done)

    def advance(self, job: Job) -> None:
        """Move the bar on by the job's share of the work."""
        self._bars.update(self._task, advance=job.effort * job.budget, last=printable(job.method))
        if self._bars.tasks[-1].finished:
            self._bars.update(self._task, last="")


class LineDisplay:
    """A line for every tenth of a stage: for logs and pipes."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._stage, self._total, self._done, self._shown = "", 1.0, 0.0, 0
        self._begun, self._before = 0.0, 0.0

    def begin(self, stage: str, effort: float, done: float) -> None:
        """Announce the stage."""
        self._stage, self._total = stage, max(effort, 1e-9)
        self._done = self._before = done
        self._begun = time.monotonic()
        self._shown = self._tenths()
        if done < effort:
            self._print(f"{stage}: {self._shown * 10} % done" if done else stage)

    def advance(self, job: Job) -> None:
        """Say how far the stage is, and about how long it will take, every tenth of the way."""
        self._done += job.effort * job.budget
        if self._tenths() <= self._shown:
            return
        self._shown = self._tenths()
        spent = time.monotonic() - self._begun
        left = spent * (self._total - self._done) / (self._done - self._before)
        ahead = f", about {left:.0f} s left" if left >= 1 else ""
        self._print(f"{self._stage}: {self._shown * 10} % done{ahead}")

    def _tenths(self) -> int:
        return int(10 * self._done / self._total + 1e-9)

    def _print(self, line: str) -> None:
        self._file.write(f"{printable(line)}\n")
        self._file.flush()


class NoDisplay:
    """Shows nothing: for ``--json`` and tests."""

    def begin(self, stage: str, effort: float, done: float) -> None:
        """Show nothing."""

    def advance(self, job: Job) -> None:
        """Show nothing."""
