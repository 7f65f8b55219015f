"""Files are whole, keep their access and links, and have one writer."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from proxyprox._util.files import (
    LockedError,
    atomic_new,
    atomic_output,
    atomic_write_bytes,
    atomic_write_text,
    is_locked,
    locked,
)

posix = pytest.mark.skipif(os.name == "nt", reason="permissions and links are POSIX")


def python(code: str, *args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failure_keeps_the_old_content(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write() -> None:
        with atomic_output(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


@posix
def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    ran = python(
        "import resource, sys; from proxyprox._util.files import atomic_write_bytes\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "atomic_write_bytes(sys.argv[1], bytes(5000))",
        path,
    )
    assert ran.returncode == 1
    assert "OSError" in ran.stderr
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


@posix
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_permissions_of_an_older_file_stay(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(mode)
    with atomic_output(path) as file:
        assert stat.S_IMODE(os.stat(file.name).st_mode) == 0o600, "private while it is written"
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_text() == "new"


@posix
@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    target, link, second = folder / "target", tmp_path / "link", tmp_path / "second"
    if exists:
        target.write_text("old")
        target.chmod(0o600)
    link.symlink_to(Path("elsewhere") / "target")
    second.symlink_to(link)
    atomic_write_text(second, "new")
    assert second.is_symlink()
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert os.listdir(folder) == ["target"]
    if exists:
        assert stat.S_IMODE(target.stat().st_mode) == 0o600


@posix
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    atomic_write_bytes(path, b"through")
    reader.join()
    assert found == [b"through"]
    assert stat.S_ISFIFO(path.stat().st_mode)


@posix
def test_a_killed_writer_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    python(
        "import os, sys; from proxyprox._util.files import atomic_output\n"
        "with atomic_output(sys.argv[1]) as file: os.kill(os.getpid(), 9)",
        path,
    )
    assert path.read_text() == "old"
    with atomic_output(path) as file:
        file.write(b"new")
        mine = Path(file.name)
        atomic_write_text(path, "between")  # a living process's file is left alone
        assert mine.exists()
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a"]


# -- locks -----------------------------------------------------------------------------------------

TAKE = (
    "import sys; from proxyprox._util.files import locked\nwith locked(sys.argv[1]): print('taken')"
)


@pytest.mark.parametrize("name", ["file", "folder"])
def test_a_second_process_is_refused_at_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    assert not is_locked(path)
    with locked(path):
        # Seen without taking it; a folder is never asked about.
        assert is_locked(path) == (name == "file")
        ran = python(TAKE, path)
        assert ran.returncode == 1
        assert "LockedError" in ran.stderr
        assert repr(str(path)) in ran.stderr
        assert str(os.getpid()) in ran.stderr
    assert not is_locked(path)
    assert python(TAKE, path).stdout == "taken\n"
    assert [p for p in tmp_path.rglob("*") if p != path] == []


def test_nesting_and_threads_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    found: list[str] = []

    def other_thread() -> None:
        try:
            with locked(path):
                found.append("taken")
        except LockedError as error:
            found.append(str(error))

    with locked(path):
        with pytest.raises(LockedError, match="this process"), locked(path):
            pass
        assert "taken" not in python(TAKE, path).stdout, "the inner block must not release it"
        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
    assert "this process" in found[0]
    other_thread()
    assert found[1] == "taken"


@posix
def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "a"
    python(
        "import os, sys; from proxyprox._util.files import locked\n"
        "locked(sys.argv[1]).__enter__(); os.kill(os.getpid(), 9)",
        path,
    )
    assert python(TAKE, path).stdout == "taken\n"
    assert os.listdir(tmp_path) == []


def test_a_new_file_appears_whole_and_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with pytest.raises(ZeroDivisionError), atomic_new(path):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []
    for content in (b"first", b"second"):
        with atomic_new(path) as temporary:
            temporary.write_bytes(content)
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["new"]
