"""Kill one of two workers in the middle of a pass, ten times: the answer and the passes stay.

    python benchmarks/dask_kills.py [--kills 10] [--rows 2000000]

A logistic regression of 50 columns in Parquet is minimised on a `LocalCluster` of two processes.
Then again, and in every pass SIGKILL ends a worker, at a random moment of the pass; runs are
repeated until there were enough kills. A kill counts that came while its pass was under way.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import threading
import time
import warnings

import dask
import distributed
import numpy as np
import pyarrow
import pyarrow.parquet

from proxyprox import Problem, minimize
from proxyprox.dask import logistic_regression, read_parquet

COLUMNS = 50


def write_table(folder: str, rows: int) -> None:
    rng = np.random.default_rng(0)
    mix = np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))[0] * np.logspace(0, -2, COLUMNS)
    w = rng.normal(size=COLUMNS)
    for number in range(8):
        X = (rng.normal(size=(rows // 8, COLUMNS)) @ mix.T).astype(np.float32)
        y = rng.random(len(X)) < 1 / (1 + np.exp(-X @ w))
        table = {f"x{j}": X[:, j].copy() for j in range(COLUMNS)} | {"y": y}
        path = f"{folder}/{number}.parquet"
        pyarrow.parquet.write_table(pyarrow.table(table), path, row_group_size=len(X) // 4)


class Killer:
    """Kills a worker some time after it is told to; remembers when."""

    def __init__(self, cluster: distributed.LocalCluster, client: distributed.Client) -> None:
        self.cluster, self.client = cluster, client
        self.times: list[float] = []
        self.before: set[str] = set()
        self.rng, self.timer = random.Random(0), threading.Timer(0, print)

    def workers(self) -> set[str]:
        return set(self.client.scheduler_info()["workers"])

    def kill_within(self, seconds: float) -> None:
        self.before = self.workers()
        pid = self.rng.choice([nanny.pid for nanny in self.cluster.workers.values()])

        def kill() -> None:
            os.kill(pid, signal.SIGKILL)
            self.times.append(time.perf_counter())

        self.timer = threading.Timer(self.rng.uniform(0.1, 0.8) * seconds, kill)
        self.timer.start()

    def wait_for_restart(self) -> None:
        """Wait until the scheduler knows another worker in place of the one that was killed.

        A worker killed while it starts would be given up by its nanny.
        """
        self.timer.join()
        running = distributed.Status.running
        while True:
            now = self.workers()
            whole = all(n.process.status == running for n in self.cluster.workers.values())
            if whole and len(now) == 2 and now != self.before:
                return
            time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rows", type=int, default=2_000_000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    # A LocalCluster gives a worker up that is not back in a quarter of a minute.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "600s"})
    with tempfile.TemporaryDirectory() as folder:
        write_table(folder, arguments.rows)
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=":0",
                silence_logs=50,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):  # fmt: skip
            target = logistic_regression(read_parquet(folder, label="y"), l2=1e-6)
            proxy = target.sample_rows(20_000)
            whole = minimize(Problem(target, proxy))
            usual = [each.seconds for each in target.passes]
            print(f"unbroken: {len(usual)} passes, median {np.median(usual):.2f} s")
            killer, during = Killer(cluster, client), 0
            while during < arguments.kills:
                again = logistic_regression(read_parquet(folder, label="y"), l2=1e-6)
                spans: list[tuple[float, float]] = []
                before = len(killer.times)
                run = again.design.engine.run

                def timed(*given, run=run, spans=spans, before=before, during=during):
                    if len(killer.times) - before + during >= arguments.kills:
                        return run(*given)
                    killer.kill_within(float(np.median(usual[1:])))
                    begun = time.perf_counter()
                    found = run(*given)
                    spans.append((begun, time.perf_counter()))
                    killer.wait_for_restart()
                    return found

                again.design.engine.run = timed
                result = minimize(Problem(again, again.sample_rows(20_000)))
                hits = sum(
                    any(begun < at < end for begun, end in spans) for at in killer.times[before:]
                )
                during += hits
                gap = float(np.abs(result.w - whole.w).max())
                passes = len(again.passes)
                print(
                    f"{hits} kills in the middle of {passes} passes, "
                    f"{max(end - begun for begun, end in spans):.1f} s the longest: "
                    f"largest difference {gap:.1e}, passes lost {passes - len(usual)}",
                    flush=True,
                )
                assert gap <= 1e-10
                assert passes == len(usual)
            print(f"{during} kills in the middle of a pass: the same answer, no lost pass")


if __name__ == "__main__":
    main()
