"""Many passes over a finite sum: where variance reduction removes the floor, and what beats it.

Run ``python benchmarks/no_floor.py [--seeds 3] [--only TEXT] [--write FOLDER]``: eight minutes on
one core. The target is logistic regression on every row, the proxy the same loss on a few of them
(with the label-free proxy of all rows, δ = 0, one pass with ``DANE()`` solves each of these). A
pass is n gradients of single rows; both points of a batch count. Every tuned method has ten
settings (step sizes × batch sizes); the number shown after some passes is that of its best setting
there, median over the seeds, picked with the true loss; of SGD, Adam and ProxyProx the better of
the last and the mean iterate.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import math
import runpy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize as scipy_minimize

import proxyprox as pp
from experiments import datasets
from experiments.records import write_record
from experiments.report.figures import styles

# By its file: opacus installs a package of the name "examples".
FILE = Path(__file__).parents[1] / "examples" / "finite_sums.py"
METHODS = runpy.run_path(str(FILE), run_name="finite_sums")
PAGE, SAGA, SVRP = (METHODS[name] for name in ("PAGE", "SAGA", "SVRP"))
MARKS = (0.5, 1, 2, 3, 5, 10, 20)
BATCHES = (256, 1024)


@dataclass(frozen=True)
class Table:
    """A finite sum, its least value, a proxy, and the batch sizes to try."""

    name: str
    target: Any
    proxy: Any
    optimum: float
    batches: tuple[int, ...]

    @property
    def rows(self) -> int:
        return int(self.target.samples(None))


def tables(only: str) -> Iterator[Table]:
    """Yield the problems: with label noise, the same of few rows, and without."""
    for name, dataset, rows, proxy_rows, batches in (
        ("a9a, 1 % proxy", "a9a", None, 326, BATCHES),
        ("a9a, 1000 rows, 10 % proxy", "a9a", 1000, 100, (8, 64)),
        ("mushrooms, 1 % proxy", "mushrooms", None, 81, BATCHES),
    ):
        if only not in name:
            continue
        data = datasets.load(dataset)
        kept = np.random.default_rng(0).permutation(data.X.shape[0])[:rows]
        target = pp.logistic_regression(data.X[kept], data.y[kept], l2=1e-4)
        exact = pp.minimize(pp.Problem(target, target.label_free()), method=pp.DANE(), steps=3).w
        proxy = target.subsample(proxy_rows, rng=0)
        yield Table(name, target, proxy, target.value(exact), batches)


class Watch:
    """Notes the suboptimality when passes are paid for; ``mean`` also that of the mean."""

    def __init__(self, table: Table, *, mean: bool = False) -> None:
        self.table, self.paid, self.drawn, self.found = table, 0, 0, {}
        self.mean, self.count = (0.0 if mean else None), 0

    def note(self, w: Any, rows: int) -> bool:
        """Enter a step to w that cost this many rows; tell whether all passes are done."""
        self.paid, self.count = self.paid + rows, self.count + 1
        if self.mean is not None:
            self.mean = self.mean + (w - self.mean) / self.count
        for mark in MARKS:
            if mark not in self.found and self.paid >= 0.999 * mark * self.table.rows:
                points = [w] if self.mean is None else [w, self.mean]
                values = [self.table.target.value(point) for point in points]
                self.found[mark] = float(np.nanmin(values)) - self.table.optimum
        return self.paid >= MARKS[-1] * self.table.rows

    def __call__(self, step: Any) -> bool:
        rows = len(step.gradients) * (step.ledger.target_samples - self.drawn)
        self.drawn = step.ledger.target_samples
        return self.note(step.answer, rows)


def run_method(method: Any, *, mean: bool = False) -> Callable[..., dict[float, float]]:
    def run(table: Table, batch: int | None, seed: int) -> dict[float, float]:
        watch = Watch(table, mean=mean)
        problem = pp.Problem(table.target.with_batch_size(batch), table.proxy)
        limit = int(MARKS[-1] * table.rows)
        ends = {"tol": 0.0} if batch is None else {}
        with contextlib.suppress(pp.OracleError, pp.inner.NonFiniteError):
            pp.minimize(problem, method=method, steps=limit, rng=seed, callback=watch, **ends)
        return watch.found

    return run


def run_page(eta: float) -> Callable[..., dict[float, float]]:
    def run(table: Table, batch: int, seed: int) -> dict[float, float]:
        return run_method(PAGE(eta, batch / table.rows))(table, batch, seed)

    return run


def run_lbfgs(table: Table, batch: None, seed: int) -> dict[float, float]:
    watch, target = Watch(table), table.target

    def both(w: Any) -> tuple[float, Any]:
        watch.note(w, table.rows)
        return target.value_and_gradient(w)

    options = {"maxcor": 20, "maxfun": int(MARKS[-1]) + 1, "ftol": 0, "gtol": 0}
    scipy_minimize(both, target.zeros(), jac=True, method="L-BFGS-B", options=options)
    return watch.found


def settings(table: Table) -> dict[str, list[tuple[str, int | None, Callable[..., Any]]]]:
    """Return for every method its settings: a name, the batch size and what runs it."""
    H, batches = table.target.smoothness, table.batches
    small = batches != BATCHES

    def grid(make: Callable[[float], Any], sizes: tuple[float, ...], which: Any = batches) -> Any:
        return [(f"{x:g}, batch {b}", b, make(x)) for b in which for x in sizes]

    prox = (1.0, 3.0, 10.0, 30.0, 100.0)
    # Steps of small batches cannot be as long as those of large ones.
    reduced = prox if small else (10.0, 30.0, 100.0, 300.0, 1000.0)
    found = {
        "SGD": grid(lambda x: run_method(pp.SGD(x), mean=True),
                    tuple(x / H for x in (0.3, 1.0, 3.0, 10.0, 30.0))),
        "Adam": grid(lambda x: run_method(pp.Adam(x), mean=True), (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)),
        "ProxyProx": grid(lambda x: run_method(pp.ProxyProx(x), mean=True), prox),
        "ProxyProx auto": [(f"batch {b}", b, run_method(pp.ProxyProx("auto"))) for b in batches],
        "SVRP": grid(lambda x: run_method(SVRP(x)), reduced),
        "SVRP auto": [(f"batch {b}", b, run_method(SVRP())) for b in batches],
        "PAGE": grid(run_page, reduced),
        "L-BFGS": [("memory 20", None, run_lbfgs)],
        "ProxyBFGS": [("", None, run_method(pp.ProxyBFGS()))],
    }  # fmt: skip
    if small:
        sizes = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
        found["SAGA"] = grid(lambda x: run_method(SAGA(x)), sizes, (1,))
    return found


def measure(table: Table, only: str, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield a row for every method and number of passes."""
    for method, tried in settings(table).items():
        if only not in method:
            continue
        medians, spreads, times = {}, {}, {}
        for name, batch, run in tried:
            found: dict[float, list[float]] = {mark: [] for mark in MARKS}
            begun, repeats = time.perf_counter(), 1 if batch is None else seeds
            for seed in range(repeats):
                with np.errstate(all="ignore"):
                    curve = run(table, batch, seed)
                for mark in MARKS:
                    found[mark].append(curve.get(mark, math.inf))
            times[name] = (time.perf_counter() - begun) / repeats
            medians[name] = {mark: float(np.median(values)) for mark, values in found.items()}
            spreads[name] = {mark: max(v) / max(min(v), 1e-16) for mark, v in found.items()}
        line = []
        for mark in MARKS:
            best = min(medians, key=lambda name, mark=mark: medians[name][mark])
            value = max(medians[best][mark], 1e-16)
            line.append(f"{value:.1e}")
            if math.isfinite(value):
                yield {
                    "problem": table.name, "method": method, "passes": mark,
                    "suboptimality": f"{value:.3g}", "setting": best,
                    "largest_over_least_seed": f"{spreads[best][mark]:.3g}",
                    "seconds_of_20_passes": f"{times[best]:.2f}",
                }  # fmt: skip
        slowest = max(times[name] for name in times)
        print(f"{table.name:28} {method:16}", *line, f"  {slowest:5.1f} s", flush=True)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw one panel for each problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["problem"] for row in rows))
    figure, axes = plt.subplots(1, len(names), figsize=(4.6 * len(names), 4.2), squeeze=False)
    looks = styles(rows)
    for axis, name in zip(axes[0], names, strict=True):
        own = [row for row in rows if row["problem"] == name]
        for method in dict.fromkeys(row["method"] for row in own):
            points = [(float(r["passes"]), float(r["suboptimality"])) for r in own
                      if r["method"] == method]  # fmt: skip
            style = "--" if "BFGS" in method else "-"
            axis.loglog(*zip(*points, strict=True), style, label=method, ms=3,
                        marker=looks[method].marker, color=looks[method].colour)  # fmt: skip
        axis.set(title=name, xlabel="passes over the data", ylim=(1e-10, 1))
        axis.set_xticks(MARKS, [f"{mark:g}" for mark in MARKS])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("L − L*, best of ten settings")
    handles = {}
    for axis in axes[0]:
        handles.update(dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True)))
    figure.legend(handles.values(), handles, loc="lower center", ncols=len(handles), frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, dpi=130)


