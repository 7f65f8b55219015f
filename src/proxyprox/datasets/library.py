"""Data sets by name: found, downloaded, verified, cached."""

from __future__ import annotations

import contextlib
import difflib
import http.client
import ipaddress
import os
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from proxyprox._util.files import atomic_output
from proxyprox._util.text import printable
from proxyprox.datasets.tables import (
    COMPRESSIONS,
    DatasetCorruptError,
    DatasetNotFoundError,
    content_digest,
    parse,
    read_bytes,
)

BASE_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
"""Public home of the sets; `PROXYPROX_DATA_URL` or an argument replaces it."""


@dataclass(frozen=True)
class Entry:
    """One public set.

    Parameters
    ----------
    name : str
        Name under which `load` knows it.
    file : str
        Name of the file below the base URL.
    rows, features : int
        Shape the file must have.
    sha256 : str or None
        SHA-256 of the canonical text, see `proxyprox.datasets.tables.content_digest`. None: the
        content was never checked against a reference copy; only parse and shape are verified.
    """

    name: str
    file: str
    rows: int
    features: int
    sha256: str | None = None


_ENTRIES = (
    Entry(
        "mushrooms",
        "mushrooms",
        8124,
        112,
        "03115cabe65c7634b8e4f1a5581a35cf9c4d1eade64ecfe33620c0efb5891cb9",
    ),
    Entry(
        "a9a",
        "a9a",
        32561,
        123,
        "76b604b2c3f738783537bd3b32893eae66af54b8a41aee534fac1ecea45c1535",
    ),
    Entry("w8a", "w8a", 49749, 300),
    Entry("phishing", "phishing", 11055, 68),
    Entry("ijcnn1", "ijcnn1.bz2", 49990, 22),
)

REGISTRY: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}


def names() -> tuple[str, ...]:
    """Return the names `load` can download.

    Examples
    --------
    >>> "mushrooms" in names()
    True
    """
    return tuple(REGISTRY)


DATA_VARIABLE = "PROXYPROX_DATA"

SUFFIXES = (
    ".svm.xz",
    *COMPRESSIONS,
    "",
    ".svm",
    ".libsvm",
    ".txt",
    ".svm.bz2",
    ".svm.gz",
)
"""Accepted endings, in the order they are tried."""


def user_folder() -> Path | None:
    """Return the folder named by ``PROXYPROX_DATA``, or None when the variable is not set."""
    value = os.environ.get(DATA_VARIABLE, "").strip()
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """Return the folder downloads are kept in; it may not exist yet.

    ``XDG_CACHE_HOME`` wins on every system; otherwise each system's usual place.
    """
    xdg = os.environ.get("XDG_CACHE_HOME", "").strip()
    # The XDG specification says to ignore a relative path.
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "proxyprox"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "").strip()
        base = Path(local) if local else Path.home() / "AppData" / "Local"
        return base / "proxyprox" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "proxyprox"
    return Path.home() / ".cache" / "proxyprox"


