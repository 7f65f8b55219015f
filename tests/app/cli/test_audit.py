from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")

Invoke = Callable[..., Any]


def test_words_json_and_files(invoke: Invoke, config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = invoke("audit", config, "--output", folder)
    assert result.exit_code == 0, result.stderr
    for words in ("Use it", "similarity", "To run this plan"):
        assert words in " ".join(result.stdout.split())
    assert {path.name for path in folder.iterdir()} == {"audit.html", "audit.json"}
    args = ["--output", folder, "--epsilon", "0.01", "--budget", "300", "--json"]
    found = json.loads(invoke("audit", config, *args).stdout)
    assert (found["verdict"], found["epsilon"]) == ("USE", 0.01)
    assert found["ledger"]["target_gradients"] <= 300
    assert found["delta"]["low"] <= found["delta"]["high"]
    assert found["plan"]["steps"] >= 1
    assert json.loads((folder / "audit.json").read_text())["delta"] == found["delta"]
    page = re.sub("<[^>]*>", "", (folder / "audit.html").read_text())
    for words in ("one target gradient needs 16 rows", "without labels, on the rows of the target"):
        assert words in page


def test_what_cannot_be_audited_leaves_no_folder(
    invoke: Invoke, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bare = config.with_name("bare.toml")
    text = config.read_text().replace("[method]", '[method]\nname = "sgd"')
    bare.write_text(text.replace("[run]", '[run]\ncompare = ["erm"]') + '[proxy]\nkind = "none"\n')
    for args, words in (([bare], "proxy"), ([config, "--budget", "10"], "budget")):
        result = invoke("audit", *args)
        assert result.exit_code == 2
        assert words in result.stderr
    assert not (tmp_path / "runs").exists()


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
