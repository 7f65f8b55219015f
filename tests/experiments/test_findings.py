from __future__ import annotations

from typing import Any

from proxyprox.experiments.contest import ERM
from proxyprox.experiments.summary import sentences, to_reach


def curve(method: str, values: list[float | None], panel: str = "batch 8") -> list[dict[str, Any]]:
    return [
        {
            "panel": panel,
            "method": method,
            "target_gradients": 10 * t,
            "proxy_gradients": 30 * t,
            "seconds": 0.5 * t,
            "suboptimality_median": value,
        }
        for t, value in enumerate(values)
    ]


ROWS = [
    *curve("SGD", [1.0, 0.5, 0.2, 0.1]),
    *curve("ProxyProx, exact", [1.0, 0.1, 0.05, 0.001]),
    *curve("ProxyProx, 20 GD steps", [1.0, 0.4, 0.3, 0.2]),
    *curve(ERM, [1.0, 0.2, 0.1, 0.002]),
]


def test_what_it_took_to_match_the_baseline() -> None:
    table = {row["method"]: row for row in to_reach(ROWS)}
    assert table["SGD"]["level"] == 0.1
    assert table["SGD"]["target_gradients"] == 30
    assert table["ProxyProx, exact"]["target_gradients"] == 10
    assert table["ProxyProx, exact"]["proxy_gradients"] == 30
    assert table["ProxyProx, 20 GD steps"]["target_gradients"] is None


def test_sentence_names_best_baseline_and_yardstick() -> None:
    (text,) = sentences(ROWS)
    assert text == (
        "Batch 8: after 30 target gradients, “ProxyProx, exact” is 0.001 above the optimum; SGD "
        "is 0.1 above it, 100 times as far. It got as low as SGD's end with 10 target gradients "
        "(SGD: 30) and 30 proxy gradients. Fitting the rows seen by then, without any proxy, gives "
        "0.002. The ProxyProx named is the best of 2; the rest end at 0.2."
    )


def test_sentence_does_not_hide_a_defeat() -> None:
    (text,) = sentences(ROWS, main="ProxyProx, 20 GD steps")
    assert "SGD is closer, 0.1 above it." in text
    assert "It got as low" not in text


def test_divergence_and_rounding() -> None:
    broken = [*curve("SGD", [1.0, None]), *curve("ProxyProx", [1.0, -1e-16])]
    (text,) = sentences(broken)
    assert "“ProxyProx” is at the optimum to rounding; SGD broke off." in text
    assert to_reach(broken) == []
    assert sentences(curve("SGD", [1.0, 0.1])) == []
    assert sentences([*curve("ProxyProx", [1.0, None])]) == []


def test_without_a_baseline() -> None:
    (text,) = sentences(curve("AuxMom", [1.0, 0.5], panel="Two words"), main="AuxMom")
    assert text == "Two words: after 10 target gradients, “AuxMom” is 0.5 above the optimum."
