"""The public LIBSVM sets known by name."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BASE_URL", "REGISTRY", "Entry", "names"]

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
        SHA-256 of the canonical text, see `proxyprox.datasets._svmlight.content_digest`. None: the
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
