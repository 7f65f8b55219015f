"""Corrections of the core, read as coefficients and applied to lists of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from proxyprox.torch import EMA, Mean, Plain, Storm
from proxyprox.torch.corrections import Coefficients, anchor_share, coefficients, combine, remembers


def lists(seed: int):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in ((3,), (2, 2), ())]


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("correction", [Plain(), EMA(0.3), Mean()])
def test_lists_get_what_the_core_formula_gives_tensors(correction, k):
    g, a, m = (lists(seed) for seed in range(3))
    expected = [correction(gi - ai, None, mi, k) for gi, ai, mi in zip(g, a, m, strict=True)]
    found = combine(coefficients(correction, k, started=True), m, g, a)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    assert all(x is y for x, y in zip(found, m, strict=True)), "in place"


@pytest.mark.parametrize("correction", [Plain(), EMA(0.3), Mean()])
def test_the_first_estimate_is_the_difference_exactly(correction):
    g, a = lists(0), lists(1)
    found = combine(coefficients(correction, 0, started=False), None, g, a)
    for x, gi, ai in zip(found, g, a, strict=True):
        assert torch.equal(x, gi - ai)
        assert x is not gi


def test_what_is_remembered():
    assert not remembers(Plain())
    assert remembers(EMA(0.5))
    assert remembers(Mean())
    assert remembers(Storm(0.5))
    assert coefficients(Mean(), 3, started=True) == Coefficients(0.25, 0.0, 0.75)


@dataclass(frozen=True)
class Clipped:
    two_points: ClassVar[bool] = False

    def __call__(self, difference, before, estimate, k):
        return difference.clip(-1, 1)


@dataclass(frozen=True)
class Halved:
    two_points: ClassVar[bool] = False

    def __call__(self, difference, before, estimate, k):
        return -(difference / 2) if estimate is None else -(0.5 * difference) - estimate / 4


def test_ones_own_linear_correction_is_welcome():
    assert coefficients(Halved(), 0, started=False) == Coefficients(-0.5, 0.0, 0.0)
    assert coefficients(Halved(), 1, started=True) == Coefficients(-0.5, 0.0, -0.25)


def test_a_correction_that_is_not_linear_is_refused():
    with pytest.raises(TypeError, match="correction must be linear"):
        remembers(Clipped())


def test_a_two_point_correction_must_go_on_from_its_estimate():
    @dataclass(frozen=True)
    class Forgetful:
        two_points: ClassVar[bool] = True

        def __call__(self, difference, before, estimate, k):
            return difference if before is None else difference + 0.5 * before

    assert anchor_share(Storm(1.0), 1) == 0
    with pytest.raises(TypeError, match=r"must use the estimate so far too, got .*Forgetful"):
        anchor_share(Forgetful(), 1)
