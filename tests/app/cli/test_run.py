"""``proxyprox run CONFIG.toml`` and ``proxyprox audit``: files, words, mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Invoke = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("no_figures")


def test_the_example_works(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    text = invoke("run", "--example").stdout
    path.write_text(text.replace("target_gradients = 200", "target_gradients = 8"))
    result = invoke("run", path, "--output", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    assert "proxyprox predict" in result.stdout
    lines = [line for line in result.stdout.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 80


def test_files_and_json(invoke: Invoke, config: Path, csv: Path, tmp_path: Path) -> None:
    lines = csv.read_text().splitlines()
    csv.write_text("\n".join([*lines[:3], "red" + lines[3][lines[3].index(",") :], *lines[4:]]))
    folder = tmp_path / "out"
    result = invoke("run", config, "--output", folder, "--json")
    assert result.exit_code == 0, result.stderr
    done = json.loads(result.stdout)
    assert next(end["method"] for end in done["methods"]) == "proxyprox, its default"
    assert "a: numbers, but 'red' (row 3)" in " ".join(done["notes"])
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert names == {"records.jsonl", "summary.json", "report.html", "model.json"}
    predicted = invoke("predict", folder, csv).stdout.splitlines()
    assert predicted[0] == "row,bought,P(bought = no),P(bought = yes)"
    assert len(predicted) == 81


def test_an_audit(invoke: Invoke, config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = invoke("audit", config, "--output", folder)
    assert result.exit_code == 0, result.stderr
    for words in ("Use it", "similarity", "Plan:"):
        assert words in " ".join(result.stdout.split())
    assert {path.name for path in folder.iterdir() if path.suffix} == {"audit.html", "audit.json"}
    page = (folder / "audit.html").read_text()
    for words in ("similarity δ", "Rehearsed: target gradients", "What the plan costs"):
        assert words in page
    more = ["--output", folder, "--epsilon", "0.01", "--budget", "300", "--json"]
    found = json.loads(invoke("audit", config, *more).stdout)
    assert (found["verdict"], found["epsilon"]) == ("USE", 0.01)
    assert found["ledger"]["target_gradients"] <= 300
    assert found["delta"]["low"] <= found["delta"]["high"]
    config.write_text(config.read_text().replace("batch_size = 16", 'batch_size = "all"'))
    exact = json.loads(invoke("audit", config, "--output", folder, "--json").stdout)
    assert exact["rounds"] >= 1


def test_mistakes_end_in_a_sentence(
    invoke: Invoke, config: Path, csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for call, words in (
        (("run",), "--example"),
        (("run", tmp_path / "none.toml"), "cannot be read: No such file"),
        (("run", tmp_path, "--target", "y"), "is a folder"),
        (("run", config, "--target", "bought"), "--target goes with a table"),
        (("run", csv), "--target"),
        (("run", csv, "--target", "bought", "--groups", "z"), "--groups: no column 'z'"),
        (("run", csv, "--target", "bought", "--groups", "a", "--time", "b"), "do not go together"),
        (("run", csv, "--target", "bought", "--model", "huber"), "--model"),
        (("audit", csv), "run rows.csv --target"),
        (("audit", config, "--budget", "10"), "budget"),
    ):
        result = invoke(*call)
        assert result.exit_code == 2, call
        assert words in " ".join(result.stderr.split()), call
    assert not [path for path in (tmp_path / "runs").glob("*/*") if path.suffix == ".json"]
