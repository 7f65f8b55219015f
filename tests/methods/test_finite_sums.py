"""The published methods of examples against plain loops, and where their noise goes."""

import math

import numpy as np
import pytest

import proxyprox as pp
from accelerated_sliding import AcceleratedSliding
from fedred import FedRed
from finite_sums import PAGE, SAGA, SVRP
from spam import SPAM
from stabilized_dane import StabilizedDANE

N, D = 12, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
Y = X @ RNG.normal(size=D) + RNG.normal(size=N)
P = X.T @ X / N + np.diag([0.3, -0.1, 0.2]) + 0.1 * np.eye(D)


def problem(batch_size, library="numpy"):
    """Least squares with label noise, and a proxy of another Hessian."""
    make = pytest.importorskip("torch").tensor if library == "torch" else np.array
    target = pp.linear_regression(make(X), make(Y), l2=0.1, batch_size=batch_size)
    return pp.Problem(target, pp.Quadratic(make(P)))


def gradient(w, rows=slice(None)):
    x, y = X[rows], Y[rows]
    return x.T @ (x @ w - y) / len(x) + 0.1 * w


BEST = np.linalg.solve(X.T @ X / N + 0.1 * np.eye(D), X.T @ Y / N)


def prox(w, linear, eta):
    return np.linalg.solve(P + np.eye(D) / eta, w / eta - linear)


def renewed_loop(rng, eta, p, steps, b, *, recursive):
    w, everything, paid = np.zeros(D), True, 0
    for _ in range(steps):
        if everything:
            point, known = w, gradient(w)
            g, paid = known, paid + N
        else:
            rows = rng.integers(N, size=b)
            g, paid = gradient(w, rows) - gradient(point, rows) + known, paid + b
            point, known = (w, g) if recursive else (point, known)
            p = b / N if p is None else p
        w = prox(w, g - P @ w, eta)
        everything = rng.random() < (p or 0.0)
    return w, paid


@pytest.mark.parametrize(
    ("kind", "p", "library"),
    [(SVRP, None, "numpy"), (SVRP, 0.4, "torch"), (PAGE, 0.4, "numpy")],
)
def test_renewed_methods_are_their_loops(kind, p, library):
    w, paid = renewed_loop(np.random.default_rng(3), 0.4, p, 12, 2, recursive=kind is PAGE)
    result = pp.minimize(
        problem(2, library), method=kind(0.4, p), steps=12, rng=3, stop=pp.stopping.Residual(1e-13)
    )
    np.testing.assert_allclose(np.asarray(result.w), w, atol=1e-12)
    assert result.ledger.target_samples == paid
    # Two points of one batch, or one of everything.
    assert 12 < result.ledger.target_gradients < 24


def test_saga_is_its_loop():
    rng, w, table = np.random.default_rng(3), np.zeros(D), np.zeros((N, D))
    for _ in range(15):
        (row,) = rng.integers(N, size=1)
        difference = gradient(w, [row]) - P @ w
        m = difference - table[row] + table.mean(0)
        table[row] = difference
        w = prox(w, m, 0.2)
    result = pp.minimize(
        problem(1), method=SAGA(0.2), steps=15, rng=3, stop=pp.stopping.Residual(1e-13)
    )
    np.testing.assert_allclose(np.asarray(result.w), w, atol=1e-12)
    assert result.ledger.target_gradients == result.ledger.target_samples == 15


def test_spam_is_storm_with_its_schedule():
    rng, w, m, before = np.random.default_rng(3), np.zeros(D), None, None
    for k in range(10):
        rows = rng.integers(N, size=2)
        d = gradient(w, rows) - P @ w
        if m is None:
            m = d
        else:
            m = d + (1 - (k + 1) ** (-2 / 3)) * (m - gradient(before, rows) + P @ before)
        before = w
        w = prox(w, m, 0.5 / (k + 1) ** (1 / 3))
    call = {"steps": 10, "rng": 3, "stop": pp.stopping.Residual(1e-13)}
    np.testing.assert_allclose(pp.minimize(problem(2), method=SPAM(0.5), **call).w, w, atol=1e-12)
    by_parts = pp.ProxyProx(
        lambda k: 0.5 / (k + 1) ** (1 / 3), pp.corrections.Storm(lambda k: (k + 1) ** (-2 / 3))
    )
    np.testing.assert_allclose(pp.minimize(problem(2), method=by_parts, **call).w, w, atol=1e-12)
    with pytest.raises(pp.OracleError, match=r"a\(1\) must be"):
        pp.minimize(
            problem(2), method=pp.ProxyProx(0.5, pp.corrections.Storm(lambda k: 2.0)), steps=2
        )


