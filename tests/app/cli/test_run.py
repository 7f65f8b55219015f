"""``proxyprox audit``, and mistakes of commands that end in a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Invoke = Callable[..., Any]


def test_an_audit(invoke: Invoke, config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    result = invoke("audit", config, "--output", folder)
    assert result.exit_code == 0, result.stderr
    for words in ("Use it", "similarity", "Plan:"):
        assert words in " ".join(result.stdout.split())
    assert {path.name for path in folder.iterdir() if path.suffix} == {"audit.html", "audit.json"}
    page = (folder / "audit.html").read_text()
    for words in ("similarity δ", "Rehearsed", "target gradients", "What the plan costs"):
        assert words in page
    more = ["--output", folder, "--epsilon", "0.01", "--budget", "300", "--json"]
    found = json.loads(invoke("audit", config, *more).stdout)
    assert (found["verdict"], found["epsilon"]) == ("USE", 0.01)
    assert found["ledger"]["target_gradients"] <= 300
    assert found["delta"]["low"] <= found["delta"]["high"]
    config.write_text(config.read_text().replace("batch_size = 16", 'batch_size = "all"'))
    exact = json.loads(invoke("audit", config, "--output", folder, "--json").stdout)
    assert exact["rounds"] >= 1


def test_tables_fit_the_terminal_and_doubts_are_told(invoke: Invoke, tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    lines = [f"P{i % 12:02d},{(i * 7) % 13},{'yes' if i % 12 < 5 else 'no'}" for i in range(120)]
    path.write_text("\n".join(["patient,pulse,ill", *lines]))
    call = ("run", path, "--target", "ill", "--output", tmp_path / "out")
    result = invoke(*call)
    assert result.exit_code == 0, result.stderr
    assert max(len(x) for x in result.stdout.splitlines() if str(tmp_path) not in x) <= 80
    assert "Scores as good as these are rare" in " ".join(result.stdout.split())
    assert "--groups patient" in result.stderr
    assert "replaced" not in result.stdout
    done = json.loads(invoke(*call, "--groups", "patient", "--json").stdout)
    assert done["doubts"] == []
    assert done["replaced"]
    assert {column["name"]: column["kind"] for column in done["columns"]}["patient"] == "drop"


def test_an_interruption_says_what_is_kept(
    invoke: Invoke, csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("proxyprox_app.study.fit.fit_model", interrupted)
    result = invoke("run", csv, "--target", "bought", "--output", tmp_path / "out")
    assert result.exit_code == 130
    assert "Nothing was written" in result.stderr
    assert "To run it again:  proxyprox run" in result.stderr


def test_mistakes_end_in_a_sentence(
    invoke: Invoke, config: Path, csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for call, words in (
        (("audit",), "--example"),
        (("audit", tmp_path / "none.toml"), "cannot be read: No such file"),
        (("run", tmp_path, "--target", "y"), "is a folder"),
        (("run", config, "--target", "bought"), "does not tell the format"),
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
