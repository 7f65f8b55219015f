"""The guarantees of the relatives of ProxyProx against runs, where every constant is known.

As in ``test_bounds_hold``: the mean over the seeds and three standard errors stay below the bound.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import theory

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
    apart = np.mean([(R - P) @ (R - P) for R in rows], axis=0)
    best = np.linalg.solve(H, X.T @ y / n)
    proxy = pp.Quadratic(P, b=rng.normal(size=d))
    constants = {
        "delta": float(np.linalg.norm(H - P, 2)),
        "mu": float(np.linalg.eigvalsh(H)[0]),
        # Independent rows: the variance of a batch is that of a row over their number.
        "delta_B": math.sqrt(np.linalg.norm(spread, 2) / batch_size),
        "apart": math.sqrt(np.linalg.norm(apart, 2)),
        "B": float(np.linalg.norm(best)),
        "initial_gap": target.value(at) - target.value(best),
        "samples": n,
        "table": float(
            np.mean([np.sum((R @ best - x * t - proxy.gradient(best)) ** 2)
                     for R, x, t in zip(rows, X, y, strict=True)])
        ),
        "sigma": lambda at: math.sqrt(
            np.mean([np.sum((x * (x @ at - t) - X.T @ (X @ at - y) / n) ** 2)
                     for x, t in zip(X, y, strict=True)]) / batch_size
        ),
    }  # fmt: skip
    return pp.Problem(target, proxy), best, constants


def losses(problem, best, steps, method, seeds=SEEDS, **call):
    """Return, for every seed, the suboptimality of the answer and the mean squared gradient."""
    target, found = problem.objective, []
    for seed in range(seeds):
        squares = []

        def watch(step, squares=squares):
            gradient = target.gradient(step.w)
            squares.append(gradient @ gradient)

        result = pp.minimize(
            problem, np.zeros(target.dim), method=method, steps=steps, rng=seed, callback=watch,
            **{"inner": pp.inner.ClosedForm(), "stop": pp.stopping.Residual(1e-12), **call},
        )  # fmt: skip
        found.append((target.value(result.w) - target.value(best), np.mean(squares)))
    return np.array(found)


def assert_below(samples, bound):
    mean, error = np.mean(samples), np.std(samples, ddof=1) / math.sqrt(len(samples))
    assert mean + 3 * error <= bound


def pick(constants, *names):
    return {name: constants[name] for name in names}


@pytest.mark.parametrize("seed", range(2))
def test_svrp(seed):
    problem, best, known = sum_of_squares(seed)
    p, steps = (0.1, 0.3)[seed], (15, 40)[seed % 2]
    eta = min(1 / (2 * known["delta"]), math.sqrt(p) / (4 * known["delta_B"]))
    found = pick(known, "B", "initial_gap", "delta", "delta_B")
    method = pp.SVRP(eta, p=p)
    last = losses(problem, best, steps, method)
    mean = losses(problem, best, steps, method, averaging=pp.averaging.Uniform())
    bound = theory.svrp_guarantee(eta=eta, steps=steps, p=p, mu=known["mu"], **found)
    assert_below(last[:, 0], bound)
    assert_below(mean[:, 0], theory.svrp_guarantee(eta=eta, steps=steps, p=p, **found))


@pytest.mark.parametrize("seed", [1])
def test_saga(seed):
    problem, best, known = sum_of_squares(seed, batch_size=1)
    eta = min(1 / (2 * known["delta"]), known["mu"] / (16 * known["apart"] ** 2))
    found = pick(known, "B", "samples", "table", "delta", "mu")
    bound = theory.saga_guarantee(eta=eta, steps=40, delta_B=known["apart"], **found)
    assert_below(losses(problem, best, 40, pp.methods.SAGA(eta))[:, 0], bound)


@pytest.mark.parametrize("seed", range(2))
def test_page(seed):
    problem, best, known = sum_of_squares(seed)
    p, steps = (0.1, 0.4)[seed % 2], 20
    eta = min(1 / (4 * known["delta"]), math.sqrt(p / 24 / (1 - p)) / known["delta_B"])
    found = losses(problem, best, steps, pp.methods.PAGE(eta, p=p))
    call = {"eta": eta, "steps": steps, "p": p, **pick(known, "initial_gap", "delta", "delta_B")}
    assert_below(found[:, 0], theory.page_guarantee(mu=known["mu"], **call))
    assert_below(found[:, 1], theory.page_guarantee(**call))


class Cosines:
    """``Σ (a w²/2 + c cos w)`` with a random factor of c and noise: not convex for c > a."""

    def __init__(self, a, c, noise=0.0, wobble=0.0):
        self.a, self.c, self.noise, self.wobble = a, c, noise, wobble

    def value(self, w):
        return float(np.sum(self.a * w**2 / 2 + self.c * np.cos(w)))

    def gradient(self, w, batch=(0.0, 0.0)):
        factor, noise = batch
        return self.a * w - (self.c + self.wobble * factor) * np.sin(w) + noise

    def hvp(self, w, v):
        return (self.a - self.c * np.cos(w)) * v

    def sample(self, rng):
        return float(rng.choice([-1.0, 1.0])), rng.normal(scale=self.noise / 2, size=4)


@pytest.mark.parametrize("steps", [20])
def test_spam_on_a_loss_that_is_not_convex(steps):
    noise, wobble = 1.0, 0.3
    target, proxy = Cosines(1.0, 2.0, noise, wobble), Cosines(0.9, 1.8)
    # ∇h_B moves by at most (|shifts| + wobble)‖u − v‖; of that, only the wobble is noise.
    delta, delta_B = 0.3, wobble
    eta = min(1 / (4 * delta), 1 / (12 * delta_B))
    grid = np.linspace(-7, 7, 20001)
    best, w0 = 4 * float(np.min(grid**2 / 2 + 2 * np.cos(grid))), np.array([3.0, -2.0, 0.1, 1.0])
    squares = []
    for seed in range(SEEDS):
        seen = []
        result = pp.minimize(
            pp.Problem(target, proxy), w0, method=pp.methods.SPAM(eta), steps=steps, rng=seed,
            stop=pp.stopping.NonConvex(), inner=pp.inner.NewtonCG(),
            callback=lambda step, seen=seen: seen.append(target.gradient(step.w)),
        )  # fmt: skip
        assert result.trace["held"].all()
        squares.append(np.mean([g @ g for g in seen]))
    bound = theory.spam_guarantee(
        eta=eta, steps=steps, initial_gap=target.value(w0) - best, delta=delta, delta_B=delta_B,
        sigma=math.sqrt(noise**2 + 4 * wobble**2),
    )  # fmt: skip
    assert_below(squares, bound)


@pytest.mark.parametrize("seed", range(2))
def test_stabilized_dane_with_noise(seed):
    rng = np.random.default_rng(seed)
    d, sigma, steps = 4, (0.5, 2.0)[seed % 2], (5, 15)[seed % 2]
    root = rng.normal(size=(d, d))
    H = root @ root.T + 0.2 * np.eye(d)
    shift = 0.3 * rng.normal(size=(d, d))
    shift = (shift + shift.T) / 2
    target = pp.Quadratic(H, b=rng.normal(size=d), noise=sigma)
    proxy = pp.Quadratic(H + shift, b=rng.normal(size=d))
    delta, best = float(np.linalg.norm(shift, 2)), target.minimiser()
    eta = 1 / (5 * delta)
    for mu in (0.0, float(np.linalg.eigvalsh(H)[0])):
        found = []
        for run in range(SEEDS):
            iterates = []
            result = pp.minimize(
                pp.Problem(target, proxy), np.zeros(d), steps=2 * steps, rng=run,
                method=pp.methods.StabilizedDANE(eta, mu), inner=pp.inner.GradientDescent(),
                callback=lambda step, iterates=iterates: iterates.append(step.w),
            )  # fmt: skip
            assert [row.held for row in result.trace][:2] == [True, None]
            weights = (1 + eta * mu) ** np.arange(steps)
            mean = np.average(iterates[::2], axis=0, weights=weights)
            found.append(target.value(mean) - target.value(best))
        bound = theory.stabilized_guarantee(
            eta=eta, steps=steps, B=float(np.linalg.norm(best)), sigma=sigma, delta=delta, mu=mu
        )
        assert_below(found, bound)


@pytest.mark.parametrize("seed", range(2))
def test_fedred(seed):
    rng = np.random.default_rng(seed)
    d, sigma, steps = 4, (0.0, 1.0)[seed % 2], (5, 15)[seed % 2]
    root = rng.normal(size=(d, 2))
    H = root @ root.T
    # Convex and singular; the proxy is convex, too.
    shift = np.diag(rng.uniform(0, 0.3, size=d))
    target = pp.Quadratic(H, b=-H @ rng.normal(size=d), noise=sigma)
    proxy = pp.Quadratic(H + shift, b=rng.normal(size=d))
    delta, best = float(shift.max()), np.linalg.pinv(H) @ -target.b
    eta, p = 0.8 / delta, (0.05, 0.5)[seed % 2]
    found = [
        target.value(
            pp.minimize(
                pp.Problem(target, proxy), np.zeros(d), method=pp.methods.FedRed(eta, p),
                steps=steps,
                rng=run, averaging=pp.averaging.Uniform(),
            ).w
        ) - target.value(best)
        for run in range(SEEDS)
    ]  # fmt: skip
    bound = theory.fedred_guarantee(
        eta=eta, steps=steps, B=float(np.linalg.norm(best)), sigma=sigma, delta=delta, p=p,
        gamma=1 / proxy.smoothness,
    )  # fmt: skip
    assert_below(found, bound)


@pytest.mark.parametrize(("eta", "H"), [(0.5, 2.0), (4.0, 3.0)])
def test_the_floor_of_the_nonconvex_theorem_is_real(eta, H):
    """L = L̂ = Hw²/2 and exact steps: E‖∇L‖² tends to σ²ηH/(2 + ηH), whatever the start."""
    sigma, d = 0.7, 400
    problem = pp.Problem(pp.Quadratic(H * np.eye(d), noise=sigma), pp.Quadratic(H * np.eye(d)))
    # The coordinates are independent copies: one run is 400 of them, with σ²/400 each.
    seen = []
    pp.minimize(
        problem, np.ones(d), method=pp.ProxyProx(eta), steps=80, rng=0, inner=pp.inner.ClosedForm(),
        callback=lambda step: seen.append(float(np.sum((H * step.w) ** 2))),
    )  # fmt: skip
    floor = sigma**2 * eta * H / (2 + eta * H)
    assert np.mean(seen[30:]) == pytest.approx(floor, rel=0.05)


def test_too_large_steps_are_refused():
    calls = {
        theory.svrp_guarantee: {"B": 1, "initial_gap": 1, "delta_B": 1, "p": 0.1},
        theory.saga_guarantee: {"B": 1, "samples": 9, "table": 1, "delta_B": 1, "mu": 1},
        theory.page_guarantee: {"initial_gap": 1, "delta_B": 1, "p": 0.1},
        theory.spam_guarantee: {"initial_gap": 1, "sigma": 1, "delta_B": 1},
        theory.stabilized_guarantee: {"B": 1, "sigma": 1},
        theory.fedred_guarantee: {"B": 1, "sigma": 1, "p": 0.1, "gamma": 0.1},
    }
    for function, call in calls.items():
        with pytest.raises(ValueError, match="eta must be"):
            function(eta=1.0, steps=10, delta=1.0, **call)
