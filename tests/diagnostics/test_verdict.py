from __future__ import annotations

import math

import pytest

from proxyprox.diagnostics.rehearsal import Prediction, Rehearsal
from proxyprox.diagnostics.verdict import Verdict, decide, headline, worth_saying


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
        (1, 1, 1, (0.3, 0.0), Verdict.DO_NOT_USE),
        (1, 1, 1, (0.2, 0.0), Verdict.USE),
        (1, 1, 1, (999.0, 0.0), Verdict.DO_NOT_USE),
        (1000, 10, 10, (0.2, 0.0), Verdict.USE),
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


@pytest.mark.parametrize(
    ("scale", "said"), [(1.004, False), (0.92, False), (0.0, False), (2, True)]
)
def test_a_scale_of_one_is_not_worth_saying(scale: float, said: bool) -> None:
    assert worth_saying([scale]) is said


@pytest.mark.parametrize(
    ("verdict", "sgd", "proxied", "words"),
    [
        (Verdict.USE, 203, 169, "SGD needs 203 target gradients, ProxyProx 169 (rehearsed): 1.2 "),
        (Verdict.USE, 58, 23, "2.5 times fewer."),
        (Verdict.USE, 222, 222, "no gain at this ε"),
        (Verdict.USE, math.inf, 5, "only the second arrives"),
        (Verdict.USE_SCALED, 100, 10, "Use it with the scale below"),
        (Verdict.DO_NOT_USE, 100, 90, "only 1.1 times fewer"),
        (Verdict.DO_NOT_USE, 100, 900, "no gain."),
    ],
)
def test_the_headline_states_the_gain(
    verdict: Verdict, sgd: float, proxied: float, words: str
) -> None:
    told = Prediction(1e-3, "convex", 1.0, 1.0, 1.0, steps(sgd), steps(proxied), steps(proxied))
    assert words in headline(verdict, told)


def test_an_unsure_headline_says_what_the_rehearsal_leans_to() -> None:
    told = Prediction(1e-3, "convex", 1.0, 1.0, 1.0, steps(100), steps(10), steps(10))
    words = headline(Verdict.UNSURE, told, Verdict.USE)
    assert words.startswith("Unsure, see below; the rehearsal alone says “use it”: to ε")
    assert "10 times fewer" in words
    refused = headline(Verdict.UNSURE, told, Verdict.DO_NOT_USE)
    assert "“do not use it”" in refused
    assert "too few to rely on" in refused
