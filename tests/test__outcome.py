"""What a finished run says of itself: losses at both ends, and no success that was none."""

from __future__ import annotations

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
    assert result.values == (rosenbrock(START), rosenbrock(result.w))
    assert result.message.startswith("The loss ended far above where it began")
    assert "All the requested outer steps were taken." in result.message
    assert f"loss          24.2 at the start, {result.values[1]:.6g} at the end" in str(result)


CHECKED = "Check the gradient against the value too, with scipy.optimize.check_grad"


@pytest.mark.parametrize(
    ("method", "safeguard", "words"),
    [
        (pp.ProxyProx(0.01), False, "A smaller eta, eta='auto' or safeguard=True should help. "),
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


def test_noise_at_a_good_start_is_not_divergence_but_is_said():
    target = pp.Quadratic(np.eye(2), noise=1.0)
    problem = pp.Problem(target, pp.Quadratic(np.eye(2)))
    for seed in range(10):
        result = pp.minimize(problem, method=pp.ProxyProx(5.0), steps=60, rng=seed)
        assert result.success
        assert result.message.endswith("The loss is higher than at the start.")


def short_of_the_rule(value):
    """Return a run whose inner solver may take one step where the rule asks for many."""
    P = np.diag([1.0, 100.0])
    slope = pp.Quadratic(P, b=np.ones(2)).gradient
    problem = pp.Problem((value, slope), pp.Quadratic(P))
    inner = pp.GradientDescent(step_size=1e-4, max_steps=1)
    call = {"inner": inner, "stop": pp.Residual(1e-12), "steps": 10}
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
    call = {"method": pp.ProxyProx(1.0), "inner": pp.Newton(), "stop": pp.SDane(), "steps": 200}
    result = pp.minimize(pp.Problem(blind, pp.Quadratic(np.eye(2))), np.ones(2), **call)
    assert result.success


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
    shown = str(pp.minimize(problem, method=pp.ProxyProx(1.0), inner=pp.Newton(), steps=1, rng=0))
    assert "target paid   1 gradient, 1 sample\n" in shown
    assert "1 Hessian" in shown
    assert "1 Hessians" not in shown
    assert "1 gradients" not in shown


@pytest.mark.parametrize("method", [None, pp.ProxyProx(1.0), pp.DANE(1.0)])
def test_a_run_so_far_out_that_it_stands_still_has_grown(method):
    A = np.diag([1.0, 2.0, 3.0, 4.0])
    wrong = (lambda w: float(w @ A @ w / 2 + 1), lambda w: -(A @ w))
    proxy = (lambda w: float(w @ w) / 2, lambda w: w)
    result = pp.minimize(pp.Problem(wrong, proxy), np.ones(4), steps=50, method=method)
    assert result.trace["displacement"][-1] == 0
    assert result.values[1] > 1e20
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
        assert result.success
