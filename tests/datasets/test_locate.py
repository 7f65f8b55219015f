from __future__ import annotations

import sys
from pathlib import Path

import pytest

from proxyprox.datasets.library import cache_folder, find_in, user_folder


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "PROXYPROX_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/someone"))


@pytest.mark.parametrize(
    ("platform", "expected"),
    [
        ("linux", "/home/someone/.cache/proxyprox"),
        ("darwin", "/home/someone/Library/Caches/proxyprox"),
        ("win32", "/home/someone/AppData/Local/proxyprox/Cache"),
    ],
)
def test_cache_folder_of_each_system(
    monkeypatch: pytest.MonkeyPatch, platform: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == Path(expected)


def test_xdg_wins_unless_relative(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "proxyprox"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path("/home/someone/.cache/proxyprox")


def test_user_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert user_folder() is None
    monkeypatch.setenv("PROXYPROX_DATA", str(tmp_path))
    assert user_folder() == tmp_path
    assert find_in(tmp_path / "absent", "a") is None
    (tmp_path / "a").mkdir()  # a folder is not a file
    assert find_in(tmp_path, "a") is None
