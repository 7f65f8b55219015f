"""Passes over the partitions of a table, on Dask's scheduler.

A pass merges the partitions' answers on the workers, in a tree in the order of the partitions, so
that the result does not depend on who computed what. The scheduler repeats a task that failed and
runs those of a lost worker elsewhere.
"""

from __future__ import annotations

import contextlib
import math
import operator
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import dask
import distributed
import psutil
from dask.delayed import Delayed
from threadpoolctl import ThreadpoolController

from proxyprox._util import validation as check
from proxyprox._util.validation import Words, message
from proxyprox.dask.tables import Table


@dataclass(frozen=True)
class ClusterPolicy:
    """How much is fetched from a cluster, and how its work is divided.

    Attributes
    ----------
    rows : int
        Rows, or distinct labels, that are fetched at most: of more labelled rows a sample is, and
        all are fitted where they are. No record: a judgement of memory.
    fan_in : int
        Results that one task adds up, and tasks for each thread. Set by
        docs/results/scale/report.md.
    reading : float
        Nanoseconds of reading one number from a file, about. Set by docs/results/scale/report.md.
    """

    rows: int = 100_000
    fan_in: int = 8
    reading: float = 3.0


CLUSTER = ClusterPolicy()


class Pass(NamedTuple):
    """One pass over all partitions, as it was timed."""

    purpose: str
    seconds: float


def run_bundle(
    task: Callable[..., Any], parts: Sequence[tuple[int, Any]], merge: Callable[[list[Any]], Any]
) -> Any:
    """Return a task's results for partitions, one after the other, merged."""
    total = [task(*parts[0])]
    for part in parts[1:]:
        total = [merge([*total, task(*part)])]
    return total[0]


class Engine:
    """Dask's scheduler: the client given, or current when this was made, or the local one."""

    def __init__(self, client: Any = None, retries: int = 2) -> None:
        named = dask.config.get("scheduler", None) or "distributed"
        if client is None and "distributed" in str(named):
            # There may be none.
            with contextlib.suppress(ValueError):
                client = distributed.default_client()
        if not (client is None or hasattr(client, "scheduler_info")):
            raise TypeError(message("client", client, "a distributed.Client", "Client(address)"))
        self.client, self.passes = client, list[Pass]()
        self.retries = check.whole("retries", retries, 0)
        self._threads = ThreadpoolController()
        threads = 0 if client is None else sum(client.nthreads().values())
        # More tasks than threads: a slow worker leaves some of its share to others.
        self._most_tasks = CLUSTER.fan_in * max(threads, CLUSTER.fan_in)

    def run(
        self, purpose: str, table: Table, task: Callable[..., Any], job: Any,
        merge: Callable[[list[Any]], Any],
    ) -> Any:  # fmt: skip
        """Return a task's results for all partitions, merged in their order."""
        begun, name = time.perf_counter(), f"proxyprox-{uuid.uuid4().hex}"
        parts = list(enumerate(table.parts))
        # A plain dictionary: calls of dask.delayed take ten times as long.
        tasks: dict[Any, Any] = {name: partial(task, job=job)}
        # What workers read themselves is read in bundles: the scheduler's work does not grow.
        reads = all(callable(part) for _, part in parts)
        each = math.ceil(len(parts) / self._most_tasks) if reads else 1
        level: list[Any] = [(f"part-{name}", i) for i in range(0, len(parts), each)]
        for key in level:
            bundle = parts[key[1] : key[1] + each]
            whole = partial(run_bundle, parts=bundle, merge=merge)
            tasks[key] = (whole, name) if each > 1 else (operator.call, name, *bundle[0])
        while len(level) > 1:
            size = CLUSTER.fan_in
            groups = [level[i : i + size] for i in range(0, len(level), size)]
            level = [(f"merge-{len(tasks)}-{name}", place) for place in range(len(groups))]
            tasks |= {k: (merge, group) for k, group in zip(level, groups, strict=True)}
        found = self._compute(Delayed(level[0], {**table.graph, **tasks}))
        self.passes.append(Pass(purpose, time.perf_counter() - begun))
        return found

    def _compute(self, value: Any) -> Any:
        if self.client is None:
            # The scheduler's tasks are the threads.
            with self._threads.limit(limits=1, user_api="blas"):
                return value.compute()
        remedy = "Open a Client and build the target anew; a run with a checkpoint resumes."
        closed = message("client", Words("one that is closed"), "open", remedy)
        if self.client.status != "running":
            raise RuntimeError(closed)
        future = self.client.compute(value, retries=self.retries)
        try:
            return future.result()
        except distributed.CancelledError as error:
            raise RuntimeError(closed) from error
        except distributed.scheduler.KilledWorker as error:
            raise MemoryError(
                "Workers died again and again while they read a partition: write smaller row "
                f"groups or partitions, or give the workers more memory. Dask says: {error}"
            ) from error
        finally:
            future.release()


def require_room(argument: str, rows: int, columns: int) -> None:
    """Refuse a sample that this process has no room for."""
    room, need = psutil.virtual_memory().available, 16.0 * rows * columns
    if need > room:
        got = Words(f"{rows:,}, {need / 2**20:,.0f} MiB, while {room / 2**20:,.0f} are free")
        raise ValueError(message(argument, got, f"at most {int(rows * room / need):,} rows"))
