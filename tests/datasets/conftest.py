"""A small LIBSVM file of our own and a web server on this machine that misbehaves on demand."""

from __future__ import annotations

import bz2
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from proxyprox.datasets import library

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
        "tiny": library.Entry("tiny", 20, 3, library.content_digest(TEXT)),
        "packed": library.Entry("packed.bz2", 20, 3),
    }
    monkeypatch.setattr(library, "REGISTRY", entries)
    return tmp_path / "cache" / "proxyprox"


@pytest.fixture
def text() -> bytes:
    return TEXT


@pytest.fixture
def packed() -> bytes:
    return bz2.compress(TEXT)
