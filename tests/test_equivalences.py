"""ProxyProx where it is something known: SGD with the zero proxy, else a preconditioner."""

from __future__ import annotations

import numpy as np
import pytest

import proxyprox as pp

RULES = [
    None,
    pp.stopping.SDane(),
    pp.stopping.Residual(1e-8),
    pp.stopping.Residual(1e-300),
    pp.stopping.Steps(3),
    pp.stopping.NonConvex(),
]


def logistic(seed, backend):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(30, 4)), rng.integers(0, 2, size=30)
    if backend == "torch":
        X = pytest.importorskip("torch").tensor(X)
    return pp.logistic_regression(X, y, l2=0.1 * (seed % 2), classes=(0, 1), batch_size=3)


def by_hand(objective, w, eta, steps, seed):
    rng = np.random.default_rng(seed)
    for k in range(steps):
        w = w - (eta(k) if callable(eta) else eta) * objective.gradient(w, objective.sample(rng))
    return w


def as_bytes(w):
    return np.asarray(w).tobytes()


@pytest.mark.parametrize(("seed", "backend"), [(0, "numpy"), (1, "torch"), (2, "numpy")])
def test_the_zero_proxy_is_sgd_bit_for_bit(seed, backend):
    objective = logistic(seed, backend)
    eta = float(10 ** np.random.default_rng(seed).uniform(-4, 1)) if seed else lambda k: 1 / (k + 2)
    w0 = objective.zeros() + 0.3
    for stop in RULES:
        call = {"steps": 12, "rng": seed, "stop": stop}
        sgd = pp.minimize(pp.Problem(objective), w0, method=pp.SGD(eta), **call)
        zero = pp.minimize(
            pp.Problem(objective, pp.problems.Zero()), w0, method=pp.ProxyProx(eta), **call
        )
        # The last iterate: an answer above its start is exchanged for the start.
        assert as_bytes(zero.last) == as_bytes(sgd.last)
        assert as_bytes(sgd.last) == as_bytes(by_hand(objective, w0, eta, 12, seed)), stop
    ignored = pp.minimize(
        pp.Problem(objective, objective.label_free()), w0, method=pp.SGD(eta), steps=12, rng=seed
    )
    assert as_bytes(ignored.last) == as_bytes(sgd.last)
    assert ignored.ledger.proxy_gradients == ignored.ledger.proxy_solves == 0


@pytest.mark.parametrize("condition", [1e0, 1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("seed", range(2))
def test_a_quadratic_proxy_is_the_preconditioned_step(seed, condition):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 30))
    basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
    P = (basis * np.geomspace(1 / condition, 1.0, d)) @ basis.T
    P = (P + P.T) / 2
    A = P + np.diag(rng.uniform(0.0, 0.5, size=d))
    b = rng.normal(size=d)
    eta = float(10 ** rng.uniform(-3, 4))
    centres = []
    target = pp.FunctionObjective(lambda w: centres.append(w.copy()) or A @ w + b)
    after = []
    pp.minimize(
        pp.Problem(target, pp.Quadratic(P, b=rng.normal(size=d))), rng.normal(size=d),
        method=pp.ProxyProx(eta), steps=5, callback=lambda step: after.append(step.w.copy()),
    )  # fmt: skip
    for w, reached in zip(centres, after, strict=True):
        step = eta * np.linalg.solve(np.eye(d) + eta * P, A @ w + b)
        assert np.linalg.norm(reached - (w - step)) <= 1e-10 * max(
            np.linalg.norm(w - step), np.linalg.norm(step)
        )
