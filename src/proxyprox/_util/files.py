"""Files that appear whole or not at all, and locks against a second writer.

A reader never sees half a file under its final name: the bytes go to a temporary file in the
same folder, reach the disk, and take the name in one step. Permissions and symbolic links stay
as they were. What two processes must not write at once is locked by the operating system, which
forgets the lock with its process.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import platform
import secrets
import stat
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from proxyprox._util.signals import critical

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


@contextlib.contextmanager
def atomic_output(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the name `path` only when the block ends without an error.

    Parameters
    ----------
    path : path-like
        Final name. Its folder must exist; an older file of that name is replaced, and its
        permissions stay. Of a symbolic link the target is replaced. What is no regular file (a
        pipe, a device) is written to directly.

    Yields
    ------
    file : binary file
        Open for writing; its ``name`` is the temporary path.

    Raises
    ------
    OSError
        If it cannot be written; the older file is then unchanged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_output(Path(folder) / "a.bin") as file:
    ...         _ = file.write(b"whole")
    ...     (Path(folder) / "a.bin").read_bytes()
    b'whole'
    """
    older = None
    with contextlib.suppress(FileNotFoundError):
        older = os.stat(path)
    if older is not None and not stat.S_ISREG(older.st_mode):
        with open(path, "wb") as direct:  # a folder is refused here
            yield direct
        return
    final = Path(os.path.realpath(path))
    if older is not None and not os.access(final, os.W_OK):
        raise PermissionError(errno.EACCES, "The file is write-protected", os.fspath(final))
    temporary = _temporary(final)
    # Private until it is complete if the older file may be, else as the umask has it.
    mode = 0o666 if older is None else 0o600
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            if older is not None:
                with contextlib.suppress(OSError):  # some file systems have no permissions
                    os.chmod(temporary, stat.S_IMODE(older.st_mode))
            os.fsync(file.fileno())
        os.replace(temporary, final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(final.parent)


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
    """Write `text` to `path` as UTF-8 with the line ends it has; see `atomic_write_bytes`."""
    atomic_write_bytes(path, text.encode("utf-8"))


@contextlib.contextmanager
def atomic_new(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file that becomes `path` when the block ends, if nothing is there yet.

    Parameters
    ----------
    path : path-like
        Final name; its folder must exist. A file that another process made first stays.
    """
    final = Path(os.path.realpath(path))
    temporary = _temporary(final)
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        try:
            os.link(temporary, final)
        except FileExistsError:
            return
        except OSError:  # a file system without hard links
            if not final.exists():
                os.replace(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(final.parent)


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut, where the system allows it."""
    # Windows opens no folders, and some network file systems refuse.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _beside(final: Path, ending: str) -> Path:
    """Return the hidden path of a file that belongs to `final`, whose name may be of any length."""
    return final.with_name(f".{final.name[:40]}~{zlib.crc32(os.fsencode(final)):08x}.{ending}")


def _temporary(final: Path) -> Path:
    """Return a new name beside a file, when what killed processes of this host left is removed."""
    host = f"{zlib.crc32(platform.node().encode()):08x}"
    stem = _beside(final, "").name + host
    if sys.platform != "win32":  # where asking for a process would end it
        for part in final.parent.glob(f"{glob.escape(stem)}-*.part"):
            with contextlib.suppress(PermissionError):
                try:
                    os.kill(int(part.name.removeprefix(f"{stem}-").split(".")[0]), 0)
                except ProcessLookupError:
                    part.unlink(missing_ok=True)
    return final.with_name(f"{stem}-{os.getpid()}.{secrets.token_hex(8)}.part")


# -- locks -----------------------------------------------------------------------------------------


class LockedError(OSError):
    """Another process, or another part of this one, writes the same thing."""


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a file or a folder while the block runs, or raise at once.

    The lock is the operating system's, on a hidden file beside the file (inside the folder): it is
    gone with its process, and is not handed on to child processes.

    Parameters
    ----------
    path : path-like
        What is going to be written; symbolic links are followed. A file need not exist.

    Raises
    ------
    LockedError
        If it is being written: the message names the path and the process.
    OSError
        If the lock's file cannot be made.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with locked(folder.name):
    ...     with locked(folder.name):
    ...         pass
    Traceback (most recent call last):
    ...
    proxyprox._util.files.LockedError: ... is being written by this process already...
    >>> folder.cleanup()
    """
    final, held = Path(os.path.realpath(path)), False
    file = final / ".lock" if final.is_dir() else _beside(final, "lock")
    try:
        with critical():
            if file in _locks:
                raise _in_use(os.fspath(path), "this process already")
            _locks[file] = _acquire(file, os.fspath(path))
            held = True
        yield
    finally:
        with critical():
            # A child made by fork holds no lock.
            if held and (descriptor := _locks.pop(file, None)) is not None:
                # Removed before it is unlocked, or the next process's file would be removed;
                # Windows removes no open file, and the next process will do it.
                with contextlib.suppress(OSError):
                    if _is_at(descriptor, file):
                        file.unlink()
                os.close(descriptor)


def is_locked(path: str | os.PathLike[str]) -> bool:
    """Tell whether a living process holds the lock of a file; in doubt it does.

    Parameters
    ----------
    path : path-like
        As for :func:`locked`.
    """
    if not _beside(Path(os.path.realpath(path)), "lock").exists():
        return False
    try:
        with locked(path):
            return False
    except OSError:
        return True


# The lock files held by this process, and their descriptors.
_locks: dict[Path, int] = {}


def _acquire(file: Path, path: str) -> int:
    """Return the descriptor that holds the lock."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            _lock(descriptor)
        except BlockingIOError:
            owner = os.read(descriptor, 300).decode(errors="replace")
            os.close(descriptor)
            raise _in_use(path, owner or "another process") from None
        except OSError as error:
            text = f"the file system of {path!r} has no locks ({error.strerror}): let no other "
            warnings.warn(f"{text}process write there at the same time.", stacklevel=3)
        if _is_at(descriptor, file):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
            return descriptor
        os.close(descriptor)  # whoever held the lock before has removed the file


def _lock(descriptor: int) -> None:
    """Take the lock, or raise BlockingIOError."""
    if sys.platform == "win32":
        # A byte beyond the end: what is locked cannot be read there.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(errno.EAGAIN, "locked") from error
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_at(descriptor: int, file: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    return False


def _in_use(path: str, owner: str) -> LockedError:
    return LockedError(
        f"{path!r} is being written by {owner}. Wait for its end, or choose another path."
    )


def _close_in_child() -> None:
    """Close a parent's locks in a child made by fork, which would hold them after its end."""
    for descriptor in _locks.values():
        os.close(descriptor)
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
