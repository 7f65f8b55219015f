"""The theorems as functions: values worked out by hand, limits, monotony, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import (
    convex_regularization,
    guarantee,
    largest_step_size,
    nonconvex_guarantee,
    nonconvex_noise_factor,
)

CONVEX = {"eta": 0.2, "steps": 50, "B": 2.0, "sigma": 1.0, "delta": 1.0, "G": 0.1}
STRONG = {"eta": 0.25, "steps": 10, "mu": 1.0, "B": 2.0, "sigma": 1.0, "delta": 1.0, "G": 0.5}
NONCONVEX = {"eta": 0.5, "steps": 24, "initial_gap": 3.0, "sigma": 0.5, "delta": 0.0}


class TestLargestStepSize:
    """The condition of every theorem."""

    def test_known_value(self):
        assert largest_step_size(2.5) == pytest.approx(0.1)

    def test_identical_hessians_allow_any_step_size(self):
        assert largest_step_size(0.0) == math.inf

    @pytest.mark.parametrize("delta", [-1.0, math.nan, math.inf])
    def test_refuses_what_is_no_similarity_constant(self, delta):
        with pytest.raises(ValueError, match=r"delta must be a finite number, zero or more, got"):
            largest_step_size(delta)


class TestConvex:
    """``mu=0``: the theorem on convex losses."""

    def test_known_value(self):
        # 9·4/(8·10) = 0.45; 2·0.2 = 0.4; 10·0.01 = 0.1.
        assert guarantee(**CONVEX) == pytest.approx(0.95, rel=1e-14)

    def test_regularization_makes_the_relative_accuracies_of_both_theorems_agree(self):
        eta, steps = 0.3, 70
        mu = convex_regularization(eta=eta, steps=steps)
        assert mu / (4 * eta) == pytest.approx(1 / (4 * eta**2 * steps), rel=1e-14)

    def test_noise_is_left_after_many_steps_when_subproblems_are_exact(self):
        assert guarantee(**{**CONVEX, "steps": 10**300, "G": 0.0}) == pytest.approx(0.4)

    def test_a_fixed_inner_error_adds_up_over_many_steps(self):
        assert guarantee(**{**CONVEX, "steps": 10**9}) > 1e6

    def test_no_overflow_where_eta_times_steps_would(self):
        value = guarantee(eta=1e20, steps=10**295, B=1.0, sigma=0.0, delta=0.0)
        assert 0.0 <= value < 1e-300

    @pytest.mark.parametrize(("name", "change"), [("B", 1.9), ("sigma", 0.9), ("G", 0.05)])
    def test_easier_settings_lower_the_bound(self, name, change):
        assert guarantee(**{**CONVEX, name: change}) < guarantee(**CONVEX)

    def test_step_size_above_its_limit_is_refused(self):
        with pytest.raises(ValueError, match=r"eta must be at most .*= 0\.25, got 0\.26"):
            guarantee(**{**CONVEX, "eta": 0.26})

    @pytest.mark.parametrize(("name", "value"), [("steps", -1), ("B", math.nan), ("G", -1.0)])
    def test_errors_name_the_argument(self, name, value):
        with pytest.raises(ValueError, match=rf"^{name} must be "):
            guarantee(**{**CONVEX, name: value})

    def test_regularization_refuses_a_step_size_of_zero(self):
        with pytest.raises(ValueError, match="eta must be a positive number, got 0"):
            convex_regularization(eta=0, steps=1)


class TestStronglyConvex:
    """A positive ``mu``: the theorem on strongly convex losses."""

    def test_known_value(self):
        # ημ = 5/2 makes the base 2: 5·4/(8·2.5)/(2⁴ − 1) = 1/15; 2·2.5·0.01 = 1/20; 0.04/1 = 1/25.
        value = guarantee(eta=2.5, steps=4, mu=1.0, B=2.0, sigma=0.1, delta=0.0, G=0.2)
        assert value == pytest.approx(1 / 15 + 1 / 20 + 1 / 25, rel=1e-14)

    @given(
        steps=st.integers(1, 60),
        eta=st.fractions(Fraction(1, 1000), 10),
        mu=st.fractions(Fraction(1, 1000), 10),
    )
    def test_matches_exact_rational_arithmetic(self, steps, eta, mu):
        rate = 2 * eta * mu / 5
        exact = Fraction(5, 8) / eta * rate / ((1 + rate) ** steps - 1)
        value = guarantee(eta=float(eta), steps=steps, mu=float(mu), B=1.0, sigma=0.0, delta=0.0)
        assert value == pytest.approx(float(exact), rel=1e-12)

    @pytest.mark.parametrize("steps", [10**9, 10**30, 10**300])
    def test_only_noise_and_inner_error_are_left_after_many_steps(self, steps):
        assert guarantee(**{**STRONG, "steps": steps}) == 0.5 + 0.25

    def test_keeps_the_decay_of_a_tiny_strong_convexity(self):
        # (1 + 2e-18)^1e18 = e² although 1 + 2e-18 rounds to 1.
        value = guarantee(eta=1.0, steps=10**18, mu=5e-18, B=1e9, sigma=0.0, delta=0.0)
        assert value == pytest.approx(5 / 8 * 2 / math.expm1(2), rel=1e-9)

    def test_a_huge_start_is_forgotten_without_nan(self):
        assert guarantee(**{**STRONG, "B": 1e200, "steps": 10**9}) == 0.75

    @pytest.mark.parametrize(
        ("name", "change"),
        [("steps", 11), ("mu", 1.1), ("B", 1.9), ("sigma", 0.9), ("G", 0.4)],
    )
    def test_easier_settings_lower_the_bound(self, name, change):
        assert guarantee(**{**STRONG, name: change}) < guarantee(**STRONG)

    def test_step_size_may_reach_its_limit_but_not_pass_it(self):
        for delta in (3.0, 0.7, 1e-3 / 3):
            limit = 1 / (4 * delta)
            guarantee(**{**STRONG, "delta": delta, "eta": limit})
            with pytest.raises(ValueError, match="eta must be at most"):
                guarantee(**{**STRONG, "delta": delta, "eta": 1.001 * limit})

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("eta", 0.0),
            ("mu", -1.0),
            ("B", -1.0),
            ("sigma", math.nan),
            ("delta", -0.1),
            ("G", math.inf),
            ("steps", 0),
            ("steps", 10**301),
        ],
    )
    def test_errors_name_the_argument(self, name, value):
        with pytest.raises(ValueError, match=rf"^{name} must be .* got "):
            guarantee(**{**STRONG, name: value})


class TestNonConvex:
    """The theorem on non-convex losses."""

    def test_known_values_of_both_versions(self):
        # 48·3/(0.5·24) = 12, then 56/4 and 8/4.
        assert nonconvex_guarantee(**NONCONVEX) == pytest.approx(26.0)
        assert nonconvex_guarantee(**NONCONVEX, printed=True) == pytest.approx(14.0)

    def test_worst_factor_is_the_sum_of_the_two_lemmas(self):
        # 2ησ² and ησ²/6, times 48/η.
        assert nonconvex_noise_factor(eta=0.125, delta=2.0) == pytest.approx(48 * (2 + 1 / 6))

    def test_one_step_that_the_printed_factor_cannot_cover(self):
        # L = 3w²/8 and L̂ = w²/4, so δ = 1/4 and η = 1 is allowed; an exact step from 0 on a
        # gradient ±1 moves to ∓2/3. Hence L rises by 1/6 and the squared gradient is 1/4.
        needed = 1 / 4 + 48 * (1 / 6)
        assert 8.0 < needed <= nonconvex_noise_factor(eta=1.0, delta=0.25)

    @given(fraction=st.floats(0.0, 1.0), delta=st.floats(1e-6, 1e6))
    def test_factor_lies_between_its_limits(self, fraction, delta):
        eta = max(fraction, 1e-9) / (4 * delta)
        assert 56 <= nonconvex_noise_factor(eta=eta, delta=delta) <= 104 * (1 + 1e-12)

    @given(
        seed=st.integers(0, 2**32 - 1),
        eta_delta=st.floats(0.0, 0.25),
        noise_scale=st.sampled_from([0.0, 0.1, 1.0, 10.0]),
    )
    def test_one_exact_step_on_a_random_quadratic_obeys_the_recurrence(
        self, seed, eta_delta, noise_scale
    ):
        # L = wᵀAw/2 and L̂ = wᵀPw/2 with ‖A − P‖ = δ; the noise ±n is averaged exactly.
        rng = np.random.default_rng(seed)
        eigenvalues = rng.uniform(0, 5, 3)
        gap = rng.uniform(-1, 1, 3)
        gap /= np.abs(gap).max()
        eta = float(rng.uniform(0.05, 2.0))
        delta = eta_delta / eta
        proxy = np.maximum(eigenvalues, delta)
        loss = proxy + delta * gap
        w, noise = rng.normal(size=3), noise_scale * rng.normal(size=3)
        change, squared_gradient = 0.0, 0.0
        for sign in (-1, 1):
            new = w - (loss * w + sign * noise) / (proxy + 1 / eta)
            change += (loss @ (new**2 - w**2)) / 4
            squared_gradient += ((loss * new) ** 2).sum() / 2
        sigma = float(np.linalg.norm(noise))
        # One step of the theorem, with its own L(w_1) in place of L*.
        gain = max(-change, 0.0)
        bound = nonconvex_guarantee(eta=eta, steps=1, initial_gap=gain, sigma=sigma, delta=delta)
        slack = 48 * max(change, 0.0) / eta
        assert squared_gradient + slack <= bound * (1 + 1e-9) + 1e-12

    def test_without_noise_both_versions_agree(self):
        quiet = {**NONCONVEX, "sigma": 0.0}
        assert nonconvex_guarantee(**quiet) == nonconvex_guarantee(**quiet, printed=True) == 12.0

    def test_noise_floor_stays_after_many_steps(self):
        assert nonconvex_guarantee(**{**NONCONVEX, "steps": 10**300}) == pytest.approx(14.0)

    @pytest.mark.parametrize("printed", [False, True])
    @pytest.mark.parametrize(
        ("name", "value"), [("eta", -1.0), ("steps", 0), ("initial_gap", -1.0), ("sigma", -1.0)]
    )
    def test_errors_name_the_argument(self, printed, name, value):
        with pytest.raises(ValueError, match=rf"^{name} must be "):
            nonconvex_guarantee(**{**NONCONVEX, name: value}, printed=printed)

    @pytest.mark.parametrize("printed", [False, True])
    def test_step_size_above_its_limit_is_refused(self, printed):
        with pytest.raises(ValueError, match=r"eta must be at most 1/\(4\*delta\) = 0\.125"):
            nonconvex_guarantee(**{**NONCONVEX, "delta": 2.0}, printed=printed)
