"""One file over HTTPS, whole or not at all."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from proxyprox._files import atomic_output
from proxyprox._text import printable

__all__ = ["DownloadError", "check_url", "download"]

_CHUNK = 1 << 16
_USER_AGENT = "proxyprox (https; data set download)"


class DownloadError(OSError):
    """A download failed for good; the message says why."""


class _TryAgain(Exception):  # noqa: N818 - control flow, never seen by a user
    """The failure may pass: a time-out, a cut connection, a busy server."""


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def check_url(url: str) -> str:
    """Return `url` if it is HTTPS, or plain HTTP to this machine; refuse it otherwise.

    Parameters
    ----------
    url : str
        Address to check.

    Raises
    ------
    ValueError
        For any other scheme or host.

    Examples
    --------
    >>> check_url("https://example.org/a")
    'https://example.org/a'
    >>> check_url("http://example.org/a")
    Traceback (most recent call last):
    ...
    ValueError: url='http://example.org/a' is not HTTPS: use an https:// address (plain http:// is accepted for 127.0.0.1 only).
    """  # noqa: E501 - the message is one line
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and _is_loopback(parts.hostname):
        return url
    raise ValueError(
        f"url={url!r} is not HTTPS: use an https:// address "
        "(plain http:// is accepted for 127.0.0.1 only)."
    )


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follow a redirect only to where a first request may go."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        try:
            check_url(newurl)
        except ValueError as error:
            raise DownloadError(f"the server sends on to {newurl}: {error}") from error
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(
    url: str,
    path: Path,
    *,
    verify: Callable[[Path], None] | None = None,
    progress: bool = False,
    timeout: float = 30.0,
    attempts: int = 3,
    pause: float = 0.5,
) -> None:
    """Fetch `url` into `path`; the name `path` appears only once all is there and verified.

    Several processes may fetch the same file at once: each writes its own temporary file and the
    last rename wins, with the same content.

    Parameters
    ----------
    url : str
        HTTPS address (or HTTP to this machine).
    path : Path
        Final name; its folder is made.
    verify : callable, optional
        Called with the temporary file; an exception from it discards the file and is passed on.
    progress : bool
        Show a progress bar on standard error.
    timeout : float
        Seconds without an answer before an attempt is given up.
    attempts : int
        Tries in all, for failures that may pass.
    pause : float
        Seconds before the second try; doubled for each further one.

    Raises
    ------
    DownloadError
        When it cannot be had.
    """
    check_url(url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(f"the folder {path.parent} cannot be made ({error})") from error
    for attempt in range(1, attempts + 1):
        try:
            with atomic_output(path) as file:
                _fetch(url, file, path, progress=progress, timeout=timeout)
                file.flush()
                if verify is not None:
                    verify(Path(file.name))
            return
        except _TryAgain as error:
            if attempt == attempts:
                raise DownloadError(f"{error} (tried {attempts} times)") from error
            time.sleep(pause * 2 ** (attempt - 1))
        except DownloadError:
            raise
        except OSError as error:  # no permission, disk full while flushing
            reason = error.strerror or str(error)
            raise DownloadError(f"cannot write in {path.parent}: {reason}") from error


def _fetch(url: str, file: IO[bytes], path: Path, *, progress: bool, timeout: float) -> None:
    handlers: list[Any] = [_SafeRedirects()]
    if _is_loopback(urllib.parse.urlsplit(url).hostname):
        handlers.append(urllib.request.ProxyHandler({}))  # a proxy cannot reach this machine
    opener = urllib.request.build_opener(*handlers)
    request = urllib.request.Request(url, headers={"User-Agent": _USER_AGENT})
    try:
        with opener.open(request, timeout=timeout) as response:
            _copy(response, file, path, progress=progress)
    except urllib.error.HTTPError as error:
        error.close()
        message = f"the server answered {error.code} {error.reason}"
        if error.code in (408, 425, 429) or error.code >= 500:
            raise _TryAgain(message) from error
        raise DownloadError(message) from error
    except urllib.error.URLError as error:
        raise _TryAgain(f"no connection ({error.reason})") from error
    except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
        raise _TryAgain(f"the connection broke ({error or type(error).__name__})") from error


def _copy(response: Any, file: IO[bytes], path: Path, *, progress: bool) -> None:
    announced = response.headers.get("Content-Length")
    total = int(announced) if announced and announced.isdigit() else None
    free = shutil.disk_usage(path.parent).free
    if total is not None and total > free:
        raise DownloadError(
            f"not enough disk space in {path.parent}: {total:,} bytes needed, {free:,} free"
        )
    received = 0
    with _bar(path.name, total, shown=progress) as advance:
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            received += len(chunk)
            advance(len(chunk))
    # http.client does not complain of a short body that is read in chunks.
    if total is not None and received != total:
        raise _TryAgain(f"the transfer stopped after {received:,} of {total:,} bytes")
    if received == 0:
        raise _TryAgain("the server sent an empty file")


@contextlib.contextmanager
def _bar(name: str, total: int | None, *, shown: bool) -> Iterator[Callable[[int], None]]:
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(f"Downloading {printable(name)}", total=total)
        yield lambda count: bar.advance(task, count)
