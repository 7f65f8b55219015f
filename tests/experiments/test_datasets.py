"""Public sets by name: places, endings, downloads, checksums, and what is said when it fails."""

import bz2
import gzip
import http.server
import lzma
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from experiments import datasets
from experiments.datasets import DatasetCorruptError, load

TEXT = b"".join(b"%d 1:%d 3:0.5 \n" % (1 + i % 2, i + 1) for i in range(20))


@pytest.fixture
def server(monkeypatch):
    """Yield a server that answers every request with one body and counts how often it was asked."""
    pytest.importorskip("pooch")

    class Handler(http.server.BaseHTTPRequestHandler):
        body, asked = b"", 0

        def do_GET(self):
            Handler.asked += 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.body)))
            self.end_headers()
            self.wfile.write(self.body)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{httpd.server_address[1]}"
        monkeypatch.setattr(datasets, "BASE_URL", address)
        yield Handler
        httpd.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return an empty cache; no folder named, a registry with one small set, quick retries."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PROXYPROX_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda _: None)
    entries = {"tiny": datasets.Entry("tiny", 3, datasets.content_digest(TEXT))}
    monkeypatch.setattr(datasets, "REGISTRY", entries)
    return tmp_path / "cache" / "proxyprox"


_PACK = {".xz": lzma.compress, ".bz2": bz2.compress, ".gz": gzip.compress}


@pytest.fixture
def folder(tmp_path, cache, monkeypatch):
    path = tmp_path / "data"
    path.mkdir()
    monkeypatch.setenv("PROXYPROX_DATA", str(path))
    return path


@pytest.mark.parametrize(
    "ending", [".svm.xz", ".xz", ".bz2", ".gz", "", ".svm", ".libsvm", ".txt", ".svm.gz"]
)
def test_reads_every_ending_from_the_named_folder(folder, ending):
    pack = _PACK.get(Path("x" + ending).suffix, bytes)
    (folder / f"tiny{ending}").write_bytes(pack(TEXT))
    got = load("tiny", download=False)
    assert got.X.shape == (20, 3)
    assert got.X.dtype == np.float64
    assert sorted(set(got.y)) == [1.0, 2.0]
    assert (got.name, got.n_features) == ("tiny", 3)
    assert got.source == str(folder / f"tiny{ending}")


def test_a_damaged_cache_is_named_and_replaced_by_a_download(cache, server):
    cache.mkdir(parents=True)
    (cache / "tiny").write_bytes(b"<html>not found</html>")
    with pytest.raises(DatasetCorruptError, match=r"tiny.*SHA-256.*remove it"):
        load("tiny", download=False)
    server.body = TEXT
    assert load("tiny").X.shape == (20, 3)
    assert (cache / "tiny").read_bytes() == TEXT


def test_a_wrong_download_leaves_nothing(cache, server):
    server.body = b"1 1:1\n"
    with pytest.raises(DatasetCorruptError, match=r"SHA-256.*Nothing was kept"):
        load("tiny")
    assert os.listdir(cache) == []
    assert server.asked == 1


def test_what_is_no_table_is_named(folder):
    for content, words in (
        (b"1 9:x\n", "not LIBSVM text"),
        (b"", "empty"),
        (b"1 1:nan\n", "finite"),
    ):
        (folder / "mine.svm").write_bytes(content)
        with pytest.raises(DatasetCorruptError, match=words):
            load("mine")
    (folder / "mine.svm").rename(folder / "mine.bz2")
    with pytest.raises(DatasetCorruptError, match="not a whole bz2 file"):
        load("mine")


@pytest.mark.parametrize("name", ["", "../tiny", "a/b", ".tiny", "a\\b"])
def test_names_are_not_paths(cache, name):
    with pytest.raises(ValueError, match="is not a known data set"):
        load(name)


@pytest.mark.parametrize(
    ("name", "shape", "labels"),
    [("mushrooms", (8124, 112), [1.0, 2.0]), ("a9a", (32561, 123), [-1.0, 1.0])],
)
def test_real_sets(name, shape, labels):
    folder = os.environ.get("PROXYPROX_DATA")
    if not folder or not (Path(folder) / f"{name}.svm.xz").exists():
        pytest.skip(f"PROXYPROX_DATA does not hold {name}")
    got = datasets.load(name, download=False)
    assert got.X.shape == shape
    assert np.unique(got.y).tolist() == labels
