"""KeyboardInterrupt at random lines of a step: does the run end with the same bits?

    python benchmarks/interrupts.py [--count 1000]

Each trial takes one step of a run with a trace function that raises KeyboardInterrupt at a random
line of the library inside ``tell``, goes on with the state that is left, and compares iterate,
trace and generator with those of a run that nobody interrupted. A quarter of the trials each: an
alone and a safeguarded run, without and with an objective that works in threads.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import proxyprox as pp
from proxyprox.advice.safeguard import SafeguardedRun
from proxyprox.corrections import Storm
from proxyprox.inner import QuasiNewton
from proxyprox.oracle import answer_query
from proxyprox.stopping import SDane

STEPS = 8


class Threaded:
    """A target whose two halves are computed in two threads."""

    def __init__(self, loss: Any, pool: ThreadPoolExecutor) -> None:
        self.loss, self.pool = loss, pool
        self.sample = loss.sample

    def gradient(self, w: Any, batch: Any) -> Any:
        halves = self.pool.map(lambda rows: self.loss.gradient(w, rows), np.split(batch, 2))
        return sum(halves) / 2


def make(pool: ThreadPoolExecutor | None, guarded: bool, seed: int) -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    loss = pp.logistic_regression(X, X @ np.ones(4) > 0, l2=0.1, batch_size=8)
    target = loss if pool is None else Threaded(loss, pool)
    method, w0 = (pp.ProxyProx("auto"), pp.ProxyProx(0.5, Storm(0.3)))[seed % 2], np.zeros(4)
    problem = pp.Problem(target, loss.label_free())
    run = pp.Run(problem, w0, method=method, inner=QuasiNewton(), stop=SDane(), rng=seed)
    return SafeguardedRun(run, pp.SGD(0.1)) if guarded else run


def bits(run: Any) -> bytes:
    """Return iterate, trace without what was paid, and generator: what is paid stays paid."""
    alone = run if isinstance(run, pp.Run) else run.state_dict()["run"]
    state = alone.state if isinstance(alone, pp.Run) else alone["state"]
    rows = np.array([row[:7] + row[10:] for row in state.trace], dtype=float)
    return b"".join([state.method.w.tobytes(), rows.tobytes(), repr(state.rng).encode()])


def advance(run: Any) -> None:
    if not run.held:
        run.hold(answer_query(run.problem.objective, run.open_question()))
    run.tell()


def interrupted_step(run: Any, at: int) -> bool:
    """Take a step that is interrupted at a line of the library; tell whether it was."""
    left = at

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if "proxyprox" not in frame.f_code.co_filename:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    if not run.held:
        run.hold(answer_query(run.problem.objective, run.open_question()))
    sys.settrace(trace)
    try:
        run.tell()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def lines_of_step(run: Any) -> int:
    """Return how many lines of the library the next step takes."""
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace if "proxyprox" in frame.f_code.co_filename else None

    if not run.held:
        run.hold(answer_query(run.problem.objective, run.open_question()))
    sys.settrace(trace)
    try:
        run.tell()
    finally:
        sys.settrace(None)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    count = parser.parse_args().count
    rng, broken, unequal = np.random.default_rng(1), 0, 0
    with ThreadPoolExecutor(2) as pool:
        for trial in range(count):
            kind = (None if trial % 4 < 2 else pool), bool(trial % 2), trial % 8 // 4
            whole = make(*kind)
            for _ in range(STEPS):
                advance(whole)
            run, before = make(*kind), int(rng.integers(STEPS))
            for _ in range(before):
                advance(run)
            probe = make(*kind)
            for _ in range(before):
                advance(probe)
            broken += interrupted_step(run, int(rng.integers(1, lines_of_step(probe) + 1)))
            while run.steps < STEPS:
                advance(run)
            unequal += bits(run) != bits(whole)
    print(f"{count} trials, {broken} interrupted inside tell, {unequal} ended with other bits")
    raise SystemExit(unequal > 0)


if __name__ == "__main__":
    main()
