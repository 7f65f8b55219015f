"""Start a training again from its last checkpoint, after any of its processes has died.

    python examples/supervise.py -- torchrun --standalone --nproc-per-node 4 train.py
    python examples/supervise.py --restarts 100 -- torchrun ... train.py

The command must resume by itself from what it has saved, and end with status 0 when it is done.
What a start has left running is killed before the next. SIGINT, SIGTERM and SIGHUP go on to the
command, and no other start follows. Status 2 is that of a wrong option: no other start follows it.
The exit status is the command's last one; 128 + n if signal n ended it.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# By this variable of their environment, processes that a start has left behind are known.
MARK = "PROXYPROX_SUPERVISED"
# Seconds that a command has to end after a signal, before it is killed.
PATIENCE = 60.0
# What commands end with after a wrong option.
USAGE = 2


def supervise(command: list[str], restarts: int, pause: float) -> int:
    """Start a command until it ends well, and return its last status."""
    mark = os.urandom(16).hex()
    for start in range(restarts + 1):
        status, asked = run_once(command, mark)
        # Killed as a whole, a launcher leaves its workers behind: they would go on saving.
        kill_marked(mark)
        if status == 0 or asked:
            break
        last = start == restarts or status == USAGE
        then = f"no start is left of {restarts + 1}" if last else f"start {start + 2} follows"
        then = "a wrong option, so it is not started again" if status == USAGE else then
        sys.stderr.write(f"{command[0]} ended with status {status}; {then}.\n")
        if last:
            break
        time.sleep(pause)
    return status


def run_once(command: list[str], mark: str) -> tuple[int, bool]:
    """Run a command to its end; return its status, and whether we were asked to end it."""
    asked: list[int] = []
    before: dict[int, Any] = {}
    # Windows has no SIGHUP.
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    for number in (getattr(signal, name) for name in names):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            before[number] = signal.signal(number, lambda number, frame: asked.append(number))
    try:
        # Of its own session: a terminal's Ctrl-C comes through us, once.
        child = subprocess.Popen(command, env={**os.environ, MARK: mark}, start_new_session=True)
        sent, deadline = 0, math.inf
        while child.poll() is None:
            for number in asked[sent:]:
                child.send_signal(number)
                sent, deadline = sent + 1, min(deadline, time.monotonic() + PATIENCE)
            if time.monotonic() > deadline:
                child.kill()
            time.sleep(0.05)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    status = child.returncode
    if asked and status:
        return 128 + asked[0], True
    return (status if status >= 0 else 128 - status), bool(asked)


def kill_marked(mark: str) -> None:
    """Kill what still bears the mark, where the system tells (Linux)."""
    deadline = time.monotonic() + PATIENCE  # one that waits for a device may not end
    while found := marked_processes(f"{MARK}={mark}".encode()):
        if time.monotonic() > deadline:
            sys.exit(f"Processes {found} of the last start cannot be ended.")
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def marked_processes(mark: bytes) -> list[int]:
    """Return the processes whose environment has a line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it is not ours, or has ended
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def main() -> None:
    """Read the command line and supervise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--restarts", type=int, default=10, help="starts after the first")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two starts")
    parser.add_argument("command", nargs="+", help="the command, after --")
    given = parser.parse_args()
    if given.restarts < 0 or given.pause < 0:
        parser.error("--restarts and --pause must be at least 0.")
    if shutil.which(given.command[0]) is None:
        parser.error(f"there is no command {given.command[0]!r}. Write the command after --.")
    sys.exit(supervise(given.command, given.restarts, given.pause))


if __name__ == "__main__":
    main()
