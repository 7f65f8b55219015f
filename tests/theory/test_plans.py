"""The corollary as plans: they keep what they promise, with the fewest steps."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxyprox.theory import corollary_plan, guarantee, plan_run

scale = st.floats(1e-6, 1e6)
scale_or_zero = st.just(0.0) | scale
CONVEX = {"epsilon": 1e-2, "B": 1.0, "sigma": 1.0, "delta": 1.0}
STRONG = {"epsilon": 1e-3, "mu": 0.1, "B": 1.0, "sigma": 1.0, "delta": 1.0}


@given(epsilon=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
def test_convex_plans_are_those_of_the_corollary(epsilon, B, sigma, delta):
    plan = plan_run(epsilon=epsilon, B=B, sigma=sigma, delta=delta)
    value = guarantee(eta=plan.eta, steps=plan.steps, B=B, sigma=sigma, delta=delta, G=plan.G)
    assert value == plan.guarantee <= epsilon
    assert plan.mu * plan.eta * plan.steps == pytest.approx(1.0)
    limit = 1 + 9.5 * delta * B**2 / epsilon + 68.0625 * (sigma * B / epsilon) ** 2
    assert plan.steps <= limit * (1 + 1e-9)
    if sigma > 0:
        inverse = max(4 * delta, sigma * math.sqrt(plan.steps) / B)
        assert plan.eta == pytest.approx(1 / inverse)
        allowed = sigma**2 / plan.steps + (delta * B / plan.steps) ** 2
        assert math.isclose(plan.G**2, allowed, rel_tol=1e-9)


@given(epsilon=scale, mu=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
@example(epsilon=1e6, mu=1e-6, B=1e-6, sigma=0.0, delta=0.0)  # the printed η is negative here
@example(epsilon=1e-6, mu=1e-6, B=1e6, sigma=1e6, delta=1e6)
def test_strongly_convex_plans_reach_the_accuracy_they_were_made_for(epsilon, mu, B, sigma, delta):
    plan = plan_run(epsilon=epsilon, mu=mu, B=B, sigma=sigma, delta=delta)
    own = 0.0 if plan.regularized else mu
    known = {"mu": own, "B": B, "sigma": sigma, "delta": delta, "G": plan.G}
    assert guarantee(eta=plan.eta, steps=plan.steps, **known) == plan.guarantee <= epsilon
    if not plan.regularized:
        assert math.isclose(plan.G**2, mu * epsilon / 3, rel_tol=1e-9)
        if plan.steps > 1:
            assert guarantee(eta=plan.eta, steps=plan.steps - 1, **known) > epsilon
    # The closed form of the appendix.
    A = max(2.0, 20 * delta / mu, 30 * sigma**2 / (mu * epsilon))
    C = 15 * B**2 * mu / (4 * epsilon)
    closed = A * (1 + 4 * math.log(math.e + A * C))
    assert plan.steps <= (closed + 2) * (1 + 1e-12)


@given(epsilon=scale, mu=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
@example(epsilon=1e6, mu=1e-6, B=1e-6, sigma=0.0, delta=0.0)  # the printed η is negative here
def test_the_corollarys_own_settings_meet_the_conditions_of_its_proof(epsilon, mu, B, sigma, delta):
    plan = corollary_plan(epsilon=epsilon, mu=mu, B=B, sigma=sigma, delta=delta)
    assert plan.guarantee <= epsilon * (1 + 1e-9)
    assert plan.eta * max(4 * delta, 0.4 * mu, 6 * sigma**2 / epsilon) <= 1 + 1e-9
    assert math.isclose(plan.G**2, mu * epsilon / 3, rel_tol=1e-9)
    needed = 5 / mu / (plan.steps - 1)
    assert plan.eta >= needed * (1 - 1e-9)
    assert plan_run(epsilon=epsilon, mu=mu, B=B, sigma=sigma, delta=delta).steps <= plan.steps


@given(
    epsilon=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero, pair=st.tuples(scale, scale)
)
@example(epsilon=1e-2, B=1.0, sigma=0.0, delta=1.0, pair=(1e-3, 1e-3))
def test_exact_solves_and_more_strong_convexity_never_cost_steps(epsilon, B, sigma, delta, pair):
    steps = {}
    for solved in (True, False):
        for mu in (0.0, *sorted(pair)):
            known = {"B": B, "sigma": sigma, "delta": delta, "mu": mu}
            plan = plan_run(epsilon=epsilon, **known, solved=solved)
            steps.setdefault(solved, []).append(plan.steps)
            if solved:
                value = guarantee(eta=plan.eta, steps=plan.steps, **known, solved=True)
                assert value == plan.guarantee <= epsilon
                assert (plan.solved, plan.regularized) == (True, False)
        assert steps[solved] == sorted(steps[solved], reverse=True)
    assert all(map(int.__le__, steps[True], steps[False]))


def test_numbers_of_steps_by_hand():
    # (9/8 + 2 + 1)·σB/√K ≤ ε, hence K = 4.125²·10⁴ = 170156.25.
    for delta in (0.0, 1e-200):
        assert plan_run(**{**CONVEX, "delta": delta}).steps == 170157
    # (9/2 + 1/4)·δB²/K ≤ ε, hence K = 4.75·3/0.0099 = 1439.4.
    assert plan_run(epsilon=0.0099, B=1.0, sigma=0.0, delta=3.0).steps == 1440
    one = plan_run(**{**CONVEX, "sigma": 0.0, "delta": 0.0})
    assert (one.steps, one.guarantee) == (1, pytest.approx(0.75e-2))
    assert one.G > 0
    # η = 1/4 and 5/(8ηA) = 2ε/3, hence A = 3750; with a growth of 1/10, K = ln 376 / ln 1.1.
    plan = plan_run(epsilon=1e-3, mu=1.0, B=1.0, sigma=0.0, delta=1.0)
    assert (plan.steps, plan.eta) == (63, 0.25)
    for sigma, delta in ((0.0, 0.0), (1e-150, 1e-300)):
        assert plan_run(**{**STRONG, "sigma": sigma, "delta": delta}).steps == 1
    assert plan_run(**{**STRONG, "B": 1e150}).guarantee <= STRONG["epsilon"]
    # δB²/ε; and by noise alone B²/(2ηK) + ησ²/2 ≤ ε with η = ε/σ², hence K = σ²B²/ε².
    for sigma, delta, steps in ((0.0, 1.0, 100), (1.0, 0.0, 10**4), (0.0, 0.0, 1)):
        known = {"epsilon": 1e-2, "B": 1.0, "sigma": sigma, "delta": delta}
        assert plan_run(**known, solved=True).steps == steps


def test_an_accuracy_out_of_reach_is_refused():
    for known in (CONVEX, STRONG):
        with pytest.raises(ValueError, match="epsilon"):
            plan_run(**{**known, "sigma": 1e10, "epsilon": 1e-300})
