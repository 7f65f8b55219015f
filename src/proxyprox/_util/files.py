"""Files that appear whole or not at all, and locks against a second writer.

A reader never sees half a file under its final name: the bytes go to a temporary file in the
same folder, reach the disk, and take the name in one step. Permissions and symbolic links stay
as they were. What two processes must not write at once is locked by the operating system, which
forgets the lock with its process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import secrets
import stat
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

from proxyprox._util.signals import critical, protected

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


_DAY = 86_400.0


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
    try:
        older = os.stat(path)
    except FileNotFoundError:
        older = None
    if older is not None and not stat.S_ISREG(older.st_mode):
        with open(path, "wb") as file:  # a folder is refused here
            yield file
        return
    final = _resolved(path)
    if older is not None and not os.access(final, os.W_OK):
        raise PermissionError(errno.EACCES, "The file is write-protected", os.fspath(final))
    _remove_orphans(final)
    temporary = _beside(final, f"{_host()}-{os.getpid()}-{secrets.token_hex(4)}.part")
    # Private until it is complete if the older file may be, else as the umask has it.
    file = open(os.fspath(temporary), "xb", opener=None if older is None else _private)  # noqa: SIM115
    try:
        with file:
            yield file
            file.flush()
            if older is not None:
                _keep_access(file.fileno(), temporary, older)
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


def _resolved(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path means, all symbolic links followed, whether it exists or not."""
    final = Path(os.path.realpath(path))
    if final.is_symlink():
        raise OSError(errno.ELOOP, "The symbolic link leads back to itself", os.fspath(path))
    return final


def _beside(final: Path, ending: str) -> Path:
    """Return the hidden path of a file that belongs to `final`, whose name may be of any length."""
    name = final.name
    if len(os.fsencode(name)) > 180:
        name = f"{name[:40]}~{zlib.crc32(os.fsencode(name)):08x}"
    return final.with_name(f".{name}.{ending}")


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _keep_access(descriptor: int, temporary: Path, older: os.stat_result) -> None:
    """Give a new file the owner, group and permissions of the one that it replaces."""
    if hasattr(os, "fchown"):
        new = os.fstat(descriptor)
        if new.st_gid != older.st_gid:
            with contextlib.suppress(OSError):
                os.fchown(descriptor, -1, older.st_gid)
        if new.st_uid != older.st_uid:
            with contextlib.suppress(OSError):
                os.fchown(descriptor, older.st_uid, -1)
    with contextlib.suppress(OSError):  # some file systems have no permissions
        os.chmod(temporary, stat.S_IMODE(older.st_mode))


# -- what killed processes have left ---------------------------------------------------------------

_looked_for: set[Path] = set()


def _remove_orphans(final: Path) -> None:
    """Remove, once in a process, temporary files of `final` whose process is gone."""
    if final in _looked_for:
        return
    _looked_for.add(final)
    start = _beside(final, "").name
    with contextlib.suppress(OSError):
        for name in os.listdir(final.parent):
            if name.startswith(start) and name.endswith(".part"):
                orphan = final.parent / name
                with contextlib.suppress(OSError, ValueError):
                    if _is_orphan(orphan, name[len(start) : -len(".part")]):
                        orphan.unlink()


def _is_orphan(path: Path, owner: str) -> bool:
    """Tell by a temporary file's owner, ``[host-]pid-token``, whether nobody writes it any more."""
    *host, pid, _ = owner.split("-")
    if host in ([], [_host()]) and not _is_alive(int(pid)):
        return True
    # Another machine's process, or a number that was given to another process since.
    return time.time() - path.stat().st_mtime > _DAY


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":  # os.kill would end it there
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _host() -> str:
    """Return a short name of this machine: process numbers are unique on one only."""
    return f"{zlib.crc32(os.fsencode(platform.node())):08x}"


# -- locks -----------------------------------------------------------------------------------------


class LockedError(OSError):
    """Another process, or another part of this one, writes the same thing, or nobody can."""


class locked:  # noqa: N801 - used like a function
    """Hold the lock of a file or a folder while the block runs, or raise at once.

    The lock is the operating system's, on a hidden file beside the file (inside the folder): it is
    gone with its process, and is not handed on to child processes.

    Parameters
    ----------
    path : path-like
        What is going to be written; symbolic links are followed. A file need not exist.
    again : bool
        Whether the thread that holds the lock already may enter; otherwise that is refused, too.

    Raises
    ------
    LockedError
        If it is being written: the message names the path and the process. Also if the lock's file
        cannot be made.

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

    def __init__(self, path: str | os.PathLike[str], *, again: bool = False) -> None:
        self._path, self._again = os.fspath(path), again
        self._file: Path | None = None

    def __enter__(self) -> None:
        with critical():
            final = _resolved(self._path)
            file = final / ".lock" if final.is_dir() else _beside(final, "lock")
            held = _locks.get(file)
            if held is not None and self._again and held[1] == threading.get_ident():
                return
            if held is not None:
                raise _in_use(self._path, "this process already")
            _locks[file] = _acquired(file, self._path), threading.get_ident()
            self._file = file

    @protected
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with critical():
            if self._file is not None:
                descriptor, _ = _locks.pop(self._file, (None, 0))
                if descriptor is not None:
                    _release(descriptor, self._file)
                self._file = None


_locks: dict[Path, tuple[int | None, int]] = {}
"""The lock files held by this process: descriptor and thread; no descriptor, no lock there."""


def _acquired(file: Path, path: str) -> int | None:
    """Return the descriptor that holds the lock; None where the file system has no locks."""
    while True:
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            descriptor = os.open(file, flags, 0o666)
        except OSError as error:
            raise LockedError(
                f"{path!r} cannot be locked: {file} cannot be made ({error.strerror}). Choose a "
                "folder that can be written to."
            ) from error
        try:
            _lock(descriptor)
            # Whoever held the lock before has removed the file that was opened here.
            if not _is_at(descriptor, file):
                os.close(descriptor)
                continue
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()} {platform.node()}\n".encode())
        except BlockingIOError:
            owner = _owner(descriptor)
            os.close(descriptor)
            raise _in_use(path, owner) from None
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
                raise
            warnings.warn(
                f"the file system of {path!r} has no locks ({error.strerror}): nothing prevents a "
                "second process from writing there at the same time.",
                RuntimeWarning,
                stacklevel=4,
            )
            with contextlib.suppress(OSError):
                file.unlink()
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _release(descriptor: int, file: Path) -> None:
    # Removed before it is unlocked, or the next process's file would be removed; Windows removes
    # no open file, and the next process will do it.
    with contextlib.suppress(OSError):
        if _is_at(descriptor, file):
            file.unlink()
    os.close(descriptor)


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
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    except FileNotFoundError:
        return False


def _in_use(path: str, owner: str) -> LockedError:
    return LockedError(
        f"{path!r} is being written by {owner}. Wait for its end, or choose another path."
    )


def _owner(descriptor: int) -> str:
    """Return what the lock's file says of who holds it, in words."""
    try:
        pid, host = os.read(descriptor, 300).decode().split()
        if host != platform.node():
            return f"another process ({int(pid)} on {host})"
        if int(pid) != os.getpid():
            return f"another process ({int(pid)})"
    except (OSError, ValueError):  # it has not been written yet
        return "another process"
    return "this process already"


def _close_in_child() -> None:
    """Close a parent's locks in a child made by fork, which would hold them after its end."""
    for descriptor, _ in _locks.values():
        if descriptor is not None:
            os.close(descriptor)
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
