"""A pool of processes that take jobs until none is left or the time is over."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import queue
import sys
import time
import traceback
from pathlib import Path
from typing import Any


def key(job: dict[str, Any]) -> str:
    """Return what tells jobs apart."""
    names = ("case", "recipe", "lr", "k", "seed", "validation")
    return json.dumps([job.get(name) for name in names])


def work(jobs: Any, results: Any, device: str, limit: float, tiny: bool) -> None:
    """Take jobs until none is left; leave out those that would end after the limit."""
    from experiments.ways.cases import target_steps
    from experiments.ways.recipes import run

    pace = 0.0  # seconds of a gradient, in the last job
    while time.time() < limit:
        try:
            job = jobs.get_nowait()
        except queue.Empty:
            break
        begun, gradients = time.time(), target_steps(job["case"]) * (job["k"] + 1)
        if begun + pace * gradients > limit:
            continue
        try:
            results.put(run(job, device, tiny=tiny))
        except Exception:  # one job must not end the others
            results.put({**job, "error": traceback.format_exc()[-600:]})
        pace = (time.time() - begun) / gradients
    results.put(None)


def run_all(jobs: list[dict[str, Any]], path: Path, given: argparse.Namespace) -> None:
    """Run the jobs that the file does not have."""
    import torch

    known = set()
    if path.exists():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        known = {key(row) for row in rows if "error" not in row}
    jobs = [job for job in jobs if key(job) not in known]
    limit, device = time.time() + given.seconds, "cuda" if torch.cuda.is_available() else "cpu"
    heavy = [job for job in jobs if job["case"].startswith(("text", "cifar"))]
    light = [job for job in jobs if job not in heavy]
    if any(job["case"].startswith("cifar") for job in heavy) and not given.tiny:
        from experiments.ways.cases import cifar_arrays

        cifar_arrays()  # decoded once, for all processes
    context = multiprocessing.get_context("spawn")
    results, workers, queues = context.Queue(), [], []
    for some, count, where in ((heavy, given.gpu, device), (light, given.cpu, "cpu")):
        waiting = context.Queue()
        queues.append(waiting)  # alive until every process has begun
        for job in some:
            waiting.put(job)
        time.sleep(0.2)
        arguments = (waiting, results, where, limit, given.tiny)
        number = min(count, len(some))
        workers += [context.Process(target=work, args=arguments) for _ in range(number)]
    for worker in workers:
        worker.start()
    left = len(workers)
    with path.open("a") as file:
        while left and time.time() < limit + given.grace and any(w.is_alive() for w in workers):
            try:
                found = results.get(timeout=1.0)
            except queue.Empty:
                continue
            if found is None:
                left -= 1
                continue
            print(json.dumps(found), file=file, flush=True)
            short = {
                k: found[k] for k in ("case", "recipe", "lr", "seed", "test_loss") if k in found
            }
            accuracy = found.get("test_accuracy", found.get("error", ""))
            line = [*short.values(), accuracy, found.get("seconds")]
            sys.stdout.write(" ".join(map(str, line)) + "\n")
            sys.stdout.flush()
    for worker in workers:
        worker.terminate()
