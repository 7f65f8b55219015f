"""What a finished run says of itself: losses at both ends, and no success that was none."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import proxyprox as pp
from proxyprox import Status


def rosenbrock(w):
    return float(100 * (w[1] - w[0] ** 2) ** 2 + (1 - w[0]) ** 2)


def rosenbrock_slope(w):
    inner = w[1] - w[0] ** 2
    return np.array([-400 * w[0] * inner - 2 * (1 - w[0]), 200 * inner])


START = np.array([-1.2, 1.0])


def on_rosenbrock(method, steps, **call):
    problem = pp.Problem((rosenbrock, rosenbrock_slope), proxy=pp.Quadratic(np.eye(2)))
    return pp.minimize(problem, START, method=method, steps=steps, **call)


def test_a_run_that_grows_but_stays_finite_is_no_success():
    result = on_rosenbrock(pp.ProxyProx(0.01), steps=4)
    assert result.status is Status.GREW
    assert not result.success
    # The answer is never above its start: what the run came to is its last iterate.
    np.testing.assert_array_equal(result.w, START)
    assert result.values == (rosenbrock(START), rosenbrock(START))
    assert f"24.2 at the start and {rosenbrock(result.last):.6g} at the end" in result.message
    assert "All the requested outer steps were taken." in result.message
    assert f"loss          24.2 at the start, {result.values[1]:.6g} at the end" in str(result)


CHECKED = "Check the gradient against the value too, with scipy.optimize.check_grad"


@pytest.mark.parametrize(
    ("method", "safeguard", "words"),
    [
        (pp.ProxyProx(0.01), False, "A smaller eta or eta='auto' or safeguard=True should help. "),
        (pp.ProxyProx(0.01), True, "A smaller eta or eta='auto' should help. "),
        (pp.ProxyProx("auto"), False, "taken. safeguard=True should help. "),
        (pp.ProxyProx("auto"), True, "samples. "),
    ],
)
def test_only_what_is_not_on_already_is_suggested(method, safeguard, words):
    wrong = pp.Problem((lambda w: float(w @ w), lambda w: -2 * w), pp.Quadratic(np.eye(2)))
    result = pp.minimize(
        wrong, START, method=method, steps=15 if safeguard else 200, safeguard=safeguard
    )
    assert result.status is Status.GREW
    assert words + CHECKED in result.message
    assert "'auto'" not in result.message or method.eta != "auto"


def test_a_run_that_falls_is_a_success_and_shows_it():
    result = on_rosenbrock(pp.ProxyProx(0.003), steps=200)
    assert result.status is Status.STEPS_DONE
    assert result.message == "All the requested outer steps were taken."
    assert result.values[1] < 2 < result.values[0]


def test_a_loss_that_ends_infinite_has_grown():
    problem = pp.Problem((lambda w: float(w[0]) if w[0] < 0.5 else np.inf, lambda w: w - 1))
    result = pp.minimize(problem, np.zeros(1), method=pp.SGD(0.5), steps=3)
    assert result.status is Status.GREW


def test_noise_at_a_good_start_is_not_divergence_but_no_success():
    target = pp.Quadratic(np.eye(2), noise=1.0)
    problem = pp.Problem(target, pp.Quadratic(np.eye(2)))
    for seed in range(10):
        result = pp.minimize(problem, method=pp.ProxyProx(5.0), steps=60, rng=seed)
        assert result.status is Status.ABOVE_START
        assert not result.success
        assert f"{target.value(result.last):.6g} at the end" in result.message
        np.testing.assert_array_equal(result.w, np.zeros(2))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_at_the_minimum_is_no_rise(dtype):
    A = np.diag([1.0, 30.0, 1000.0]).astype(dtype)
    b = np.array([1.0, -2.0, 3.0], dtype=dtype)
    target = pp.Quadratic(A, b=b)
    start = np.linalg.solve(A.astype(float), -b.astype(float)).astype(dtype)
    start = start if np.linalg.norm(target.gradient(start)) < 1e-3 else -start
    proxy = pp.Quadratic((1.1 * A).astype(dtype))
    for objective in (target, pp.FunctionObjective(lambda w: target.gradient(w))):
        for method in (None, pp.ProxyProx(1.0), pp.SGD(1e-3), pp.DANE()):
            result = pp.minimize(pp.Problem(objective, proxy), start, method=method, steps=20)
            assert result.success, result.message


def short_of_the_rule(value):
    """Return a run whose inner solver may take one step where the rule asks for many."""
    P = np.diag([1.0, 100.0])
    slope = pp.Quadratic(P, b=np.ones(2)).gradient
    problem = pp.Problem((value, slope), pp.Quadratic(P))
    inner = pp.inner.GradientDescent(step_size=1e-4, max_steps=1)
    call = {"inner": inner, "stop": pp.stopping.Residual(1e-12), "steps": 10}
    return pp.minimize(problem, np.ones(2), method=pp.ProxyProx(1.0), **call)


def test_an_inner_rule_that_mostly_failed_is_no_success_unless_the_loss_fell():
    blind = short_of_the_rule(None)
    assert blind.status is Status.INNER_RULE_FAILED
    assert not blind.success
    assert blind.values is None
    assert "at the start" not in str(blind)
    seen = short_of_the_rule(pp.Quadratic(np.diag([1.0, 100.0]), b=np.ones(2)).value)
    assert seen.success
    assert seen.message.endswith("The inner rule failed in most steps.")


def test_a_rule_that_fails_at_rounding_level_only_is_no_failure():
    target = pp.Quadratic(np.diag([1.0, 3.0]), b=np.ones(2))
    blind = pp.FunctionObjective(target.gradient)
    call = {
        "method": pp.ProxyProx(1.0),
        "inner": pp.inner.Newton(),
        "stop": pp.stopping.SDane(),
        "steps": 200,
    }
    result = pp.minimize(pp.Problem(blind, pp.Quadratic(np.eye(2))), np.ones(2), **call)
    assert result.success


def test_a_rule_that_single_precision_cannot_meet_is_no_failure():
    A = np.diag(np.array([1.0, 30.0], dtype=np.float32))
    b = np.array([1.0, -2.0], dtype=np.float32)
    blind = pp.FunctionObjective(lambda w: A @ w + b)
    problem = pp.Problem(blind, pp.Quadratic(np.float32(1.1) * A))
    result = pp.minimize(problem, np.ones(2, dtype=np.float32), method=pp.DANE(), steps=3)
    assert result.success, result.message


@pytest.mark.parametrize("account", ["cost", "epsilon"])
def test_values_that_would_have_to_be_paid_for_are_not_asked_for(account):
    class Priced(pp.Quadratic):
        def value(self, w):
            raise AssertionError("asked for a value")

    setattr(Priced, account, lambda self, item: 1.0)
    problem = pp.Problem(Priced(np.eye(2)), pp.Quadratic(np.eye(2)))
    assert pp.minimize(problem, method=pp.ProxyProx(1.0), steps=2).values is None


def test_a_value_that_raises_loses_nothing():
    def value(w):
        raise RuntimeError("no value today")

    problem = pp.Problem((value, lambda w: w))
    result = pp.minimize(problem, np.ones(2), method=pp.SGD(0.5), steps=3)
    assert result.success
    assert result.values is None


def test_one_is_singular():
    target = pp.logistic_regression(np.eye(3), [0, 1, 1], l2=0.1, batch_size=1)
    problem = pp.Problem(target, target.label_free())
    shown = str(
        pp.minimize(problem, method=pp.ProxyProx(1.0), inner=pp.inner.Newton(), steps=1, rng=0)
    )
    assert "target paid   1 gradient, 1 sample\n" in shown
    assert "1 Hessian" in shown
    assert "1 Hessians" not in shown
    assert "1 gradients" not in shown


@pytest.mark.parametrize("method", [pp.ProxyProx("auto"), pp.ProxyProx(1.0), pp.DANE(1.0)])
def test_a_run_so_far_out_that_it_stands_still_has_grown(method):
    A = np.diag([1.0, 2.0, 3.0, 4.0])
    wrong = (lambda w: float(w @ A @ w / 2 + 1), lambda w: -(A @ w))
    proxy = (lambda w: float(w @ w) / 2, lambda w: w)
    result = pp.minimize(pp.Problem(wrong, proxy), np.ones(4), steps=50, method=method)
    assert result.trace["displacement"][-1] == 0
    assert wrong[0](result.last) > 1e20
    assert result.status is Status.GREW
    assert CHECKED in result.message


def test_a_straight_walk_uphill_in_steps_of_one_length_has_grown():
    wrong = (lambda w: float(np.sqrt(1 + w @ w)), lambda w: -w / np.sqrt(1 + w @ w))
    result = pp.minimize(pp.Problem(wrong), START, method=pp.SGD(0.5), steps=40)
    assert result.status is Status.GREW


def test_noisy_steps_of_a_walk_are_not_straight():
    def gradient(w, seed):
        return np.random.default_rng(seed).choice([-1.0, 1.0], size=1)

    noisy = pp.FunctionObjective(
        gradient, value=lambda w: float(w @ w), sample=lambda rng: int(rng.integers(2**31))
    )
    for seed in range(20):
        result = pp.minimize(pp.Problem(noisy), np.zeros(1), method=pp.SGD(0.1), steps=40, rng=seed)
        assert result.status is not Status.GREW


T = np.diag([1.0, 10.0])


def diverging(steps=100, *, noise=0.0, averaging=None, **call):
    """Return a run without values whose step size is far beyond 1/(4δ)."""
    target = pp.Quadratic(T, noise=noise)
    sample = target.sample if noise else None
    gradient = target.gradient if noise else (lambda w: target.gradient(w))
    problem = pp.Problem(pp.FunctionObjective(gradient, sample=sample), pp.Quadratic(0.3 * T))
    method = pp.ProxyProx(10.0)
    return pp.minimize(
        problem, np.ones(2), method=method, steps=steps, averaging=averaging, rng=0, **call
    )


def test_three_exact_steps_without_values_are_enough():
    assert diverging(3).status is Status.ABOVE_START


@pytest.mark.parametrize(("steps", "noise"), [(10, 0.0), (100, 0.0), (10, 0.1), (100, 0.1)])
@pytest.mark.parametrize("averaging", [None, pp.averaging.Uniform()])
def test_divergence_without_values_is_seen_in_the_gradients(steps, noise, averaging):
    result = diverging(steps, noise=noise, averaging=averaging)
    assert result.values is None
    assert result.status is Status.GREW
    assert "in norm" in result.message
    assert "A smaller eta" in result.message


def test_without_values_a_wrong_sign_that_runs_away_is_no_success():
    wrong = pp.FunctionObjective(lambda w: -(T @ w))
    problem = pp.Problem(wrong, pp.Quadratic(np.eye(2)))
    result = pp.minimize(problem, np.ones(2), method=pp.ProxyProx(1.0), steps=50)
    assert result.status is Status.GREW


def test_bounded_slopes_that_steps_jump_over_are_no_success():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = (X[:, 0] + rng.logistic(size=100) > 0).astype(int)
    target = pp.logistic_regression(X, y)
    blind = pp.FunctionObjective(lambda w: target.gradient(w, None))
    result = pp.minimize(pp.Problem(blind), np.zeros(3), method=pp.SGD(3000.0), steps=40)
    assert target.value(result.w) > 10
    assert not result.success


def test_the_answer_is_judged_not_the_last_iterate():
    """Iterates hop about the minimum, further out than the start; their mean does not."""
    target = pp.Quadratic(np.eye(1))
    for objective in (target, pp.FunctionObjective(lambda w: target.gradient(w))):
        call = {"method": pp.SGD(2.01), "steps": 40}
        problem = pp.Problem(objective)
        assert not pp.minimize(problem, np.ones(1), **call).success
        assert pp.minimize(problem, np.ones(1), averaging=pp.averaging.Uniform(), **call).success


def test_a_falling_loss_whose_weights_grow_is_a_success():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    target = pp.logistic_regression(X, (X[:, 0] > 0).astype(int))
    blind = pp.FunctionObjective(lambda w: target.gradient(w, None))
    for method in (None, pp.ProxyProx(100.0), pp.SGD(5.0)):
        problem = pp.Problem(blind, target.label_free())
        result = pp.minimize(problem, np.zeros(5), method=method, steps=60)
        assert np.linalg.norm(result.w) > 5
        assert result.success


def test_a_run_in_ones_own_hands_says_the_same():
    target = pp.Quadratic(T)
    problem = pp.Problem(pp.FunctionObjective(lambda w: target.gradient(w)), pp.Quadratic(0.3 * T))
    run = pp.Run(problem, np.ones(2), method=pp.ProxyProx(10.0))
    for _ in range(20):
        run.tell(target.gradient(run.ask().points[0]))
    assert run.result().status is Status.RUNNING
    assert "diverged" in run.result().message
    assert run.result(Status.STEPS_DONE).status is Status.GREW
    assert run.result(Status.INTERRUPTED).status is Status.INTERRUPTED


def test_the_evidence_survives_a_checkpoint(tmp_path):
    path = tmp_path / "run"
    assert diverging(15, checkpoint=path).status is Status.GREW
    resumed, whole = diverging(30, checkpoint=path), diverging(30)
    assert resumed.status is Status.GREW
    assert resumed.doubt == whole.doubt
    # Finished already: the evidence alone is read back.
    assert diverging(30, checkpoint=path).doubt == whole.doubt


def test_scipy_hears_of_it():
    import scipy.optimize

    method = pp.scipy.scipy_method(pp.Quadratic(0.3 * T), method=pp.ProxyProx(10.0), steps=30)
    found = scipy.optimize.minimize(
        lambda x: x @ T @ x / 2, np.ones(2), jac=lambda x: T @ x, method=method
    )
    assert not found.success
    assert "diverged" in found.message


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tensors_are_judged_too(dtype):
    torch = pytest.importorskip("torch")
    A = torch.diag(torch.tensor([1.0, 10.0], dtype=getattr(torch, dtype)))
    proxy = pp.FunctionProxy(lambda w: 0.15 * float(w @ A @ w), lambda w: 0.3 * (A @ w))
    start = torch.ones(2, dtype=A.dtype)
    problem = pp.Problem(pp.FunctionObjective(lambda w: A @ w), proxy)
    assert not pp.minimize(problem, start, method=pp.ProxyProx(10.0), steps=20).success
    assert pp.minimize(problem, start, method=pp.ProxyProx(0.05), steps=20).success


def test_gradients_stand_in_for_values_where_an_inner_rule_fails():
    """The rule fails in most steps, and the loss falls all the same."""
    P = np.diag([1.0, 2.0])
    problem = pp.Problem(pp.FunctionObjective(lambda w: P @ w - 1), pp.Quadratic(P))
    inner = pp.inner.GradientDescent(step_size=0.1, max_steps=1)
    call = {"inner": inner, "stop": pp.stopping.Residual(1e-12), "steps": 60}
    result = pp.minimize(problem, np.full(2, 5.0), method=pp.ProxyProx(1.0), **call)
    assert result.success
    assert result.message.endswith("The inner rule failed in most steps.")


@pytest.fixture
def random_cases(monkeypatch):
    path = Path(__file__).parents[1] / "benchmarks" / "outcome.py"
    spec = importlib.util.spec_from_file_location("outcome_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module.cases


def test_random_runs_are_judged_by_what_their_true_loss_did(random_cases):
    fell = 0
    for seed in range(2, 16):
        for how, case in random_cases(seed).items():
            said = f"{case.seed}, {case.label}, {how}: {case.result.message}"
            if case.truth == "fell":
                assert case.result.success, said
                fell += 1
            elif how == "values":
                assert not case.result.success, said
    assert fell > 12


@pytest.mark.parametrize(
    "value", [lambda w: 1 / 0, lambda w: w, lambda w: "low", lambda w: math.nan]
)
def test_a_value_that_cannot_be_used_is_named_and_the_gradients_judge(value):
    result = pp.minimize(
        pp.Problem((value, lambda w: w - 1), proxy=(lambda w: w @ w / 2, lambda w: w)),
        np.zeros(2), method=pp.ProxyProx(1.0), steps=5,
    )  # fmt: skip
    assert result.values is None
    assert "objective's value" in result.message
    assert result.success


def test_exact_gradients_that_explode_are_no_success_wherever_they_point():
    def gradient(w):
        # Far out the gradient points back along the way although the loss rises across it.
        return w - 1 if np.abs(w).max() < 50 else 1e8 * np.array([-w[0], w[1]]) / np.abs(w).max()

    result = pp.minimize(
        pp.Problem((None, gradient), proxy=(lambda w: 0.0, lambda w: 0 * w)),
        np.zeros(2), method=pp.ProxyProx(1e3), steps=2,
    )  # fmt: skip
    assert result.status is pp.Status.GREW


def test_a_run_that_resumed_says_so(tmp_path):
    problem = pp.Problem(pp.Quadratic(np.eye(2), b=np.ones(2)), pp.Quadratic(np.eye(2)))
    call = {"method": pp.ProxyProx(1.0), "checkpoint": tmp_path / "run", "rng": 0}
    pp.minimize(problem, steps=3, **call)
    assert "after 3 steps" in pp.minimize(problem, steps=5, **call).message
