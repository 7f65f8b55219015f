"""Compare methods: tune each step size with equal effort, then run the best for every seed.

Runs are independent, so they are spread over processes; each finished run is on disk before it
counts, so an interrupted comparison resumes where it stopped.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.report.summary import Point
from experiments.runs import Records
from proxyprox import Budget, Problem, Status, __version__, minimize
from proxyprox._util.arrays import Vector
from proxyprox._util.signals import critical, ending_signals
from proxyprox.inner.exact import minimise_exactly
from proxyprox.oracle import Step
from proxyprox.stepsizes import as_step_size

ERM = "ERM on the rows seen"
"""The baseline without a proxy: fit the rows bought so far."""

BASELINES = ("SGD", "gradient descent", "heavy ball", "Nesterov", "Adam")
"""Methods without a proxy; the one that ends lowest is what others are compared with."""

LEDGER_FIELDS = (
    "target_samples",
    "proxy_gradients",
    "proxy_values",
    "proxy_hvps",
    "proxy_hessians",
    "seconds",
)
"""What a point carries of the ledger, besides the target gradients."""

ON_STEP_SIZE = "step_size_gradients"
"""Of the target gradients, those that ``eta="auto"`` spent on the step size alone."""

# Step sizes tried for each method.
GRID = 9
# Seed of the grid runs; no final run uses it, so no step size is tuned on what is shown.
TUNING_SEED = 1_000_000

Eta = float | str | None


@dataclass(frozen=True)
class Candidate:
    """A method up to its step size.

    Attributes
    ----------
    name : str
        As in the figures.
    build : callable
        Returns the arguments of ``minimize`` for a step size; None for :data:`ERM`.
    lowest : float
        First value of the grid, in units of 1/H.
    ratio : float
        Factor between neighbours of the grid.
    effort : float
        Rough cost of a step, for the estimate of the time left.
    """

    name: str
    build: Callable[[Any], dict[str, Any]] | None
    lowest: float
    ratio: float
    effort: float

    def etas(self, smoothness: float) -> tuple[Eta, ...]:
        """Return the step sizes to try for an H-smooth objective."""
        if self.build is None:
            return (None,)
        return tuple(self.lowest * self.ratio**j / smoothness for j in range(GRID))


# Empirical risk minimisation on the rows seen: nothing to tune, no proxy.
ROWS_SEEN = Candidate(ERM, None, math.nan, math.nan, 0.3)


class Answer(NamedTuple):
    """The answer of a run, and how it ended."""

    w: Vector
    success: bool
    message: str
    target_gradients: int
    inner: str


def evaluation_points(budget: int, points: int = 50) -> list[int]:
    """Return the numbers of target gradients at which a run is measured, from 0 to the budget."""
    return sorted({round(budget * j / points) for j in range(points + 1)})


def run_candidate(
    candidate: Candidate,
    eta: Eta,
    problem: Problem,
    *,
    optimum: float,
    budget: Budget,
    seed: Any,
    at: Sequence[int],
) -> tuple[list[Point], Answer]:
    """Run a method within a budget, and measure it at these numbers of target gradients.

    At each of them the answer is the last one paid for by then: a method that spends two gradients
    a step is not helped by the rounding. If something else than target gradients ends the run,
    the points ahead repeat its answer.

    Returns
    -------
    points : list of dict
        With ``eta="auto"`` each also says how many of the target gradients so far were for the
        step size alone.
    answer : Answer
        The answer of the run, and how it ended.
    """
    curve = _Measured(problem, optimum, at)
    if candidate.build is None:
        return curve.points, _fit_rows_seen(problem, seed, curve)
    settings = candidate.build(eta)
    if as_step_size(eta).measures:
        curve.own_gradients = 2 if settings["method"].two_points else 1
    # A step size that is too large is tried on purpose; its numbers show it.
    with np.errstate(over="ignore", invalid="ignore"):
        result = minimize(problem, budget=budget, rng=seed, callback=curve.after_step, **settings)
        # An answer above the start is a bad one, but it is an answer: its number is shown.
        ended = result.success or result.status is Status.ABOVE_START
        curve.answer, curve.ledger = result.w, result.ledger.as_dict()
        curve.measure(math.inf, diverged=not ended)
    spent = result.ledger.target_gradients
    return curve.points, Answer(result.w, result.success, result.message, spent, result.inner)


class _Measured:
    """Turns the steps of a run into points."""

    def __init__(self, problem: Problem, optimum: float, at: Sequence[int]) -> None:
        self.problem, self.optimum, self.left = problem, optimum, list(at)
        self.points: list[Point] = []
        self.answer: Vector = problem.objective.zeros()
        self.ledger: Mapping[str, float] = {}
        self.own_gradients, self.on_step_size = 0, 0

    def after_step(self, step: Step) -> None:
        spent = step.ledger.target_gradients
        self.measure(spent - 1)
        self.answer, self.ledger = step.answer, step.ledger.as_dict()
        self.on_step_size += max(0, len(step.gradients) - self.own_gradients)
        self.measure(spent)

    def measure(self, spent: float, *, diverged: bool = False) -> None:
        """Add the points up to this many target gradients."""
        while self.left and self.left[0] <= spent:
            point: Point = {"target_gradients": self.left.pop(0)}
            point |= {name: self.ledger.get(name, 0) for name in LEDGER_FIELDS}
            if self.own_gradients:
                point[ON_STEP_SIZE] = self.on_step_size
            # A run that broke off has no answer: its last good iterate would flatter it.
            value = None if diverged else self.problem.value(self.answer) - self.optimum
            self.points.append(point | {"suboptimality": value})


def _fit_rows_seen(problem: Problem, seed: Any, curve: _Measured) -> Answer:
    """Fit, at each point, the rows drawn so far; re-fits start from the last answer."""
    objective = problem.objective
    rng = np.random.default_rng(seed)
    counts = np.zeros(objective.design.rows)
    begun, spent = time.perf_counter(), 0
    while curve.left:
        for _ in range(curve.left[0] - spent):
            drawn = objective.sample(rng)
            counts += 1.0 if drawn is None else np.bincount(drawn, minlength=len(counts))
        spent = curve.left[0]
        if spent:
            seen = np.flatnonzero(counts)
            weights = counts[seen] * objective.sample_weight[seen]
            part = objective.rows(seen, sample_weight=weights)
            curve.answer = minimise_exactly(part, curve.answer, tol=1e-9, penalty=problem.penalty)
        seconds = time.perf_counter() - begun
        curve.ledger = {"target_samples": int(counts.sum()), "seconds": seconds}
        curve.measure(spent)
    message = f"The {counts.sum():,.0f} rows drawn were fitted, without a proxy."
    return Answer(curve.answer, True, message, spent, "")


@dataclass(frozen=True)
class Curve:
    """A curve to be drawn: a method on a panel, with the step sizes to try."""

    panel: str
    method: str
    batch_size: int | None
    etas: tuple[Eta, ...]
    effort: float = 1.0

    def job(self, eta: Eta, seed: int, budget: int) -> Job:
        """Return one run of the curve."""
        return Job(self.panel, self.method, self.batch_size, eta, seed, budget, self.effort)


@dataclass(frozen=True)
class Job:
    """One run: a curve, a step size, a seed and a budget of target gradients."""

    panel: str
    method: str
    batch_size: int | None
    eta: Eta
    seed: int
    budget: int
    effort: float = 1.0

    @property
    def name(self) -> dict[str, Any]:
        """The fields that name the run in the records."""
        names = ("panel", "method", "batch_size", "eta", "seed")
        return {name: getattr(self, name) for name in names}

    @property
    def work(self) -> float:
        """About how long it takes, compared with others."""
        return self.effort * self.budget


@dataclass(frozen=True)
class Outcome:
    """Records of the final runs, the step size of each curve, and what finding it cost.

    ``tuning`` holds the target gradients of all grid runs of a curve, which its final runs do not
    count as theirs; ``at_edge`` the curves whose best step size is the first or the last tried;
    ``runs`` and ``reused`` how many runs there are, and how many were in the folder already.
    """

    records: list[Point]
    etas: dict[tuple[str, str], Eta]
    at_edge: list[tuple[str, str]]
    tuning: dict[tuple[str, str], int]
    runs: int
    reused: int


@dataclass(frozen=True)
class Experiment:
    """What is compared, and how it is presented.

    Attributes
    ----------
    title : str
        Heading of the report.
    config : dataclass
        Settings that the records depend on; kept with them.
    curves : sequence of Curve
        What to compare.
    run_job : callable
        ``run_job(config, job)`` returns the points of one run; importable by name, for workers.
    seeds, tuning_budget, budget : int
        Final runs of each method, and target gradients of a grid run and of a final run.
    shown : mapping
        Settings and facts for the report.
    notes : sequence of str
        Remarks for the report and the terminal.
    main : str or None
        The method that the sentences speak of; None for the best ProxyProx.
    remarks : callable
        Returns further sentences, given the summary's rows.
    metric : str
        What tuning minimises: its median over the last third of a grid run, and over the draws.
    tuning_draws : int
        Grid runs of each step size, on draws that no final run uses.
    """

    title: str
    config: Any
    curves: Sequence[Curve]
    run_job: Callable[[Any, Job], list[Point]]
    seeds: int
    tuning_budget: int
    budget: int
    shown: Mapping[str, Any]
    notes: Sequence[str] = ()
    main: str | None = None
    remarks: Callable[[Sequence[Mapping[str, Any]]], Sequence[str]] = lambda rows: ()
    metric: str = "suboptimality"
    tuning_draws: int = 1


def compare(
    experiment: Experiment,
    folder: Path,
    workers: int = 1,
    progress: Callable[[str, float], None] = lambda stage, share: None,
) -> Outcome:
    """Tune, run and record all curves of an experiment.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    folder : Path
        Where ``runs.sqlite``, ``grid.jsonl`` and ``records.jsonl`` go.
    workers : int
        Processes; 1 runs everything in this one.
    progress : callable
        Called with the stage and the share of it that is done.

    Raises
    ------
    RecordsError
        When the folder holds records of other settings.
    """
    # Another version may compute other numbers: its records are not mixed in.
    settings = {"proxyprox": __version__, **asdict(experiment.config)}
    curves, tuning_budget = experiment.curves, experiment.tuning_budget
    with ending_signals(), Records(folder, settings) as records:
        reused = len(records)

        def run(stage: str, jobs: Sequence[Job]) -> None:
            todo = [job for job in jobs if job.name not in records]
            # The long ones first: a long run that starts last leaves the other core idle.
            todo.sort(key=lambda job: -job.work)
            total, left = sum(job.work for job in jobs), sum(job.work for job in todo)
            progress(stage, 1 - left / total if total else 1)
            # Closed whatever happens: a full disk must not leave workers behind.
            found = run_jobs(todo, experiment.run_job, experiment.config, workers)
            with contextlib.closing(found) as results:
                for job, points in results:
                    records.add(job.name, points)
                    left -= job.work
                    progress(stage, 1 - left / total)

        def score_one(job: Job) -> float:
            # The last third, not the last point: a step size that swings is not chosen for one
            # lucky moment.
            points = records.points(job.name)
            late = [point[experiment.metric] for point in points[-max(1, len(points) // 3) :]]
            return median(math.inf if value is None else float(value) for value in late)

        def score(jobs: Sequence[Job]) -> float:
            # Over several draws: the best step size of one draw may be the worst of another.
            return median(map(score_one, jobs))

        draws = range(TUNING_SEED, TUNING_SEED + experiment.tuning_draws)
        grids = {
            (curve.panel, curve.method): [
                [curve.job(eta, seed, tuning_budget) for seed in draws] for eta in curve.etas
            ]
            for curve in curves
            if len(curve.etas) > 1
        }
        trials = [job for grid in grids.values() for jobs in grid for job in jobs]
        run("tuning step sizes", trials)
        etas = {(curve.panel, curve.method): curve.etas[0] for curve in curves}
        etas |= {name: min(grid, key=score)[0].eta for name, grid in grids.items()}
        final = [
            curve.job(etas[curve.panel, curve.method], seed, experiment.budget)
            for curve in curves
            for seed in range(experiment.seeds)
        ]
        run("final runs", final)
        records.export("grid.jsonl", (job.name for job in trials))
        return Outcome(
            records=records.export("records.jsonl", (job.name for job in final)),
            etas=etas,
            at_edge=[n for n, g in grids.items() if etas[n] in (g[0][0].eta, g[-1][0].eta)],
            tuning={name: tuning_budget * len(grid) * len(draws) for name, grid in grids.items()},
            runs=len(trials) + len(final),
            reused=reused,
        )


def run_jobs(
    jobs: Sequence[Any], function: Callable[[Any, Any], Any], config: Any, workers: int
) -> Generator[tuple[Any, Any], None, None]:
    """Yield each job with what ``function(config, job)`` returned, in the order they finish.

    Parameters
    ----------
    jobs : sequence
        What to run; begun in this order.
    function : callable
        Importable by name, as are its arguments and results.
    config : object
        Handed to every call.
    workers : int
        Number of processes; 1 runs everything in this one. They are ended when the iteration is,
        however it is.

    Raises
    ------
    BrokenProcessPool
        When a worker is ended from outside.
    """
    if workers == 1 or len(jobs) < 2:
        with threadpool_limits(1):
            for job in jobs:
                yield job, function(config, job)
        return
    others = set(multiprocessing.active_children())
    # Fresh processes: forked ones would inherit the progress display's thread in mid-air.
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(jobs)), spawn, _start_worker)
    try:
        with critical(), _interrupts_blocked():
            futures = {pool.submit(function, config, job): job for job in jobs}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    except BrokenProcessPool:
        # What ends a whole group of processes ends this one, too: its own signal comes first.
        time.sleep(0.2)
        raise
    finally:
        with critical():
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    """Use one thread, and end when the parent is gone."""
    threadpool_limits(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Keep Ctrl-C from processes started inside, even while they still import.

    They would print a traceback of their own. The mask is inherited.
    """
    if os.name == "nt":
        yield
        return
    # The first spawned process would start it, and starting it lets interrupts through.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
