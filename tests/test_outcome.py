"""What a finished run says of itself: losses at both ends, and no success that was none."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize

import proxyprox as pp
from proxyprox import Status

START = np.array([-1.2, 1.0])
T = np.diag([1.0, 10.0])
CHECKED = "Check the gradient against the value too, with scipy.optimize.check_grad"


def blind(gradient):
    """Return an objective without values."""
    return pp.FunctionObjective(lambda w: gradient(w))


def on_rosenbrock(method, steps):
    problem = pp.Problem(
        (scipy.optimize.rosen, scipy.optimize.rosen_der), proxy=pp.Quadratic(np.eye(2))
    )
    return pp.minimize(problem, START, method=method, steps=steps)


def test_a_run_that_grows_but_stays_finite_is_no_success_and_one_that_falls_is():
    result = on_rosenbrock(pp.ProxyProx(0.01), steps=4)
    assert result.status is Status.GREW
    assert not result.success
    # The answer is never above its start: what the run came to is its last iterate.
    np.testing.assert_array_equal(result.w, START)
    assert result.values[0] == result.values[1] == pytest.approx(24.2)
    end = scipy.optimize.rosen(result.last)
    assert f"24.2 at the start and {end:.6g} at the end" in result.message
    assert "All the requested outer steps were taken." in result.message
    assert f"loss          24.2 at the start, {result.values[1]:.6g} at the end" in str(result)
    result = on_rosenbrock(pp.ProxyProx(0.003), steps=200)
    assert result.status is Status.STEPS_DONE
    assert result.message == "All the requested outer steps were taken."
    assert result.values[1] < 2 < result.values[0]


GREW = {
    "an infinite loss": (
        (lambda w: float(w[0]) if w[0] < 0.5 else np.inf, lambda w: w - 1), pp.SGD(0.5), 3
    ),
    "a straight walk uphill in steps of one length": (
        (lambda w: float(np.sqrt(1 + w @ w)), lambda w: -w / np.sqrt(1 + w @ w)), pp.SGD(0.5), 40
    ),
    "a wrong sign without values": (blind(lambda w: -(T @ w)), pp.ProxyProx(1.0), 50),
    "so far out that it stands still": (
        (lambda w: float(w @ T @ w / 2 + 1), lambda w: -(T @ w)), pp.ProxyProx("auto"), 50
    ),
    "the same without a proximal term": (
        (lambda w: float(w @ T @ w / 2 + 1), lambda w: -(T @ w)), pp.DANE(1.0), 50
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GREW)
def test_what_grew_is_said_to_have_grown(name):
    objective, method, steps = GREW[name]
    problem = pp.Problem(objective, (lambda w: float(w @ w) / 2, lambda w: w))
    result = pp.minimize(problem, np.array([0.2, 0.1]), method=method, steps=steps)
    assert result.status is Status.GREW
    if "stands still" in name:
        assert result.trace["displacement"][-1] == 0
        assert CHECKED in result.message


def test_noise_at_a_good_start_is_not_divergence_but_no_success():
    target = pp.Quadratic(np.eye(2), noise=1.0)
    problem = pp.Problem(target, pp.Quadratic(np.eye(2)))
    for seed in range(5):
        result = pp.minimize(problem, method=pp.ProxyProx(5.0), steps=60, rng=seed)
        assert result.status is Status.ABOVE_START
        assert not result.success
        assert f"{target.value(result.last):.6g} at the end" in result.message
        np.testing.assert_array_equal(result.w, np.zeros(2))
    # Noisy steps of a walk are not straight.
    walk = pp.FunctionObjective(
        lambda w, seed: np.random.default_rng(seed).choice([-1.0, 1.0], size=1),
        value=lambda w: float(w @ w), sample=lambda rng: int(rng.integers(2**31)),
    )  # fmt: skip
    for seed in range(10):
        result = pp.minimize(pp.Problem(walk), np.zeros(1), method=pp.SGD(0.1), steps=40, rng=seed)
        assert result.status is not Status.GREW


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_at_the_minimum_is_no_rise(dtype):
    A = np.diag([1.0, 30.0, 1000.0]).astype(dtype)
    b = np.array([1.0, -2.0, 3.0], dtype=dtype)
    target = pp.Quadratic(A, b=b)
    start = -np.linalg.solve(A.astype(float), b.astype(float)).astype(dtype)
    proxy = pp.Quadratic((1.1 * A).astype(dtype))
    for objective in (target, blind(target.gradient)):
        for method in (None, pp.ProxyProx(1.0), pp.SGD(1e-3), pp.DANE()):
            result = pp.minimize(pp.Problem(objective, proxy), start, method=method, steps=20)
            assert result.success, result.message


P = pp.Quadratic(np.diag([1.0, 100.0]), b=np.ones(2))
SHORT = {
    "inner": pp.inner.GradientDescent(step_size=1e-4, max_steps=1),
    "stop": pp.stopping.Residual(1e-12),
}


def test_an_inner_rule_that_mostly_failed_is_no_success_unless_the_loss_fell():
    unseen = pp.minimize(
        pp.Problem((None, P.gradient), P), np.ones(2), method=pp.ProxyProx(1.0), steps=10, **SHORT
    )
    assert unseen.status is Status.INNER_RULE_FAILED
    assert not unseen.success
    assert unseen.values is None
    assert "at the start" not in str(unseen)
    Q, longer = pp.Quadratic(np.diag([1.0, 2.0]), b=-np.ones(2)), {**SHORT}
    longer["inner"] = pp.inner.GradientDescent(step_size=0.1, max_steps=1)
    # By values, or by gradients that stand in for them.
    for problem, options, steps in (
        (pp.Problem((P.value, P.gradient), P), SHORT, 10),
        (pp.Problem(blind(Q.gradient), Q), longer, 60),
    ):
        seen = pp.minimize(
            problem, np.full(2, 5.0), method=pp.ProxyProx(1.0), steps=steps, **options
        )
        assert seen.success
        assert "inner rule failed" in seen.message


def test_values_that_would_have_to_be_paid_for_are_not_asked_for():
    for account in ("cost", "epsilon"):

        class Priced(pp.Quadratic):
            def value(self, w):
                raise AssertionError("asked for a value")

        setattr(Priced, account, lambda self, item: 1.0)
        problem = pp.Problem(Priced(np.eye(2)), pp.Quadratic(np.eye(2)))
        assert pp.minimize(problem, method=pp.ProxyProx(1.0), steps=2).values is None


def test_a_value_that_cannot_be_used_is_named_and_the_gradients_judge():
    proxy = (lambda w: w @ w / 2, lambda w: w)
    for value in (lambda w: 1 / 0, lambda w: w, lambda w: "low", lambda w: math.nan):
        problem = pp.Problem((value, lambda w: w - 1), proxy=proxy)
        result = pp.minimize(problem, np.zeros(2), method=pp.ProxyProx(1.0), steps=5)
        assert result.values is None
        assert "objective's value" in result.message
        assert result.success


def diverging(steps=100, *, noise=0.0, averaging=None, **call):
    """Return a run without values whose step size is far beyond 1/(4δ)."""
    target = pp.Quadratic(T, noise=noise)
    objective = blind(target.gradient)
    if noise:
        objective = pp.FunctionObjective(target.gradient, sample=target.sample)
    problem, method = pp.Problem(objective, pp.Quadratic(0.3 * T)), pp.ProxyProx(10.0)
    return pp.minimize(
        problem, np.ones(2), method=method, steps=steps, averaging=averaging, rng=0, **call
    )


def test_divergence_without_values_is_seen_in_the_gradients():
    assert diverging(3).status is Status.ABOVE_START
    uniform = pp.averaging.Uniform()
    for steps, noise, averaging in ((10, 0.0, None), (100, 0.1, None), (10, 0.1, uniform)):
        result = diverging(steps, noise=noise, averaging=averaging)
        assert result.values is None
        assert result.status is Status.GREW
        assert "in norm" in result.message
        assert "A smaller eta" in result.message


def test_a_run_in_ones_own_hands_says_the_same():
    target = pp.Quadratic(T)
    problem = pp.Problem(blind(target.gradient), pp.Quadratic(0.3 * T))
    run = pp.Run(problem, np.ones(2), method=pp.ProxyProx(10.0))
    for _ in range(20):
        run.tell(target.gradient(run.ask().points[0]))
    assert run.result().status is Status.RUNNING
    assert "diverged" in run.result().message
    assert run.result(Status.STEPS_DONE).status is Status.GREW
    assert run.result(Status.INTERRUPTED).status is Status.INTERRUPTED


def test_the_answer_is_judged_by_what_it_reached():
    # Bounded slopes that steps jump over.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    noisy = pp.logistic_regression(X, (X[:, 0] + rng.logistic(size=200) > 0).astype(int))
    problem = pp.Problem(blind(noisy.gradient))
    result = pp.minimize(problem, np.zeros(5), method=pp.SGD(3000.0), steps=40)
    assert noisy.value(result.w) > 10
    assert not result.success
    # A falling loss whose weights grow.
    target = pp.logistic_regression(X, (X[:, 0] > 0).astype(int))
    problem = pp.Problem(blind(target.gradient), target.label_free())
    for method in (None, pp.ProxyProx(100.0), pp.SGD(5.0)):
        result = pp.minimize(problem, np.zeros(5), method=method, steps=60)
        assert np.linalg.norm(result.w) > 5
        assert result.success
    # Iterates hop about the minimum, further out than the start; their mean does not.
    hop, call = pp.Quadratic(np.eye(1)), {"method": pp.SGD(2.01), "steps": 40}
    for objective in (hop, blind(hop.gradient)):
        problem = pp.Problem(objective)
        assert not pp.minimize(problem, np.ones(1), **call).success
        assert pp.minimize(problem, np.ones(1), averaging=pp.averaging.Uniform(), **call).success
