"""The peak memory of a process and all its children: ``python benchmarks/_memory.py PID``.

Prints the largest sum of proportional set sizes seen, and of how many processes, when the process
has ended. Shared pages count once; a process of its own, so that nobody's time is taken.
"""

from __future__ import annotations

import subprocess
import sys
import time
from types import TracebackType

import psutil

INTERVAL = 0.25


def tree_memory(root: psutil.Process) -> tuple[int, int]:
    """Return the bytes of the tree and the number of its processes."""
    total = count = 0
    for process in [root, *root.children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
            count += 1
        except psutil.Error:
            continue
    return total, count


class PeakMemory:
    """Watch a process tree: ``with PeakMemory(pid) as peak: ...``, then ``peak.mib``."""

    def __init__(self, pid: int) -> None:
        command = [sys.executable, __file__, str(pid)]
        self._watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.mib, self.processes = 0.0, 0

    def __enter__(self) -> PeakMemory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        text, _ = self._watch.communicate()
        mib, count = text.split() or (0, 0)
        self.mib, self.processes = float(mib), int(count)


def main() -> None:
    peak, processes = 0, 0
    try:
        root = psutil.Process(int(sys.argv[1]))
        while root.is_running() and root.status() != psutil.STATUS_ZOMBIE:
            total, count = tree_memory(root)
            peak, processes = max((peak, processes), (total, count))
            time.sleep(INTERVAL)
    except psutil.NoSuchProcess:
        pass
    print(peak / 2**20, processes)


if __name__ == "__main__":
    main()
