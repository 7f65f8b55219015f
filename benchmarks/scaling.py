"""Cost against rows, non-zeros and outer steps, and the memory of a million rows."""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np
import scipy.sparse

from _measure import Row, seconds
from proxyprox import Problem, ProxyProx, logistic_regression, minimize
from proxyprox.stopping import Residual


def _problem(rows: int, nonzeros: int, columns: int = 100) -> Problem:
    rng = np.random.default_rng(0)
    indices = np.stack([rng.integers(columns, size=rows) for _ in range(nonzeros)], axis=1)
    data = rng.standard_normal(rows * nonzeros)
    indptr = np.arange(0, rows * nonzeros + 1, nonzeros)
    X = scipy.sparse.csr_array((data, indices.ravel(), indptr), shape=(rows, columns))
    y = rng.random(rows) < 1 / (1 + np.exp(-X @ rng.standard_normal(columns)))
    target = logistic_regression(X, y.astype(int), l2=1e-3, batch_size=256)
    return Problem(target, target.label_free())


def _time(rows: int, nonzeros: int, steps: int) -> float:
    problem = _problem(rows, nonzeros)
    settings = {"method": ProxyProx(1.0), "stop": Residual(1e-6), "rng": 0}
    minimize(problem, steps=2, **settings)
    # The Hessian is rebuilt now and then: a run long enough to average over that.
    return min(seconds(lambda: minimize(problem, steps=steps, **settings)) for _ in range(3))


def rows() -> list[Row]:
    base = _time(20_000, 20, 40)
    table = []
    # Doubling twice: linear growth is a factor of 4, and 1.3 of slack for caches.
    for name, time in (
        ("rows", _time(80_000, 20, 40)),
        ("non-zeros", _time(20_000, 80, 40)),
        ("outer steps", _time(20_000, 20, 160)),
    ):
        note = f"{base * 1e3:.0f} ms → {time * 1e3:.0f} ms"
        table.append(Row(f"four times the {name}: cost", time, base, time / base, 4 * 1.3, note))
    return [*table, memory()]


def memory() -> Row:
    """Peak memory of a process that builds and minimises 1,000,000 × 100, over its data."""
    text = subprocess.run(
        [sys.executable, __file__], check=True, capture_output=True, text=True
    ).stdout
    data, peak = (float(word) for word in text.split())
    note = f"data {data / 2**20:.0f} MiB, peak beyond the bare imports {peak / 2**20:.0f} MiB"
    return Row("1,000,000 × 100 sparse: memory / data", peak, data, peak / data, 1.5, note)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _report_memory() -> None:
    before = _resident()
    rng = np.random.default_rng(0)
    rows, columns, nonzeros = 1_000_000, 100, 20
    indices = rng.integers(columns, size=rows * nonzeros, dtype=np.int32)
    data = rng.standard_normal(rows * nonzeros)
    indptr = np.arange(0, rows * nonzeros + 1, nonzeros, dtype=np.int32)
    X = scipy.sparse.csr_array((data, indices, indptr), shape=(rows, columns))
    y = rng.integers(2, size=rows).astype(np.float64)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes + y.nbytes
    target = logistic_regression(X, y, l2=1e-3, batch_size=256)
    problem = Problem(target, target.label_free())
    minimize(problem, method=ProxyProx(1.0), steps=5, rng=0)
    print(size, _peak() - before)


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    _report_memory()
