from __future__ import annotations

import math

import pytest

from proxyprox.diagnostics.rehearsal import Rehearsal
from proxyprox.diagnostics.verdict import Verdict, decide


def steps(count: float) -> Rehearsal:
    return Rehearsal(1.0, count, 0.0)


@pytest.mark.parametrize(
    ("sgd", "plain", "scaled", "shares", "expected"),
    [
        (1000, 10, None, (0.0, 1.0), Verdict.USE),
        (1000, 990, None, (0.9, 1.0), Verdict.DO_NOT_USE),
        (1000, 5000, 4000, (9.0, 0.9), Verdict.DO_NOT_USE),
        (1000, 900, 10, (0.999, 0.0), Verdict.USE_SCALED),
        (1000, math.inf, 10, (999.0, 0.0), Verdict.USE_SCALED),
        (1000, 100, 99, (0.3, 0.29), Verdict.USE),
        (1000, 12, 10, (9.0, 0.0), Verdict.USE_SCALED),
        (1000, 10, 100, (9.0, 0.0), Verdict.USE),
        (1000, 1000, None, (0.1, 1.0), Verdict.USE),
        (1000, 1100, None, (0.1, 1.0), Verdict.DO_NOT_USE),
        (math.inf, 10**6, None, (0.5, 1.0), Verdict.USE),
    ],
)
def test_rule(
    sgd: float, plain: float, scaled: float | None, shares: tuple[float, float], expected: Verdict
) -> None:
    offered = None if scaled is None else steps(scaled)
    got = decide(
        steps(sgd), steps(plain), offered, similarity=shares[0], scaled_similarity=shares[1]
    )
    assert got is expected


def test_a_verdict_is_a_sentence() -> None:
    for verdict in Verdict:
        assert str(verdict).endswith(".")
    assert str(Verdict.DO_NOT_USE).startswith("Do not use it")
