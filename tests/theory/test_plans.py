"""The corollary as plans: they keep what they promise, with the fewest steps."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxyprox.theory import guarantee, plan_run

CONVEX = {"epsilon": 1e-2, "B": 1.0, "sigma": 1.0, "delta": 1.0}
scale = st.floats(1e-6, 1e6)
scale_or_zero = st.just(0.0) | scale
STRONG = {"epsilon": 1e-3, "mu": 0.1, "B": 1.0, "sigma": 1.0, "delta": 1.0}


class TestConvex:
    """``mu=0``."""

    @given(epsilon=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
    def test_plan_reaches_the_accuracy_it_was_made_for(self, epsilon, B, sigma, delta):
        plan = plan_run(epsilon=epsilon, B=B, sigma=sigma, delta=delta)
        value = guarantee(eta=plan.eta, steps=plan.steps, B=B, sigma=sigma, delta=delta, G=plan.G)
        assert value == plan.guarantee <= epsilon
        assert plan.mu * plan.eta * plan.steps == pytest.approx(1.0)

    @given(epsilon=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
    def test_explicit_constants_of_the_corollary(self, epsilon, B, sigma, delta):
        steps = plan_run(epsilon=epsilon, B=B, sigma=sigma, delta=delta).steps
        limit = 1 + 9.5 * delta * B**2 / epsilon + 68.0625 * (sigma * B / epsilon) ** 2
        assert steps <= limit * (1 + 1e-9)

    @given(epsilon=scale, B=scale, sigma=scale, delta=scale_or_zero)
    def test_step_size_and_inner_accuracy_are_those_of_the_corollary(
        self, epsilon, B, sigma, delta
    ):
        plan = plan_run(epsilon=epsilon, B=B, sigma=sigma, delta=delta)
        inverse = max(4 * delta, sigma * math.sqrt(plan.steps) / B)
        assert plan.eta == pytest.approx(1 / inverse)
        allowed = sigma**2 / plan.steps + (delta * B / plan.steps) ** 2
        assert math.isclose(plan.G**2, allowed, rel_tol=1e-9)

    def test_known_number_of_steps_without_difference(self):
        # (9/8 + 2 + 1)·σB/√K <= ε, hence K = 4.125²·10⁴ = 170156.25.
        assert plan_run(**{**CONVEX, "delta": 0.0}).steps == 170157

    def test_known_number_of_steps_without_noise(self):
        # (9/2 + 1/4)·δB²/K <= ε, hence K = 4.75·3/0.0099 = 1439.4.
        assert plan_run(epsilon=0.0099, B=1.0, sigma=0.0, delta=3.0).steps == 1440

    def test_one_step_is_enough_when_hessians_agree_and_gradients_are_exact(self):
        plan = plan_run(**{**CONVEX, "sigma": 0.0, "delta": 0.0})
        assert plan.steps == 1
        assert plan.G > 0
        assert plan.guarantee == pytest.approx(0.75 * CONVEX["epsilon"])

    def test_limit_of_vanishing_difference(self):
        assert (
            plan_run(**{**CONVEX, "delta": 1e-200}).steps
            == plan_run(**{**CONVEX, "delta": 0.0}).steps
        )

    @pytest.mark.parametrize(
        ("name", "harder"), [("epsilon", 1e-3), ("B", 2.0), ("sigma", 2.0), ("delta", 1e4)]
    )
    def test_harder_problems_take_more_steps(self, name, harder):
        assert plan_run(**{**CONVEX, name: harder}).steps > plan_run(**CONVEX).steps

    @pytest.mark.parametrize("name", ["epsilon", "B"])
    def test_errors_name_the_argument(self, name):
        with pytest.raises(ValueError, match=rf"^{name} must be a positive number, got -1"):
            plan_run(**{**CONVEX, name: -1.0})

    def test_an_unreachable_accuracy_is_refused(self):
        with pytest.raises(ValueError, match="epsilon must be large enough"):
            plan_run(**{**CONVEX, "epsilon": 1e-200})


class TestStronglyConvex:
    """A positive ``mu``."""

    @given(epsilon=scale, mu=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
    @example(epsilon=1e6, mu=1e-6, B=1e-6, sigma=0.0, delta=0.0)  # the printed η is negative here
    @example(epsilon=1e-6, mu=1e-6, B=1e6, sigma=1e6, delta=1e6)
    def test_plan_reaches_the_accuracy_it_was_made_for(self, epsilon, mu, B, sigma, delta):
        plan = plan_run(epsilon=epsilon, mu=mu, B=B, sigma=sigma, delta=delta)
        own = 0.0 if plan.regularized else mu
        value = guarantee(
            eta=plan.eta, steps=plan.steps, mu=own, B=B, sigma=sigma, delta=delta, G=plan.G
        )
        assert value == plan.guarantee <= epsilon
        if not plan.regularized:
            assert math.isclose(plan.G**2, mu * epsilon / 3, rel_tol=1e-9)
        if plan.steps > 1:
            known = {"mu": own, "B": B, "sigma": sigma, "delta": delta, "G": plan.G}
            assert (
                plan.regularized or guarantee(eta=plan.eta, steps=plan.steps - 1, **known) > epsilon
            )

    @given(epsilon=scale, mu=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
    def test_steps_stay_below_the_closed_form_of_the_appendix(self, epsilon, mu, B, sigma, delta):
        A = max(2.0, 20 * delta / mu, 30 * sigma**2 / (mu * epsilon))
        C = 15 * B**2 * mu / (4 * epsilon)
        closed = A * (1 + 4 * math.log(math.e + A * C))
        plan = plan_run(epsilon=epsilon, mu=mu, B=B, sigma=sigma, delta=delta)
        assert plan.steps <= (closed + 2) * (1 + 1e-12)

    def test_known_number_of_steps(self):
        # η = 1/4 and 5/(8ηA) = 2ε/3, hence A = 3750; with a growth of 1/10, K = ln 376 / ln 1.1.
        plan = plan_run(epsilon=1e-3, mu=1.0, B=1.0, sigma=0.0, delta=1.0)
        assert (plan.steps, plan.eta) == (63, 0.25)

    def test_identical_hessians_without_noise_need_one_step(self):
        assert plan_run(**{**STRONG, "sigma": 0.0, "delta": 0.0}).steps == 1

    @given(epsilon=scale, mu=scale, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
    @example(epsilon=1e-2, mu=1e-3, B=1.0, sigma=0.0, delta=1.0)
    def test_knowing_mu_costs_no_steps(self, epsilon, mu, B, sigma, delta):
        given = {"epsilon": epsilon, "B": B, "sigma": sigma, "delta": delta}
        assert plan_run(**given, mu=mu).steps <= plan_run(**given).steps

    def test_limit_of_vanishing_noise_and_difference(self):
        exact = plan_run(**{**STRONG, "sigma": 0.0, "delta": 0.0})
        assert plan_run(**{**STRONG, "sigma": 1e-150, "delta": 1e-300}).steps == exact.steps

    @pytest.mark.parametrize(
        ("name", "harder"), [("epsilon", 1e-4), ("mu", 0.01), ("sigma", 3.0), ("B", 10.0)]
    )
    def test_harder_problems_take_more_steps(self, name, harder):
        assert plan_run(**{**STRONG, name: harder}).steps > plan_run(**STRONG).steps

    def test_a_distant_start_does_not_overflow(self):
        plan = plan_run(**{**STRONG, "B": 1e150})
        assert plan.guarantee <= STRONG["epsilon"]

    @pytest.mark.parametrize("name", ["epsilon", "B"])
    def test_errors_name_the_argument(self, name):
        with pytest.raises(ValueError, match=rf"^{name} must be a positive number, got 0"):
            plan_run(**{**STRONG, name: 0.0})

    def test_an_unreachable_accuracy_is_refused(self):
        with pytest.raises(ValueError, match="epsilon must be large enough"):
            plan_run(**{**STRONG, "epsilon": 1e-300, "sigma": 1e10})


class TestSolved:
    """``solved=True``: exact solves."""

    @given(epsilon=scale, mu=scale_or_zero, B=scale, sigma=scale_or_zero, delta=scale_or_zero)
    @example(epsilon=1e-2, mu=1e-3, B=1.0, sigma=0.0, delta=1.0)
    def test_plan_keeps_its_word_and_is_never_longer_than_the_inexact_one(
        self, epsilon, mu, B, sigma, delta
    ):
        known = {"B": B, "sigma": sigma, "delta": delta, "mu": mu}
        plan = plan_run(epsilon=epsilon, **known, solved=True)
        value = guarantee(eta=plan.eta, steps=plan.steps, **known, solved=True)
        assert value == plan.guarantee <= epsilon
        assert plan.solved
        assert not plan.regularized
        assert plan.steps <= plan_run(epsilon=epsilon, **known).steps

    @given(
        epsilon=scale,
        B=scale,
        sigma=scale_or_zero,
        delta=scale_or_zero,
        pair=st.tuples(scale, scale),
        solved=st.booleans(),
    )
    def test_more_strong_convexity_never_costs_steps(self, epsilon, B, sigma, delta, pair, solved):
        given = {"epsilon": epsilon, "B": B, "sigma": sigma, "delta": delta, "solved": solved}
        steps = [plan_run(**given, mu=mu).steps for mu in (0.0, *sorted(pair))]
        assert steps == sorted(steps, reverse=True)

    def test_known_numbers_of_steps(self):
        # δB²/ε; and by noise alone B²/(2ηK) + ησ²/2 ≤ ε with η = ε/σ², hence K = σ²B²/ε².
        assert plan_run(epsilon=1e-2, B=1.0, sigma=0.0, delta=1.0, solved=True).steps == 100
        assert plan_run(epsilon=1e-2, B=1.0, sigma=1.0, delta=0.0, solved=True).steps == 10**4
        assert plan_run(epsilon=1e-2, B=1.0, sigma=0.0, delta=0.0, solved=True).steps == 1

    def test_average_and_residual_are_part_of_the_plan(self):
        known = {"epsilon": 1e-2, "B": 2.0, "sigma": 0.3, "delta": 1.0}
        plan = plan_run(**known, mu=0.1, solved=True)
        assert math.isclose(2 * plan.average / 5, 0.1 / (1 + plan.eta))
        assert math.isclose(plan.tol, 1e-2 / 2 / 1000)
        assert plan_run(**known, solved=True).average == plan_run(**known).average == 0
        assert plan_run(**known, mu=0.1).average == 0.1
