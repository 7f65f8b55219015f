"""CPU seconds to fit generalised linear models: proxyprox, scikit-learn, glum, SciPy and others.

Every fit starts from the arrays X and y, and ends with coefficients. A rival runs with each
tolerance of its list, and the cheapest that reaches a relative gap (L − L*)/(L(0) − L*) of 1e-6
counts; proxyprox is treated alike, and runs to its default end besides. Fits are interleaved;
medians count. Rivals that are not installed are left out, and the record says so. Peak memory is
sampled while proxyprox runs: what the process holds more than before the fit.

    python benchmarks/glm_seconds.py --repeats 7 --out docs/results/seconds/seconds.json
    python benchmarks/glm_seconds.py --table correlated_100k_200 --repeats 3
    python benchmarks/glm_seconds.py --threads 2 --out docs/results/seconds/two_threads.json

With ``--threads`` every fit may use that many, and wall seconds count in the last table.
Each table is measured in a process of its own, with a limit of time.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.sparse

from experiments.records import write_record
from proxyprox import (
    gamma_regression,
    linear_regression,
    logistic_regression,
    minimize,
    poisson_regression,
    softmax_regression,
)
from proxyprox.inner.exact import minimise_exactly

Array = Any
MEASURES = [
    "src/proxyprox/problems/glm.py", "src/proxyprox/methods/quasi_newton.py",
    "src/proxyprox/advice/sampling.py",
]  # fmt: skip
L2 = 1e-6
GAP = 1e-6
LIMIT = 900
# What takes SLOW times as long as the fastest is run FEW times. A rival that takes so much longer
# than another rival is not tried with smaller tolerances: it changes no ratio.
SLOW, FEW = 4.0, 3
WARM = 50
# Tables of more numbers than this are run FEW times.
HUGE = 4e7

LOSSES = {
    "linear": linear_regression, "logistic": logistic_regression, "softmax": softmax_regression,
    "poisson": poisson_regression, "gamma": gamma_regression,
}  # fmt: skip


class Table(NamedTuple):
    """A generated table: its family, shape, and how its columns are made."""

    family: str
    rows: int
    columns: int
    kind: str = "plain"  # plain, correlated, decaying, sparse or text
    scaled: bool = False
    sort: bool = False
    spread: float = 1.5


TABLES = {
    "easy_500k_20": Table("logistic", 500_000, 20),
    "correlated_300k_50": Table("logistic", 300_000, 50, "correlated"),
    "scaled_300k_50": Table("logistic", 300_000, 50, "correlated", scaled=True),
    "correlated_100k_200": Table("logistic", 100_000, 200, "correlated"),
    "decaying_100k_200": Table("logistic", 100_000, 200, "decaying"),
    "sorted_200k_100": Table("logistic", 200_000, 100, "correlated", sort=True),
    "correlated_1m_100": Table("logistic", 1_000_000, 100, "correlated"),
    "softmax_100k_50": Table("softmax", 100_000, 50, "correlated"),
    "poisson_200k_50": Table("poisson", 200_000, 50, "correlated"),
    "poisson_scaled_100k_100": Table("poisson", 100_000, 100, "correlated", scaled=True),
    "gamma_100k_100": Table("gamma", 100_000, 100, "correlated"),
    "correlated_100k_500": Table("logistic", 100_000, 500, "correlated"),
    "sparse_200k_300": Table("logistic", 200_000, 300, "sparse"),
    "sparse_100k_1000": Table("logistic", 100_000, 1000, "sparse"),
    "wide_20k_1000": Table("logistic", 20_000, 1000),
    "wide_5k_1500": Table("logistic", 5_000, 1500, "correlated"),
    "text_50k_5000": Table("logistic", 50_000, 5000, "text"),
    "scaled_20k_1000": Table("logistic", 20_000, 1000, "correlated", scaled=True),
    "sparse_scaled_200k_300": Table("logistic", 200_000, 300, "sparse", scaled=True),
}


def make(table: Table, seed: int = 0) -> tuple[Any, Array]:
    """Return the inputs and the labels of a table."""
    rng, (n, d) = np.random.default_rng(seed), (table.rows, table.columns)
    if table.kind in ("sparse", "text"):
        counts = rng.poisson(10 if table.kind == "sparse" else 30, n) + 1
        skew = 1.0 if table.kind == "sparse" else 3.0
        places = np.minimum((d * rng.random(counts.sum()) ** skew).astype(np.int32), d - 1)
        starts = np.concatenate([[0], np.cumsum(counts)])
        X: Any = scipy.sparse.csr_matrix((np.ones(len(places)), places, starts), shape=(n, d))
        X.sum_duplicates()
        X.data = np.log1p(X.data)
    else:
        X = rng.standard_normal((n, d))
        if table.kind == "correlated":
            # A shared factor, and neighbours that are alike.
            for j in range(1, d):
                X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
        elif table.kind == "decaying":
            X *= 1 / np.sqrt(np.arange(1, d + 1))
            X = X @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    w = rng.standard_normal(d)
    z = X @ w
    w, z = w * table.spread / z.std(), z * table.spread / z.std()
    if table.scaled:
        scales = np.logspace(0, -2, d)
        X = (X @ scipy.sparse.diags(scales)).tocsr() if scipy.sparse.issparse(X) else X * scales
    if table.family == "logistic":
        y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    elif table.family == "softmax":
        scores = X @ rng.standard_normal((d, 5))
        scores *= table.spread / scores.std()
        y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    elif table.family == "poisson":
        y = rng.poisson(np.exp(0.7 * z)).astype(float)
    elif table.family == "gamma":
        y = rng.gamma(2.0, np.exp(0.7 * z) / 2)
    else:
        y = z + rng.standard_normal(n)
    if table.sort:
        order = np.argsort(y + 1e-3 * X[:, 0], kind="stable")
        X, y = X[order], y[order]
    return X, y


# -- rivals: each returns coefficients, in proxyprox's order, for a tolerance ---------------------


def ours(table: Table, X: Any, y: Array, tol: float | None) -> Array:
    """Fit by minimize(target)."""
    return minimize(LOSSES[table.family](X, y, l2=L2), tol=tol).w


def scipy_lbfgs(table: Table, X: Any, y: Array, tol: float) -> Array:
    """Fit by SciPy's L-BFGS-B on our value and gradient."""
    loss = LOSSES[table.family](X, y, l2=L2)
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": tol, "gtol": 0.0, "maxcor": 20}
    start = np.zeros(loss.dim)
    return scipy.optimize.minimize(
        loss.value_and_gradient, start, jac=True, method="L-BFGS-B", options=options
    ).x


