"""The page of ``proxyprox label --web``: questions in a browser on this computer.

The server listens on 127.0.0.1 only, answers requests for that name only (a foreign name that
was made to point here is refused), and everything is below a random token. Answers come as JSON
with the row they are meant for, so that no other site can send one and a second click, a reloaded
page or another window cannot answer a row that it does not show.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from proxyprox._util.text import printable
from proxyprox_app.cli import console
from proxyprox_app.cli.console import CommandError, say
from proxyprox_app.cli.label import Session, exported, summary

LARGEST, PATIENCE = 1 << 16, 20.0
"""Bytes of a request at most, and seconds that a browser may be silent."""
STALE = "This row was answered already: nothing was changed, here is the next one."


class RefusedError(Exception):
    """A request that is not answered; the status says why."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def serve(session: Session, title: str, port: int = 0) -> None:
    """Ask in a browser until Ctrl-C."""
    try:
        server = Server(session, title, port)
    except OSError as error:
        raise CommandError(f"--port {port} cannot be used ({error.strerror}).") from None
    terminal = console.stderr()
    with server:
        console.tell_path(terminal, f"Open {server.address}")
        say(terminal, "It answers this computer only. Ctrl-C stops; every answer is kept.")
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            terminal.print()
        # An answer that is being written is finished, and no other begins.
        server.lock.acquire()


class Server(ThreadingHTTPServer):
    """A session behind an address with a token in it; one request at a time touches the session."""

    def __init__(self, session: Session, title: str, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.session, self.title = session, title
        self.lock, self.token = threading.Lock(), secrets.token_urlsafe(18)
        self.hosts = [f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")]
        self.address = f"http://{self.hosts[0]}/{self.token}/"
        self.page = resources.files("proxyprox_app.cli").joinpath("label.html").read_text("utf-8")
        self._last: dict[str, Any] | None = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of browsers that hang up."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    def state(self, notice: str = "") -> dict[str, Any]:
        """Return everything that the page shows."""
        session, bought = self.session, self.session.bought
        row = session.question()
        cells = [] if row is None else session.pool.row(row)
        counts = list(map(str, bought.labels.values()))
        last = self._last if self._last and self._last["row"] == bought.last else None
        return {
            "title": printable(self.title), "row": row, "notice": notice, "last": last,
            "cells": [list(map(printable, cell)) for cell in cells],
            "comment": "" if row is None else bought.comments.get(row, ""),
            "classes": [[printable(name), counts.count(name)] for name in session.classes],
            "spent": bought.spent, "budget": bought.budget, "skipped": len(bought.declined),
            "undo": bought.last, "journal": printable(str(bought.path)),
            "finished": None if row is not None else summary(bought)["sentences"][:-1],
        }  # fmt: skip

    def act(self, asked: Any) -> dict[str, Any]:
        """Do what the page asks for, if it shows what is true, and return the new state."""
        session, bought = self.session, self.session.bought
        match asked:
            case {"do": "undo", "row": int(row)}:
                if row != bought.last:
                    return self.state("The page was out of date: nothing was taken back.")
                bought.undo()
                return self.state()
            case {"do": "answer" | "skip" | "comment", "row": int(row), "comment": str(comment)}:
                if row != session.question():
                    return self.state(STALE)
            case _:
                raise RefusedError(HTTPStatus.BAD_REQUEST, "No such action.")
        label, choice = None, asked.get("choice")
        if asked["do"] == "answer":
            if type(choice) is not int or choice not in range(len(session.classes)):
                raise RefusedError(HTTPStatus.BAD_REQUEST, "No such class.")
            label = session.classes[choice]
        if printable(comment).strip() != bought.comments.get(row, ""):
            bought.comment(row, comment)
        if asked["do"] == "comment":
            return self.state("Comment kept.")
        expected = session.answer(row, label)
        said = {"said": printable(label or "skipped"), "expected": printable(expected)}
        self._last = {"row": row, **said, "agreed": bool(expected) and session.agreed[-1]}
        return self.state()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    server_version, sys_version, timeout = "proxyprox", "", PATIENCE

    def do_GET(self) -> None:
        """Send the page, the state or an export."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Take an answer, and send the new state."""
        self._answer(self._post)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is the person's."""

    def _answer(self, work: Callable[[str], tuple[str, bytes]]) -> None:
        status, kind = HTTPStatus.OK, "text/plain"
        try:
            kind, content = work(self._path())
        except RefusedError as error:
            status, content = error.status, str(error).encode()
        except Exception as error:
            # A full disk, say: the page shows it, and the row is asked about again.
            text = f"That failed, and what was kept before is still kept: {error}"
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            content = printable(text).encode(errors="replace")
        nonce = secrets.token_urlsafe(12)
        if kind == "text/html":
            content = content.replace(b"NONCE", nonce.encode())
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(content)),
            "Content-Security-Policy": "default-src 'none'; connect-src 'self'; base-uri 'none'; "
            f"form-action 'none'; frame-ancestors 'none'; img-src data:; "
            f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'",
            "Cache-Control": "no-store",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        if "/labels." in self.path:
            headers["Content-Disposition"] = "attachment"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _path(self) -> str:
        """Return the path below the token, if the request is for this server."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].lower() not in self.server.hosts:
            text = f"This server answers to {self.server.hosts[0]} only."
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, text)
        token, slash, path = self.path.removeprefix("/").partition("/")
        if not slash or not secrets.compare_digest(token.encode(), self.server.token.encode()):
            text = "Use the whole address that the terminal shows, with its token and last slash."
            raise RefusedError(HTTPStatus.NOT_FOUND, text)
        return path

    def _get(self, path: str) -> tuple[str, bytes]:
        if path == "":
            return "text/html", self.server.page.encode()
        with self.server.lock:
            if path == "state":
                return "application/json", json.dumps(self.server.state()).encode()
            if path == "labels.csv":
                return "text/csv", exported(self.server.session.bought, self.server.session.pool)
        raise RefusedError(HTTPStatus.NOT_FOUND, "No such page.")

    def _post(self, path: str) -> tuple[str, bytes]:
        origin, length = self.headers.get("Origin"), self.headers.get("Content-Length", "")
        if origin is not None and origin not in [f"http://{host}" for host in self.server.hosts]:
            raise RefusedError(HTTPStatus.FORBIDDEN, "Answers come from this page only.")
        if path != "act" or self.headers.get_content_type() != "application/json":
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Answers are JSON.")
        if not length.isdecimal() or int(length) > LARGEST:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Too much for an answer.")
        try:
            asked = json.loads(self.rfile.read(int(length)))  # JSON that is cut short is none
        except (ValueError, RecursionError):
            raise RefusedError(HTTPStatus.BAD_REQUEST, "Not JSON.") from None
        with self.server.lock:
            return "application/json", json.dumps(self.server.act(asked)).encode()
