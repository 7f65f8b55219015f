"""Outer steps of the default method against SciPy's L-BFGS, and Gram matrices against SciPy's.

Baselines are timed in the same run, by the processor's time of one thread, the least of several.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.special

from _measure import Row
from proxyprox import GLM, Problem, logistic_regression, minimize

REPEATS = 5


def least(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def labels(X: Any, rng: np.random.Generator) -> Any:
    p = scipy.special.expit(X @ rng.standard_normal(X.shape[1]))
    return (rng.random(X.shape[0]) < p).astype(int)


def sparse_table() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((50_000, 300), density=0.05, format="csr", rng=rng)
    # Columns of different scales, as tables have them.
    X = scipy.sparse.csr_array(X * np.geomspace(0.3, 3, 300))
    return X, labels(X, rng)


def lbfgs(proxy: GLM, subproblems: list[Any], **options: Any) -> None:
    """Solve subproblems with SciPy."""
    for phi in subproblems:

        def function(w: Any, phi: Any = phi) -> Any:
            value, gradient = proxy.value_and_gradient(w)
            away = w - phi.centre
            value += phi.linear @ away + away @ away / (2 * phi.eta)
            return value, gradient + phi.linear + away / phi.eta

        scipy.optimize.minimize(function, phi.centre, jac=True, method="L-BFGS-B", options=options)


def outer_steps(name: str, problem: Problem, count: int, limit: float) -> Row:
    subproblems: list[Any] = []
    result = minimize(
        problem, steps=count, rng=0, callback=lambda step: subproblems.append(step.subproblem)
    )
    ours = least(lambda: minimize(problem, steps=count, rng=0)) / count
    theirs = least(lambda: lbfgs(problem.proxy, subproblems, gtol=1e-8, ftol=0.0), 3) / count
    default = least(lambda: lbfgs(problem.proxy, subproblems), 3) / count
    ledger = result.ledger
    text = (
        f"ratio {ours / default:.2f} with SciPy's own tolerances; {result.stop.split('(')[0]}, "
        f"{ledger.proxy_gradients / count:.1f} proxy gradients a step, {ledger.proxy_hessians} "
        "Hessians, those that eta='auto' measures with included"
    )
    title = f"50k × 300, {name}, {count} steps: a step / L-BFGS to 1e-8"
    return Row(title, ours, theirs, ours / theirs, limit, text)


def gram(X: Any) -> Row:
    weights = np.random.default_rng(1).random(X.shape[0])
    design = logistic_regression(X).design
    ours = least(lambda: design.gram(weights))
    theirs = least(lambda: (X.T @ X.multiply(weights[:, None]).tocsr()).toarray())
    return Row("50k × 300 sparse: Gram / SciPy's product", ours, theirs, ours / theirs, 1.3, "")


def million() -> Row:
    rng = np.random.default_rng(0)
    # Columns of different scales, as tables have them.
    X = rng.standard_normal((1_000_000, 100)) * np.geomspace(1, 0.1, 100)
    y = labels(X, rng)
    target = logistic_regression(X, y, batch_size=256)
    problem = Problem(target, target.label_free())

    def both(w: Any) -> Any:
        z = X @ w
        value = np.mean(np.logaddexp(0, z) - y * z)
        return value, X.T @ (scipy.special.expit(z) - y) / len(y)

    ours = least(lambda: minimize(problem, steps=10, rng=0), 3)
    theirs = least(
        lambda: scipy.optimize.minimize(both, np.zeros(100), jac=True, method="L-BFGS-B"), 3
    )
    text = f"{ours / 10:.2f} s a step"
    return Row("1M × 100: 10 steps / L-BFGS on all labels", ours, theirs, ours / theirs, 1.0, text)


def rows() -> list[Row]:
    X, y = sparse_table()
    target = logistic_regression(X, y, batch_size=256)
    proxies = {"label-free": target.label_free(), "10 %": target.subsample(5_000, rng=0)}
    table = [
        # A tenth of the rows is solved in a few milliseconds: what else a step takes shows.
        outer_steps(name, Problem(target, proxy), count, 0.4 if name == "label-free" else 2.0)
        for name, proxy in proxies.items()
        for count in (10, 100)
    ]
    return [*table, gram(X), million()]


if __name__ == "__main__":
    for row in rows():
        print(row)
