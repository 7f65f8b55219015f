"""``proxyprox supervise``: start a command again until it ends well."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from proxyprox_app.cli import console
from proxyprox_app.cli.console import BAD_RUN, CommandError, guarded, say

# By this variable of their environment, processes that a start has left behind are known.
MARK = "PROXYPROX_SUPERVISED"
# What ends a supervised command for good; Windows has no SIGHUP.
ENDING = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]
# Seconds that a command has to end after such a signal, before it is killed.
PATIENCE = 60.0
# What commands end with after a wrong option.
USAGE = 2

Words = Annotated[list[str], typer.Argument(help="The command, after --.", metavar="COMMAND...")]
Restarts = Annotated[int, typer.Option("--restarts", min=0, help="Starts after the first.")]
Pause = Annotated[float, typer.Option("--pause", min=0, help="Seconds between two starts.")]


@guarded
def supervise(command: Words, restarts: Restarts = 10, pause: Pause = 1.0) -> None:
    """Start a training again from its last checkpoint, after any of its processes has died.

    The command must resume by itself from what it has saved, and end with status 0 when it is
    done. What a start has left running is killed before the next. SIGINT, SIGTERM and SIGHUP go on
    to the command, and no other start follows.

    Examples
    --------
    proxyprox supervise -- torchrun --standalone --nproc-per-node 4 train.py
    proxyprox supervise --restarts 100 -- torchrun ... train.py

    Status 2 is that of a wrong option: no other start follows it.
    The exit status is the command's last one; 128 + n if signal n ended it.
    """
    if shutil.which(command[0]) is None:
        raise CommandError(f"There is no command {command[0]!r}. Write the command after --.")
    terminal = console.stderr()
    mark = os.urandom(16).hex()
    for start in range(restarts + 1):
        status, asked = run_once(command, mark)
        if status == 0 or asked:
            break
        # Killed as a whole, a launcher leaves its workers behind: they would go on saving.
        kill_marked(mark)
        last = start == restarts or status == USAGE
        then = f"no start is left of {restarts + 1}" if last else f"start {start + 2} follows"
        then = "a wrong option, so it is not started again" if status == USAGE else then
        say(terminal, f"{command[0]} ended with status {status}; {then}.")
        if not last:
            time.sleep(pause)
    kill_marked(mark)
    raise typer.Exit(status)


def run_once(command: list[str], mark: str) -> tuple[int, bool]:
    """Run a command to its end; return its status, and whether we were asked to end it."""
    asked: list[int] = []
    before: dict[int, Any] = {}
    for number in ENDING:
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
            raise CommandError(f"Processes {found} of the last start cannot be ended.", BAD_RUN)
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