@pytest.mark.parametrize("mu", [0.0, 0.1])
def test_stabilized_dane_is_its_loop(mu):
    rng, w, v, eta = np.random.default_rng(3), np.zeros(D), np.zeros(D), 0.7
    for _ in range(6):
        g = gradient(v, rng.integers(N, size=2))
        w = prox(v, g - P @ v, eta)
        g = gradient(w, rng.integers(N, size=2))
        v = (v / eta + mu * w - g) / (1 / eta + mu)
    method = StabilizedDANE(1 / eta, mu)
    result = pp.minimize(
        problem(2), method=method, steps=12, rng=3, stop=pp.stopping.Residual(1e-13)
    )
    np.testing.assert_allclose(result.w, w, atol=1e-12)
    assert "SDane() (the default" in pp.minimize(problem(2), method=method, steps=2, rng=0).stop


def test_accelerated_sliding_is_its_loop():
    A, b, mu, delta = X.T @ X / N + 0.1 * np.eye(D), -X.T @ Y / N, 0.2, 0.5
    tau, gamma, x, w = (
        math.sqrt(mu / delta) / 2,
        1 / (2 * math.sqrt(mu * delta)),
        np.ones(D),
        np.ones(D),
    )
    for _ in range(4):
        x_g = tau * x + (1 - tau) * w
        # argmin of L̂(u) + ⟨∇h(x_g), u⟩ + δ‖u − x_g‖².
        w = np.linalg.solve(P + 2 * delta * np.eye(D), 2 * delta * x_g - (A - P) @ x_g - b)
        x = x + gamma * mu * (w - x) - gamma * (A @ w + b)
    found = pp.minimize(
        problem(None), np.ones(D), method=AcceleratedSliding(delta=delta, mu=mu), steps=8,
        stop=pp.stopping.Residual(1e-12),
    )  # fmt: skip
    np.testing.assert_allclose(found.w, w, atol=1e-9)
    assert found.ledger.target_gradients == 8


@pytest.mark.parametrize("gamma", [None, 0.2])
def test_fedred_is_its_loop(gamma):
    # The run draws the batch, then the number of proxy gradients.
    rng, y, eta, p = np.random.default_rng(3), np.zeros(D), 0.7, 0.3
    inverse = np.linalg.eigvalsh(P)[-1] if gamma is None else 1 / gamma
    for _ in range(6):
        m, x = gradient(y, rng.integers(N, size=2)) - P @ y, y
        for _ in range(rng.geometric(p)):
            x = (inverse * x + y / eta - (P @ x + m)) / (inverse + 1 / eta)
        y = x
    got = pp.minimize(problem(2), method=FedRed(eta, p, gamma), steps=6, rng=3).w
    np.testing.assert_allclose(got, y, atol=1e-12)


def test_a_measured_step_size_never_accepts_a_higher_loss():
    given, seen, etas = problem(1), [], []

    def watch(step):
        etas.append(step.record.eta)
        if len(step.gradients) == 1:
            # The centre is the point asked about, or the reference that was returned to.
            seen.append(given.objective.value(step.subproblem.centre))

    pp.minimize(given, np.zeros(D), method=SVRP(), steps=300, rng=1, callback=watch)
    assert etas[0] == pytest.approx(10 / np.linalg.eigvalsh(P)[-1])
    assert min(etas) < etas[0]
    assert len(seen) > 5
    assert (np.diff(seen) <= 1e-14).all()
    assert seen[-1] - given.objective.value(BEST) < 0.1 * (seen[0] - given.objective.value(BEST))
