"""Counts of gradients and inner steps: values worked out by hand, limits, refusals."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import (
    exact_rounds,
    inner_steps_sgd,
    lower_bound,
    proxyprox_steps,
    sgd_steps,
    similarity_threshold,
)

CONVEX = {"epsilon": 0.1, "B": 3.0, "sigma": 2.0}
STRONG = {**CONVEX, "mu": 0.5}
NOISY = {"eta": 1.0, "mu": 1.0, "H": 1.0, "rho": 1.0, "G": 1.0, "c": 1.0, "c_prime": 1.0}
scale = st.floats(1e-3, 1e3)


def test_counts_by_hand():
    # noise: 4·9/0.01 = 3600; bias: 40·9/0.1 = 3600, and its root 60.
    assert sgd_steps(**CONVEX, H=40.0) == pytest.approx(7200)
    assert proxyprox_steps(**CONVEX, delta=0.4) == pytest.approx(3636)
    assert lower_bound(**CONVEX, H=40.0) == pytest.approx(3660)
    # noise: 4/0.05 = 80; ln(50·9/0.1) = ln 4500 and ln(5·9/0.1) = ln 450.
    assert sgd_steps(**STRONG, H=50.0) == pytest.approx(80 + 100 * math.log(4500))
    assert lower_bound(**STRONG, H=50.0) == pytest.approx(80 + 10 * math.log(4500))
    assert proxyprox_steps(**STRONG, delta=5.0) == pytest.approx(80 + 10 * math.log(450))
    # Without a difference, or next to none, only the noise is left.
    assert proxyprox_steps(**CONVEX, delta=0.0) == pytest.approx(3600)
    for delta in (0.0, 1e-300):
        assert proxyprox_steps(**STRONG, delta=delta) == pytest.approx(80)
    # √201 ln 4000 / 4 = 29.4; √3 ln 2000 / 4 = 3.3; one gradient for δ = 0.
    known = {"epsilon": 0.01, "H": 10.0, "B": 1.0}
    assert exact_rounds(**known, delta=1.0) == 30
    assert exact_rounds(**known, delta=1.0, mu=1.0) == 4
    assert exact_rounds(**known, delta=0.0) == 1
    # A logarithm never makes a count negative.
    assert sgd_steps(epsilon=1e9, mu=1.0, B=1.0, sigma=0.0, H=2.0) == 0


@given(epsilon=scale, H=scale, B=scale, unit=scale, length=scale)
def test_convex_counts_do_not_depend_on_units_and_meet_at_the_threshold(
    epsilon, H, B, unit, length
):
    # Loss measured in another unit, weights in another length; the misprint fails this.
    for count in (sgd_steps, lower_bound):
        changed = count(
            epsilon=unit * epsilon, H=unit * H / length**2, B=length * B, sigma=unit / length
        )
        assert changed == pytest.approx(count(epsilon=epsilon, H=H, B=B, sigma=1.0))
    threshold, rest = similarity_threshold(epsilon=epsilon, H=H, B=B), {"B": B, "sigma": 0.0}
    bound = lower_bound(**rest, epsilon=epsilon, H=H)
    assert proxyprox_steps(**rest, epsilon=epsilon, delta=0.999 * threshold) < bound
    assert proxyprox_steps(**rest, epsilon=epsilon, delta=1.001 * threshold) > bound


def test_inner_steps_by_hand():
    # 2·ln(32·4) = 9.7; 4·2·25 = 200; the side condition 2·ln(16) = 5.5 takes over for a large μ.
    assert inner_steps_sgd(**{**NOISY, "rho": 0.0, "G": 0.0}) == 10
    assert inner_steps_sgd(**{**NOISY, "rho": 5.0}) == 200
    assert inner_steps_sgd(**{**NOISY, "rho": 5.0, "c": 3.0}) == 600
    assert inner_steps_sgd(**{**NOISY, "rho": 0.0, "c_prime": 2.0}) == 20
    assert inner_steps_sgd(**{**NOISY, "mu": 1e6, "rho": 0.0}) == 6


def test_arguments_that_do_not_fit_together_are_named():
    strong, threshold = {**STRONG, "H": 1.0}, {"epsilon": 1.0, "H": 1.0, "B": 1.0}
    wrong = [
        *((count, strong, "H", 0.4) for count in (sgd_steps, lower_bound)),
        (similarity_threshold, {**threshold, "mu": 2.0}, "H", 1.0),
        (inner_steps_sgd, NOISY, "G", 0.0),
        *((inner_steps_sgd, NOISY, name, 0.5) for name in ("c", "c_prime")),
    ]
    for function, settings, name, value in wrong:
        with pytest.raises(ValueError, match=f"^{name} must be "):
            function(**{**settings, name: value})
