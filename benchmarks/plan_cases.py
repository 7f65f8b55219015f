"""Do plans arrive? Audit, plan, run the plan as a user would, compare with what it promised.

    PROXYPROX_DATA=… python benchmarks/plan_cases.py

A case is a target, a proxy, an accuracy and a seed. The end of its run is told in units of ε, or
of what the plan expects where its budget ends before ε. The optimum is computed exactly. The
constants of the audit were fixed on ``MADE_ON``; ``NOT_USED`` decides. Takes about four minutes on
one core.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from scipy.optimize import minimize as scipy_minimize
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

import proxyprox as pp
from experiments import datasets
from experiments.records import write_record
from proxyprox.diagnostics.audit import audit, plan

RECORD = Path(__file__).parents[1] / "docs/results/audit/plans.json"
SHARES = (0.05, 0.01)
"""ε as shares of the start's suboptimality."""

STEPS = 1500
"""Budget of every plan, so that the benchmark ends."""

FAR = 3.0
"""A run that ends above this many times what was promised has not arrived."""

SEEDS = (0, 1)


def text(d: int, l2: float, batch: int, seed: int, rows: int = 1500, length: int = 60) -> pp.GLM:
    """Return a logistic loss of documents whose words follow Zipf's law, tf-idf of unit length."""
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, d + 1)
    words = rng.choice(d, size=rows * length, p=shares / shares.sum())
    counts = scipy.sparse.csr_matrix(
        (np.ones(words.size), (np.repeat(np.arange(rows), length), words)), shape=(rows, d)
    )
    counts.data = 1 + np.log(counts.data)
    seen = np.asarray((counts > 0).sum(axis=0)).ravel()
    X = counts @ scipy.sparse.diags(1 + np.log(rows / (1 + seen)))
    X = scipy.sparse.diags(1 / scipy.sparse.linalg.norm(X, axis=1)) @ X
    z = X @ (8 * rng.standard_normal(d))
    y = z + rng.logistic(size=rows) > np.median(z)
    return pp.logistic_regression(scipy.sparse.csr_matrix(X), y, l2=l2, batch_size=batch)