def sklearn_fit(solver: str, table: Table, X: Any, y: Array, tol: float) -> Array:
    """Fit by scikit-learn."""
    from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor

    shared = {"fit_intercept": False, "tol": tol, "max_iter": 5000, "solver": solver}
    if table.family in ("logistic", "softmax"):
        found = LogisticRegression(C=1 / (L2 * table.rows), **shared).fit(X, y)
        return found.coef_.T.ravel()
    kind = PoissonRegressor if table.family == "poisson" else GammaRegressor
    return kind(alpha=L2, **shared).fit(X, y).coef_


def glum_fit(solver: str, table: Table, X: Any, y: Array, tol: float) -> Array:
    """Fit by glum."""
    from glum import GeneralizedLinearRegressor

    family = {"logistic": "binomial"}.get(table.family, table.family)
    link = {"binomial": "logit"}.get(family, "log")
    return GeneralizedLinearRegressor(
        alpha=L2, l1_ratio=0, family=family, link=link, fit_intercept=False, solver=solver,
        gradient_tol=tol, max_iter=2000,
    ).fit(X, y).coef_  # fmt: skip


def cyanure_fit(table: Table, X: Any, y: Array, tol: float) -> Array:
    """Fit by cyanure."""
    import cyanure.estimators

    model = cyanure.estimators.Classifier(
        loss="logistic", penalty="l2", lambda_1=L2, fit_intercept=False, tol=tol, max_iter=500,
        verbose=False,
    )  # fmt: skip
    return np.ravel(model.fit(X, y).coef_)


def skglm_fit(table: Table, X: Any, y: Array, tol: float) -> Array:
    """Fit by skglm's L-BFGS, whose loss is compiled."""
    from skglm import datafits, penalties, solvers

    X = X.tocsc() if scipy.sparse.issparse(X) else X
    solver = solvers.LBFGS(max_iter=5000, tol=tol)
    return solver.solve(X, 2.0 * y - 1, datafits.Logistic(), penalties.L2(L2))[0]


