from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from proxyprox.datasets import library as _download
from proxyprox.datasets.library import DownloadError, check_url, download


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/a",
        "ftp://127.0.0.1/a",
        "file:///etc/passwd",
        "https:///a",
        "http://127.0.0.1.example.org/a",
    ],
)
def test_refuses_addresses_that_are_not_https(url: str) -> None:
    with pytest.raises(ValueError, match="is not HTTPS"):
        check_url(url)


@pytest.mark.parametrize("url", ["http://localhost:1/a", "http://[::1]/a", "https://a.b/c"])
def test_accepts_https_and_this_machine(url: str) -> None:
    assert check_url(url) == url


def test_truncated_body_is_tried_again_and_leaves_nothing(tmp_path: Path, server) -> None:
    server.answers["/a"] = (200, {"Content-Length": "100", "Connection": "close"}, b"half")
    with pytest.raises(DownloadError, match=r"stopped after 4 of 100 bytes \(tried 3 times\)"):
        download(f"{server.url}/a", tmp_path / "a", pause=0, timeout=1)
    assert len(server.asked) == 3
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (503, 3), (429, 3)])
def test_only_failures_that_may_pass_are_tried_again(
    tmp_path: Path, server, status: int, tries: int
) -> None:
    server.answers["/a"] = (status, {}, b"")
    with pytest.raises(DownloadError, match=f"the server answered {status}"):
        download(f"{server.url}/a", tmp_path / "a", pause=0)
    assert len(server.asked) == tries
    assert os.listdir(tmp_path) == []


def test_empty_file_is_a_failure(tmp_path: Path, server) -> None:
    server.answers["/a"] = (200, {}, b"")
    with pytest.raises(DownloadError, match="empty file"):
        download(f"{server.url}/a", tmp_path / "a", pause=0)


def test_redirect_off_https_is_refused(tmp_path: Path, server) -> None:
    server.answers["/a"] = (302, {"Location": "http://example.org/a"}, b"")
    with pytest.raises(DownloadError, match="is not HTTPS"):
        download(f"{server.url}/a", tmp_path / "a", pause=0)
    assert server.asked == ["/a"]


def test_redirect_on_this_machine_is_followed(tmp_path: Path, server) -> None:
    server.answers["/a"] = (302, {"Location": f"{server.url}/b"}, b"")
    server.answers["/b"] = (200, {}, b"there")
    download(f"{server.url}/a", tmp_path / "new" / "a", pause=0)
    assert (tmp_path / "new" / "a").read_bytes() == b"there"


def test_not_enough_disk_space(tmp_path: Path, server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_download.shutil, "disk_usage", lambda _: SimpleNamespace(free=3))
    server.answers["/a"] = (200, {}, b"four")
    with pytest.raises(DownloadError, match=r"not enough disk space .*4 bytes needed, 3 free"):
        download(f"{server.url}/a", tmp_path / "a")
    assert os.listdir(tmp_path) == []


def test_disk_that_fills_up_on_the_way(tmp_path: Path, server) -> None:
    server.answers["/a"] = (200, {}, b"four")

    def verify(_: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(DownloadError, match=r"cannot write in .*No space left"):
        download(f"{server.url}/a", tmp_path / "a", verify=verify)
    assert os.listdir(tmp_path) == []


def test_verification_failure_keeps_the_old_file(tmp_path: Path, server) -> None:
    (tmp_path / "a").write_bytes(b"old")
    server.answers["/a"] = (200, {}, b"new")

    def verify(path: Path) -> None:
        assert path.read_bytes() == b"new"
        raise ValueError("no good")

    with pytest.raises(ValueError, match="no good"):
        download(f"{server.url}/a", tmp_path / "a", verify=verify)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]
