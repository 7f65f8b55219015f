"""Time and memory of ProxyLogisticRegression on many unlabelled rows.

    python benchmarks/labels_scale.py --rows 1000000 --columns 100 --labels 1000

Compared with one LogisticRegression fit to as many rows with all labels. Memory is the peak of the
process above what it held once the data was there, so that 0.5 means half of the data again.
"""

from __future__ import annotations

import argparse
import resource
import threading
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from proxyprox.sklearn import ProxyLogisticRegression


def resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


class Peak:
    """Watches the memory of this process."""

    def __enter__(self) -> Peak:
        self.start = self.most = resident()
        self._on = True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while self._on:
            self.most = max(self.most, resident())
            time.sleep(0.01)

    def __exit__(self, *_: object) -> None:
        self._on = False
        self._thread.join()


def measured(name: str, fit, data_mib: float) -> float:
    wall, cpu = time.perf_counter(), time.process_time()
    with Peak() as peak:
        fit()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    extra = peak.most - peak.start
    print(
        f"{name:46} {wall:7.1f} s wall {cpu:7.1f} s cpu; peak {peak.most:6.0f} MiB, "
        f"{1 + extra / data_mib:.2f} × the data"
    )
    return wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--labels", type=int, default=1000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((arguments.rows, arguments.columns))
    w = rng.standard_normal(arguments.columns) / np.sqrt(arguments.columns)
    y = (rng.random(arguments.rows) < 1 / (1 + np.exp(-2 * (X @ w)))).astype(np.int64)
    marked = y.copy()
    marked[arguments.labels :] = -1
    labels, size = arguments.labels, X.nbytes / 2**20
    print(f"{arguments.rows:,} × {arguments.columns}, {size:.0f} MiB, {labels:,} labels")
    measured(
        "ProxyLogisticRegression, y = -1",
        lambda: ProxyLogisticRegression(unlabelled=-1).fit(X, marked),
        size,
    )
    measured(
        "ProxyLogisticRegression, X_proxy",
        lambda: ProxyLogisticRegression().fit(X[:labels], y[:labels], X_proxy=X[labels:]),
        size,
    )
    measured("LogisticRegression, all labels", lambda: LogisticRegression().fit(X, y), size)


if __name__ == "__main__":
    main()
