import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory import (
    lower_bound_convex,
    proxyprox_steps_convex,
    similarity_threshold_convex,
    similarity_threshold_strongly_convex,
)

scale = st.floats(1e-3, 1e3)


@given(epsilon=scale, H=scale, B=scale)
def test_convex_threshold_is_where_the_counts_meet(epsilon, H, B):
    threshold = similarity_threshold_convex(epsilon=epsilon, H=H, B=B)
    rest = {"epsilon": epsilon, "B": B, "sigma": 0.0}
    bound = lower_bound_convex(**rest, H=H)
    assert proxyprox_steps_convex(**rest, delta=0.999 * threshold) < bound
    assert proxyprox_steps_convex(**rest, delta=1.001 * threshold) > bound


def test_finer_accuracy_needs_a_better_proxy():
    coarse = similarity_threshold_convex(epsilon=1e-2, H=1.0, B=1.0)
    assert similarity_threshold_convex(epsilon=1e-4, H=1.0, B=1.0) == pytest.approx(coarse / 10)


def test_strongly_convex_known_value():
    assert similarity_threshold_strongly_convex(H=200.0, mu=0.02) == pytest.approx(2.0)


def test_strongly_convex_threshold_lies_between_the_curvatures():
    assert 1e-4 < similarity_threshold_strongly_convex(H=1.0, mu=1e-4) < 1.0


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match=r"^B must be a positive number"):
        similarity_threshold_convex(epsilon=1.0, H=1.0, B=0.0)
    with pytest.raises(ValueError, match=r"^H must be at least 2\.0, got 1\.0"):
        similarity_threshold_strongly_convex(H=1.0, mu=2.0)
