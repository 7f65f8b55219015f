"""``proxyprox budget``: a privacy officer reads a file and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proxyprox.private import PrivacyBudget
from proxyprox.private.accounting import Release

Invoke = Callable[..., Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "budget.sqlite"
    budget = PrivacyBudget(path, epsilon=2.0, delta=1e-5)
    for name, private in (("first", True), ("a test\x1b[31m", False)):
        budget.open(name, [Release(9.0)] * 2, {"clip": 1.0}, private=private)
        budget.charge(name, 0, Release(9.0), "w")
        budget.end(name)
    return path


def test_the_page_and_the_json_agree_and_the_file_stays(invoke: Invoke, file: Path) -> None:
    before = file.read_bytes()
    shown, given = invoke("budget", file), invoke("budget", file, "--json")
    assert (shown.exit_code, given.exit_code) == (0, 0)
    report = json.loads(given.stdout)
    assert [plan["state"] for plan in report["plans"]] == ["ended", "ended"]
    assert not report["private"]
    for words in ("'first'", "NOT PRIVATE", "σ = 9", "δ = 1e-05", f"ε = {report['spent']:.4g}"):
        assert words in shown.stdout
    assert "\x1b" not in shown.stdout + given.stdout
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.iterdir()) == ["budget.sqlite"]


@pytest.mark.parametrize("content", [None, b"", b"no database at all", b"SQLite format 3\0" * 300])
def test_what_is_no_budget_is_named(invoke: Invoke, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other"
    if content is not None:
        path.write_bytes(content)
    for options in ((), ("--json",)):
        done = invoke("budget", path, *options)
        assert done.exit_code == 2
        assert "cannot be used" in done.stderr
        assert "defect" not in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 2
    assert path.exists() == (content is not None)