OURS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def rivals_for(table: Table) -> dict[str, tuple[Callable[..., Array], tuple[Any, ...]]]:
    """Return the rivals that apply to a table, with the tolerances that they try."""
    found: dict[str, Any] = {
        "scipy": (scipy_lbfgs, (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-11)),
        "sklearn lbfgs": (partial(sklearn_fit, "lbfgs"), TOLERANCES),
    }
    dense = table.kind not in ("sparse", "text")
    if table.columns <= 1000 and (dense or table.family != "softmax"):
        newton = partial(sklearn_fit, "newton-cholesky")
        found["sklearn newton-cholesky"] = newton, TOLERANCES[:5]
    if table.family != "softmax":
        if table.columns <= 1500:
            found["glum irls"] = partial(glum_fit, "irls-ls"), TOLERANCES[:5]
        found["glum lbfgs"] = partial(glum_fit, "lbfgs"), TOLERANCES
    if table.family == "logistic":
        found["cyanure"] = cyanure_fit, (1e-2, 1e-3, 1e-4)
        found["skglm lbfgs"] = skglm_fit, (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
    return found


# -- measuring ------------------------------------------------------------------------------------


def clocked(fit: Callable[..., Array], *arguments: Any) -> tuple[float, float, Array]:
    """Return CPU seconds, wall seconds and the coefficients of a fit."""
    cpu, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        w = fit(*arguments)
    return time.process_time() - cpu, time.perf_counter() - wall, np.asarray(w, dtype=np.float64)


def measure(name: str, repeats: int, only: list[str] | None, long: float) -> dict[str, Any]:
    """Measure all fits of one table."""
    table = TABLES[name]
    X, y = make(table)
    loss = LOSSES[table.family](X, y, l2=L2)
    first, best = loss.value(np.zeros(loss.dim)), math.inf
    chosen: dict[str, Any] = {"proxyprox default": (ours, None)}
    notes: dict[str, str] = {}
    first_seconds: dict[str, float] = {}
    ours(table, X[:3000], y[:3000], None)
    memory = peak_memory(partial(ours, table, X, y, None))
    reference = minimise_exactly(loss, ours(table, X, y, None), tol=1e-13)
    best = min(best, loss.value(reference))

    def gap(w: Array) -> float:
        return (loss.value(w) - best) / (first - best)

    for rival, (fit, tolerances) in {"proxyprox": (ours, OURS), **rivals_for(table)}.items():
        if only is not None and not any(part in rival for part in ["proxyprox", *only]):
            continue
        try:
            # Imported and compiled before the clock starts.
            fit(table, X[::WARM], y[::WARM], tolerances[0])
            for tol in tolerances:
                seconds, _, w = clocked(fit, table, X, y, tol)
                found = gap(w)
                if found <= GAP:
                    chosen[rival], first_seconds[rival] = (fit, tol), seconds
                    break
                notes[rival] = f"gap {found:.1e} after {seconds:.2f} s with tol={tol:.0e}"
                others = (took for name, took in first_seconds.items() if name != "proxyprox")
                if seconds > min(long, SLOW * min(others, default=math.inf)):
                    break
            else:
                continue
        except Exception as error:
            notes[rival] = f"{type(error).__name__}: {str(error)[:100]}"
    runs: dict[str, list[tuple[float, float, float]]] = {key: [] for key in chosen}
    least = min(first_seconds.values())
    for number in range(repeats):
        for key, (fit, tol) in chosen.items():
            if number >= FEW and first_seconds.get(key, 0.0) > SLOW * least:
                continue
            cpu, wall, w = clocked(fit, table, X, y, tol)
            runs[key].append((cpu, wall, gap(w)))
    rows = {
        key: {
            "tol": chosen[key][1],
            "cpu": float(np.median([run[0] for run in each])),
            "cpu_all": [round(run[0], 4) for run in each],
            "wall": float(np.median([run[1] for run in each])),
            "gap": float(np.median([run[2] for run in each])),
        }
        for key, each in runs.items()
    }
    result = minimize(LOSSES[table.family](X, y, l2=L2))
    return {
        "table": table._asdict(), "fits": rows, "notes": {k: v for k, v in notes.items()
        if k not in rows}, "method": result.method, "passes": result.ledger.target_gradients,
        "memory": {"extra": memory, "data": size_of(X), "rows": table.rows, "d": loss.dim},
    }  # fmt: skip


def size_of(X: Any) -> int:
    """Return the bytes of a table."""
    if scipy.sparse.issparse(X):
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return int(X.nbytes)


def peak_memory(fit: Callable[[], Any]) -> int:
    """Return how many bytes more than before the process holds at most while a fit runs."""
    import threading

    import psutil

    process, done, most = psutil.Process(), threading.Event(), [0]

    def watch() -> None:
        while not done.wait(0.001):
            most[0] = max(most[0], process.memory_info().rss)

    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        # What the table's making has left free would hide what the fit takes.
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    before = process.memory_info().rss
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        fit()
    finally:
        done.set()
        watcher.join()
    return max(most[0] - before, 0)


def versions() -> dict[str, str]:
    """Return the versions of the rivals."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("numpy", "scipy", "scikit-learn", "glum", "cyanure", "skglm"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def summary(path: Path) -> str:
    """Return the record as a table of Markdown: seconds to 1e-6, and ours to its default end."""
    tables = json.loads(path.read_text())["tables"]
    rivals = ("scipy", "sklearn lbfgs", "sklearn newton-cholesky", "glum irls", "skglm lbfgs")
    head = "| table | rows × columns | default end | to 1e-6 | "
    lines = [f"{head}{' | '.join(rivals)} | fastest other | ratio |"]
    lines.append("|---" * (len(rivals) + 6) + "|")
    for name, found in tables.items():
        fits, shape = found["fits"], found["table"]
        ours = best_of(fits)
        others = {rival: row["cpu"] for rival, row in fits.items() if rival[:5] != "proxy"}
        cells = [f"{others[rival]:.2f}" if rival in others else "–" for rival in rivals]
        size = f"{shape['rows']:,} × {shape['columns']:,}"
        default = fits["proxyprox default"]
        fastest = min(others, key=lambda rival: others[rival])
        ratio = ours / others[fastest]
        end = f"{default['cpu']:.2f} ({default['gap']:.0e})"
        row = [
            f"{name} ({shape['family']})",
            size,
            end,
            f"{ours:.3f}",
            *cells,
            fastest,
            f"{ratio:.2f}",
        ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def wall_table(path: Path) -> str:
    """Return wall seconds to 1e-6, ours and the fastest rival's, and our peak memory.

    The limit of the memory is a tenth of the data, three vectors of the rows and two matrices of
    the parameters.
    """
    head = ("table", "ours", "fastest other", "its seconds", "ratio", "MiB more", "limit")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, found in json.loads(path.read_text())["tables"].items():
        fits, memory = found["fits"], found["memory"]
        ours = best_of(fits, "wall")
        others = {key: row["wall"] for key, row in fits.items() if key[:5] != "proxy"}
        fastest = min(others, key=lambda rival: others[rival])
        limit = memory["data"] / 10 + 24 * memory["rows"] + 16 * memory["d"] ** 2
        cells = [name, f"{ours:.3f}", fastest, f"{others[fastest]:.3f}"]
        cells += [f"{ours / others[fastest]:.2f}", f"{memory['extra'] / 2**20:.0f}"]
        lines.append(f"| {' | '.join(cells)} | {limit / 2**20:.0f} |")
    return "\n".join(lines)


def best_of(fits: dict[str, Any], clock: str = "cpu") -> float:
    """Return our fewest seconds that end at a gap of 1e-6 or less."""
    return min(
        row[clock] for key, row in fits.items() if key.startswith("prox") and row["gap"] <= GAP
    )


def show(name: str, found: dict[str, Any]) -> None:
    """Print one table's seconds."""
    print(f"{name}: {found['passes']} passes; {found['method'][:300]}")
    for key, row in found["fits"].items():
        seconds = f"{row['cpu']:8.3f} s, wall {row['wall']:8.3f} s"
        print(f"   {key:26} {seconds}   gap {row['gap']:.1e}   tol {row['tol']}")
    for key, note in found["notes"].items():
        print(f"   {key:26} {note}")


def main() -> None:
    """Measure the tables, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="append", choices=TABLES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="by default as OMP_NUM_THREADS says")
    parser.add_argument("--rivals", nargs="*")
    parser.add_argument("--long", type=float, default=20.0, help="seconds after which no smaller")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--missing", action="store_true", help="tables that the record lacks")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.child:
        found = measure(given.table[0], given.repeats, given.rivals, given.long)
        print(json.dumps(found))
        return
    if given.threads:
        # Read by the process of each table when its libraries are loaded.
        for kind in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
            os.environ[f"{kind}_NUM_THREADS"] = str(given.threads)
    record: dict[str, Any] = {"versions": versions(), "tables": {}}
    if given.out and given.out.exists():
        record["tables"] = json.loads(given.out.read_text())["tables"]
    names = given.table or [*TABLES]
    for name in [name for name in names if not (given.missing and name in record["tables"])]:
        command = [sys.executable, __file__, "--child", "--table", name]
        table = TABLES[name]
        huge = table.rows * table.columns >= HUGE and table.kind not in ("sparse", "text")
        repeats = min(given.repeats, FEW) if huge else given.repeats
        command += ["--repeats", str(repeats), "--long", str(given.long)]
        command += [] if given.rivals is None else ["--rivals", *given.rivals]
        begun = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            print(f"{name}: not done within {LIMIT} s")
            continue
        if done.returncode:
            print(name, done.stderr[-2000:])
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        found["seconds"] = round(time.perf_counter() - begun, 1)
        record["tables"][name] = found
        show(name, found)
        sys.stdout.flush()
        if given.out:
            given.out.write_text(json.dumps(record))
    if given.out:
        record["threads"] = os.environ.get("OMP_NUM_THREADS", "all")
        write_record(given.out, record, measures=MEASURES)


if __name__ == "__main__":
    main()
