"""Tables larger than memory: ours on Dask against L-BFGS, dask-ml, SGD and a pass in plain NumPy.

Run ``python benchmarks/scale.py``, which makes the record in about five minutes on two cores, or
with a folder for the tables and ``--gb 8 --methods pass ours lbfgs --output OUT``. Tables are made
by ``scale_data.py``. Every method and size is a process of its own with a cluster of two workers of
1 GiB; its seconds begin when the cluster stands. ``--resume`` keeps the runs that OUT/scale.json
has. ``--limit 3`` gives driver and workers a hard limit of 1 GiB of data each. To limit all
processes together use a cgroup:
``systemd-run --scope -p MemoryMax=3G -p MemorySwapMax=0 python benchmarks/scale.py …``.

A pass is one reading of all rows: that which draws the sample and those of line searches included.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import os
import platform
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import scipy.linalg
import scipy.optimize

from _memory import PeakMemory
from experiments.records import write_record
from scale_data import (
    LABEL,
    NumpyPasses,
    count_rows,
    make_table,
    read_group,
    row_groups,
)

RESULTS = Path(__file__).parents[1] / "docs/results/scale"
PLAN = {
    "0.2": ("ours", "lbfgs_zero", "lbfgs_scaled", "sgd"),
    "1": ("pass", "ours", "lbfgs_scaled"),
}
"""What the record has: plain L-BFGS and SGD on a small table, the others on a larger one."""

L2, SAMPLE, WORKERS = 1e-6, 20_000, 2
LEVELS = (1e-2, 1e-4, 1e-6, 1e-8)
UNTIL = 1e-6
"""(L − L*)/L* at which L-BFGS and SGD are ended; ours ends by itself."""


# -- one method, in a process of its own --------------------------------------------------------


class Trace:
    """Lines about a run, each written at once: what a killed run had done is known."""

    def __init__(self, path: Path, optimum: float | None) -> None:
        self.path, self.optimum = path, optimum
        self.lost = 0.0
        self.begun = time.perf_counter()
        self.cpu = time.process_time()

    def start(self) -> None:
        """Start the clock: the cluster stands."""
        self.lost, self.begun, self.cpu = 0.0, time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begun - self.lost

    def note(self, **fields: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(fields) + "\n")

    def look(self, passes: float, value: float) -> float:
        """Write what a pass found, and return (L − L*)/L*."""
        cpu = time.process_time() - self.cpu
        self.note(passes=passes, seconds=self.seconds, value=value, driver_cpu=cpu)
        return math.inf if self.optimum is None else value / self.optimum - 1

    @contextlib.contextmanager
    def off_the_clock(self) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.lost += time.perf_counter() - begun


class Reached(Exception):  # noqa: N818
    """The loss is low enough."""


@contextlib.contextmanager
def cluster() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    # The trouble that dask-ml's graphs have with fusion fills pages.
    logging.getLogger("distributed.scheduler").setLevel(logging.ERROR)
    settings = {"n_workers": WORKERS, "threads_per_worker": 1, "memory_limit": "1GiB"}
    with LocalCluster(dashboard_address=None, **settings) as workers, Client(workers) as client:
        yield client


@contextlib.contextmanager
def engine(table: Path, trace: Trace) -> Iterator[Any]:
    """Yield the loss on Dask; each of its passes is traced."""
    from proxyprox.dask import logistic_regression, read_parquet

    with cluster():
        trace.start()
        target = logistic_regression(read_parquet(table, label=LABEL), l2=L2)
        both, seen = target.value_and_gradient, 0

        def traced(w: Any, batch: Any = None) -> Any:
            nonlocal seen
            value, gradient = both(w, batch)
            if len(target.passes) > seen:
                seen = len(target.passes)
                trace.look(seen, value)
            return value, gradient

        target.value_and_gradient = traced
        yield target
        each = [p.seconds for p in target.passes]
        trace.note(engine_passes=[[p.purpose, p.seconds] for p in target.passes])
        trace.note(median_pass=statistics.median(each))


def run_ours(table: Path, trace: Trace) -> None:
    import proxyprox as pp

    with engine(table, trace) as target:
        proxy = target.sample_rows(SAMPLE, seed=0)
        result = pp.minimize(pp.Problem(target, proxy))
        trace.note(total=len(target.passes), total_seconds=trace.seconds, says=str(result))


def run_lbfgs(
    table: Path, trace: Trace, *, memory: int = 50, from_sample: bool = True, scaled: bool = False
) -> None:
    """SciPy's L-BFGS-B; from the minimum on the sample, which costs a pass, or from 0.

    Scaled, its variables are those in which the sample's Hessian is the identity.
    """
    from proxyprox.inner.exact import minimise_exactly

    with engine(table, trace) as target:
        start = target.zeros() if not from_sample else None
        if start is None:
            proxy = target.sample_rows(SAMPLE, seed=0)
            start = minimise_exactly(proxy, proxy.zeros(), tol=1e-9)
        root = np.eye(target.dim)
        if scaled:
            root = scipy.linalg.inv(scipy.linalg.cholesky(proxy.hessian(start)))
        optimum = trace.optimum or -math.inf

        def loss(u: Any) -> Any:
            value, gradient = target.value_and_gradient(start + root @ u)
            if value <= optimum * (1 + UNTIL):
                raise Reached
            return value, root.T @ gradient

        options = {"maxcor": memory, "ftol": 0, "gtol": 0, "maxiter": 10_000, "maxfun": 10_000}
        with contextlib.suppress(Reached):
            scipy.optimize.minimize(
                loss, np.zeros(target.dim), jac=True, method="L-BFGS-B", options=options
            )
        trace.note(total=len(target.passes), total_seconds=trace.seconds)


def run_lbfgs_zero(table: Path, trace: Trace) -> None:
    run_lbfgs(table, trace, from_sample=False)


def run_lbfgs10_zero(table: Path, trace: Trace) -> None:
    run_lbfgs(table, trace, memory=10, from_sample=False)


def run_lbfgs_scaled(table: Path, trace: Trace) -> None:
    run_lbfgs(table, trace, scaled=True)


class CountedBlocks:
    """Row groups for Dask arrays; each reading of inputs leaves a byte in a file."""

    def __init__(self, table: Path, counter: Path) -> None:
        self.groups, self.counter = row_groups(table), counter
        self.rows = count_rows(table) // len(self.groups)
        self.columns = read_group(*self.groups[0])[0].shape[1]
        counter.write_bytes(b"")

    @property
    def passes(self) -> float:
        return self.counter.stat().st_size / len(self.groups)

    def inputs(self, index: Any) -> Any:
        with self.counter.open("ab") as file:
            file.write(b".")
        return read_group(*self.groups[int(index[0])])[0]

    def labels(self, index: Any) -> Any:
        return read_group(*self.groups[int(index[0])])[1]

    def arrays(self) -> tuple[Any, Any]:
        import dask.array as da

        index = da.arange(len(self.groups), chunks=1)
        rows, like = (self.rows,) * len(self.groups), np.float32
        X = index.map_blocks(
            self.inputs, new_axis=1, chunks=(rows, (self.columns,)), meta=np.empty((0, 0), like)
        )
        y = index.map_blocks(self.labels, chunks=(rows,), meta=np.empty(0, like))
        return X, y


def run_dask_ml(table: Path, trace: Trace, *, solver: str) -> None:
    """Fits with ever more iterations, each from the start: dask-ml shows no iterates."""
    from dask_ml.linear_model import LogisticRegression

    counter = trace.path.with_suffix(".reads")
    with cluster(), NumpyPasses(table, l2=L2, processes=1) as judge, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blocks = CountedBlocks(table, counter)
        X, y = blocks.arrays()
        iterations, seen = 5, None
        while iterations <= 640:
            counter.write_bytes(b"")
            trace.start()
            model = LogisticRegression(
                solver=solver, C=1 / (L2 * X.shape[0]), fit_intercept=False, max_iter=iterations,
                tol=1e-10, solver_kwargs={"reltol": 1e-8, "abstol": 1e-8},
            )  # fmt: skip
            w = np.asarray(model.fit(X, y).coef_, dtype=np.float64)
            seconds, passes = trace.seconds, blocks.passes
            value = judge.value_and_gradient(w)[0]
            trace.note(passes=passes, seconds=seconds, value=value, iterations=iterations)
            if value <= (trace.optimum or -math.inf) * (1 + UNTIL) or value == seen:
                break
            iterations, seen = 2 * iterations, value


def run_sgd(table: Path, trace: Trace) -> None:
    """SGDClassifier over the row groups, one after the other; looked at after each epoch.

    It ends where an epoch lowers L − L* by less than a twentieth.
    """
    groups = row_groups(table)
    options = tune_sgd(groups[0])
    trace.note(says=f"SGDClassifier({options})")
    model = make_sgd(options)
    with NumpyPasses(table, l2=L2) as judge:
        before = math.inf
        trace.start()
        for epoch in range(20):
            for index in np.random.default_rng(epoch).permutation(len(groups)):
                partial_fit(model, groups[index])
            with trace.off_the_clock():
                value = judge.value_and_gradient(model.coef_.ravel().astype(np.float64))[0]
            gap = trace.look(epoch + 1, value)
            if gap <= UNTIL or gap > 0.95 * before:
                break
            before = gap


def make_sgd(options: dict[str, Any]) -> Any:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(loss="log_loss", alpha=L2, fit_intercept=False, random_state=0, **options)


def partial_fit(model: Any, group: tuple[str, int]) -> None:
    X, y = read_group(*group)
    model.partial_fit(np.ascontiguousarray(X), y, classes=[0, 1])


def tune_sgd(group: tuple[str, int]) -> dict[str, Any]:
    """Return the rates that did best in four epochs on one row group."""
    X, y = read_group(*group, np.float64)
    rates: list[dict[str, Any]] = [{"learning_rate": "optimal"}]
    rates += [{"learning_rate": "constant", "eta0": eta} for eta in (0.003, 0.01, 0.03, 0.1, 0.3)]
    rates += [{"learning_rate": "invscaling", "eta0": eta} for eta in (0.1, 1.0, 3.0)]
    losses = []
    for rate in rates:
        model = make_sgd({**rate, "average": True})
        for _ in range(4):
            model.partial_fit(np.ascontiguousarray(X), y, classes=[0, 1])
        z = X @ model.coef_.ravel()
        losses.append(float(np.mean(np.logaddexp(0, z) - y * z)))
    return {**rates[int(np.nanargmin(losses))], "average": True}


def run_optimum(table: Path, trace: Trace) -> None:
    """Newton in NumPy until the decrement is rounding: L* for all."""
    with NumpyPasses(table, l2=L2) as loss:
        trace.start()
        w, decrement = np.zeros(loss.columns), math.inf
        while decrement > 1e-14:
            value, gradient, hessian = loss.with_hessian(w)
            step = scipy.linalg.solve(hessian, gradient, assume_a="pos")
            decrement = float(gradient @ step) / value
            trace.look(loss.passes, value)
            w = w - step
        trace.note(optimum=value, condition=float(np.linalg.cond(hessian)))


def run_pass(table: Path, trace: Trace, *, repeats: int = 5) -> None:
    """Passes of the engine and of NumPy in turns, so that other work disturbs both alike."""
    with (
        engine(table, trace) as target,
        NumpyPasses(table, l2=L2, processes=WORKERS) as plain,
        NumpyPasses(table, l2=L2, processes=WORKERS, dtype="float32") as single,
    ):
        rng = np.random.default_rng(0)
        target.gradient(target.zeros())
        times: dict[str, list[float]] = {}
        for _ in range(repeats + 1):
            w = 0.1 * rng.standard_normal(target.dim)
            for name, loss in (("dask", target), ("numpy", plain), ("numpy_float32", single)):
                cpu, main, tree = time.process_time(), time.thread_time(), tree_cpu()
                begun = time.perf_counter()
                value, gradient = loss.value_and_gradient(w)
                times.setdefault(name, []).append(time.perf_counter() - begun)
                times.setdefault(f"{name}_cpu", []).append(tree_cpu() - tree)
                if name == "dask":
                    times.setdefault("driver_cpu", []).append(time.process_time() - cpu)
                    times.setdefault("driver_main_cpu", []).append(time.thread_time() - main)
                    known = value, gradient
                elif name == "numpy":
                    error = max(abs(value - known[0]), np.abs(gradient - known[1]).max())
                    times.setdefault("error", []).append(float(error))
        with_hessian = []
        for _ in range(2):
            begun = time.perf_counter()
            plain.with_hessian(w)
            with_hessian.append(time.perf_counter() - begun)
            target.hessian(w + 0.01 * len(with_hessian))
        hessians = [p.seconds for p in target.passes[-2:]]
        # The first round of each is warming up.
        medians = {name: statistics.median(each[1:]) for name, each in times.items()}
        medians |= {"dask_hessian": min(hessians), "numpy_hessian": min(with_hessian)}
        trace.note(pass_times=medians, all_times=times)


def tree_cpu() -> float:
    """Return the CPU seconds of this process and its children: a busy machine does not add any."""
    root = psutil.Process()
    times = [each.cpu_times() for each in (root, *root.children(recursive=True))]
    return sum(each.user + each.system for each in times)


METHODS: dict[str, tuple[str, Callable[[Path, Trace], None]]] = {
    "optimum": ("Newton in NumPy, for L*", run_optimum),
    "pass": ("a pass", run_pass),
    "ours": ("ours, quasi-Newton", run_ours),
    "lbfgs": ("L-BFGS (50) from the sample's minimum", run_lbfgs),
    "lbfgs_zero": ("L-BFGS (50) from 0", run_lbfgs_zero),
    "lbfgs10_zero": ("L-BFGS (10) from 0", run_lbfgs10_zero),
    "lbfgs_scaled": ("L-BFGS (50) in the sample's metric", run_lbfgs_scaled),
    "sgd": ("SGDClassifier.partial_fit", run_sgd),
    **{
        f"dask_ml_{solver}": (
            f"dask-ml, {solver}",
            lambda table, trace, solver=solver: run_dask_ml(table, trace, solver=solver),
        )
        for solver in ("lbfgs", "newton", "admm", "gradient_descent", "proximal_grad")
    },
}


def limit_data(gib: float) -> None:
    """Give this process and each child a third of the limit: driver and two workers."""
    # Arrow's own allocators reserve far more than they use, which the limit counts.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    share = int(gib * 2**30 / (WORKERS + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (share, share))


# -- all of them --------------------------------------------------------------------------------


MEASURES = ["src/proxyprox/dask", "src/proxyprox/methods/quasi_newton.py"]


def measure(method: str, table: Path, trace: Path, given: Any, optimum: float | None) -> dict:
    """Return the record of one run in a process of its own."""
    trace.unlink(missing_ok=True)
    command = [
        sys.executable,
        __file__,
        str(given.folder),
        "--child",
        method,
        "--trace",
        str(trace),
    ]
    command += ["--table", str(table), "--limit", str(given.limit)]
    command += [] if optimum is None else ["--optimum", repr(optimum)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    child = subprocess.Popen(
        command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    ended, errors = "yes", ""
    # A session of its own: whatever ends this process, its workers end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with PeakMemory(child.pid) as peak:
        try:
            _, errors = child.communicate(timeout=given.cap)
        except subprocess.TimeoutExpired:
            ended = f"no, stopped after {given.cap:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if child.returncode > 0:
        ended = f"no: {errors.strip().splitlines()[-1][:300]}"
        print(errors[-3000:], file=sys.stderr)
    lines = [json.loads(line) for line in trace.read_text().splitlines()] if trace.exists() else []
    record: dict[str, Any] = {"ended": ended}
    for line in lines:
        record |= {} if "value" in line else line
    fields = ("passes", "seconds", "value", "driver_cpu")
    record["trace"] = [[line.get(f) for f in fields] for line in lines if "value" in line]
    record |= {"peak_mib": round(peak.mib), "processes": peak.processes}
    return record


def first_at(trace: list[list[float]], optimum: float, level: float) -> tuple[float, float]:
    """Return the passes and seconds until (L − L*)/L* is at most the level."""
    for passes, seconds, value, _ in trace:
        if value / optimum - 1 <= level:
            return passes, seconds
    return math.inf, math.inf


def shown(number: float | None, form: str = ".0f") -> str:
    return "–" if number is None or not math.isfinite(number) else f"{number:{form}}"


def tables(record: dict[str, Any]) -> str:
    """Return the record as Markdown."""
    parts = [HEAD.format(**record["machine"])]
    head = ["", "passes to 1e-4", "1e-6", "seconds to 1e-4", "1e-6", "last (L − L*)/L*"]
    head += ["passes in all", "seconds in all", "peak MiB, all processes", "ended"]
    for size, runs in record["sizes"].items():
        best = runs.get("optimum", {}).get("optimum")
        if best is None:
            continue
        rows = []
        for method, (name, _) in METHODS.items():
            run = runs.get(method)
            if run is None or method in ("optimum", "pass"):
                continue
            trace = run["trace"]
            to = [first_at(trace, best, level) for level in (1e-4, 1e-6)]
            gap = f"{max(trace[-1][2] / best - 1, 0):.1e}" if trace else "–"
            last = trace[-1] if trace else [None, None]
            cells = [name, *(shown(passes) for passes, _ in to), *(shown(s) for _, s in to), gap]
            cells += [shown(run.get("total", last[0])), shown(run.get("total_seconds", last[1]))]
            rows.append([*cells, str(run["peak_mib"]), run["ended"]])
        condition = runs["optimum"]["condition"]
        text = f"L* = {best:.9f}; the Hessian's condition number there is {condition:,.0f}."
        parts.append(f"## {size} GB, {runs['rows']:,} rows\n\n{text}\n\n{markdown(head, rows)}")
    parts.append(pass_table(record))
    return "\n".join(parts)


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def page_table(path: Path) -> str:
    """Return the largest table's passes and seconds, for the page."""
    runs = list(json.loads(path.read_text())["sizes"].values())[-1]
    rows, best = list[list[str]](), runs["optimum"]["optimum"]
    for method in ("ours", "lbfgs_zero", "lbfgs_scaled"):
        if method not in runs:
            continue
        trace = runs[method]["trace"]
        passes, seconds = first_at(trace, best, 1e-6)
        reached = passes is not None and np.isfinite(passes)
        last = f"not in {trace[-1][0]:.0f}: {trace[-1][2] / best - 1:.1e}"
        cells = [shown(passes), shown(seconds)] if reached else [last, f"not in {trace[-1][1]:.0f}"]
        rows.append([METHODS[method][0], *cells, f"{runs[method]['peak_mib']} MiB"])
    head = ["", "passes to (L − L*)/L* ≤ 1e-6", "seconds", "peak memory, all processes"]
    return markdown(head, rows)


