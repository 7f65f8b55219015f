from __future__ import annotations

import math

from proxyprox.diagnostics.sampling import Interval, largest, smallest


def test_membership_includes_both_limits() -> None:
    found = Interval(2.0, 1.0, 3.0)
    assert 1.0 in found
    assert 3.0 in found
    assert 3.0001 not in found


def test_the_largest_of_several_has_the_largest_limits() -> None:
    both = [Interval(1.0, 0.5, 9.0), Interval(2.0, 1.5, 2.5)]
    assert largest(both) == Interval(2.0, 1.5, 9.0)
    assert smallest(both) == Interval(1.0, 0.5, 2.5)


def test_a_known_lower_limit_cuts_the_interval() -> None:
    assert Interval(-1.0, -2.0, 3.0).at_least(0.0) == Interval(0.0, 0.0, 3.0)
    assert Interval(1.0, 0.5, 2.0).at_least(-math.inf) == Interval(1.0, 0.5, 2.0)
    assert Interval(1.0, 0.5, 2.0).widened(0.5) == Interval(1.0, 0.0, 2.5)
