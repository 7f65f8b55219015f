"""Where a set may already lie: the folder the user names, then the cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from proxyprox.datasets._svmlight import COMPRESSIONS

__all__ = ["DATA_VARIABLE", "SUFFIXES", "cache_folder", "find_in", "user_folder"]

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
