"""Rounds with hard families and samples: Poisson, Gamma, sorted and drifted samples, ridge.

Run ``python benchmarks/rounds_families.py [--only TEXT] [--output docs/results/rounds]``. Rounds
are counted as in :mod:`rounds`; the level is 1e-6 of the gap at w = 0. Writes ``families.csv``.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import proxyprox as pp
import rounds_rivals as rivals
from experiments.records import write_record
from proxyprox.inner.exact import minimise_exactly
from rounds import LIMIT, MEASURES, best_damping, library, shown
from rounds_cases import Target

DRAWS = 3
ROWS, COLUMNS = 20_000, 50
L2 = 1e-6
OURS, METRIC, NEWTON = "ours, default", "metric by hand, best λ", "Newton from ŵ"


def columns(rng: np.random.Generator) -> Any:
    """Return rows whose neighbouring columns are alike."""
    X = rng.normal(size=(ROWS, COLUMNS))
    for j in range(1, COLUMNS):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    return X


def score(rng: np.random.Generator, X: Any, spread: float) -> Any:
    """Return a random linear function of the rows with this deviation."""
    z = X @ rng.normal(size=X.shape[1])
    return z * spread / z.std()


def with_gap(name: str, loss: Any) -> Target:
    """Return a target whose levels are shares of the gap at w = 0."""
    start = np.zeros(loss.dim)
    least = float(loss.value(minimise_exactly(loss, start, tol=1e-13)))
    gap = float(loss.value(start)) - least
    return Target(name, loss, least, tuple(level * gap for level in (1e-2, 1e-4, 1e-6, 1e-8)))


def poisson(spread: float) -> Any:
    """Return a Poisson loss; the logarithms of its means have this deviation."""
    rng = np.random.default_rng(0)
    X = columns(rng)
    y = rng.poisson(np.exp(score(rng, X, spread))).astype(float)
    return pp.poisson_regression(X, y, l2=L2)


def gamma(spread: float) -> Any:
    """Return a Gamma loss of shape 2; the logarithms of its means have this deviation."""
    rng = np.random.default_rng(1)
    X = columns(rng)
    return pp.gamma_regression(X, rng.gamma(2.0, np.exp(score(rng, X, spread)) / 2), l2=L2)


def ridge() -> Any:
    """Return a linear loss whose Hessian has a condition of 1e8: units from 1 to 1e-4."""
    rng = np.random.default_rng(2)
    units = np.logspace(0, -4, COLUMNS)
    X = rng.normal(size=(ROWS, COLUMNS))
    z = X @ rng.normal(size=COLUMNS)
    return pp.linear_regression(X * units, z + rng.normal(size=ROWS), l2=1e-9)


def logistic() -> Any:
    """Return a logistic loss, its rows sorted by a column."""
    rng = np.random.default_rng(3)
    X = columns(rng)
    X = X[np.argsort(X[:, 0])]
    y = (score(rng, X, 2.0) + rng.logistic(size=ROWS) > 0).astype(float)
    return pp.logistic_regression(X, y, l2=L2)


def share(part: float) -> Callable[[Any, int], Any]:
    """Return the maker of a proxy on rows drawn at random."""
    return lambda loss, draw: loss.subsample(
        round(part * ROWS), rng=np.random.default_rng([draw, 21])
    )


def stretch(part: float) -> Callable[[Any, int], Any]:
    """Return the maker of a proxy on neighbouring rows of the sorted table."""

    def make(loss: Any, draw: int) -> Any:
        rows = round(part * ROWS)
        first = int(np.random.default_rng([draw, 22]).integers(ROWS - rows))
        here = slice(first, first + rows)
        return pp.logistic_regression(loss.design.X[here], loss.targets[here], l2=L2)

    return make


def drifted(part: float) -> Callable[[Any, int], Any]:
    """Return the maker of a proxy whose rows and labels have drifted.

    Rows are drawn by weights that grow along a direction; labels follow the loss's minimiser
    turned by 30 degrees.
    """

    def make(loss: Any, draw: int) -> Any:
        rng = np.random.default_rng([draw, 23])
        X = loss.design.X
        drift = np.exp(score(rng, X, 1.0))
        chosen = rng.choice(ROWS, round(part * ROWS), p=drift / drift.sum())
        w = minimise_exactly(loss, np.zeros(loss.dim), tol=1e-9)
        away = rng.normal(size=loss.dim)
        away -= w * (away @ w) / (w @ w)
        away *= np.linalg.norm(w) / np.linalg.norm(away)
        turned = math.cos(math.pi / 6) * w + math.sin(math.pi / 6) * away
        y = X[chosen] @ turned + rng.logistic(size=len(chosen)) > 0
        return pp.logistic_regression(X[chosen], y.astype(float), l2=L2)

    return make


CASES = {
    "Poisson, deviation 1": (lambda: poisson(1.0), {"1 %": share(0.01), "5 %": share(0.05)}),
    "Poisson, deviation 2": (lambda: poisson(2.0), {"1 %": share(0.01), "5 %": share(0.05)}),
    "Gamma, deviation 1": (lambda: gamma(1.0), {"1 %": share(0.01), "5 %": share(0.05)}),
    "Gamma, deviation 2": (lambda: gamma(2.0), {"1 %": share(0.01), "5 %": share(0.05)}),
    "logistic": (
        logistic,
        {"5 %": share(0.05), "5 %, a stretch": stretch(0.05), "5 %, drifted": drifted(0.05)},
    ),
    "ridge, condition 1e8": (ridge, {"1 %": share(0.01), "5 %": share(0.05)}),
}


def measure(target: Target, proxy: Any) -> dict[str, float]:
    """Return the rounds to 1e-6 of the first gap, ours and those of two rivals."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        start = minimise_exactly(proxy, target.start, tol=1e-9)
        solvers = {METRIC: best_damping(target, proxy, start), NEWTON: rivals.newton(start)}
        runs = {name: rivals.rounds_of(target, LIMIT, solver) for name, solver in solvers.items()}
    runs[OURS] = library(target, proxy, {}, LIMIT)
    return {name: run.to_levels()[2] for name, run in runs.items()}


def families_table(record: Path) -> str:
    """Return the rounds of each case, medians and the worst draw's."""
    with record.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    head = ["loss", "sample", OURS, METRIC, NEWTON, "most behind"]
    rows = [head, ["---"] * len(head)]
    for case in dict.fromkeys((line["loss"], line["sample"]) for line in lines):
        here = [line for line in lines if (line["loss"], line["sample"]) == case]
        counts = {
            name: [math.inf if line[name] == "–" else float(line[name]) for line in here]
            for name in (OURS, METRIC, NEWTON)
        }
        behind = max(a - b for a, b in zip(counts[OURS], counts[METRIC], strict=True))
        rows.append(
            [*case, *(shown(statistics.median(each)) for each in counts.values()), shown(behind)]
        )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="losses whose name contains this")
    parser.add_argument("--output", type=Path, help="folder of the record")
    given = parser.parse_args()
    lines = []
    with threadpool_limits(1):
        for name, (make, proxies) in CASES.items():
            if given.only not in name:
                continue
            target = with_gap(name, make())
            for kind, maker in proxies.items():
                for draw in range(DRAWS):
                    found = measure(target, maker(target.loss, draw))
                    line = {"loss": name, "sample": kind, "draw": draw}
                    lines.append(line | {key: shown(count) for key, count in found.items()})
                    print(lines[-1], flush=True)
    if given.output is not None:
        write_record(given.output / "families.csv", lines, measures=MEASURES)


if __name__ == "__main__":
    main()
