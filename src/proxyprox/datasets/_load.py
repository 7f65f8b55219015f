"""Loading a public set by name, from wherever it is nearest."""

from __future__ import annotations

import contextlib
import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyprox.datasets._download import DownloadError, check_url, download
from proxyprox.datasets._errors import DatasetCorruptError, DatasetNotFoundError
from proxyprox.datasets._locate import DATA_VARIABLE, cache_folder, find_in, user_folder
from proxyprox.datasets._registry import BASE_URL, REGISTRY, Entry
from proxyprox.datasets._svmlight import content_digest, parse, read_bytes

__all__ = ["URL_VARIABLE", "Dataset", "load"]

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
