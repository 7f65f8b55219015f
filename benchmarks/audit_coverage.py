"""Do the audit's intervals hold the true values? 200 seeded cases of each kind.

python benchmarks/audit_coverage.py
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from experiments.records import write_record
from proxyprox import (
    FunctionObjective,
    Problem,
    Quadratic,
    linear_regression,
    logistic_regression,
    poisson_regression,
    softmax_regression,
)
from proxyprox.diagnostics.audit import audit
from proxyprox.diagnostics.report import Audit

RECORD = Path(__file__).parents[1] / "docs/results/audit/coverage.json"


def quadratic(rng: np.random.Generator, d: int) -> Problem:
    """Return a random pair of quadratics of ``d`` parameters."""
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    values = np.exp(rng.uniform(-6, 1, size=d))
    P = basis @ np.diag(values) @ basis.T
    tilt = rng.standard_normal((d, d)) * 10 ** rng.uniform(-3, -0.5) / np.sqrt(d)
    b = rng.standard_normal(d)
    noise = 10 ** rng.uniform(-2, 0)
    return Problem(Quadratic((P + P.T) / 2, b, noise=noise), Quadratic(P + tilt + tilt.T))


def glm(rng: np.random.Generator, d: int) -> Problem:
    """Return a random generalised linear model with a random kind of proxy."""
    n, kind = 600, int(rng.integers(4))
    X = rng.standard_normal((n, d)) * np.exp(rng.uniform(-2, 0, size=d))
    if rng.random() < 0.3:
        X = np.abs(X)
    z = X @ rng.standard_normal(d) / np.sqrt(d)
    options: dict[str, Any] = {
        "l2": 10 ** rng.uniform(-4, -1),
        "batch_size": int(rng.choice([8, 32, 128])),
    }
    if kind == 0:
        target = linear_regression(X, z + rng.standard_normal(n), **options)
    elif kind == 1:
        target = logistic_regression(X, z + rng.logistic(size=n) > 0, **options)
    elif kind == 2:
        target = poisson_regression(X / 2, rng.poisson(np.exp(np.clip(z, -2, 2))), **options)
    else:
        target = softmax_regression(X[:, : max(2, d // 3)], rng.integers(3, size=n), **options)
    proxies = (target.label_free(), target.subsample(60, rng=rng), target.subsample(300, rng=rng))
    return Problem(target, proxies[int(rng.integers(3))])


def black_box(rng: np.random.Generator, d: int) -> Problem:
    """Return a generalised linear model of which only batch gradients are shown."""
    whole = glm(rng, d)
    shown = FunctionObjective(whole.objective.gradient, sample=whole.objective.sample)
    shown.dim, shown.zeros, shown.hidden = (
        whole.objective.dim,
        whole.objective.zeros,
        whole.objective,
    )
    return Problem(shown, whole.proxy)


def exact_sigma2(objective: Any, w: Any) -> float:
    """Return the true variance of a stochastic gradient at w."""
    if isinstance(objective, Quadratic):
        return objective.noise**2
    rows = np.stack([objective.gradient(w, np.array([i])) for i in range(objective.design.rows)])
    return float(rows.var(axis=0).sum()) / objective.batch_size


def inside(found: Audit) -> dict[str, bool]:
    """Return, for each quantity, whether its interval holds the exact value over the points."""
    return {name: value in getattr(found, name) for name, value in exact_values(found).items()}


def exact_values(found: Audit) -> dict[str, float]:
    """Return the exact value of each quantity over the points."""
    target = getattr(found.problem.objective, "hidden", found.problem.objective)
    proxy = found.problem.proxy
    exact: dict[str, list[float]] = defaultdict(list)
    for point in found.points:
        A = target.hessian(point.w)
        values = np.linalg.eigvalsh(A)
        exact["H"].append(values[-1])
        exact["mu"].append(values[0])
        exact["delta"].append(np.abs(np.linalg.eigvalsh(A - proxy.hessian(point.w))).max())
        exact["sigma2"].append(exact_sigma2(target, point.w))
    pick = {"H": max, "mu": min, "delta": max, "sigma2": max}
    return {name: float(pick[name](exact[name])) for name in pick}


def widths(found: Audit) -> dict[str, float]:
    """Return the intervals' widths: σ² and H against themselves, δ and μ against H."""
    exact = exact_values(found)
    unit = {"H": exact["H"], "mu": exact["H"], "delta": exact["H"], "sigma2": exact["sigma2"]}
    return {
        name: (getattr(found, name).high - getattr(found, name).low) / size
        for name, size in unit.items()
    }


KINDS = {
    "quadratic, whole Hessian": (quadratic, 20, {}),
    "quadratic, Lanczos": (quadratic, 150, {"budget": 250}),
    "GLM, whole Hessian": (glm, 15, {}),
    "GLM, Lanczos": (glm, 90, {"budget": 170}),
    "GLM, secants on batches": (black_box, 12, {}),
    "GLM, secants, 3 parameters": (black_box, 3, {}),
    "GLM, secants, Lanczos": (black_box, 60, {"budget": 500}),
}


def measure(cases: int) -> dict[str, dict[str, float]]:
    """Return, by kind, the share of cases inside and the median width of the intervals."""
    found: dict[str, dict[str, float]] = {}
    for kind, (make, d, options) in KINDS.items():
        hits: dict[str, list[bool]] = defaultdict(list)
        spread: dict[str, list[float]] = defaultdict(list)
        for seed in range(cases):
            rng = np.random.default_rng([seed, 99])
            result = audit(make(rng, d), rng=rng, **options)
            for name, held in inside(result).items():
                hits[name].append(held)
            for name, width in widths(result).items():
                spread[name].append(width)
        found[kind] = {name: float(np.mean(held)) for name, held in hits.items()}
        found[kind] |= {f"width {name}": float(np.median(w)) for name, w in spread.items()}
        print(f"{kind:<28}" + "  ".join(f"{k} {v:.3g}" for k, v in found[kind].items()), flush=True)
    return found


def coverage_table(file: Path) -> str:
    """Return the shares of cases inside, and median widths."""
    rows = ["| target and source of its curvature | δ | H | μ | σ² | width of δ/H | of σ²/σ² |"]
    rows.append("|" + "---|" * 7)
    for kind, found in json.loads(file.read_text(encoding="utf-8"))["kinds"].items():
        inside = " | ".join(f"{found[name]:.1%}" for name in ("delta", "H", "mu", "sigma2"))
        widths = " | ".join(f"{found[f'width {name}']:.2g}" for name in ("delta", "sigma2"))
        rows.append(f"| {kind} | {inside} | {widths} |")
    return "\n".join(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--output", type=Path, default=RECORD, help="Where to keep the figures.")
    chosen = parser.parse_args()
    figures = {"cases": chosen.cases, "confidence": 0.95, "kinds": measure(chosen.cases)}
    write_record(chosen.output, figures, measures=["src/proxyprox/diagnostics"])
