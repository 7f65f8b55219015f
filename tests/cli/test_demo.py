from __future__ import annotations

import importlib
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxyprox.cli import run
from proxyprox.report.records import read_records
from proxyprox.study import config

Invoke = Callable[..., Any]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    text = config.example().replace("target_gradients = 200", "target_gradients = 12")
    monkeypatch.setattr(config, "example", lambda: text)
    monkeypatch.setattr(run, "COMPARE", ["sgd", "auxmom", "erm"])


def test_table_sentences_and_files(
    invoke: Invoke, tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("plotly")
    folder = tmp_path / "out"
    arguments = ("demo", "--output", folder, "--workers", "1", "--seeds", "2")
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80 + len(str(folder))
    assert "\x1b" not in result.stdout
    assert "\r" not in result.stdout
    for words in ("to reach", "above opt.", "SGD", "ERM on the rows seen", "report.html"):
        assert words in result.stdout
    assert "after 12 target gradients" in " ".join(result.stdout.split())
    assert "final runs: 100 % done" in result.stderr
    for name in ("records.jsonl", "summary.json", "figure_target_gradients.png", "report.html"):
        assert (folder / name).stat().st_size > 0
    command = f"proxyprox demo --output {folder} --workers 1 --seeds 2"
    assert json.loads((folder / "summary.json").read_text())["command"] == command

    before = (folder / "records.jsonl").read_bytes()
    monkeypatch.setattr("proxyprox.report.figures.save_figures", lambda *_, **__: [])
    again = invoke(*arguments, "--json")
    assert again.exit_code == 0
    answer = json.loads(again.stdout)
    assert again.stdout.count("\n") == 1
    assert answer["reused"] == answer["runs"] > 0
    assert (folder / "records.jsonl").read_bytes() == before
    first = answer["panels"][0]
    assert first["baseline"] == "SGD"
    assert {m["method"] for m in first["methods"]} >= {"SGD", "AuxMom"}
    assert again.stderr == ""

    other = invoke("demo", "--output", folder, "--workers", "1", "--seeds", "1")
    assert other.exit_code == 2
    assert "seeds (there 2, now 1)" in other.stderr
    assert "Choose another folder" in other.stderr


def test_without_the_report_extra(
    invoke: Invoke, tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def absent(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] in ("matplotlib", "plotly", "jinja2"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", absent)
    result = invoke("demo", "--output", tmp_path, "--workers", "1", "--seeds", "1")
    assert result.exit_code == 0, result.stderr
    assert 'pip install "proxyprox[report]"' in " ".join(result.stdout.split())
    assert "above opt." in result.stdout
    assert (tmp_path / "records.jsonl").exists()
    assert (tmp_path / "summary.json").exists()
    assert not (tmp_path / "report.html").exists()


@pytest.mark.usefixtures("no_figures")
def test_real_demo_shows_the_gain_without_network(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> None:
        raise AssertionError("the demo used the network")

    monkeypatch.setattr(socket.socket, "connect", unreachable)
    monkeypatch.setattr(run, "COMPARE", ["sgd"])  # the others only take time
    result = invoke("demo", "--json", "--seeds", "1", "--workers", "1", "--output", tmp_path)
    assert result.exit_code == 0, result.stderr
    panels = {panel["panel"]: panel for panel in json.loads(result.stdout)["panels"]}
    ends = {m["method"]: m["suboptimality_median"] for m in panels["your data"]["methods"]}
    assert ends["ProxyProx, running mean"] < ends["SGD"] / 5
    assert {point["seed"] for point in read_records(tmp_path / "records.jsonl")} == {0}
