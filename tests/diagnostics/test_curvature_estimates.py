from __future__ import annotations

import numpy as np
import pytest

from proxyprox.diagnostics.curvature import (
    Spectrum,
    similarity,
    smoothness,
    spectrum_of_matrix,
    strong_convexity,
)

MATRIX = np.diag([-0.5, 1.0, 4.0])


def test_a_whole_matrix_leaves_nothing_to_guess() -> None:
    whole = spectrum_of_matrix(MATRIX)
    assert similarity(whole).estimate == pytest.approx(4.0)
    assert similarity(whole).low == similarity(whole).high
    assert similarity(spectrum_of_matrix(-MATRIX)).estimate == pytest.approx(4.0)
    assert smoothness(whole).estimate == pytest.approx(4.0)
    assert strong_convexity(whole).estimate == pytest.approx(-0.5)


def test_errors_of_the_operator_widen_every_interval() -> None:
    blurred = spectrum_of_matrix(MATRIX).with_error(0.25)
    assert (similarity(blurred).low, similarity(blurred).high) == pytest.approx((3.75, 4.25))
    assert (smoothness(blurred).low, smoothness(blurred).high) == pytest.approx((3.75, 4.25))
    assert strong_convexity(blurred).low == pytest.approx(-0.75)


def test_limits_beyond_the_ritz_values_become_the_upper_limit() -> None:
    partial = Spectrum(np.array([0.1, 2.0]), below=-2.5, above=2.2)
    assert similarity(partial).low == 2.0
    assert similarity(partial).high == 2.5


def test_a_stated_strong_convexity_is_believed_up_to_rounding() -> None:
    partial = Spectrum(np.array([0.3, 2.0]), below=-1.0, above=2.2)
    found = strong_convexity(partial, certified=0.1)
    assert found.low == pytest.approx(0.1)
    assert 0.1 in found
    assert found.high == pytest.approx(0.3)


def test_a_stated_strong_convexity_that_is_wrong_is_not_believed() -> None:
    assert strong_convexity(spectrum_of_matrix(MATRIX), certified=0.0).high < 0
