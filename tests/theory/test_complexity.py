"""Counts of gradients and inner steps: values worked out by hand, limits, refusals."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import exact_rounds, inner_steps_sgd, similarity_threshold

NOISY = {"eta": 1.0, "mu": 1.0, "H": 1.0, "rho": 1.0, "G": 1.0, "c": 1.0, "c_prime": 1.0}
scale = st.floats(1e-3, 1e3)


def test_rounds_by_hand():
    # √201 ln 4000 / 4 = 29.4; √3 ln 2000 / 4 = 3.3; one gradient for δ = 0.
    known = {"epsilon": 0.01, "H": 10.0, "B": 1.0}
    assert exact_rounds(**known, delta=1.0) == 30
    assert exact_rounds(**known, delta=1.0, mu=1.0) == 4
    assert exact_rounds(**known, delta=0.0) == 1


@given(epsilon=scale, H=scale, B=scale, unit=scale, length=scale)
def test_the_threshold_has_the_units_of_a_curvature(epsilon, H, B, unit, length):
    # Loss measured in another unit, weights in another length; the misprint fails this.
    threshold = similarity_threshold(epsilon=epsilon, H=H, B=B)
    assert threshold * B * B / epsilon == pytest.approx(math.sqrt(H * B * B / epsilon))
    changed = similarity_threshold(epsilon=unit * epsilon, H=unit * H / length**2, B=length * B)
    assert changed == pytest.approx(threshold * unit / length**2)


def test_inner_steps_by_hand():
    # 2·ln(32·4) = 9.7; 4·2·25 = 200; the side condition 2·ln(16) = 5.5 takes over for a large μ.
    assert inner_steps_sgd(**{**NOISY, "rho": 0.0, "G": 0.0}) == 10
    assert inner_steps_sgd(**{**NOISY, "rho": 5.0}) == 200
    assert inner_steps_sgd(**{**NOISY, "rho": 5.0, "c": 3.0}) == 600
    assert inner_steps_sgd(**{**NOISY, "rho": 0.0, "c_prime": 2.0}) == 20
    assert inner_steps_sgd(**{**NOISY, "mu": 1e6, "rho": 0.0}) == 6


def test_arguments_that_do_not_fit_together_are_named():
    known = {"epsilon": 1.0, "H": 1.0, "B": 1.0, "mu": 2.0}
    wrong = [
        (exact_rounds, {**known, "delta": 1.0}, "H", 1.0),
        (similarity_threshold, known, "H", 1.0),
        (inner_steps_sgd, NOISY, "G", 0.0),
        *((inner_steps_sgd, NOISY, name, 0.5) for name in ("c", "c_prime")),
    ]
    for function, settings, name, value in wrong:
        with pytest.raises(ValueError, match=f"^{name} must be "):
            function(**{**settings, name: value})
