"""``safeguard=True`` with useless proxies, and methods without one, against SGD tuned by the truth.

Run ``python benchmarks/safeguard.py [--steps 300] [--seeds 3] [--only TEXT] [--output FILE]``. Each
number is the excess of a final loss over that of SGD with the best of twelve step sizes, last
iterate or mean, chosen with the true loss; medians over the seeds. The second number of a proxy
leaves ERM out (the objective is given by functions, without rows). The rivals are shown tuned in
the same way and with ``eta="auto"`` (Adam has none), also after 30 steps. ``more_samples`` is the
largest share of samples that a safeguarded run drew beyond those of its steps.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import auto_cases
import proxyprox as pp
from experiments.records import write_record
from experiments.rivals import Momentum
from grid_runs import gradients
from proxyprox.problems.combination import MixedProxy

RESULTS = Path(__file__).parent / "results" / "safeguard.json"

# Steps after which the rivals are shown as well: some rules take longer to find their scale.
EARLY = 30

# The middle of a method's grid: in units of 1/H, or of the parameters where it scales the gradient.
RIVALS = {
    "SGD": (pp.SGD("auto"), 0.1 * 2.2**5.5),
    "heavy ball": (Momentum(), 0.7),
    "Nesterov": (Momentum(nesterov=True), 0.7),
    "Adam": (None, 0.05),
}


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


def quadratic() -> Any:
    """Return a noisy quadratic with eigenvalues from 1e-3 to 1."""
    rng = np.random.default_rng(14)
    U = np.linalg.qr(rng.normal(size=(50, 50)))[0]
    P = (U * np.logspace(-3, 0, 50)) @ U.T
    return pp.Quadratic((P + P.T) / 2, b=P @ rng.normal(size=50), noise=0.3)


def targets() -> dict[str, Any]:
    return {
        "breast_cancer": auto_cases.breast_cancer().loss(32),
        "mushrooms": auto_cases.mushrooms().loss(64),
        "a9a": auto_cases.a9a().loss(64),
        "least_squares": auto_cases.correlated_squares().loss(64),
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
        "times 0.001": MixedProxy([base], [1e-3]),
        "times 1000": MixedProxy([base], [1e3]),
    }


def step_sizes(name: str, target: Any) -> Any:
    """Return twelve step sizes for a method, each 2.2 times the one before."""
    middle = RIVALS[name][1] * 2.2 ** (np.arange(12) - 5.5)
    return middle if name == "Adam" else middle / target.smoothness


def tuned(name: str, target: Any, steps: int, seeds: int) -> float:
    """Return the lowest median loss of a method over its grid, of the last iterate or the mean."""
    etas, found = step_sizes(name, target), []
    for seed in range(seeds):
        rng, W = np.random.default_rng(seed), np.zeros((target.dim, 12))
        mean, m, v = W, 0 * W, 0 * W
        for k in range(1, steps + 1):
            with np.errstate(all="ignore"):
                G = gradients(target, W, target.sample(rng))
                m = 0.9 * m + (0.1 if name == "Adam" else 1.0) * G
                v = 0.999 * v + 0.001 * G * G
                direction = {
                    "SGD": G,
                    "heavy ball": m,
                    "Nesterov": G + 0.9 * m,
                    "Adam": m / (1 - 0.9**k) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8),
                }[name]
                W = W - etas * direction
                # A run that is lost is never the best.
                W = np.where(np.abs(W) < 1e8, W, 1e8)
                mean = mean + (W - mean) / k
        with np.errstate(all="ignore"):
            losses = [[target.value(w.copy()) for w in M.T] for M in (W, mean)]
        found.append(np.nan_to_num(losses, nan=np.inf))
    return float(np.median(found, axis=0).min())


def functions_only(target: Any) -> Any:
    return pp.FunctionObjective(target.gradient, sample=target.sample, samples=target.samples)


def alone(method: Any, target: Any, steps: int, seeds: int) -> float:
    """Return the median loss of a method that runs alone."""
    results = [
        pp.minimize(pp.Problem(target), target.zeros(), method=method, steps=steps, rng=seed)
        for seed in range(seeds)
    ]
    return float(np.median([target.value(result.w) for result in results]))


def excess(loss: float, sgd: float) -> float:
    """Return the relative excess over SGD's loss; losses below zero read the same way."""
    return round((loss - sgd) / abs(sgd), 4)


def rivals(target: Any, steps: int, seeds: int) -> dict[str, dict[str, float]]:
    """Return the excess of every method without a proxy, tuned and with ``eta="auto"``."""
    sgd = tuned("SGD", target, steps, seeds)
    return {
        name: {"tuned": excess(tuned(name, target, steps, seeds), sgd)}
        | ({"auto": excess(alone(method, target, steps, seeds), sgd)} if method else {})
        for name, (method, _) in RIVALS.items()
    }


def guard_table(file: Path) -> str:
    """Return the excess with useless proxies, from least to most, and that of lone rivals."""
    found = json.loads(file.read_text(encoding="utf-8"))
    names = list(next(iter(found["rivals"].values())))
    lines = [f"| target | with rows | functions | {' | '.join(names)} |"]
    lines.append("|" + "---|" * (3 + len(names)))
    for target, rows in found["targets"].items():
        cells = []
        for column in ("safeguard", "without_erm"):
            ends = sorted(100 * row[column] for row in rows.values())
            cells.append(f"{ends[0]:+.1f} … {ends[-1]:+.1f}")
        for rival in found["rivals"][target].values():
            shares = (rival.get(kind) for kind in ("tuned", "auto"))
            cells.append(" / ".join(f"{100 * share:+.1f}" for share in shares if share is not None))
        lines.append(f"| {target} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run every target with every proxy and print the excesses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    shape = given.steps, given.seeds
    quantity = "excess of the final loss over that of tuned SGD, relative; "
    quantity += f"{given.steps} steps, medians of {given.seeds} seeds"
    found: dict[str, Any] = {
        "quantity": quantity,
        "rivals": {},
        "rivals_early": {},
        "more_samples": 0.0,
        "targets": {},
    }
    for name, target in targets().items():
        if given.only not in name:
            continue
        begun, sgd = time.perf_counter(), tuned("SGD", target, *shape)
        found["rivals"][name] = rivals(target, *shape)
        found["rivals_early"][name] = rivals(target, EARLY, given.seeds)
        print(name, f"tuned SGD {sgd:.5f}", found["rivals"][name], flush=True)
        found["targets"][name] = {}
        for kind, proxy in useless(target).items():
            row = {}
            for column, objective in (
                ("safeguard", target),
                ("without_erm", functions_only(target)),
            ):
                results = [
                    pp.minimize(
                        pp.Problem(objective, proxy), target.zeros(), method=pp.ProxyProx("auto"),
                        steps=given.steps, rng=seed, safeguard=True,
                    )
                    for seed in range(given.seeds)
                ]  # fmt: skip
                row[column] = excess(float(np.median([target.value(r.w) for r in results])), sgd)
                row[f"{column}_chosen"] = "/".join(r.safeguard.chosen for r in results)
                size = target.samples(target.sample(np.random.default_rng(0)))
                drawn = max(r.ledger.target_samples for r in results) / (size * given.steps)
                found["more_samples"] = max(found["more_samples"], round(drawn - 1, 4))
            found["targets"][name][kind] = row
            print(f"{name:14} {kind:17} {row} {time.perf_counter() - begun:.0f}s", flush=True)
    write_record(given.output, found, measures=["src/proxyprox/advice/safeguard.py"])


if __name__ == "__main__":
    main()
