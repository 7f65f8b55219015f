"""The guarantees of the relatives of ProxyProx against runs, where every constant is known.

As in ``test_bounds_hold``: the mean over the seeds and three standard errors stay below the bound.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import proxyprox as pp
from finite_sums import SVRP

SEEDS = 8


def sum_of_squares(seed, batch_size=2):
    """Least squares on a few rows, a proxy, w0, and the constants of the theorems."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 20)), int(rng.integers(2, 5))
    X, y = rng.normal(size=(n, d)), rng.normal(size=n) * 3
    target = pp.linear_regression(X, y, l2=float(rng.choice([0.1, 0.5])), batch_size=batch_size)
    at = np.zeros(d)
    H, ridge = target.hessian(at), target.l2 * np.eye(d)
    shift = rng.normal(size=(d, d)) * rng.choice([0.05, 0.3])
    P = H + (shift + shift.T) / 2
    P = P + max(0.0, 1e-3 - np.linalg.eigvalsh(P)[0]) * np.eye(d)
    rows = [np.outer(x, x) + ridge for x in X]
    spread = np.mean([(R - H) @ (R - H) for R in rows], axis=0)
    best = np.linalg.solve(H, X.T @ y / n)
    proxy = pp.Quadratic(P, b=rng.normal(size=d))
    constants = {
        "delta": float(np.linalg.norm(H - P, 2)),
        "mu": float(np.linalg.eigvalsh(H)[0]),
        # Independent rows: the variance of a batch is that of a row over their number.
        "delta_B": math.sqrt(np.linalg.norm(spread, 2) / batch_size),
        "B": float(np.linalg.norm(best)),
        "initial_gap": target.value(at) - target.value(best),
    }  # fmt: skip
    return pp.Problem(target, proxy), best, constants


def assert_below(bound, problem, best, **call):
    """Demand that the mean suboptimality over the seeds is below a bound."""
    target, found = problem.objective, []
    for seed in range(SEEDS):
        result = pp.minimize(
            problem, np.zeros(target.dim), rng=seed, inner=pp.inner.ClosedForm(),
            stop=pp.stopping.Residual(1e-12), **call,
        )  # fmt: skip
        found.append(target.value(result.w) - target.value(best))
    assert np.mean(found) + 3 * np.std(found, ddof=1) / math.sqrt(SEEDS) <= bound


def svrp_bound(eta, steps, B, initial_gap, delta, delta_B, p, mu=0.0):
    """The bound of docs/proofs.md: for the mean of a convex loss, the last of a strongly convex."""
    assert eta <= 1.000001 * min(1 / (2 * delta), math.sqrt(p) / (4 * delta_B))
    start = 3 * B * B / (4 * eta) + 2 * (1 - p) / p * initial_gap
    if mu == 0:
        return 2 * start / steps
    tau = min(2 * eta * mu / (3 + 2 * eta * mu), p / 4)
    return 2 * (1 - tau) ** steps * (start + mu * B * B / 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_svrp(seed):
    problem, best, known = sum_of_squares(seed)
    p, steps = (0.1, 0.3)[seed], (15, 40)[seed % 2]
    eta = min(1 / (2 * known["delta"]), math.sqrt(p) / (4 * known["delta_B"]))
    mu, call = known.pop("mu"), {"method": SVRP(eta, p=p), "steps": steps}
    known |= {"eta": eta, "steps": steps, "p": p}
    assert_below(svrp_bound(**known, mu=mu), problem, best, **call)
    mean = {"averaging": pp.averaging.Uniform(), **call}
    assert_below(svrp_bound(**known), problem, best, **mean)
