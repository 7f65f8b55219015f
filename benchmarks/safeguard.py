"""``safeguard=True`` with useless proxies, against SGD tuned with the true loss.

Run ``python benchmarks/safeguard.py [--steps 300] [--seeds 3] [--only TEXT]``. The samples are
SGD's plus the held-out ones; ratios are of final losses, medians over the seeds. The second ratio
leaves ERM out (the objective is given by functions, without rows).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import proxyprox as pp
from auto_cases import least_squares, libsvm, quadratic
from grid_runs import Grid
from proxyprox.problems.combination import ScaledProxy

RESULTS = Path(__file__).parent / "results" / "safeguard.json"


class Flipped:
    """A proxy with the wrong sign: concave where the target is convex."""

    def __init__(self, loss: Any) -> None:
        self.loss, self.dim, self.smoothness = loss, loss.dim, loss.smoothness

    def value(self, w: Any) -> float:
        return -float(self.loss.value(w))

    def gradient(self, w: Any) -> Any:
        return -self.loss.gradient(w)

    def hvp(self, w: Any, v: Any) -> Any:
        return -self.loss.hvp(w, v)

    def hessian(self, w: Any) -> Any:
        return -self.loss.hessian(w)


def breast_cancer() -> Any:
    X, y = load_breast_cancer(return_X_y=True)
    return pp.logistic_regression(StandardScaler().fit_transform(X), y, l2=1e-4, batch_size=32)


def targets() -> dict[str, Any]:
    return {
        "breast_cancer": breast_cancer(),
        "mushrooms": libsvm("mushrooms").with_batch_size(64),
        "a9a": libsvm("a9a").with_batch_size(64),
        "least_squares": least_squares().with_batch_size(64),
        "quadratic": quadratic(),
    }


def useless(target: Any) -> dict[str, Any]:
    """Return five proxies that deserve no trust."""
    rng = np.random.default_rng(0)
    if isinstance(target, pp.Quadratic):
        order = rng.permutation(target.dim)
        A = rng.normal(size=(target.dim, target.dim))
        base, permuted = target, pp.Quadratic(target.P[np.ix_(order, order)].copy())
        unrelated = pp.Quadratic(A @ A.T / target.dim)
    else:
        X = target.design.X
        base = target.subsample(max(20, target.design.rows // 20), rng=1)
        permuted = pp.GLM(X[:, rng.permutation(X.shape[1])], None, target.family, l2=target.l2)
        noise = rng.normal(size=(500, X.shape[1]))
        unrelated = pp.GLM(noise, None, target.family, l2=target.l2)
    return {
        "columns permuted": permuted,
        "unrelated data": unrelated,
        "sign flipped": Flipped(base),
        "times 0.001": ScaledProxy(base, 1e-3),
        "times 1000": ScaledProxy(base, 1e3),
    }


def tuned_sgd(target: Any, steps: int, seeds: int) -> float:
    etas = np.array([0.1 * 2.2**j for j in range(12)]) / target.smoothness
    found = []
    for seed in range(seeds):
        runs = Grid(target, None, etas, seed)
        for _ in range(steps):
            runs.step()
        found.append(runs.values(pp.Problem(target)))
    return float(np.median(found, axis=0).min())


def functions_only(target: Any) -> Any:
    return pp.FunctionObjective(target.gradient, sample=target.sample, samples=target.samples)


def main() -> None:
    """Run every target with every proxy and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    given, rows = parser.parse_args(), []
    for name, target in targets().items():
        if given.only not in name:
            continue
        sgd = tuned_sgd(target, given.steps, given.seeds)
        for kind, proxy in useless(target).items():
            begun, losses, chosen = time.perf_counter(), [], []
            for objective in (target, functions_only(target)):
                results = [
                    pp.minimize(
                        pp.Problem(objective, proxy), target.zeros(), method=pp.ProxyProx("auto"),
                        steps=given.steps, rng=seed, safeguard=True,
                    )
                    for seed in range(given.seeds)
                ]  # fmt: skip
                losses.append(float(np.median([target.value(r.w) for r in results])))
                chosen.append("/".join(r.safeguard.chosen for r in results))
            # A relative excess, so that losses below zero read the same way.
            excess = [(loss - sgd) / abs(sgd) for loss in losses]
            rows.append({"target": name, "proxy": kind, "sgd": sgd, "losses": losses})
            print(
                f"{name:14} {kind:17} tuned SGD {sgd:9.5f}",
                f"safeguard {excess[0]:+8.2%} ({chosen[0]})",
                f"without ERM {excess[1]:+8.2%} ({chosen[1]})",
                f"{time.perf_counter() - begun:.0f}s",
                flush=True,
            )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
