"""Counts of gradients: values worked out by hand, limits, refusals."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import exact_rounds, similarity_threshold

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


def test_arguments_that_do_not_fit_together_are_named():
    known = {"epsilon": 1.0, "H": 1.0, "B": 1.0, "mu": 2.0}
    wrong = [
        (exact_rounds, {**known, "delta": 1.0}, "H", 1.0),
        (similarity_threshold, known, "H", 1.0),
    ]
    for function, settings, name, value in wrong:
        with pytest.raises(ValueError, match=f"^{name} must be "):
            function(**{**settings, name: value})
