import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import (
    lower_bound_convex,
    lower_bound_strongly_convex,
    proxyprox_steps_convex,
    proxyprox_steps_strongly_convex,
    sgd_steps_convex,
    sgd_steps_strongly_convex,
)

CONVEX = {"epsilon": 0.1, "B": 3.0, "sigma": 2.0}
STRONG = {**CONVEX, "mu": 0.5}
scale = st.floats(1e-3, 1e3)


def test_convex_known_values():
    # noise: 4·9/0.01 = 3600; bias: 40·9/0.1 = 3600, and its root 60.
    assert sgd_steps_convex(**CONVEX, H=40.0) == pytest.approx(7200)
    assert proxyprox_steps_convex(**CONVEX, delta=0.4) == pytest.approx(3636)
    assert lower_bound_convex(**CONVEX, H=40.0) == pytest.approx(3660)


def test_strongly_convex_known_values():
    # noise: 4/0.05 = 80; ln(50·9/0.1) = ln 4500 and ln(5·9/0.1) = ln 450.
    assert sgd_steps_strongly_convex(**STRONG, H=50.0) == pytest.approx(80 + 100 * math.log(4500))
    assert lower_bound_strongly_convex(**STRONG, H=50.0) == pytest.approx(80 + 10 * math.log(4500))
    assert proxyprox_steps_strongly_convex(**STRONG, delta=5.0) == pytest.approx(
        80 + 10 * math.log(450)
    )


@given(epsilon=scale, H=scale, B=scale, sigma=scale, unit=scale, length=scale)
def test_convex_counts_do_not_depend_on_units(epsilon, H, B, sigma, unit, length):
    # Loss measured in another unit, weights in another length; the misprint fails this.
    for count in (sgd_steps_convex, lower_bound_convex):
        changed = count(
            epsilon=unit * epsilon,
            H=unit * H / length**2,
            B=length * B,
            sigma=unit * sigma / length,
        )
        assert changed == pytest.approx(count(epsilon=epsilon, H=H, B=B, sigma=sigma))


def test_without_difference_only_the_noise_is_left():
    assert proxyprox_steps_convex(**CONVEX, delta=0.0) == pytest.approx(3600)
    assert proxyprox_steps_strongly_convex(**STRONG, delta=0.0) == pytest.approx(80)


def test_difference_tending_to_zero_is_continuous():
    assert proxyprox_steps_strongly_convex(**STRONG, delta=1e-300) == pytest.approx(80)


def test_logarithm_never_makes_a_count_negative():
    lazy = {"epsilon": 1e9, "mu": 1.0, "B": 1.0, "sigma": 0.0}
    assert sgd_steps_strongly_convex(**lazy, H=2.0) == 0
    assert proxyprox_steps_strongly_convex(**lazy, delta=2.0) == 0


@pytest.mark.parametrize("count", [sgd_steps_strongly_convex, lower_bound_strongly_convex])
def test_smoothness_below_strong_convexity_is_refused(count):
    with pytest.raises(ValueError, match=r"H must be at least 0\.5, got 0\.4: .*raise H"):
        count(**STRONG, H=0.4)


@pytest.mark.parametrize("count", [sgd_steps_convex, lower_bound_convex])
@pytest.mark.parametrize(
    ("name", "value"), [("epsilon", 0.0), ("H", 0.0), ("B", 0.0), ("sigma", -1.0)]
)
def test_errors_name_the_argument(count, name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be "):
        count(**{**CONVEX, "H": 1.0, name: value})
