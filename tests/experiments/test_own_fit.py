from __future__ import annotations

from typing import Any

import pytest

from proxyprox.experiments.study import whose


def ends(**values: float | None) -> list[dict[str, Any]]:
    return [
        {"method": name, "suboptimality_median": value, "batch_size": None if name == "DANE" else 8}
        for name, value in values.items()
    ]


@pytest.mark.parametrize(
    ("values", "lowest", "words"),
    [
        ({"ours": 0.1, "SGD": 0.7}, "ours", "1.0e-01 above the optimum; the weights written are"),
        ({"ours": 0.1, "SGD": 0.1}, "ours", "ours ended lowest"),
        ({"ours": 1.0, "SGD": 0.7}, "SGD", "(ours: 1.0e+00 above the optimum); the weights"),
        ({"ours": 1.0, "SGD": -1e-16}, "SGD", "at the optimum to rounding"),
        ({"ours": None, "SGD": 5.0}, "SGD", "(ours: broke off)"),
        ({"ours": 1.0, "DANE": 0.1}, "DANE", "gradients of all rows where ours's are of 8"),
        ({"ours": None, "SGD": None}, "ours", "weights written are those of ours."),
        ({"ours": 1.0}, "ours", "weights written are those of ours."),
    ],
)
def test_whose_weights(values: dict[str, float | None], lowest: str, words: str) -> None:
    chosen, found, said = whose("ours", "method", ends(**values))
    assert (chosen, found) == ("ours", lowest)
    assert words in said
    assert ('[run] weights = "lowest" writes' in said) == (lowest != "ours")
    chosen, found, said = whose("ours", "lowest", ends(**values))
    assert (chosen, found) == (lowest, lowest)
    assert '[run] weights = "lowest"' not in said
