"""A pool of processes that take jobs until none is left or the time is over."""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

Job = dict[str, Any]
START = 8.0
"""Seconds that a job takes before its first step: data, and gradients that are captured."""


def key(job: Job) -> str:
    """Return what tells jobs apart."""
    names = ("case", "recipe", "lr", "k", "seed", "validation")
    return json.dumps([job.get(name) for name in names])


def read(path: str | Path) -> list[Job]:
    """Return the results of a file."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def gradients(job: Job) -> int:
    """Return how many gradients a job has."""
    from experiments.ways.cases import target_steps

    return target_steps(job["case"]) * (1 if job["recipe"] == "hand:adamw" else job["k"] + 1)


def kind(job: Job) -> str:
    """Return what tells data apart: the first word of a case."""
    return str(job["case"].partition("-")[0])


def end_with_parent() -> None:
    """End this process by SIGTERM when the one that started it is gone, in whatever way."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait([parent.sentinel])
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def work(jobs: Any, results: Any, device: str, tiny: bool) -> None:
    """Run jobs until there is none."""
    from experiments.ways.recipes import run

    end_with_parent()
    for job in iter(jobs.get, None):
        begun = time.time()
        try:
            found = run(job, device, tiny=tiny)
        except Exception:  # one job must not end the others
            found = {**job, "error": traceback.format_exc()[-600:]}
        results.put((found, (time.time() - begun - START) / gradients(job)))


def run_all(
    plan: Callable[[list[Job]], list[Job]],
    path: Path,
    *,
    tiny: bool = False,
    seconds: float = 1e9,
    processes: int = 1,
) -> None:
    """Run what is planned, in its order, and write every result at once.

    Parameters
    ----------
    plan : callable
        Returns the jobs to run, given the results so far; those that have one are left out.
    path : Path
        Where results are, and are added to.
    tiny : bool
        A few steps each.
    seconds : float
        When to end; jobs that would take longer are not begun.
    processes : int
        Jobs at a time, on one GPU if there is one.
    """
    import torch

    until, rows = time.time() + seconds, read(path) if path.exists() else []
    begun = {key(row) for row in rows if "error" not in row}
    context = multiprocessing.get_context("spawn")
    results, waiting = context.Queue(), context.Queue()
    # Seconds a gradient took in the newest runs, of which a call before this one may know.
    pace = {kind(row): row["seconds"] / gradients(row) for row in rows if "seconds" in row}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    given: dict[str, Any] = {
        "target": work,
        "args": (waiting, results, device, tiny),
        "daemon": True,
    }
    workers = [context.Process(**given) for _ in range(processes)]

    def suits(job: Job) -> bool:
        ends = time.time() + START + pace.get(kind(job), 0.0) * gradients(job)
        return key(job) not in begun and ends < until

    if not tiny and any(kind(job) == "cifar" for job in plan(rows)):
        from experiments.ways.cases import cifar_arrays

        cifar_arrays()  # decoded once, for all processes
    for worker in workers:
        worker.start()
    running = 0
    with path.open("a") as file:
        while time.time() < until and any(worker.is_alive() for worker in workers):
            planned = plan(rows)
            while running < processes and (job := next(filter(suits, planned), None)):
                waiting.put(job)
                begun.add(key(job))
                running += 1
            if not running:
                break
            try:
                # Longer times than a week are refused.
                left = max(0.1, min(until - time.time(), 604_800.0))
                found, took = results.get(timeout=left)
            except queue.Empty:
                break
            running -= 1
            pace[kind(found)] = max(0.0, took)
            rows.append(found)
            print(json.dumps(found), file=file, flush=True)
            names = ("case", "recipe", "lr", "k", "seed", "test_loss", "test_accuracy", "error")
            shown = [found[name] for name in (*names, "seconds") if name in found]
            sys.stdout.write(" ".join(map(str, shown)) + "\n")
            sys.stdout.flush()
    for worker in workers:
        worker.terminate()
