from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")

Invoke = Callable[..., Any]


def test_a_page_a_file_and_words(invoke: Invoke, config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = invoke("audit", config, "--output", folder)
    assert result.exit_code == 0, result.stderr
    words = " ".join(result.stdout.split())
    assert "Use it" in words
    assert "similarity" in words
    assert "To run this plan" in words
    assert {path.name for path in folder.iterdir()} == {"audit.html", "audit.json"}


def test_json_is_all_there_is(invoke: Invoke, config: Path, tmp_path: Path) -> None:
    args = ["--output", tmp_path / "out", "--epsilon", "0.01", "--budget", "300", "--json"]
    result = invoke("audit", config, *args)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["verdict"] == "USE"
    assert found["epsilon"] == 0.01
    assert found["ledger"]["target_gradients"] <= 300
    assert found["delta"]["low"] <= found["delta"]["high"]
    assert found["plan"]["steps"] >= 1
    assert len(found["plan"]["what_if"]) == 6
    kept = json.loads((tmp_path / "out" / "audit.json").read_text())
    assert kept["delta"] == found["delta"]


def test_without_a_proxy_there_is_nothing_to_judge(
    invoke: Invoke, config: Path, tmp_path: Path
) -> None:
    text = config.read_text().replace("[method]", '[method]\nname = "sgd"')
    text = text.replace("[run]", '[run]\ncompare = ["erm"]') + '[proxy]\nkind = "none"\n'
    bare = config.with_name("bare.toml")
    bare.write_text(text)
    result = invoke("audit", bare, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "proxy" in result.stderr


def test_a_budget_too_small_is_refused(invoke: Invoke, config: Path, tmp_path: Path) -> None:
    result = invoke("audit", config, "--output", tmp_path / "out", "--budget", "10")
    assert result.exit_code == 2
    assert "budget must be" in " ".join(result.stderr.split())


def test_a_failed_audit_leaves_no_folder(
    invoke: Invoke, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("audit", config, "--budget", "10").exit_code == 2
    assert not (tmp_path / "runs").exists()
    kept = tmp_path / "mine"
    kept.mkdir()
    assert invoke("audit", config, "--budget", "10", "--output", kept).exit_code == 2
    assert kept.exists()


def test_the_lines_of_the_plan_are_a_configuration_that_runs(
    invoke: Invoke, config: Path, tmp_path: Path, no_figures: None
) -> None:
    result = invoke("audit", config, "--output", tmp_path / "out", "--json")
    lines = json.loads(result.stdout)["plan"]["toml"]
    text = config.read_text()
    before = text[: text.index("[method]")]
    planned = config.with_name("planned.toml")
    planned.write_text(f"{before}{lines}\nseeds = 1\n")
    done = invoke("run", planned, "--output", tmp_path / "run", "--workers", "1", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["panels"]


def test_exact_gradients_are_counted_in_rounds(
    invoke: Invoke, config: Path, tmp_path: Path
) -> None:
    text = config.read_text()
    exact = config.with_name("exact.toml")
    lines = [line for line in text.splitlines() if not line.startswith("batch_size")]
    exact.write_text("\n".join(lines).replace("[method]", '[method]\nbatch_size = "all"'))
    for more in ([], ["--json"]):
        result = invoke("audit", exact, "--output", tmp_path / f"out{len(more)}", *more)
        assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["ledger"]["target_gradients"] <= 3
    assert found["rounds"] >= 1
    assert found["plan"]["toml"] is None
