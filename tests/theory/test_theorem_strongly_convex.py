import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import strongly_convex_guarantee

BASE = {"eta": 0.25, "steps": 10, "mu": 1.0, "B": 2.0, "sigma": 1.0, "delta": 1.0, "G": 0.5}


def test_known_value():
    # ημ = 5/2 makes the base 2: 5·4/(8·2.5) · 2^-3 = 1/8; 2·2.5·0.01 = 1/20; 0.04/1 = 1/25.
    value = strongly_convex_guarantee(eta=2.5, steps=4, mu=1.0, B=2.0, sigma=0.1, delta=0.0, G=0.2)
    assert value == pytest.approx(1 / 8 + 1 / 20 + 1 / 25, rel=1e-14)


@given(
    steps=st.integers(1, 60),
    eta=st.fractions(Fraction(1, 1000), 10),
    mu=st.fractions(Fraction(1, 1000), 10),
)
def test_matches_exact_rational_arithmetic(steps, eta, mu):
    exact = Fraction(5, 8) / eta / (1 + 2 * eta * mu / 5) ** (steps - 1)
    value = strongly_convex_guarantee(
        eta=float(eta), steps=steps, mu=float(mu), B=1.0, sigma=0.0, delta=0.0
    )
    assert value == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("steps", [10**9, 10**30, 10**300])
def test_only_noise_and_inner_error_are_left_after_many_steps(steps):
    assert strongly_convex_guarantee(**{**BASE, "steps": steps}) == 0.5 + 0.25


def test_keeps_the_decay_of_a_tiny_strong_convexity():
    # (1 + 2e-18)^(-1e18) = e^-2 although 1 + 2e-18 rounds to 1.
    value = strongly_convex_guarantee(eta=1.0, steps=10**18, mu=5e-18, B=1.0, sigma=0.0, delta=0.0)
    assert value == pytest.approx(5 / 8 * math.exp(-2), rel=1e-9)


def test_a_huge_start_is_forgotten_without_nan():
    assert strongly_convex_guarantee(**{**BASE, "B": 1e200, "steps": 10**9}) == 0.75


@pytest.mark.parametrize(
    ("name", "change"),
    [("steps", 11), ("mu", 1.1), ("B", 1.9), ("sigma", 0.9), ("G", 0.4)],
)
def test_easier_settings_lower_the_bound(name, change):
    assert strongly_convex_guarantee(**{**BASE, name: change}) < strongly_convex_guarantee(**BASE)


def test_step_size_may_reach_its_limit_but_not_pass_it():
    for delta in (3.0, 0.7, 1e-3 / 3):
        limit = 1 / (4 * delta)
        strongly_convex_guarantee(**{**BASE, "delta": delta, "eta": limit})
        with pytest.raises(ValueError, match=r"eta must be at most 1/\(4\*delta\).*lower eta"):
            strongly_convex_guarantee(**{**BASE, "delta": delta, "eta": 1.001 * limit})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eta", 0.0),
        ("mu", 0.0),
        ("B", -1.0),
        ("sigma", math.nan),
        ("delta", -0.1),
        ("G", math.inf),
        ("steps", 0),
        ("steps", 2.0),
        ("steps", 10**301),
    ],
)
def test_errors_name_the_argument(name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be .* got "):
        strongly_convex_guarantee(**{**BASE, name: value})
