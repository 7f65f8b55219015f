"""``SGD("auto")`` against SGD with the best of a grid of constant step sizes.

Run ``python benchmarks/auto_sgd.py [--seeds 10] [--only TEXT] [--write FILE]``: the targets of
:mod:`auto_cases`, and five more that were looked at only after the rule was fixed. Targets are
given as functions. After K target gradients, medians over the seeds; the best of twelve η × {last
iterate, uniform mean} is picked afterwards, with the true loss.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import (
    load_digits,
    load_iris,
    make_friedman1,
    make_hastie_10_2,
    make_moons,
)
from sklearn.preprocessing import StandardScaler

import auto_cases
import proxyprox as pp
from auto_eta import SGD_GRID
from grid_runs import Grid

KS = (100, 300, 1000)


@cache
def three_or_eight() -> Any:
    """Return logistic regression of threes against eights."""
    X, y = load_digits(return_X_y=True)
    rows = (y == 3) | (y == 8)
    return pp.logistic_regression(X[rows] / 16, y[rows] == 8, l2=1e-5, intercept=True)


@cache
def hastie() -> Any:
    """Return logistic regression with squared inputs, all but separable."""
    X, y = make_hastie_10_2(4000, random_state=0)
    return pp.logistic_regression(np.c_[X, X**2 - 1], y > 0, l2=1e-5, intercept=True)


@cache
def friedman() -> Any:
    """Return least squares on a function that is not linear."""
    X, y = make_friedman1(2000, 20, noise=1.0, random_state=0)
    X = StandardScaler().fit_transform(X)
    return pp.linear_regression(X, (y - y.mean()) / y.std(), l2=1e-5)


@cache
def moons() -> Any:
    """Return logistic regression with random cosines of two inputs."""
    rng = np.random.default_rng(0)
    X, y = make_moons(3000, noise=0.15, random_state=0)
    W, b = 2 * rng.normal(size=(2, 100)), rng.uniform(0, 6.3, 100)
    return pp.logistic_regression(0.3 * np.cos(X @ W + b), y, l2=1e-6, intercept=True)


@cache
def iris() -> Any:
    """Return logistic regression of one of three irises."""
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    return pp.logistic_regression(X, y == 1, l2=1e-4, intercept=True)


UNSEEN = ((three_or_eight, 32), (hastie, 64), (friedman, 32), (moons, 32), (iris, 16))


def targets() -> dict[str, Callable[[], Any]]:
    """Return the makers of all targets by name: one for each target and batch size."""
    found = {}
    for cell in auto_cases.cells():
        name = cell.name.split(" noise")[0].rsplit(" ", 1)[0]
        found.setdefault(" ".join(name.split(" ")[:2]), cell.target)
    for maker, batch in UNSEEN:
        found[f"{maker.__name__} b{batch}, unseen"] = auto_cases.with_batch(maker, batch)
    return found


def tuned(target: Any, optimum: float, seeds: int) -> dict[int, float]:
    """Return the least median suboptimality of the grid for every K."""
    H = target.smoothness if np.isfinite(target.smoothness) else 2.0
    found: dict[int, list[Any]] = {K: [] for K in KS}
    for seed in range(seeds):
        runs = Grid(target, None, np.array(SGD_GRID) / H, seed)
        for k in range(1, max(KS) + 1):
            runs.step()
            if k in KS:
                found[k].append(runs.values(pp.Problem(target)) - optimum)
    return {K: float(np.median(values, axis=0).min()) for K, values in found.items()}


def measured(target: Any, optimum: float, seeds: int) -> dict[int, float]:
    """Return the median suboptimality of ``SGD("auto")`` for every K."""
    functions = pp.FunctionObjective(target.gradient, sample=target.sample, samples=target.samples)
    found: dict[int, list[float]] = {K: [] for K in KS}
    for seed in range(seeds):
        answers: dict[int, Any] = {}

        def watch(step: Any, answers: dict[int, Any] = answers) -> None:
            answers.update({K: step.answer for K in KS if step.ledger.target_gradients <= K})

        call = {"method": pp.SGD("auto"), "budget": max(KS), "rng": seed, "callback": watch}
        pp.minimize(pp.Problem(functions), target.zeros(), **call)
        for K in KS:
            found[K].append(target.value(answers[K]) - optimum)
    return {K: float(np.median(values)) for K, values in found.items()}


def main() -> None:
    """Print the table, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", help="targets whose name contains this")
    parser.add_argument("--write", type=Path)
    given, table = parser.parse_args(), {}
    for name, make in targets().items():
        if given.only not in name:
            continue
        target, optimum = make(), auto_cases._optimum(make)
        best = tuned(target, optimum, given.seeds)
        auto = measured(target, optimum, given.seeds)
        row = table[name] = {}
        for K in KS:
            excess = (auto[K] - best[K]) / abs(best[K] + optimum)
            sizes = {"auto": auto[K], "tuned": best[K], "ratio": auto[K] / best[K]}
            row[str(K)] = {key: float(f"{v:.3g}") for key, v in {**sizes, "excess": excess}.items()}
        cells = (f"K={K} {r['ratio']:5.2f} loss {r['excess']:+8.2%}" for K, r in row.items())
        print(f"{name:26}", " | ".join(cells), flush=True)
    if given.write is not None:
        text = "suboptimality after K target gradients, medians over the seeds; excess: of the loss"
        record = {"quantity": text, "seeds": given.seeds, "targets": table}
        given.write.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
