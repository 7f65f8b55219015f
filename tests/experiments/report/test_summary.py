from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.compare import ERM, LEDGER_FIELDS
from experiments.comparison import method_costs, panels
from experiments.report.summary import joint_confidence, last_rows, summarise, write_json


def test_one_row_for_each_panel_method_and_x(records: list[dict[str, Any]], tmp_path: Path) -> None:
    rows = summarise(records)
    assert len({(r["panel"], r["method"], r["target_gradients"]) for r in rows}) == len(rows) == 144
    names = ["panel", "method", "batch_size", "eta", "target_gradients"]
    names += [f"suboptimality_{end}" for end in ("median", "q25", "q75", "low", "high")]
    assert list(rows[0]) == [*names, "proxy_gradients", "seconds", "seeds"]
    write_json(tmp_path / "summary.json", {"version": 1, "rows": rows})
    written = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert written == {"version": 1, "rows": rows}


def losses(values: Iterable[float | None], method: Any = "m") -> list[dict[str, Any]]:
    return [{"panel": "p", "method": method, "t": 0, "loss": value} for value in values]


LOSSES: dict[str, Any] = {"metric": "loss", "x": "t", "constant": (), "costs": ("seconds",)}


def test_quartiles_and_divergence() -> None:
    for size in (1, 2, 5, 9):
        values = np.random.default_rng(size).lognormal(size=size, sigma=9).tolist()
        (row,) = summarise(losses(values), **LOSSES)
        got = [row["loss_q25"], row["loss_median"], row["loss_q75"]]
        np.testing.assert_allclose(got, np.quantile(values, [0.25, 0.5, 0.75]), rtol=1e-12)
    # A diverged seed counts as infinitely bad.
    (row,) = summarise(losses((1.0, 2.0, None)), **LOSSES)
    assert (row["loss_median"], row["loss_q25"], row["loss_q75"]) == (2.0, 1.5, None)
    assert (row["seconds"], row["seeds"]) == (None, 3)
    two = [{**point, "eta": eta} for eta, point in enumerate(losses((1.0, 1.0)))]
    with pytest.raises(ValueError, match="eta"):
        summarise(two, **LOSSES | {"constant": ("eta",)})


def test_limits_hold_for_all_methods_of_a_panel_at_once() -> None:
    rng, seeds, methods, missed = np.random.default_rng(0), 12, 4, 0
    for _ in range(200):
        points = [p for m in range(methods) for p in losses(rng.lognormal(size=seeds), m)]
        rows = summarise(points, **LOSSES)
        missed += any(not row["loss_low"] <= 1 <= row["loss_high"] for row in rows)
    assert missed / 200 < 0.05
    assert joint_confidence(seeds, methods) == 0.95


def test_ends_and_levels(records: list[dict[str, Any]]) -> None:
    rows = summarise(records)
    ends = last_rows(rows)
    assert len(ends) == 12
    assert {row["target_gradients"] for row in ends} == {1100}
    found = {panel["panel"]: panel for panel in panels(rows)}["batch 256"]
    assert found["baseline"] == "SGD"
    reached = {end["method"]: end["target_gradients_to_level"] for end in found["methods"]}
    assert reached["ProxyProx, 20 GD steps"] > reached["ProxyProx, exact"] > 0
    for method, spent in reached.items():
        own = [row for row in rows if (row["panel"], row["method"]) == ("batch 256", method)]
        low = [r for r in own if r["suboptimality_median"] <= found["level"]]
        assert spent == min((r["target_gradients"] for r in low), default=None)


def test_costs_are_of_whole_runs() -> None:
    points = [
        {"panel": "p", "method": "m", "seed": seed, "target_gradients": t}
        | dict.fromkeys(LEDGER_FIELDS, t * (seed + 1))
        for seed in range(3)
        for t in (0, 10)
    ]
    (row,) = method_costs(points, {("p", "m"): 90})
    assert row["proxy_gradients"] == 20  # the median seed's last point
    assert (row["tuning_gradients"], row["step_size_gradients"]) == (90, None)


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
