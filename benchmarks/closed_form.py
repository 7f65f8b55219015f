"""An outer step with a quadratic proxy of 1000 parameters against one Cholesky solve."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from _measure import Row, in_turns
from proxyprox import Problem, ProxyProx, Quadratic, Run

SIZE = 1000


def rows() -> list[Row]:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((SIZE, SIZE))
    P = root @ root.T / SIZE + np.eye(SIZE)
    factor = scipy.linalg.cho_factor(P + np.eye(SIZE))
    gradient = rng.standard_normal(SIZE)
    run = Run(
        Problem((None, lambda w: gradient), Quadratic(P)), np.zeros(SIZE), method=ProxyProx(1.0)
    )
    run.ask()
    run.tell(gradient)

    def outer_step() -> None:
        run.ask()
        run.tell(gradient)

    ours, solve = in_turns(outer_step, lambda: scipy.linalg.cho_solve(factor, gradient), 300)
    _, product = in_turns(outer_step, lambda: P @ gradient, 300)
    return [
        Row(
            f"quadratic proxy, d = {SIZE}: outer step / cho_solve",
            ours, solve, ours / solve, 1.3,
            f"{ours / product:.2f} plain matrix-vector products",
        )
    ]  # fmt: skip
