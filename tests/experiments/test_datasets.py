"""Public sets by name: places, endings, downloads, checksums, and what is said when it fails."""

from __future__ import annotations

import bz2
import gzip
import http.server
import lzma
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from experiments import datasets
from experiments.datasets import DatasetCorruptError, DatasetNotFoundError, load

TEXT = b"".join(b"%d 1:%d 3:0.5 \n" % (1 + i % 2, i + 1) for i in range(20))


@dataclass
class Server:
    """Answers by path: (status, headers, body); counts what it was asked."""

    url: str = ""
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    pytest.importorskip("pooch")
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append(self.path)
            status, headers, body = state.answers.get(self.path, (404, {}, b"no"))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        state.url = f"http://127.0.0.1:{httpd.server_address[1]}"
        yield state
        httpd.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache; no folder named, a registry with one small set, quick retries."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PROXYPROX_DATA", raising=False)
    monkeypatch.delenv("PROXYPROX_DATA_URL", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda _: None)
    entries = {
        "tiny": datasets.Entry("tiny", 20, 3, datasets.content_digest(TEXT)),
        "packed": datasets.Entry("packed.bz2", 20, 3),
    }
    monkeypatch.setattr(datasets, "REGISTRY", entries)
    return tmp_path / "cache" / "proxyprox"


@pytest.fixture
def text() -> bytes:
    return TEXT


@pytest.fixture
def packed() -> bytes:
    return bz2.compress(TEXT)


_PACK: dict[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".gz": gzip.compress,
}


@pytest.fixture
def folder(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    monkeypatch.setenv("PROXYPROX_DATA", str(path))
    return path


@pytest.mark.parametrize(
    "ending", [".svm.xz", ".xz", ".bz2", ".gz", "", ".svm", ".libsvm", ".txt", ".svm.gz"]
)
def test_reads_every_ending_from_the_named_folder(folder: Path, text: bytes, ending: str) -> None:
    pack = _PACK.get(Path("x" + ending).suffix, bytes)
    (folder / f"tiny{ending}").write_bytes(pack(text))
    got = load("tiny", download=False)
    assert got.X.shape == (20, 3)
    assert got.X.dtype == np.float64
    assert sorted(set(got.y)) == [1.0, 2.0]
    assert (got.name, got.n_features) == ("tiny", 3)
    assert got.source == str(folder / f"tiny{ending}")


def test_wrong_content_is_named(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny").write_bytes(b"<html>not found</html>")
    with pytest.raises(DatasetCorruptError, match=r"tiny.*SHA-256.*remove it"):
        load("tiny", download=False)


def test_damaged_cache_is_replaced_by_a_download(cache: Path, server, text: bytes) -> None:
    cache.mkdir(parents=True)
    (cache / "tiny").write_bytes(b"rubbish")
    server.answers["/tiny"] = (200, {}, text)
    assert load("tiny", base_url=server.url).X.shape == (20, 3)
    assert (cache / "tiny").read_bytes() == text


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("tiny", b"1 1:1\n", "SHA-256"),
        ("packed", bz2.compress(b"1 1:1\n"), "it has 1 rows, expected 20"),
        ("packed", bz2.compress(b"1 9:1\n" * 20), "not LIBSVM text"),
        ("packed", bz2.compress(b"<html></html>"), "not LIBSVM text"),
        ("packed", b"BZh9 not at all", "not a whole bz2 file"),
    ],
)
def test_wrong_downloads_leave_nothing(
    cache: Path, server, name: str, body: bytes, words: str
) -> None:
    for path in ("/tiny", "/packed.bz2"):
        server.answers[path] = (200, {}, body)
    with pytest.raises(DatasetCorruptError, match=f"{words}.*Nothing was kept"):
        load(name, base_url=server.url)
    assert os.listdir(cache) == []
    assert len(server.asked) == 1


def test_offline_says_where_it_looked_and_what_to_do(folder: Path, cache: Path) -> None:
    with pytest.raises(DatasetNotFoundError) as caught:
        load("tiny", download=False)
    message = str(caught.value)
    for words in (str(folder), str(cache), "PROXYPROX_DATA", "https://www.csie", "switched off"):
        assert words in message
    assert isinstance(caught.value, FileNotFoundError)


def test_redirects_are_followed_unless_they_leave_https(cache: Path, server, text: bytes) -> None:
    server.answers["/tiny"] = (302, {"Location": "http://example.org/a"}, b"")
    with pytest.raises(DatasetNotFoundError, match="is not HTTPS"):
        load("tiny", base_url=server.url)
    server.answers["/tiny"] = (302, {"Location": "/there"}, b"")
    server.answers["/there"] = (200, {}, text)
    assert load("tiny", base_url=server.url).X.shape == (20, 3)


def test_without_pooch_the_message_says_how_to_do_it_by_hand(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DatasetNotFoundError, match=r"(?s)proxyprox\[app\].*PROXYPROX_DATA"):
        load("tiny")


@pytest.mark.parametrize("name", ["", "../tiny", "a/b", ".tiny", "a\\b"])
def test_names_are_not_paths(cache: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a known data set"):
        load(name)


def test_base_url_must_be_https(cache: Path) -> None:
    for url in ("http://example.org", "ftp://127.0.0.1", "https://", "http://127.0.0.1.a.org"):
        with pytest.raises(ValueError, match="is not HTTPS"):
            load("tiny", base_url=url)


@pytest.mark.parametrize(
    ("name", "shape", "labels"),
    [("mushrooms", (8124, 112), [1.0, 2.0]), ("a9a", (32561, 123), [-1.0, 1.0])],
)
def test_real_sets(name: str, shape: tuple[int, int], labels: list[float]) -> None:
    folder = os.environ.get("PROXYPROX_DATA")
    if not folder or not (Path(folder) / f"{name}.svm.xz").exists():
        pytest.skip(f"PROXYPROX_DATA does not hold {name}")
    got = datasets.load(name, download=False)
    assert got.X.shape == shape
    assert np.unique(got.y).tolist() == labels
