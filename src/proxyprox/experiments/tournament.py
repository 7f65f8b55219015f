"""Tune every entry on a grid with equal effort, then run the best of each for every seed.

Runs are independent, so they are spread over processes; each finished run is on disk before it
counts, so an interrupted tournament goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait as wait_for_any
from pathlib import Path
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

from proxyprox import __version__
from proxyprox.experiments.records import Point, RecordStore

TUNING_SEED = 1_000_000
"""Seed of the grid runs; no final run uses it, so no step size is tuned on what is shown."""


@dataclass(frozen=True)
class Entry:
    """A curve to be drawn: a method on a panel, with the step sizes to try."""

    panel: str
    method: str
    batch_size: int | None
    etas: tuple[float | None, ...]
    effort: float = 1.0


@dataclass(frozen=True)
class Job:
    """One run: an entry, a step size, a seed and a budget of target gradients."""

    panel: str
    method: str
    batch_size: int | None
    eta: float | None
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
    """Records of the final runs and the step size each entry was run with."""

    records: list[Point]
    chosen: dict[tuple[str, str], float | None]
    at_edge: list[tuple[str, str]]


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
        What is minimised by tuning, at the end of the grid runs.
    """
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
    return Outcome(final.points(), chosen, edge)


def _best(entry: Entry, grid: RecordStore, metric: str) -> float | None:
    if len(entry.etas) == 1:
        return entry.etas[0]

    def score(eta: float | None) -> float:
        key = {"panel": entry.panel, "method": entry.method, "batch_size": entry.batch_size}
        last = grid.points({**key, "eta": eta, "seed": TUNING_SEED})[-1][metric]
        return math.inf if last is None else float(last)

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
    for job, points in _results(todo, play, config, workers):
        store.append([{**job.key(), **point} for point in points])
        display.advance(job)


def _results(
    jobs: Sequence[Job], play: Play, config: Any, workers: int
) -> Iterator[tuple[Job, list[Point]]]:
    if workers == 1 or len(jobs) < 2:
        with threadpool_limits(1):
            for job in jobs:
                yield job, play(config, job)
        return
    with _pool(min(workers, len(jobs))) as pool:
        with _interrupt_held_back():
            waiting: dict[Future[list[Point]], Job] = {
                pool.submit(play, config, job): job for job in jobs
            }
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), future.result()


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Start worker processes, and end them at once when the user interrupts."""
    before = set(multiprocessing.active_children())
    # Fresh processes: forked ones would inherit the progress display's thread in mid-air.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_quiet_worker)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    pool.shutdown()


@contextlib.contextmanager
def _interrupt_held_back() -> Iterator[None]:
    """Deliver a Ctrl-C after the block; processes started inside never see one.

    A worker that is interrupted while it still imports would print a traceback of its own.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _quiet_worker() -> None:
    """One thread a worker, leave Ctrl-C to the parent, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threadpool_limits(1)


def _end_with_parent() -> None:
    # A parent killed outright cannot end its workers; they would wait for jobs for ever.
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_any([parent.sentinel])
        os._exit(1)


def cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
