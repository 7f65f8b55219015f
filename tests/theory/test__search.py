import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.theory.plans import smallest_integer


@given(first=st.integers(1, 10**40), start=st.floats(0, 1e40))
def test_finds_the_first_integer_wherever_the_search_starts(first, start):
    assert smallest_integer(lambda n: n >= first, start) == first


@pytest.mark.parametrize("high", [math.inf, math.nan, 1e301])
def test_refuses_what_no_float_can_count(high):
    with pytest.raises(ValueError, match="raise epsilon"):
        smallest_integer(lambda n: True, high)
