"""What the imports and the command line's first answer take, in processor time."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

from _measure import Row

LIBRARIES = "import numpy"
REPEATS = 7


def rows() -> list[Row]:
    commands = {
        "libraries": ["-c", LIBRARIES],
        "import": ["-c", f"{LIBRARIES}, proxyprox"],
        "names": ["-c", f"{LIBRARIES}, proxyprox; proxyprox.minimize"],
        "version": ["-m", "proxyprox", "--version"],
        "help": ["-m", "proxyprox", "--help"],
    }
    # In turns, and the least of each: other work on the machine only adds.
    least = dict.fromkeys(commands, float("inf"))
    # An installed package has its bytecode; a checkout gets it in the first round.
    with tempfile.TemporaryDirectory() as bytecode:
        for _ in range(REPEATS):
            for name, arguments in commands.items():
                least[name] = min(least[name], processor_seconds(arguments, bytecode))
    base = least["libraries"]
    return [
        _above("import proxyprox", least["import"], base, 0.1),
        _above("import proxyprox, first public name", least["names"], base, 0.25),
        _alone("proxyprox --version", least["version"], base),
        _alone("proxyprox --help", least["help"], base),
    ]


def _above(name: str, seconds: float, base: float, limit: float) -> Row:
    more = seconds - base
    note = f"{more:+.3f} s against {LIBRARIES}; ratio {seconds / base:.2f}"
    return Row(f"{name}, above {LIBRARIES} (seconds)", more, limit, more / limit, 1.0, note)


def _alone(name: str, seconds: float, base: float) -> Row:
    note = f"{seconds - base:+.3f} s against {LIBRARIES}; ratio {seconds / base:.2f}"
    return Row(f"{name} (seconds)", seconds, 0.5, seconds / 0.5, 1.0, note)


def processor_seconds(arguments: list[str], bytecode: str) -> float:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    for row in rows():
        print(f"{row.name:<72}{row.measured:>8.3f}{row.baseline:>6.2f}  {row.note}")
