from __future__ import annotations

import importlib
import json
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.runs import read_records
from proxyprox_app.study import demo

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
Invoke = Callable[..., Any]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the demonstration short, and keep it from the network."""

    def unreachable(*_: object) -> None:
        raise AssertionError("the demo used the network")

    def short(config: Any) -> Any:
        found = real_experiment(config)
        curves = [replace(curve, etas=curve.etas[1:3] or curve.etas) for curve in found.curves]
        return replace(found, curves=curves)

    real, make, real_experiment = demo.ProxyLogisticRegression, demo.DemoConfig, demo.experiment
    monkeypatch.setattr(demo, "ProxyLogisticRegression", lambda: real(cv=2))
    monkeypatch.setattr(demo, "DemoConfig", lambda seeds: make(seeds, 1, 5, 20, (30, 40)))
    monkeypatch.setattr(demo, "experiment", short)
    monkeypatch.setattr(socket.socket, "connect", unreachable)


def test_tables_sentences_and_files(
    invoke: Invoke, tiny: None, no_figures: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    arguments = ("demo", "--output", folder, "--workers", "1", "--seeds", "2")
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80 + len(str(folder))
    assert "\x1b" not in result.stdout
    text = " ".join(result.stdout.split())
    for words in ("After 5 rounds ours", "After 20 labels ours", "After 30 labels", "of 2 draws"):
        assert words in text
    assert text.count(" * ") == 3  # the best of each table
    assert "final runs: 100 % done" in result.stderr
    page = (folder / "report.html").read_text()
    for words in ("Few exact gradients", "teacher alone", "ERM on the rows seen", "too few to say"):
        assert words in page
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["command"] == f"proxyprox demo --output {folder} --workers 1 --seeds 2"
    tuned = {point["seed"] for point in read_records(folder / "grid.jsonl")}
    assert tuned.isdisjoint(point["seed"] for point in read_records(folder / "records.jsonl"))

    before = (folder / "records.jsonl").read_bytes()
    again = invoke(*arguments, "--json")
    assert again.exit_code == 0
    answer = json.loads(again.stdout)
    assert answer["reused"] == answer["runs"] > 0
    assert (folder / "records.jsonl").read_bytes() == before
    assert again.stderr == ""
    other = invoke("demo", "--output", folder, "--workers", "1", "--seeds", "1")
    assert other.exit_code == 2
    assert "seeds (there 2, now 1)" in other.stderr

    real = importlib.import_module
    monkeypatch.setattr(
        importlib, "import_module",
        lambda name, *rest: real("no_such_module" if name == "jinja2" else name, *rest),
    )  # fmt: skip
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert 'pip install "proxyprox[app]"' in " ".join(result.stderr.split())


def test_the_proxy_saves_rounds() -> None:
    config = demo.DemoConfig(seeds=1)
    ends = {
        curve.method: demo.run_job(config, curve.job(None, 0, 0))[-1]
        for curve in demo.experiment(config).curves
        if curve.panel == demo.EXACT
    }
    assert {end["rounds"] for end in ends.values()} == {config.rounds}
    gaps = [end["gap"] for end in ends.values()]
    assert gaps[0] < gaps[2] < gaps[1], "ours, L-BFGS without the sample, and with it"
