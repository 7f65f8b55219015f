import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxyprox.theory import plan_strongly_convex, strongly_convex_guarantee

BASE = {"epsilon": 1e-3, "mu": 0.1, "B": 1.0, "sigma": 1.0, "delta": 1.0}
scale = st.floats(1e-6, 1e6)
scale_or_zero = st.just(0.0) | scale


@given(epsilon=scale, mu=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
@example(epsilon=1e6, mu=1e-6, B=1e-6, sigma=0.0, delta=0.0)  # the printed η is negative here
@example(epsilon=1e-6, mu=1e-6, B=1e6, sigma=1e6, delta=1e6)
def test_plan_reaches_the_accuracy_it_was_made_for(epsilon, mu, B, sigma, delta):
    plan = plan_strongly_convex(epsilon=epsilon, mu=mu, B=B, sigma=sigma, delta=delta)
    value = strongly_convex_guarantee(
        eta=plan.eta, steps=plan.steps, mu=mu, B=B, sigma=sigma, delta=delta, G=plan.G
    )
    assert value == plan.guarantee <= epsilon
    assert plan.eta <= 5 / (2 * mu) * (1 + 1e-12)
    assert 2 * plan.eta * sigma**2 <= epsilon / 3 * (1 + 1e-12)
    assert math.isclose(plan.G**2, mu * epsilon / 3, rel_tol=1e-9)


@given(epsilon=scale, mu=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
def test_one_step_fewer_breaks_a_condition_of_the_proof(epsilon, mu, B, sigma, delta):
    x = plan_strongly_convex(epsilon=epsilon, mu=mu, B=B, sigma=sigma, delta=delta).steps - 2
    eta = 5 / (mu * x) * (1 + math.log(max(1.0, 15 * B**2 * mu * x / (4 * epsilon))))
    room = 1 - 1e-9
    assert (
        eta > 5 / (2 * mu) * room
        or (delta > 0 and eta > 1 / (4 * delta) * room)
        or 2 * eta * sigma**2 > epsilon / 3 * room
    )


@given(epsilon=scale, mu=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
def test_steps_stay_below_the_closed_form_of_the_appendix(epsilon, mu, B, sigma, delta):
    A = max(2.0, 20 * delta / mu, 30 * sigma**2 / (mu * epsilon))
    C = 15 * B**2 * mu / (4 * epsilon)
    closed = A * (1 + 4 * math.log(math.e + A * C))
    plan = plan_strongly_convex(epsilon=epsilon, mu=mu, B=B, sigma=sigma, delta=delta)
    assert plan.steps <= (closed + 2) * (1 + 1e-12)


def test_known_number_of_steps():
    # A = 20, and K − 1 = 199: 20·(1 + ln(37.5·198)) = 198.25, 20·(1 + ln(37.5·199)) = 198.35.
    plan = plan_strongly_convex(epsilon=0.1, mu=1.0, B=1.0, sigma=0.0, delta=1.0)
    assert plan.steps == 200
    assert plan.eta == pytest.approx(0.25, rel=0.01)


def test_identical_hessians_without_noise_need_few_steps():
    plan = plan_strongly_convex(**{**BASE, "sigma": 0.0, "delta": 0.0})
    assert plan.steps < 30


def test_limit_of_vanishing_noise_and_difference():
    exact = plan_strongly_convex(**{**BASE, "sigma": 0.0, "delta": 0.0})
    assert plan_strongly_convex(**{**BASE, "sigma": 1e-150, "delta": 1e-300}) == exact


@pytest.mark.parametrize(
    ("name", "harder"), [("epsilon", 1e-4), ("mu", 0.01), ("sigma", 3.0), ("B", 10.0)]
)
def test_harder_problems_take_more_steps(name, harder):
    assert plan_strongly_convex(**{**BASE, name: harder}).steps > plan_strongly_convex(**BASE).steps


def test_a_distant_start_does_not_overflow():
    plan = plan_strongly_convex(**{**BASE, "B": 1e150})
    assert plan.guarantee <= BASE["epsilon"]


@pytest.mark.parametrize("name", ["epsilon", "mu", "B"])
def test_errors_name_the_argument(name):
    with pytest.raises(ValueError, match=rf"^{name} must be a positive number, got 0"):
        plan_strongly_convex(**{**BASE, name: 0.0})


def test_an_unreachable_accuracy_is_refused():
    with pytest.raises(ValueError, match=r"epsilon must be large enough.*raise epsilon"):
        plan_strongly_convex(**{**BASE, "epsilon": 1e-300, "sigma": 1e10})