def find_in(folder: Path, name: str) -> Path | None:
    """Return the first file of `folder` that holds set `name`, or None.

    Parameters
    ----------
    folder : Path
        Folder to look in; it need not exist.
    name : str
        Name of the set, without an ending.
    """
    candidates = (folder / f"{name}{suffix}" for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


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


URL_VARIABLE = "PROXYPROX_DATA_URL"


@dataclass(frozen=True)
class Dataset:
    """A labelled set in memory.

    Parameters
    ----------
    X : csr matrix of float64, shape (rows, n_features)
        Inputs.
    y : array of float64, shape (rows,)
        Labels as in the file: mushrooms has {1, 2}, a9a has {-1, +1}.
    name : str
        Name it was asked for by.
    n_features : int
        Number of columns of `X`.
    source : str
        The file or address it came from.
    """

    X: Any
    y: NDArray[np.float64]
    name: str
    n_features: int
    source: str


def load(
    name: str,
    *,
    download: bool = True,
    progress: bool = False,
    base_url: str | None = None,
    timeout: float = 30.0,
) -> Dataset:
    """Load a LIBSVM-format set.

    It is looked for in the folder named by ``PROXYPROX_DATA`` (as ``name.svm.xz``, ``name.xz``,
    ``name.bz2``, ``name.gz``, ``name``, ``name.svm``, ``name.libsvm`` or ``name.txt``), then in
    the cache, then at its public home. What is known of a set is checked wherever it comes from:
    its shape, and for mushrooms and a9a the SHA-256 of its content. For the other sets no
    reference checksum is recorded. A name that is not registered is loaded if a file of that
    name is there, with nothing to check it against.

    Parameters
    ----------
    name : str
        One of `names()`, or the name of a file of your own in ``PROXYPROX_DATA``.
    download : bool
        False: never use the network.
    progress : bool
        Show a progress bar while downloading.
    base_url : str, optional
        Folder URL in place of the public home; default ``PROXYPROX_DATA_URL`` if set.
    timeout : float
        Seconds without an answer before a download attempt is given up.

    Returns
    -------
    dataset : Dataset

    Raises
    ------
    ValueError
        For a name that is neither registered nor found, or a `base_url` that is not HTTPS.
    DatasetNotFoundError
        When the set is nowhere to be found; the message says where it was looked for.
    DatasetCorruptError
        When a file is damaged or holds something else. A bad file is removed from the cache, and
        never from ``PROXYPROX_DATA``.
    """
    entry = REGISTRY.get(name)
    _check_name(name)
    folder, cache = user_folder(), cache_folder()

    if folder is not None and (found := find_in(folder, name)) is not None:
        try:
            return _read(found, name, entry, source=str(found))
        except ValueError as error:
            raise DatasetCorruptError(
                f"{found} is not a good copy of {name!r}: {error}. Replace it, or remove it to let "
                f"another copy be used{_by_hand(entry)}."
            ) from error

    if (found := find_in(cache, name)) is not None:
        try:
            return _read(found, name, entry, source=str(found))
        except ValueError as error:
            with contextlib.suppress(FileNotFoundError):
                found.unlink()
            if not (download and entry):
                raise DatasetCorruptError(
                    f"the cached copy of {name!r} was damaged ({error}) and has been removed: "
                    f"{found}. Load it again with download=True{_by_hand(entry)}."
                ) from error

    if entry is None:
        raise ValueError(_unknown(name, folder, cache))
    if not download:
        raise DatasetNotFoundError(_nowhere(entry, folder, cache, "downloading is switched off"))
    return _from_home(entry, folder, cache, base_url, progress=progress, timeout=timeout)


def _from_home(
    entry: Entry,
    folder: Path | None,
    cache: Path,
    base_url: str | None,
    *,
    progress: bool,
    timeout: float,
) -> Dataset:
    base = base_url or os.environ.get(URL_VARIABLE, "").strip() or BASE_URL
    url = check_url(f"{base.rstrip('/')}/{entry.file}")
    target = cache / _cache_name(entry)
    loaded: list[Dataset] = []

    def verify(temporary: Path) -> None:
        loaded.append(_read(temporary, entry.name, entry, source=url, named=target.name))

    try:
        download(url, target, verify=verify, progress=progress, timeout=timeout)
    except DownloadError as error:
        raise DatasetNotFoundError(_nowhere(entry, folder, cache, str(error), url)) from error
    except ValueError as error:
        raise DatasetCorruptError(
            f"what {url} sent is not {entry.name!r}: {error}. Nothing was kept. If the address is "
            f"right, try again later, or put a good copy in a folder named by {DATA_VARIABLE}."
        ) from error
    return loaded[-1]


def _cache_name(entry: Entry) -> str:
    return entry.name + Path(entry.file).suffix if "." in entry.file else entry.name


def _read(
    path: Path, name: str, entry: Entry | None, *, source: str, named: str | None = None
) -> Dataset:
    text = read_bytes(path, name=named)
    if entry is None:
        X, y = parse(text)
        return Dataset(X, y, name, int(X.shape[1]), source)
    if entry.sha256 is not None and (got := content_digest(text)) != entry.sha256:
        raise ValueError(
            f"its content has SHA-256 {got}, expected {entry.sha256} ({len(text):,} bytes read)"
        )
    X, y = parse(text, features=entry.features, one_based=True)
    if X.shape[0] != entry.rows:
        raise ValueError(f"it has {X.shape[0]:,} rows, expected {entry.rows:,}")
    return Dataset(X, y, name, entry.features, source)


def _check_name(name: str) -> None:
    if not name or name.startswith(".") or Path(name).name != name or "\\" in name:
        raise ValueError(
            f"name={name!r} is not the name of a data set: give one of {', '.join(REGISTRY)}, or "
            "the name of a file without its folder and ending."
        )


def _unknown(name: str, folder: Path | None, cache: Path) -> str:
    near = difflib.get_close_matches(name, REGISTRY, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return (
        f"name={name!r} is not a known data set ({', '.join(REGISTRY)}) and no file of that name "
        f"is in {_describe(folder)} or in {cache}.{hint} Put {name}.svm (LIBSVM format) in the "
        f"folder that {DATA_VARIABLE} names to load your own."
    )


def _describe(folder: Path | None) -> str:
    if folder is None:
        return f"{DATA_VARIABLE} (not set)"
    return f"{folder} ({DATA_VARIABLE}{'' if folder.is_dir() else ', no such folder'})"


def _by_hand(entry: Entry | None) -> str:
    return f"; its public home is {BASE_URL}/{entry.file}" if entry else ""


def _nowhere(
    entry: Entry, folder: Path | None, cache: Path, reason: str, url: str | None = None
) -> str:
    address = url or f"{BASE_URL}/{entry.file}"
    return (
        f"data set {entry.name!r} not found.\n"
        f"  looked in {_describe(folder)}\n"
        f"  looked in {cache} (cache)\n"
        f"  {address}: {reason}\n"
        f"What to do: fetch {BASE_URL}/{entry.file} by hand on a machine with a connection, put "
        f"the file in a folder, and set {DATA_VARIABLE} to that folder."
    )