def table(kind: str, d: int, scales: Any, batch: int, seed: int, tail: float = 0.0) -> pp.GLM:
    """Return a loss of random rows, Gaussian or with t-distributed entries."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(tail, size=(2000, d)) if tail else rng.standard_normal((2000, d))
    z = X @ rng.standard_normal(d) / np.sqrt(d)
    X = X * scales
    if kind == "linear":
        y = z + rng.standard_t(tail, 2000) if tail else z + rng.standard_normal(2000)
        return pp.linear_regression(X, y, l2=1e-3, batch_size=batch)
    if kind == "poisson":
        X = np.clip(X, -2, 2)
        return pp.poisson_regression(
            X, rng.poisson(np.exp(np.clip(z, -2, 2))), l2=1e-3, batch_size=batch
        )
    y = 2 * z + rng.logistic(size=2000) > 0
    return pp.logistic_regression(X, y, l2=1e-4, batch_size=batch)


def real(name: str, batch: int) -> pp.GLM:
    """Return a loss of a table that many know."""
    if name in ("a9a", "mushrooms"):
        data = datasets.load(name)
        return pp.logistic_regression(data.X, data.y, l2=1e-4, batch_size=batch)
    load = {"digits": load_digits, "wine": load_wine, "diabetes": load_diabetes}
    X, y = load.get(name, load_breast_cancer)(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    if name == "diabetes":
        return pp.linear_regression(X, (y - y.mean()) / y.std(), l2=1e-3, batch_size=batch)
    if name in ("digits", "wine"):
        return pp.softmax_regression(X, y, l2=1e-3, batch_size=batch)
    return pp.logistic_regression(X, y, l2=1e-3, batch_size=batch)


scales = np.geomspace

MADE_ON = {
    "text, 5000 words, l2 1e-3": lambda: text(5000, 1e-3, 64, 0),
    "text, 20000 words, l2 1e-4": lambda: text(20000, 1e-4, 256, 1),
    "t(3), logistic": lambda: table("logistic", 30, scales(1, 0.05, 30), 32, 2, tail=3),
    "t(3), linear, badly scaled": lambda: table("linear", 20, scales(3, 0.03, 20), 64, 3, 3),
    "badly scaled, linear": lambda: table("linear", 40, scales(10, 0.01, 40), 64, 4),
    "t(3), linear, 300 columns": lambda: table("linear", 300, scales(1, 0.1, 300), 64, 13, 3),
    "t(2.5), linear, 150 columns": lambda: table("linear", 150, 1.0, 128, 19, tail=2.5),
    "t(3), linear, 100 columns": lambda: table("linear", 100, scales(1, 0.1, 100), 64, 26, tail=3),
    "a9a": lambda: real("a9a", 64),
    "breast cancer": lambda: real("breast cancer", 32),
    "small, logistic": lambda: table("logistic", 5, 1.0, 16, 5),
    "wine": lambda: real("wine", 32),
}

NOT_USED = {
    "text, 8000 words, l2 1e-5": lambda: text(8000, 1e-5, 64, 10),
    "text, 12000 words, l2 1e-4, short": lambda: text(12000, 1e-4, 128, 11, length=20),
    "text, 20000 words, l2 1e-3": lambda: text(20000, 1e-3, 32, 12),
    "t(3), logistic, 200 columns": lambda: table("logistic", 200, 0.3, 64, 18, tail=3),
    "t(2.5), linear, 80 columns": lambda: table("linear", 80, 1.0, 64, 25, tail=2.5),
    "t(3), linear, 60 columns": lambda: table("linear", 60, 1.0, 64, 51, tail=3),
    "t(4), linear, 120 columns": lambda: table("linear", 120, 1.0, 64, 52, tail=4),
    "t(3), logistic, badly scaled": lambda: table("logistic", 20, scales(5, 0.02, 20), 64, 14, 3),
    "t(2.2), logistic": lambda: table("logistic", 15, 0.5, 64, 15, tail=2.2),
    "badly scaled, logistic": lambda: table("logistic", 40, scales(10, 0.01, 40), 128, 16),
    "small, logistic, batches of 4": lambda: table("logistic", 10, 1.0, 4, 20),
    "mushrooms": lambda: real("mushrooms", 64),
    "diabetes": lambda: real("diabetes", 32),
    "digits": lambda: real("digits", 128),
    "small, poisson": lambda: table("poisson", 8, 0.5, 64, 17),
}


def optimum(goal: pp.GLM) -> float:
    """Return the least value: by L-BFGS with a long memory, to rounding."""
    ends = {"maxiter": 20000, "maxfun": 40000, "maxcor": 50, "ftol": 1e-16, "gtol": 1e-9}
    found = scipy_minimize(
        goal.value, goal.zeros(), jac=goal.gradient, method="L-BFGS-B", options=ends
    )
    return float(found.fun)


def records(name: str, goal: pp.GLM) -> list[dict[str, Any]]:
    """Return what plans promise and where their runs end, for one target."""
    best = optimum(goal)
    gap = goal.value(goal.zeros()) - best
    tenth = goal.subsample(max(10, goal.design.rows // 10), rng=3)
    found = []
    for key, proxy in {"label-free": goal.label_free(), "10 % of the rows": tenth}.items():
        for share, seed in ((share, seed) for share in SHARES for seed in SEEDS):
            begun = time.perf_counter()
            told = audit(pp.Problem(goal, proxy), epsilon=share * gap, rng=seed)
            planned = plan(told, budget=STEPS)
            end = pp.minimize(planned.problem, **planned.arguments, rng=90 + seed).w
            wanted = max(planned.epsilon, planned.expected)
            line = {
                "target": name, "d": goal.dim, "proxy": key, "share": share, "seed": seed,
                "verdict": told.verdict.name, "method": type(planned.method).__name__,
                "steps": planned.steps, "rough": planned.rough, "reaches": planned.reaches,
                "bend": round(told.model.bend, 3), "tail": round(told.model.tail, 2),
                "ended": round((goal.value(end) - best) / wanted, 3),
                "seconds": round(time.perf_counter() - begun, 2),
            }  # fmt: skip
            found.append(line)
    return found


def count(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many plans arrived, those marked as rough apart."""
    found = {}
    for key, rough in (("not rough", False), ("rough", True)):
        ends = [line["ended"] for line in lines if line["rough"] is rough]
        far = sum(end > FAR for end in ends)
        found[key] = {"plans": len(ends), "ended above 3": far}
        if ends:
            found[key] |= {"median": float(np.median(ends)), "worst": max(ends)}
    return found


def plan_words(file: Path) -> str:
    """Return how many plans of both halves ended far above what they expect."""
    halves = json.loads(file.read_text(encoding="utf-8")).values()
    words = []
    for name in ("not rough", "rough"):
        marks = [half["counts"][name] for half in halves]
        failed, number = (sum(m[key] for m in marks) for key in ("ended above 3", "plans"))
        words.append(f"{failed} of {number} plans that are {name}")
    return " and ".join(words)


def plans_table(file: Path) -> str:
    """Return how far planned runs ended, of each half, by the plans' mark."""
    rows = ["| half | plans | number | ended above 3 | median | worst |", "|" + "---|" * 6]
    for half, found in json.loads(file.read_text(encoding="utf-8")).items():
        for name, mark in found["counts"].items():
            far, median, worst = (mark[key] for key in ("ended above 3", "median", "worst"))
            worst = "∞" if worst is None else f"{worst:.2g}"
            rows.append(f"| {half} | {name} | {mark['plans']} | {far} | {median:.2g} | {worst} |")
    return "\n".join(rows)


def main() -> None:
    """Run both halves, or the targets that are named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, default=RECORD, help="Where to keep the record.")
    parser.add_argument("--only", nargs="*", help="Targets to run; all of them by default.")
    chosen = parser.parse_args()
    record: dict[str, Any] = {}
    for half, targets in {"made on": MADE_ON, "not used": NOT_USED}.items():
        lines = []
        for name, build in targets.items():
            if not chosen.only or name in chosen.only:
                lines += records(name, build())
                last = [line for line in lines if line["target"] == name]
                ends = " ".join(f"{line['ended']:.2g}{'r' * line['rough']}" for line in last)
                print(f"{name}: {ends} ({sum(x['seconds'] for x in last):.0f} s)", flush=True)
        record[half] = {"counts": count(lines), "cases": lines}
        print(half, record[half]["counts"], flush=True)
    if chosen.output != RECORD or not chosen.only:
        write_record(chosen.output, record, measures=["src/proxyprox/diagnostics"])


if __name__ == "__main__":
    main()
