"""Reading LIBSVM (svmlight) text, plain or compressed."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["COMPRESSIONS", "content_digest", "parse", "read_bytes"]

COMPRESSIONS = (".xz", ".bz2", ".gz")


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
        When the compressed stream is damaged or ends too early.
    """
    data = path.read_bytes()
    suffix = Path(name or path.name).suffix.lower()
    try:
        if suffix == ".xz":
            return lzma.decompress(data)
        if suffix == ".bz2":
            return bz2.decompress(data)
        if suffix == ".gz":
            return gzip.decompress(data)
    # bz2 reports damage as a bare OSError; the file itself has been read by now.
    except (lzma.LZMAError, EOFError, OSError, ValueError, zlib.error) as error:
        raise ValueError(f"not a whole {suffix[1:]} file ({error})") from error
    return data


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
