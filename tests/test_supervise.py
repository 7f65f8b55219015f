"""A supervised command is started again, is ended by signals, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SCRIPT = str(Path(__file__).parents[1] / "examples" / "supervise.py")
pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")

# Fails as long as there are fewer starts than asked for.
COUNT = 'echo start >> "$1"; test $(wc -l < "$1") -ge "$2" || exit 7'


def supervise(*words: str | Path, restarts: int = 3) -> Any:
    options = ["--pause", "0", "--restarts", str(restarts), "--"]
    command = [sys.executable, SCRIPT, *options, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def starts(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_starts_until_the_command_ends_well(tmp_path: Path) -> None:
    result = supervise("sh", "-c", COUNT, "sh", tmp_path / "starts", "3")
    assert result.returncode == 0
    assert starts(tmp_path / "starts") == 3


def test_gives_up_with_the_commands_status(tmp_path: Path) -> None:
    result = supervise("sh", "-c", COUNT, "sh", tmp_path / "starts", "9", restarts=1)
    assert result.returncode == 7
    assert starts(tmp_path / "starts") == 2
    assert "status 7; no start is left" in result.stderr


def test_a_command_that_a_signal_ends_has_that_status() -> None:
    assert supervise("sh", "-c", "kill -9 $$", restarts=0).returncode == 128 + 9


def test_an_unknown_command_is_wrong_input() -> None:
    result = supervise("no-such-command")
    assert result.returncode == 2
    assert "no-such-command" in result.stderr


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_what_a_start_leaves_running_is_killed(tmp_path: Path) -> None:
    script = 'sleep 600 & echo $! > "$1"; kill -9 $$'
    supervise("sh", "-c", script, "sh", tmp_path / "pid", restarts=0)
    left = Path(f"/proc/{int((tmp_path / 'pid').read_text())}/cmdline")
    assert not left.exists() or not left.read_bytes()  # gone, or nobody has asked how it ended


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on_and_end_it(tmp_path: Path, number: signal.Signals) -> None:
    trap = "trap 'echo got > \"$1\"; exit 5' TERM INT HUP"
    script = f'{trap}; echo > "$2"; while :; do sleep 0.02; done'
    words = ["sh", "-c", script, "sh", str(tmp_path / "got"), str(tmp_path / "ready")]
    process = subprocess.Popen([sys.executable, SCRIPT, "--", *words], stderr=subprocess.PIPE)
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert (tmp_path / "got").exists()
