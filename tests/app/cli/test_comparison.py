from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from proxyprox_app.cli.comparison import print_panels
from proxyprox_app.report.summary import panels


def rows() -> list[dict[str, Any]]:
    common = {"panel": "mine", "target_gradients": 1000, "proxy_gradients": 5, "seconds": 1.0}
    ends = {"SGD": 0.5, "ours": 0.1, "ERM": 0.2}
    return [{**common, "method": name, "suboptimality_median": end} for name, end in ends.items()]


def test_what_the_step_sizes_cost_stands_beside_the_runs_own() -> None:
    sizes = [
        {"panel": "mine", "method": "SGD", "tuning_gradients": 2250, "step_size_gradients": None},
        {"panel": "mine", "method": "ours", "tuning_gradients": 0, "step_size_gradients": 118},
        {"panel": "mine", "method": "ERM", "tuning_gradients": 0, "step_size_gradients": None},
    ]
    found = panels(rows(), sizes)
    assert found[0]["methods"][0]["tuning_gradients"] == 2250
    console = Console(file=io.StringIO(), width=80)
    print_panels(console, found)
    lines = console.file.getvalue().splitlines()
    shown = {line.split()[0]: line.split()[-1] for line in lines if line.split()}
    assert (shown["SGD"], shown["ours"]) == ("+2,250", "(118)")
    assert shown["ERM"] == "1"
    assert all(len(line) <= 80 for line in lines)


def test_what_it_took_to_match_the_baseline() -> None:
    curves = {"SGD": [1.0, 0.5, 0.1], "ours": [1.0, 0.1, 0.01], "slow": [1.0, 0.4, 0.3]}
    (panel,) = panels(
        [
            {
                "panel": "batch 8",
                "method": name,
                "target_gradients": 10 * t,
                "proxy_gradients": 30 * t,
                "suboptimality_median": value,
            }
            for name, values in curves.items()
            for t, value in enumerate(values)
        ]
    )
    assert (panel["baseline"], panel["level"]) == ("SGD", 0.1)
    spent = {m["method"]: m["target_gradients_to_level"] for m in panel["methods"]}
    assert spent == {"SGD": 20, "ours": 10, "slow": None}
    assert panel["methods"][1]["proxy_gradients_to_level"] == 30
