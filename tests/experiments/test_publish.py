from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from proxyprox._util.extras import MissingExtraError
from proxyprox.experiments import page as module
from proxyprox.experiments.contest import LEDGER_FIELDS
from proxyprox.experiments.page import ledger_rows, publish
from proxyprox.experiments.tournament import Outcome


@pytest.fixture
def outcome() -> Outcome:
    records = [
        {
            "panel": "batch 8",
            "method": method,
            "batch_size": 8,
            "eta": 1.0,
            "seed": seed,
            "target_gradients": t,
            **dict.fromkeys(LEDGER_FIELDS, t * (seed + 1)),
            "suboptimality": scale / (1 + t),
        }
        for method, scale in (("SGD", 1.0), ("ProxyProx", 0.1))
        for seed in range(3)
        for t in (0, 10)
    ]
    return Outcome(records, {}, [("batch 8", "SGD")])


def arguments(folder: Path, outcome: Outcome, **more: Any) -> dict[str, Any]:
    return {
        "folder": folder,
        "outcome": outcome,
        "title": "T",
        "command": "c",
        "config": {},
        **more,
    }


def test_ledger_is_of_whole_runs(outcome: Outcome) -> None:
    rows = ledger_rows(outcome.records)
    assert [row["method"] for row in rows] == ["SGD", "ProxyProx"]
    assert rows[0]["proxy_gradients"] == 20  # the median seed's last point


def test_folder(tmp_path: Path, outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("plotly")
    monkeypatch.setattr(module, "save_figures", lambda *_: [])
    rows = publish(**arguments(tmp_path, outcome, notes=["Mind the gap."]))
    assert json.loads((tmp_path / "summary.json").read_text())["rows"] == rows
    page = (tmp_path / "report.html").read_text()
    assert "times as far" in page
    assert "Mind the gap." in page
    assert "edge of its grid for: SGD (batch 8)" in page
    publish(**arguments(tmp_path, outcome, lead=["Our own words."]))
    assert "Our own words." in (tmp_path / "report.html").read_text()


def test_summary_comes_before_what_may_be_missing(
    tmp_path: Path, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtraError, match=r"proxyprox\[report\]"):
        publish(**arguments(tmp_path, outcome))
    assert (tmp_path / "summary.json").exists()
