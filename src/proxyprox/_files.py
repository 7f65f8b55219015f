"""Files that appear whole or not at all.

A reader never sees half a file under its final name: the bytes go to a temporary file in the
same folder, reach the disk, and take the name in one step.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = ["atomic_output", "atomic_write_bytes", "atomic_write_text", "sync_folder"]


@contextlib.contextmanager
def atomic_output(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the name `path` only when the block ends without an error.

    Parameters
    ----------
    path : path-like
        Final name. Its folder must exist; an older file of that name is replaced.

    Yields
    ------
    file : binary file
        Open for writing; its ``name`` is the temporary path.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_output(Path(folder) / "a.bin") as file:
    ...         _ = file.write(b"whole")
    ...     (Path(folder) / "a.bin").read_bytes()
    b'whole'
    """
    final = Path(path)
    temporary = final.with_name(f".{final.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    # Mode "x" (not mkstemp) so that the file gets the permissions of the user's umask.
    file = temporary.open("xb")
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, final)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    sync_folder(final.parent)


def atomic_write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path` so that a crash leaves the old file or the new one, never a part.

    Parameters
    ----------
    path : path-like
        Final name; its folder must exist.
    data : bytes
        The whole content.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     atomic_write_bytes(Path(folder) / "a.bin", b"abc")
    ...     (Path(folder) / "a.bin").read_bytes()
    b'abc'
    """
    with atomic_output(path) as file:
        file.write(data)


def atomic_write_text(path: str | os.PathLike[str], text: str) -> None:
    r"""Write `text` to `path` as UTF-8 with the line ends it has; see `atomic_write_bytes`.

    Parameters
    ----------
    path : path-like
        Final name; its folder must exist.
    text : str
        The whole content.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     atomic_write_text(Path(folder) / "a.txt", "η = 1\n")
    ...     (Path(folder) / "a.txt").read_text(encoding="utf-8")
    'η = 1\n'
    """
    atomic_write_bytes(path, text.encode("utf-8"))


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make renames and removals in `folder` survive a power cut, where the system allows it.

    Parameters
    ----------
    folder : path-like
        An existing folder.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders; its renames are journalled already.
        return
    try:
        with contextlib.suppress(OSError):  # some network file systems refuse
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
