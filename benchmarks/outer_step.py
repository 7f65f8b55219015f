"""An outer step on mushrooms, solved to 1e-8, against 100 plain gradient-descent steps."""

from __future__ import annotations

import numpy as np
import scipy.special

from _measure import Row, in_turns
from experiments import datasets
from proxyprox import Problem, ProxyProx, Run, logistic_regression
from proxyprox.inner.exact import minimise_exactly
from proxyprox.stopping import Residual

STEPS = 1000
CHUNK = 100
ETA = 100.0


def rows() -> list[Row]:
    data = datasets.load("mushrooms")
    smooth = logistic_regression(data.X, data.y).smoothness
    target = logistic_regression(data.X, data.y, l2=1e-6 * smooth, batch_size=256)
    problem = Problem(target, target.label_free())
    run = Run(problem, method=ProxyProx(ETA), stop=Residual(1e-8), rng=0)

    dense = data.X.toarray()
    labels = (data.y == data.y.max()).astype(float)
    step = 1 / (smooth + 1 / ETA)

    def outer_steps() -> None:
        for _ in range(CHUNK):
            query = run.ask()
            run.tell(target.gradient(query.points[0], query.batch))

    def hundred_plain_steps() -> None:
        w = np.zeros(dense.shape[1])
        for _ in range(100):
            residual = scipy.special.expit(dense @ w) - labels
            w = w - step * (dense.T @ residual / len(labels) + target.l2 * w)

    ours, plain = in_turns(outer_steps, hundred_plain_steps, STEPS // CHUNK - 1)
    ours /= CHUNK
    assert run.steps == STEPS
    assert run.trace["held"].all(), "an outer step missed 1e-8"
    best = target.value(minimise_exactly(target, target.zeros()))
    gap = target.value(run.w) - best
    inner = run.trace["inner_steps"].mean()
    return [
        Row(
            "mushrooms: outer step to 1e-8 / 100 dense GD steps",
            ours, plain, ours / plain, 1 / 15,
            f"{inner:.2f} inner steps, {run.ledger.proxy_gradients / STEPS:.2f} proxy gradients "
            f"a step, {run.ledger.proxy_hessians} Hessians in {STEPS} steps",
        ),
        Row("mushrooms: suboptimality after 1000 steps", gap, 3e-5, gap / 3e-5, 1.0, ""),
    ]  # fmt: skip
