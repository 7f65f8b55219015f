from __future__ import annotations

from typing import Any

from proxyprox.cli._results import closer_than


def ends(**values: float | None) -> list[dict[str, Any]]:
    return [{"method": name, "suboptimality_median": value} for name, value in values.items()]


def test_only_a_clear_lead_is_told() -> None:
    found = closer_than("ours", ends(ours=1.0, sgd=0.7, erm=0.1))
    assert found is not None
    assert found["method"] == "erm"
    assert closer_than("ours", ends(ours=1.0, sgd=0.7)) is None
    assert closer_than("ours", ends(ours=0.1, sgd=0.7)) is None


def test_whoever_arrived_is_better_than_one_that_broke_off() -> None:
    found = closer_than("ours", ends(ours=None, sgd=5.0))
    assert found is not None
    assert found["method"] == "sgd"
    assert closer_than("ours", ends(ours=None)) is None
