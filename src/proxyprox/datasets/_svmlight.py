"""Reading LIBSVM (svmlight) text, plain or compressed."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "COMPRESSIONS",
    "EXPAND_VARIABLE",
    "content_digest",
    "expansion_limit",
    "parse",
    "read_bytes",
    "too_large",
]

COMPRESSIONS = (".xz", ".bz2", ".gz")

EXPAND_VARIABLE = "PROXYPROX_EXPAND_MB"
"""Environment variable with the megabytes that a file may become in memory."""

EXPANDED_LEAST, EXPANDED_RATIO = 64 << 20, 200
"""A file may become 64 MiB, or 200 times its size; tables compress 5 to 50 times."""

CHUNK = 1 << 20
DICTIONARY = 512 << 20


def read_bytes(path: Path, *, name: str | None = None) -> bytes:
    """Read a file, decompressed if its name ends in ``.xz``, ``.bz2`` or ``.gz``.

    Parameters
    ----------
    path : Path
        File to read.
    name : str, optional
        Name that decides the compression, where `path` is a temporary one.

    Returns
    -------
    content : bytes
        The decompressed content.

    Raises
    ------
    ValueError
        When the compressed stream is damaged, ends too early, or expands to more than
        `expansion_limit` allows.
    """
    suffix = Path(name or path.name).suffix.lower()
    if suffix not in COMPRESSIONS:
        return path.read_bytes()
    limit = expansion_limit(path)
    try:
        with path.open("rb") as file:
            found = bytearray()
            for part in _expanded(file, suffix):
                found += part
                if len(found) > limit:
                    break
    # bz2 reports damage as a bare OSError, without a number.
    except (lzma.LZMAError, EOFError, OSError, ValueError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"not a whole {suffix[1:]} file ({error})") from error
    if len(found) > limit:
        raise ValueError(too_large("the content", limit))
    return bytes(found)


def expansion_limit(path: Path) -> int:
    """Return how many bytes a file may become in memory, so that no small file fills it."""
    given = os.environ.get(EXPAND_VARIABLE, "").strip()
    if not given:
        return max(EXPANDED_LEAST, EXPANDED_RATIO * path.stat().st_size)
    try:
        limit = int(float(given) * 1e6)
    except (ValueError, OverflowError):
        limit = 0
    if limit <= 0:
        raise ValueError(f"{EXPAND_VARIABLE} must be a positive number of megabytes, got {given!r}")
    return limit


def too_large(what: str, limit: int) -> str:
    """Word the message for a small file that would fill the memory."""
    return (
        f"{what} takes more than {limit / 1e6:,.0f} MB in memory, which is out of proportion to "
        f"the file; if it is meant to, set the environment variable {EXPAND_VARIABLE} to the "
        "megabytes it may take"
    )


def _expanded(file: IO[bytes], suffix: str) -> Iterator[bytes]:
    """Yield the decompressed content in pieces of bounded size; streams may follow each other."""
    if suffix == ".gz":
        with gzip.GzipFile(fileobj=file) as stream:
            while part := stream.read(CHUNK):
                yield part
        return
    held = file.read(CHUNK)
    whole = 0
    while held:
        # The limit is for the dictionary that the header of an xz file may ask for.
        decoder: Any = (
            lzma.LZMADecompressor(memlimit=DICTIONARY) if suffix == ".xz" else bz2.BZ2Decompressor()
        )
        try:
            while not decoder.eof:
                if decoder.needs_input and not held:
                    held = file.read(CHUNK)
                    if not held:
                        raise EOFError("it ends too early")
                yield decoder.decompress(held, CHUNK)
                held = b""
        except (lzma.LZMAError, OSError):
            if whole:
                return  # what follows a whole stream is padding
            raise
        whole += 1
        held = decoder.unused_data or file.read(CHUNK)


def content_digest(text: bytes) -> str:
    r"""SHA-256 of the text with line ends and trailing blanks made uniform.

    Copies of a set differ in a final newline or in CRLF without differing in content, so every
    line is stripped on the right and ended by one newline before hashing.

    Parameters
    ----------
    text : bytes
        Decompressed content.

    Returns
    -------
    digest : str
        64 hexadecimal digits.

    Examples
    --------
    >>> content_digest(b"1 1:2 \r\n") == content_digest(b"1 1:2")
    True
    """
    digest = hashlib.sha256()
    for line in text.splitlines():
        digest.update(line.rstrip() + b"\n")
    return digest.hexdigest()


def parse(
    text: bytes, *, features: int | None = None, one_based: bool = False
) -> tuple[Any, NDArray[np.float64]]:
    r"""Parse svmlight text into a CSR matrix and its labels.

    Parameters
    ----------
    text : bytes
        Decompressed content.
    features : int, optional
        Number of columns; the largest index seen when omitted.
    one_based : bool
        True when indices are known to start at 1; otherwise it is guessed from the content.

    Returns
    -------
    X : csr matrix of float64
    y : array of float64
        Labels as in the file.

    Raises
    ------
    ValueError
        When the text is empty or not svmlight.

    Examples
    --------
    >>> X, y = parse(b"+1 1:0.5 3:2\n-1 2:1\n")
    >>> X.shape, y.tolist()
    ((2, 3), [1.0, -1.0])
    """
    from sklearn.datasets import load_svmlight_file

    if not text.strip():
        raise ValueError("the file is empty")
    try:
        X, y = load_svmlight_file(
            io.BytesIO(text),
            n_features=features,
            dtype=np.float64,
            zero_based=False if one_based else "auto",
        )
    except (ValueError, OverflowError, IndexError) as error:
        raise ValueError(
            f"not LIBSVM text, 'label index:value …' on each line ({error})"
        ) from error
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError("no row with a feature in it")
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise ValueError("it holds a value that is not finite")
    return X, y