def setup_words(path: Path) -> str:
    """Return what the largest table of the record is."""
    size, runs = list(json.loads(path.read_text())["sizes"].items())[-1]
    return (
        f"{runs['rows']:,} rows of 50 correlated columns (condition number "
        f"{runs['optimum']['condition']:,.0f}), {size} GB of Parquet"
    )


def pass_table(record: dict[str, Any]) -> str:
    head = ["GB", "on Dask", "NumPy, float64", "ratio", "ratio of CPU seconds", "NumPy, float32"]
    head += ["with the Hessian: Dask", "NumPy", "driver's CPU seconds", "its own thread's"]
    rows = []
    for size, runs in record["sizes"].items():
        times = runs.get("pass", {}).get("pass_times")
        if times is None:
            continue
        ratios = [times[f"dask{kind}"] / times[f"numpy{kind}"] for kind in ("", "_cpu")]
        numbers = [times["dask"], times["numpy"], *ratios, times["numpy_float32"]]
        numbers += [times["dask_hessian"], times["numpy_hessian"]]
        cpu = [f"{times[name]:.3f}" for name in ("driver_cpu", "driver_main_cpu")]
        rows.append([size, *(f"{number:.2f}" for number in numbers), *cpu])
    text = "Seconds of one value and gradient, two processes each; medians of turns."
    return f"## A pass\n\n{text}\n\n{markdown(head, rows)}"


