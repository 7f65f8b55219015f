from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyprox.experiments.summary import (
    end_points,
    first_reaching,
    read_summary,
    summarise,
    write_summary,
)


def test_one_row_for_each_panel_method_and_x(records: list[dict[str, Any]], tmp_path: Path) -> None:
    rows = summarise(records)
    assert len(rows) == 3 * 8 * 40
    assert len({(r["panel"], r["method"], r["target_gradients"]) for r in rows}) == len(rows)
    assert list(rows[0]) == [
        "panel",
        "method",
        "batch_size",
        "eta",
        "target_gradients",
        "suboptimality_median",
        "suboptimality_q25",
        "suboptimality_q75",
        "proxy_gradients",
        "seconds",
        "seeds",
    ]
    write_summary(tmp_path / "summary.json", rows, version=1)
    assert read_summary(tmp_path / "summary.json") == rows
    assert json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["version"] == 1


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=9))
def test_quartiles_are_those_of_numpy(values: list[float]) -> None:
    points = [{"panel": "p", "method": "m", "t": 0, "loss": v} for v in values]
    (row,) = summarise(points, metric="loss", x="t", constant=(), costs=())
    got = [row["loss_q25"], row["loss_median"], row["loss_q75"]]
    np.testing.assert_allclose(got, np.quantile(values, [0.25, 0.5, 0.75]), rtol=1e-12)


def test_a_diverged_seed_counts_as_infinitely_bad() -> None:
    points = [{"panel": "p", "method": "m", "t": 0, "loss": v} for v in (1.0, 2.0, None)]
    (row,) = summarise(points, metric="loss", x="t", constant=(), costs=("seconds",))
    assert (row["loss_median"], row["loss_q25"], row["loss_q75"]) == (2.0, 1.5, None)
    assert row["seconds"] is None
    assert row["seeds"] == 3
    (row,) = summarise(points, metric="loss", x="t", constant=(), costs=(), missing=float("-inf"))
    assert (row["loss_median"], row["loss_q25"]) == (1.0, None)


def test_a_varying_constant_is_refused() -> None:
    points = [{"panel": "p", "method": "m", "t": 0, "loss": 1, "eta": e} for e in (1, 2)]
    with pytest.raises(ValueError, match="hold 2 values of 'eta'"):
        summarise(points, metric="loss", x="t", constant=("eta",), costs=())


def test_ends_and_levels(records: list[dict[str, Any]]) -> None:
    rows = summarise(records)
    ends = end_points(rows)
    assert len(ends) == 24
    assert {row["target_gradients"] for row in ends} == {1000}
    reached = first_reaching(rows, 1e-4)
    assert reached["batch 256", "SGD"] is None
    exact = reached["batch 256", "ProxyProx, exact"]
    assert exact is not None
    assert 0 < exact["target_gradients"] < 300
    accuracy = [{"panel": "p", "method": "m", "t": t, "acc_median": t / 10} for t in range(10)]
    row = first_reaching(accuracy, 0.45, metric="acc", x="t", larger_is_better=True)["p", "m"]
    assert row is not None
    assert row["t"] == 5
