import math

import pytest

from proxyprox.theory import largest_step_size


def test_known_value():
    assert largest_step_size(2.5) == pytest.approx(0.1)


def test_identical_hessians_allow_any_step_size():
    assert largest_step_size(0.0) == math.inf


@pytest.mark.parametrize("delta", [-1.0, math.nan, math.inf])
def test_refuses_what_is_no_similarity_constant(delta):
    with pytest.raises(ValueError, match=r"delta must be a finite number, zero or more, got"):
        largest_step_size(delta)
