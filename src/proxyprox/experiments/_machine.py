"""What a result was made with: versions and processor, and nothing that names a person."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

__all__ = ["machine", "versions", "without_home"]

_PACKAGES = ("proxyprox", "numpy", "scipy", "scikit-learn", "torch", "matplotlib", "plotly")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed.

    Examples
    --------
    >>> sorted(versions())[0]
    'Python'
    """
    found = {"Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str]:
    """Return processor, cores and system; no host name, no user name.

    Examples
    --------
    >>> list(machine())
    ['processor', 'cores', 'system']
    """
    return {
        "processor": _processor(),
        "cores": str(_cores()),
        "system": f"{platform.system()} {platform.machine()}",
    }


def without_home(text: str) -> str:
    """Replace the user's home folder at the start of a word by ``~``.

    Parameters
    ----------
    text : str
        A command line or a path.

    Examples
    --------
    >>> without_home(f"proxyprox demo --out {Path.home()}/runs")
    'proxyprox demo --out ~/runs'
    """
    home = str(Path.home())
    if len(home) <= 1:
        return text
    return re.sub(rf"(^|\s){re.escape(home)}(?=[/\\]|\s|$)", r"\1~", text)


def _cores() -> int:
    # The cores this process may use, which in a container are fewer than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        if sys.platform == "linux":
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
                if line.lower().startswith("model name"):
                    return line.partition(":")[2].strip()
        if sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
            return answer.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass
    return platform.processor() or platform.machine() or "unknown"
