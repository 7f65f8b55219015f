from __future__ import annotations

import importlib
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxyprox_app.report.records import read_records
from proxyprox_app.study import demo

Invoke = Callable[..., Any]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the demonstration short, and keep it from the network."""

    def unreachable(*_: object) -> None:
        raise AssertionError("the demo used the network")

    def quick(**options: Any) -> Any:
        return real(cv=2, **options)

    real, make = demo.ProxyLogisticRegression, demo.DemoConfig
    monkeypatch.setattr(demo, "ProxyLogisticRegression", quick)
    monkeypatch.setattr(
        demo, "DemoConfig", lambda seeds: make(seeds, 1, rounds=30, labels=20, few_labels=(40,))
    )
    monkeypatch.setattr(demo, "_THETAS", (0.3,))
    monkeypatch.setattr(demo, "_SGD", (0.3, 1.0))
    monkeypatch.setattr(demo, "_ADAM", (0.1,))
    monkeypatch.setattr(socket.socket, "connect", unreachable)


def test_tables_sentences_and_files(
    invoke: Invoke, tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    folder = tmp_path / "out"
    arguments = ("demo", "--output", folder, "--workers", "1", "--seeds", "2")
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80 + len(str(folder))
    assert "\x1b" not in result.stdout
    text = " ".join(result.stdout.split())
    for words in ("our default needs", "ends lowest of the three", "Ours is the lowest", "Newton"):
        assert words in text
    assert "final runs: 100 % done" in result.stderr
    for name in ("records.jsonl", "summary.json", "report.html"):
        assert (folder / name).stat().st_size > 0
    page = (folder / "report.html").read_text()
    assert len(page) < 1e6
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


def test_without_a_package_of_the_extra(
    invoke: Invoke, tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def absent(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] in ("matplotlib", "jinja2"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", absent)
    result = invoke("demo", "--output", tmp_path, "--workers", "1", "--seeds", "1")
    assert result.exit_code == 2
    assert 'pip install "proxyprox[app]"' in " ".join(result.stderr.split())
    assert (tmp_path / "summary.json").exists()
    assert not (tmp_path / "report.html").exists()


def test_fewer_rounds_than_every_lbfgs() -> None:
    config = demo.DemoConfig(seeds=1)
    curves = [c for c in demo.experiment(config).curves if c.panel == demo.EXACT]
    points = [
        {"panel": c.panel, "method": c.method, "seed": 0, **point}
        for c in curves
        for point in demo.run_job(config, c.job(None, 0, 0))
    ]
    found = demo.rounds_to_level(points)
    assert len(found) == 5
    ours = found.pop(demo.ROUNDS_OURS)
    assert all(ours < counts for method, counts in found.items() if method != demo.NEWTON)
    assert found[demo.NEWTON] < ours, "matrices in each round are worth more"