HEAD = """# Tables larger than memory: a recorded run

{command}

{cores} cores, {memory:.0f} GiB, {system}. Logistic regression, l2 = 1e-6, 50 columns; the proxy is
a sample of 20,000 rows. Passes count every reading of all rows, the sample's and those of line
searches included; dask-ml's are what its tasks read. SGD reads in one process.
"""


DRAWN = (
    "ours", "lbfgs_scaled", "lbfgs", "lbfgs_zero", "sgd", "dask_ml_lbfgs",
    "dask_ml_newton",
)  # fmt: skip
"""The methods of the figure, as many as a legend can name."""


def draw(record: dict[str, Any], size: str, path: Path) -> None:
    """Draw (L − L*)/L* against passes and against seconds."""
    from experiments.figures import draw_panels

    runs, rows = record["sizes"][size], []
    if len(runs.keys() & set(DRAWN)) < 2:
        return
    best = runs["optimum"]["optimum"]
    panels = ("passes", "seconds")
    for column, panel in enumerate(panels):
        for method in DRAWN:
            name, lowest = METHODS[method][0], math.inf
            for look in runs.get(method, {}).get("trace", []):
                lowest = min(lowest, max(look[2] / best - 1, 1e-10))
                gaps = dict.fromkeys(("gap_median", "gap_q25", "gap_q75"), lowest)
                rows.append({"panel": panel, "method": name, "cost": look[column], **gaps})
    labels = {"gap": "(L − L*) / L*", "cost": "cost"}
    figure = draw_panels(rows, metric="gap", x="cost", log_x=True, labels=labels)
    for axis, panel in zip(figure.axes, panels, strict=False):
        axis.set_title(f"{size} GB", fontsize=9.5)
        axis.set_xlabel(f"{panel} over the data" if panel == "passes" else panel, fontsize=9.5)
        axis.xaxis.set_minor_formatter("")
        axis.axhline(1e-6, color="0.6", linewidth=0.8, linestyle=":")
    width, height = figure.get_size_inches()
    figure.set_size_inches(1.2 * width, 1.2 * height)
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = Path(tempfile.gettempdir()) / "proxyprox_scale"
    parser.add_argument("folder", type=Path, nargs="?", default=folder, help="for the tables")
    parser.add_argument("--gb", nargs="+", default=[*PLAN], help="sizes, such as 1 2 4 8")
    parser.add_argument("--methods", nargs="+", help="by default those of the record")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--cap", type=float, default=300, help="seconds that a run may take")
    parser.add_argument("--limit", type=float, default=0, help="GiB of data in all processes")
    parser.add_argument("--resume", action="store_true", help="keep runs that are recorded")
    for name in ("child", "trace", "table"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--optimum", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        if given.limit:
            limit_data(given.limit)
        METHODS[given.child][1](Path(given.table), Trace(Path(given.trace), given.optimum))
        return
    if unknown := set(given.methods or []) - set(METHODS):
        parser.error(f"--methods {' '.join(unknown)}: must be of {', '.join(METHODS)}")
    given.output.mkdir(parents=True, exist_ok=True)
    path = given.output / "scale.json"
    kept = given.resume and path.exists()
    record = json.loads(path.read_text()) if kept else {"sizes": {}}
    for size in given.gb:
        table = make_table(given.folder, float(size))
        runs = record["sizes"].setdefault(size, {"rows": count_rows(table)})
        wanted = given.methods or PLAN.get(size, PLAN["1"])
        for method in [m for m in METHODS if m in wanted or m == "optimum"]:
            if runs.get(method, {}).get("ended") == "yes":
                continue
            optimum = runs.get("optimum", {}).get("optimum")
            print(f"{size} GB, {METHODS[method][0]} …", end=" ", flush=True)
            begun = time.perf_counter()
            trace = given.output / f"trace_{size}_{method}.jsonl"
            runs[method] = measure(method, table, trace, given, optimum)
            for file in (trace, trace.with_suffix(".reads")):
                file.unlink(missing_ok=True)
            print(
                f"{time.perf_counter() - begun:.0f} s, ended: {runs[method]['ended']}", flush=True
            )
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
            record["machine"] = {
                "command": f"`{' '.join(['python', *sys.argv])}`", "cores": os.cpu_count(),
                "memory": memory, "system": platform.platform(terse=True),
            }  # fmt: skip
            record["sizes"] = dict(sorted(record["sizes"].items(), key=lambda item: float(item[0])))
            write_record(path, record, measures=MEASURES)
            (given.output / "report.md").write_text(tables(record))
    draw(record, list(record["sizes"])[-1], given.output / "figure.png")
    print(tables(record))


if __name__ == "__main__":
    main()
