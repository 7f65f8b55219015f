from __future__ import annotations

import platform
from pathlib import Path

import pytest

from proxyprox.experiments.records import machine, versions, without_home


def test_nothing_names_a_person_or_a_host() -> None:
    facts = machine()
    assert int(facts["cores"]) >= 1
    assert facts["processor"]
    assert platform.node() not in facts.values()
    assert versions()["numpy"]


def test_home_folder_is_hidden_only_where_a_shell_expands_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ann"))
    assert without_home("run /home/ann/a --out /home/ann") == "run ~/a --out ~"
    assert without_home("run /home/anna/a /x/home/ann") == "run /home/anna/a /x/home/ann"
    monkeypatch.setattr(Path, "home", lambda: Path("/"))
    assert without_home("run /a") == "run /a"
