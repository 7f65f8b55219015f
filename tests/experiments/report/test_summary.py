from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from experiments.compare import ERM, LEDGER_FIELDS
from experiments.comparison import method_costs, panels, print_panels, sentences
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


def test_what_the_step_sizes_cost_stands_beside_the_runs_own() -> None:
    rows = [
        {"panel": "mine", "method": name, "target_gradients": 1000, "proxy_gradients": 5}
        | {"seconds": 1.0, "suboptimality_median": end}
        for name, end in {"SGD": 0.5, "[red]ours": 0.1, "ERM": None}.items()
    ]
    sizes = [
        {"panel": "mine", "method": "SGD", "tuning_gradients": 2250, "step_size_gradients": None},
        {"panel": "mine", "method": "[red]ours", "tuning_gradients": 0, "step_size_gradients": 118},
        {"panel": "mine", "method": "ERM", "tuning_gradients": 0, "step_size_gradients": None},
    ]
    console = Console(file=io.StringIO(), width=80)
    print_panels(console, panels(rows, sizes))
    lines = console.file.getvalue().splitlines()
    shown = {line.split()[0]: line.split()[-1] for line in lines if line.split()}
    assert (shown["SGD"], shown["[red]ours"], shown["ERM"]) == ("+2,250", "(118)", "1")
    assert [line.split()[0] for line in lines if " * " in line] == ["[red]ours"]
    assert any("diverged" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_sentences() -> None:
    (text,) = sentences(ROWS)
    assert text == (
        "Batch 8: after 30 target gradients, “ProxyProx, exact” is 0.001 above the optimum; SGD "
        "is 0.1 above the optimum. It got as low as SGD's end with 10 target gradients (SGD: 30) "
        "and 30 proxy gradients. Fitting the rows seen by then, without any proxy, gives 0.002. "
        "The ProxyProx named is the best of 2."
    )
    # The best method without a proxy is what others are compared with.
    rows = [*ROWS, *curve("Adam", [1.0, 0.6, 0.06, 0.05]), *curve("Nesterov", [1.0, None])]
    assert "Adam is 0.05 above the optimum. It got as low" in sentences(rows)[0]
    # A defeat is not hidden.
    (text,) = sentences(ROWS, main="ProxyProx, 20 GD steps")
    assert "SGD is 0.1 above the optimum." in text
    assert "It got as low" not in text
    (text,) = sentences([*curve("SGD", [1.0, None]), *curve("ProxyProx", [1.0, -1e-16])])
    assert "“ProxyProx” is at the optimum to rounding; SGD broke off." in text
    for rows in (curve("SGD", [1.0, 0.1]), curve("ProxyProx", [1.0, None])):
        assert sentences(rows) == []
    (text,) = sentences(curve("AuxMom", [1.0, 0.5], panel="Two words"), main="AuxMom")
    assert text == "Two words: after 10 target gradients, “AuxMom” is 0.5 above the optimum."
