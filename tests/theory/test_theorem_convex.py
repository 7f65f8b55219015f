import math

import pytest

from proxyprox.theory import convex_guarantee, convex_regularization

BASE = {"eta": 0.2, "steps": 50, "B": 2.0, "sigma": 1.0, "delta": 1.0, "G": 0.1}


def test_known_value():
    # 9·4/(8·10) = 0.45; 2·0.2 = 0.4; 10·0.01 = 0.1.
    assert convex_guarantee(**BASE) == pytest.approx(0.95, rel=1e-14)


def test_regularization_makes_the_relative_accuracies_of_both_theorems_agree():
    eta, steps = 0.3, 70
    mu = convex_regularization(eta=eta, steps=steps)
    assert mu / (4 * eta) == pytest.approx(1 / (4 * eta**2 * steps), rel=1e-14)


def test_noise_is_left_after_many_steps_when_subproblems_are_exact():
    assert convex_guarantee(**{**BASE, "steps": 10**300, "G": 0.0}) == pytest.approx(0.4)


def test_a_fixed_inner_error_adds_up_over_many_steps():
    assert convex_guarantee(**{**BASE, "steps": 10**9}) > 1e6


def test_no_overflow_where_eta_times_steps_would():
    value = convex_guarantee(eta=1e20, steps=10**295, B=1.0, sigma=0.0, delta=0.0)
    assert 0.0 <= value < 1e-300


@pytest.mark.parametrize(("name", "change"), [("B", 1.9), ("sigma", 0.9), ("G", 0.05)])
def test_easier_settings_lower_the_bound(name, change):
    assert convex_guarantee(**{**BASE, name: change}) < convex_guarantee(**BASE)


def test_step_size_above_its_limit_is_refused():
    with pytest.raises(ValueError, match=r"eta must be at most .*= 0\.25 .*got 0\.26"):
        convex_guarantee(**{**BASE, "eta": 0.26})


@pytest.mark.parametrize(("name", "value"), [("steps", -1), ("B", math.nan), ("G", -1.0)])
def test_errors_name_the_argument(name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be "):
        convex_guarantee(**{**BASE, name: value})


def test_regularization_refuses_a_step_size_of_zero():
    with pytest.raises(ValueError, match="eta must be a positive number, got 0"):
        convex_regularization(eta=0, steps=1)
