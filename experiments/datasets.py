"""Data sets by name: found, downloaded with pooch, verified, cached."""

from __future__ import annotations

import difflib
import hashlib
import io
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyprox._util.extras import require
from proxyprox_app.tables import COMPRESSIONS, read_bytes

# Public home of the sets. The digest of a set, not the address, says that it is the right one.
BASE_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"

DATA_VARIABLE = "PROXYPROX_DATA"

# Accepted endings, in the order they are tried.
SUFFIXES = (".svm.xz", *COMPRESSIONS, "", ".svm", ".libsvm", ".txt", ".svm.bz2", ".svm.gz")


class DatasetError(OSError):
    """A public data set could not be provided."""


class DatasetNotFoundError(DatasetError, FileNotFoundError):
    """The set is in none of the places looked at and could not be downloaded."""


class DatasetCorruptError(DatasetError):
    """A file was found, but it is damaged or not the set it is named after."""


@dataclass(frozen=True)
class Entry:
    """A public set: its file below the base URL, its columns and the digest of its content."""

    file: str
    features: int
    sha256: str


REGISTRY = {
    "mushrooms": Entry(
        "mushrooms", 112, "03115cabe65c7634b8e4f1a5581a35cf9c4d1eade64ecfe33620c0efb5891cb9"
    ),
    "a9a": Entry("a9a", 123, "76b604b2c3f738783537bd3b32893eae66af54b8a41aee534fac1ecea45c1535"),
}


def names() -> tuple[str, ...]:
    """Return the names `load` can download.

    Examples
    --------
    >>> "mushrooms" in names()
    True
    """
    return tuple(REGISTRY)


def user_folder() -> Path | None:
    """Return the folder named by ``PROXYPROX_DATA``, or None when the variable is not set."""
    value = os.environ.get(DATA_VARIABLE, "").strip()
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """Return the folder downloads are kept in; it may not exist yet.

    ``XDG_CACHE_HOME`` wins on every system; otherwise each system's usual place.

    Examples
    --------
    >>> "proxyprox" in cache_folder().parts
    True
    """
    xdg = os.environ.get("XDG_CACHE_HOME", "").strip()
    # The XDG specification says to ignore a relative path.
    if xdg and Path(xdg).is_absolute():
        return Path(xdg) / "proxyprox"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA", "").strip()
        return Path(local or Path.home() / "AppData" / "Local") / "proxyprox" / "Cache"
    home = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return home / "proxyprox"


def find_in(folder: Path | None, name: str) -> Path | None:
    """Return the first file of `folder` that holds set `name`, or None."""
    if folder is None or Path(name).name != name:
        return None
    candidates = (folder / f"{name}{suffix}" for suffix in SUFFIXES)
    return next((path for path in candidates if path.is_file()), None)


def content_digest(text: bytes) -> str:
    """Return the SHA-256 of a text; line ends and trailing blanks do not count."""
    digest = hashlib.sha256()
    for line in text.splitlines():
        digest.update(line.rstrip() + b"\n")
    return digest.hexdigest()


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


