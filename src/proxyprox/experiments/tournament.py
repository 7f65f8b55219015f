"""Tune every entry on a grid with equal effort, then run the best of each for every seed.

Runs are independent, so they are spread over processes; each finished run is on disk before it
counts, so an interrupted tournament goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

from proxyprox import __version__
from proxyprox._files import locked
from proxyprox._signals import ending_signals
from proxyprox.experiments._workers import spread
from proxyprox.experiments.records import Point, RecordStore

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
