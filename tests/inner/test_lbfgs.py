"""The history of L-BFGS and its limit on steps."""

import numpy as np

from proxyprox import LBFGS, FunctionProxy, Quadratic, Residual, Subproblem


def test_history_is_used(solve):
    P = np.diag(np.logspace(0, 4, 40))
    phi = Subproblem(Quadratic(P), np.ones(40), np.zeros(40), 1.0)
    steps = {m: solve(LBFGS(history=m), phi, Residual(1e-6)).progress.steps for m in (1, 40)}
    assert steps[40] < steps[1] / 2


def test_step_limit_is_kept(solve):
    calls = []
    P = np.diag(np.logspace(0, 6, 60))
    proxy = FunctionProxy(lambda w: w @ P @ w / 2, lambda w: calls.append(1) or P @ w)
    phi = Subproblem(proxy, np.ones(60), np.ones(60), 1.0)
    progress = solve(LBFGS(max_steps=30), phi, Residual(1e-12)).progress
    assert progress.residual > 1e-12
    # A step takes one evaluation, rarely two or three.
    assert 30 <= len(calls) <= 60