def load(name: str, *, download: bool = True, progress: bool = False) -> Dataset:
    r"""Load a LIBSVM-format set.

    It is looked for in the folder named by ``PROXYPROX_DATA`` (as ``name.svm.xz``, ``name.xz``,
    ``name.bz2``, ``name.gz``, ``name``, ``name.svm``, ``name.libsvm`` or ``name.txt``), then in
    the cache, then at its public home; downloading needs the ``app`` extra. The SHA-256 of the
    content is checked wherever a set comes from. A name that is not registered is loaded if a file
    of that name is there, with nothing to check it against.

    Parameters
    ----------
    name : str
        One of `names()`, or the name of a file of your own in ``PROXYPROX_DATA``.
    download : bool
        False: never use the network.
    progress : bool
        Show a progress bar while downloading.

    Returns
    -------
    dataset : Dataset

    Raises
    ------
    ValueError
        For a name that is neither registered nor found.
    DatasetNotFoundError
        When the set is nowhere to be found; the message says where it was looked for.
    DatasetCorruptError
        When a file is damaged or holds something else. A bad file in the cache is replaced by a
        download, one in ``PROXYPROX_DATA`` never.

    Examples
    --------
    >>> import os, tempfile
    >>> before = dict(os.environ)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "mine.svm").write_text("1 1:0.5 3:2\n-1 2:1\n")
    ...     os.environ["PROXYPROX_DATA"] = folder
    ...     data = load("mine")
    >>> os.environ.clear(); os.environ.update(before)
    >>> data.X.shape, data.y.tolist()
    ((2, 3), [1.0, -1.0])
    """
    entry = REGISTRY.get(name)
    folder, cache = user_folder(), cache_folder()
    for place in (folder, cache):
        found = find_in(place, name)
        if found is None:
            continue
        try:
            return _read(found, name, entry, str(found))
        except ValueError as error:
            if place is folder or not (download and entry):
                home = f" Its public home is {BASE_URL}/{entry.file}." if entry else ""
                raise DatasetCorruptError(
                    f"{found} is not a good copy of {name!r}: {error}. Replace it, or remove it to "
                    f"let another copy be used.{home}"
                ) from error
            found.unlink(missing_ok=True)  # a download replaces it

    exists = folder is not None and folder.is_dir()
    looked = f"{folder} ({DATA_VARIABLE}{'' if exists else ', not set or no such folder'})"
    if entry is None:
        near = difflib.get_close_matches(name, REGISTRY, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"name={name!r} is not a known data set ({', '.join(REGISTRY)}).{hint} To load your "
            f"own, put {name}.svm (LIBSVM format) in the folder that {DATA_VARIABLE} names: it is "
            f"neither in {looked} nor in {cache}."
        )
    url = f"{BASE_URL}/{entry.file}"
    try:
        if not download:
            raise ValueError("downloading is switched off")
        return _read(_fetch(name, entry, url, cache, progress), name, entry, url)
    except DatasetCorruptError:
        raise
    except (ImportError, OSError, ValueError) as error:
        raise DatasetNotFoundError(
            f"data set {name!r} not found.\n"
            f"  looked in {looked}\n"
            f"  looked in {cache} (cache)\n"
            f"  {url}: {error}\n"
            f"What to do: fetch {BASE_URL}/{entry.file} by hand on a machine with a connection, "
            f"put the file in a folder, and set {DATA_VARIABLE} to that folder."
        ) from error


def _fetch(name: str, entry: Entry, url: str, cache: Path, progress: bool) -> Path:
    """Return the file in the cache; it gets its name there only once its content is verified."""
    pooch: Any = require("pooch", extra="app", purpose=f"downloading {name}")
    pooch.get_logger().setLevel("INFO" if progress else "WARNING")
    http = pooch.HTTPDownloader(progressbar=progress, timeout=30.0)

    def download(url: str, file: str, manager: Any) -> None:
        http(url, file, manager)
        try:
            _read(Path(file), name, entry, url, suffix="")
        except ValueError as error:
            raise DatasetCorruptError(
                f"what {url} sent is not {name!r}: {error}. Nothing was kept: try again later, or "
                f"put a good copy in a folder named by {DATA_VARIABLE}."
            ) from error

    base, registry = url.removesuffix(entry.file), {entry.file: None}
    files = pooch.create(cache, base, registry=registry, retry_if_failed=2)
    return Path(files.fetch(entry.file, downloader=download))


def _read(
    path: Path, name: str, entry: Entry | None, source: str, suffix: str | None = None
) -> Dataset:
    """Read a set and verify what is known of it."""
    text = read_bytes(path, suffix)
    if entry is None:
        X, y = parse_svmlight(text)
    else:
        digest = content_digest(text)
        if entry.sha256 != digest:
            raise ValueError(f"its content has SHA-256 {digest}, expected {entry.sha256}")
        X, y = parse_svmlight(text, entry.features, zero_based=False)
    return Dataset(X, y, name, int(X.shape[1]), source)


def parse_svmlight(
    text: bytes, n_features: int | None = None, zero_based: bool | str = "auto"
) -> tuple[Any, Any]:
    """Return svmlight text as a CSR matrix and its labels."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(text), n_features=n_features, zero_based=zero_based)
    except (ValueError, OverflowError, IndexError) as error:
        fault = f"not LIBSVM text, 'label index:value …' on each line ({error})"
        raise ValueError(fault) from error
    if 0 in X.shape:
        raise ValueError("it is empty: no row with a feature in it")
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise ValueError("it holds a value that is not finite")
    return X, y