def page_table(path: Path) -> str:
    """Return the table of the page: medians after some passes, the least of each column bold."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = [(name, mark) for name in ("a9a, 1 % proxy", "mushrooms, 1 % proxy")
               for mark in ("2", "5", "10", "20")]  # fmt: skip
    found = {
        (row["method"], row["problem"], row["passes"]): float(row["suboptimality"]) for row in rows
    }
    methods = [row["method"] for row in rows if row["problem"] == columns[0][0]]
    lines = ["| L − L* after passes | a9a: 2 | 5 | 10 | 20 | mushrooms: 2 | 5 | 10 | 20 |"]
    lines.append("|---" * 9 + "|")
    for method in dict.fromkeys(methods):
        cells = [method]
        for column in columns:
            least = min(found[each, *column] for each in methods)
            text = f"{found[method, *column]:.1e}".replace("e-0", "e-")
            cells.append(f"**{text}**" if found[method, *column] == least else text)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def spread_words(path: Path) -> str:
    """Return how far apart the seeds of one setting are."""
    with path.open(encoding="utf-8", newline="") as file:
        found = [float(row["largest_over_least_seed"]) for row in csv.DictReader(file)]
    alone = [spread for spread in found if spread > 1]
    return f"{np.median(alone):.1f} times the least in the median, {max(alone):.0f} times at most"


def main() -> None:
    """Print the table, and write it and its figure if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--method", default="", help="methods whose name contains this")
    parser.add_argument("--write", type=Path)
    given, rows = parser.parse_args(), []
    print(f"{'L − L* after passes:':45}", *(f"{mark:7g}" for mark in MARKS))
    for table in tables(given.only):
        rows += measure(table, given.method, given.seeds)
    if given.write is not None:
        path = given.write / "no_floor.csv"
        write_record(path, rows, measures=["src/proxyprox/methods", "src/proxyprox/inner"])
        draw(rows, given.write / "figure_passes.png")


if __name__ == "__main__":
    main()
