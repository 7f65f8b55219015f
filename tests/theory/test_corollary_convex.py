import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import convex_guarantee, plan_convex

BASE = {"epsilon": 1e-2, "B": 1.0, "sigma": 1.0, "delta": 1.0}
scale = st.floats(1e-6, 1e6)
scale_or_zero = st.just(0.0) | scale


@given(epsilon=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
def test_plan_reaches_the_accuracy_it_was_made_for(epsilon, B, sigma, delta):
    plan = plan_convex(epsilon=epsilon, B=B, sigma=sigma, delta=delta)
    value = convex_guarantee(
        eta=plan.eta, steps=plan.steps, B=B, sigma=sigma, delta=delta, G=plan.G
    )
    assert value == plan.guarantee <= epsilon
    assert plan.mu * plan.eta * plan.steps == pytest.approx(1.0)


@given(epsilon=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
def test_explicit_constants_of_the_corollary(epsilon, B, sigma, delta):
    steps = plan_convex(epsilon=epsilon, B=B, sigma=sigma, delta=delta).steps
    limit = 1 + 9.5 * delta * B**2 / epsilon + 68.0625 * (sigma * B / epsilon) ** 2
    assert steps <= limit * (1 + 1e-9)


@given(epsilon=scale, B=scale, sigma=scale, delta=scale_or_zero)
def test_step_size_and_inner_accuracy_are_those_of_the_corollary(epsilon, B, sigma, delta):
    plan = plan_convex(epsilon=epsilon, B=B, sigma=sigma, delta=delta)
    inverse = max(4 * delta, sigma * math.sqrt(plan.steps) / B)
    assert plan.eta == pytest.approx(1 / inverse)
    allowed = sigma**2 / plan.steps + (delta * B / plan.steps) ** 2
    assert math.isclose(plan.G**2, allowed, rel_tol=1e-9)


def test_known_number_of_steps_without_difference():
    # (9/8 + 2 + 1)·σB/√K <= ε, hence K = 4.125²·10⁴ = 170156.25.
    assert plan_convex(**{**BASE, "delta": 0.0}).steps == 170157


def test_known_number_of_steps_without_noise():
    # (9/2 + 1/4)·δB²/K <= ε, hence K = 4.75·3/0.0099 = 1439.4.
    assert plan_convex(epsilon=0.0099, B=1.0, sigma=0.0, delta=3.0).steps == 1440


def test_one_step_is_enough_when_hessians_agree_and_gradients_are_exact():
    plan = plan_convex(**{**BASE, "sigma": 0.0, "delta": 0.0})
    assert plan.steps == 1
    assert plan.G > 0
    assert plan.guarantee == pytest.approx(0.75 * BASE["epsilon"])


def test_limit_of_vanishing_difference():
    assert (
        plan_convex(**{**BASE, "delta": 1e-200}).steps
        == plan_convex(**{**BASE, "delta": 0.0}).steps
    )


@pytest.mark.parametrize(
    ("name", "harder"), [("epsilon", 1e-3), ("B", 2.0), ("sigma", 2.0), ("delta", 1e4)]
)
def test_harder_problems_take_more_steps(name, harder):
    assert plan_convex(**{**BASE, name: harder}).steps > plan_convex(**BASE).steps


@pytest.mark.parametrize("name", ["epsilon", "B"])
def test_errors_name_the_argument(name):
    with pytest.raises(ValueError, match=rf"^{name} must be a positive number, got -1"):
        plan_convex(**{**BASE, name: -1.0})


def test_an_unreachable_accuracy_is_refused():
    with pytest.raises(ValueError, match=r"epsilon must be large enough.*raise epsilon"):
        plan_convex(**{**BASE, "epsilon": 1e-200})
