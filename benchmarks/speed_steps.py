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
    X = scipy.sparse.random_array(
        (50_000, 300), density=0.05, format="csr", rng=rng, data_sampler=rng.standard_normal
    )
    return X, labels(X, rng)


def lbfgs(value_and_gradient: Callable[[Any], Any], start: Any, accuracy: float) -> Any:
    """Run SciPy until the gradient's norm is below a number."""
    last = [np.inf]

    def function(w: Any) -> Any:
        value, gradient = value_and_gradient(w)
        last[0] = float(np.linalg.norm(gradient))
        return value, gradient

    def callback(_: Any) -> None:
        if last[0] <= accuracy:
            raise StopIteration

    options = {"ftol": 0.0, "gtol": 0.0, "maxiter": 10_000}
    scipy.optimize.minimize(
        function, start, jac=True, method="L-BFGS-B", callback=callback, options=options
    )


def solve_by_lbfgs(proxy: GLM, steps: list[Any]) -> None:
    """Solve the subproblems of a run to the accuracy that it had."""
    for linear, centre, eta, accuracy in steps:

        def both(w: Any, linear: Any = linear, centre: Any = centre, eta: float = eta) -> Any:
            value, gradient = proxy.value_and_gradient(w)
            away = w - centre
            value += linear @ away + away @ away / (2 * eta)
            return value, gradient + linear + away / eta

        lbfgs(both, centre, accuracy)


def outer_steps(name: str, problem: Problem, count: int) -> Row:
    steps: list[Any] = []

    def note(step: Any) -> None:
        phi = step.subproblem
        steps.append((phi.linear, phi.centre, phi.eta, step.record.residual))

    result = minimize(problem, steps=count, rng=0, callback=note)
    ours = least(lambda: minimize(problem, steps=count, rng=0)) / count
    theirs = least(lambda: solve_by_lbfgs(problem.proxy, steps), 3) / count
    ledger = result.ledger
    text = (
        f"{ledger.proxy_gradients / count:.1f} proxy gradients a step and "
        f"{ledger.proxy_hessians} Hessians, those that eta='auto' measures with included"
    )
    return Row(f"50k × 300 sparse, {name}, {count} steps", ours, theirs, ours / theirs, 0.4, text)


def gram(X: Any) -> Row:
    weights = np.random.default_rng(1).random(X.shape[0])
    design = logistic_regression(X).design
    ours = least(lambda: design.gram(weights))
    theirs = least(lambda: (X.T @ X.multiply(weights[:, None]).tocsr()).toarray())
    return Row("50k × 300 sparse: Gram / SciPy's product", ours, theirs, ours / theirs, 1.3, "")


def million() -> Row:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000_000, 100))
    y = labels(0.1 * X, rng)
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
    return Row("1M × 100 dense: 10 steps / L-BFGS", ours, theirs, ours / theirs, 1.0, "")


def rows() -> list[Row]:
    X, y = sparse_table()
    target = logistic_regression(X, y, batch_size=256)
    proxies = {"label-free": target.label_free(), "10 %": target.subsample(5_000, rng=0)}
    table = [
        outer_steps(name, Problem(target, proxy), count)
        for name, proxy in proxies.items()
        for count in (10, 100)
    ]
    return [*table, gram(X), million()]


if __name__ == "__main__":
    for row in rows():
        print(row)
