"""Records of runs that survive a kill at any moment, and what they were made with.

Records of runs that survive a kill at any moment.

While an experiment runs, each finished run is one line of a journal beside the final file: the
line's newline is the proof that the run is complete, so a torn last line is a run to be redone.
When all runs are in, the journal becomes ``records.jsonl``, one line a point, in an order that
does not depend on which worker finished first.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from proxyprox._util.files import atomic_write_text, sync_folder
from proxyprox._util.signals import critical

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


class RecordsError(ValueError):
    """Records on disk are damaged, or belong to another configuration."""


def check_config(path: Path, config: Mapping[str, Any], *, fresh: bool) -> None:
    """Write `config` to `path` the first time; afterwards insist that it is the same.

    Parameters
    ----------
    path : Path
        JSON file beside the records.
    config : mapping
        What the records depend on, as JSON values.
    fresh : bool
        True when the folder holds no records yet.

    Raises
    ------
    RecordsError
        When the records there were made under another configuration, or under an unknown one.
    """
    wanted = json.loads(json.dumps(config))
    if fresh:
        atomic_write_text(path, json.dumps(wanted, indent=2, ensure_ascii=False) + "\n")
        return
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordsError(
            f"{path.parent} holds records, but what made them cannot be read from {path.name} "
            f"({error}): choose an empty folder."
        ) from error
    there, now = dict(_flat(held)), dict(_flat(wanted))
    # A setting that is not there and one that is None are the same.
    if all(there.get(name) == now.get(name) for name in there.keys() | now.keys()):
        return
    differing = ", ".join(
        f"{name} (there {there.get(name)!r}, now {now.get(name)!r})"
        for name in sorted(there.keys() | now.keys())
        if there.get(name) != now.get(name)
    )
    raise RecordsError(
        f"{path.parent} holds records of another configuration; they differ in {differing}. "
        "Choose another folder (--output), or repeat the command that made them."
    )


def _flat(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Name nested settings with dots, so that a difference is shown where it lies."""
    if not isinstance(tree, dict):
        yield prefix[:-1], tree
        return
    for name, value in tree.items():
        yield from _flat(value, f"{prefix}{name}.")


Point: TypeAlias = dict[str, Any]
RunKey: TypeAlias = tuple[Any, ...]

KEY = ("panel", "method", "batch_size", "eta", "seed")
"""Fields that name a run; every point of the run carries them."""


class RecordStore:
    """The points of an experiment's runs, safe against a crash.

    Parameters
    ----------
    path : path-like
        Final file, usually ``records.jsonl``; its folder is made. The journal
        (``records.journal.jsonl``) and the configuration (``records.config.json``) lie beside it.
    key : sequence of str
        Fields that together name a run.
    config : mapping, optional
        What the records depend on (JSON values). Records made under another configuration are
        refused instead of being mixed in.

    Raises
    ------
    RecordsError
        When the folder holds records of another configuration, or a damaged ``records.jsonl``.

    Notes
    -----
    One process appends, which holds the folder's lock
    (:class:`proxyprox._util.files.locked`); parallel
    workers hand their points to it. Numbers that are not finite (a
    diverged run) are stored as ``null``, which every JSON reader understands.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = RecordStore(Path(folder.name) / "records.jsonl", key=("method", "seed"))
    >>> store.append([{"method": "SGD", "seed": 0, "target_gradients": 10, "loss": 0.5}])
    >>> {"method": "SGD", "seed": 0} in store, {"method": "SGD", "seed": 1} in store
    (True, False)
    >>> store.finalise().name
    'records.jsonl'
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        key: Sequence[str] = KEY,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.key = tuple(key)
        self.journal = self.path.with_name(f"{self.path.stem}.journal.jsonl")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if config is not None:
            check_config(
                self.path.with_name(f"{self.path.stem}.config.json"),
                config,
                fresh=not (self.path.exists() or self.journal.exists()),
            )
        self._runs: dict[RunKey, list[Point]] = {}
        if self.path.exists():
            for point in read_records(self.path):
                self._runs.setdefault(self.run_of(point), []).append(point)
        self._recover()

    @property
    def finished(self) -> frozenset[RunKey]:
        """Keys of the runs whose points are safely on disk."""
        return frozenset(self._runs)

    def __contains__(self, run: Mapping[str, Any]) -> bool:
        return self.run_of(run) in self._runs

    def __len__(self) -> int:
        return len(self._runs)

    def run_of(self, point: Mapping[str, Any]) -> RunKey:
        """Return the values of the key fields of `point`.

        Parameters
        ----------
        point : mapping
            A point, or just the key fields of a run.

        Raises
        ------
        ValueError
            When a key field is missing.
        """
        missing = [name for name in self.key if name not in point]
        if missing:
            raise ValueError(
                f"the point lacks the field(s) {', '.join(missing)}: every point names its run by "
                f"{', '.join(self.key)} (got {', '.join(point)})."
            )
        return tuple(_plain(point[name], name) for name in self.key)

    def points(self, run: Mapping[str, Any] | None = None) -> list[Point]:
        """Return the points of one run, or of all runs in the order they are held.

        Parameters
        ----------
        run : mapping, optional
            Key fields of the run.
        """
        if run is not None:
            return [dict(point) for point in self._runs[self.run_of(run)]]
        return [dict(point) for points in self._runs.values() for point in points]

    def append(self, points: Iterable[Mapping[str, Any]]) -> None:
        """Add a finished run: all its points, or after a crash none of them.

        Parameters
        ----------
        points : iterable of mappings
            All points of one run, in order. A run that is already there is not added again.

        Raises
        ------
        ValueError
            When there is no point, or they belong to several runs.
        TypeError
            When a value is not a number, a string, a bool or None.
        """
        plain = [{name: _plain(value, name) for name, value in p.items()} for p in points]
        runs = {self.run_of(point) for point in plain}
        if len(runs) != 1:
            raise ValueError(f"append takes the points of exactly one run, got {len(runs)} runs.")
        run = runs.pop()
        if run in self._runs:
            return
        line = json.dumps({"points": plain}, allow_nan=False, ensure_ascii=False) + "\n"
        with critical():  # the run is paid for
            self._write(line.encode("utf-8"))
            self._runs[run] = plain

    def finalise(self, order: Iterable[Mapping[str, Any]] | None = None) -> Path:
        """Write ``records.jsonl`` and drop the journal.

        Parameters
        ----------
        order : iterable of mappings, optional
            Key fields of the runs in the order wanted; runs it does not name follow. Without it,
            runs are sorted by their key.

        Returns
        -------
        path : Path
            The final file.

        Raises
        ------
        ValueError
            When `order` names a run that is not finished.
        """
        first = list(dict.fromkeys(self.run_of(run) for run in order or ()))
        if absent := [run for run in first if run not in self._runs]:
            raise ValueError(
                f"{len(absent)} run(s) of the plan are not finished, the first is {absent[0]}."
            )
        rest = sorted(self._runs.keys() - set(first), key=_sort_key)
        self._runs = {run: self._runs[run] for run in [*first, *rest]}
        lines = (
            json.dumps(p, allow_nan=False, ensure_ascii=False)
            for points in self._runs.values()
            for p in points
        )
        atomic_write_text(self.path, "".join(f"{line}\n" for line in lines))
        self.journal.unlink(missing_ok=True)
        sync_folder(self.path.parent)
        return self.path

    def _write(self, line: bytes) -> None:
        new = not self.journal.exists()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self.journal, flags, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            try:
                written = os.write(descriptor, line)
                while written < len(line):  # a full disk shows here as an error
                    written += os.write(descriptor, line[written:])
                os.fsync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
        if new:
            sync_folder(self.journal.parent)

    def _recover(self) -> None:
        """Take the whole lines of the journal and cut a torn one off."""
        if not self.journal.exists():
            return
        content = self.journal.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(self.journal, len(whole))
        for line in whole.splitlines():
            try:
                points = json.loads(line)["points"]
                run = self.run_of(points[0])
            except (ValueError, KeyError, TypeError, IndexError):
                continue  # a damaged line is a run that was not recorded: it is done again
            self._runs.setdefault(run, points)


def read_records(path: str | os.PathLike[str]) -> list[Point]:
    """Read a ``records.jsonl``.

    Parameters
    ----------
    path : path-like
        File of one JSON object a line.

    Returns
    -------
    points : list of dict

    Raises
    ------
    RecordsError
        For a line that is not a JSON object.
    """
    points: list[Point] = []
    for number, line in enumerate(Path(path).read_bytes().splitlines(), start=1):
        try:
            point = json.loads(line)
        except ValueError as error:
            raise RecordsError(f"{path}, line {number}: not JSON ({error}).") from error
        if not isinstance(point, dict):
            raise RecordsError(f"{path}, line {number}: a JSON object is expected.")
        points.append(point)
    return points


def _plain(value: Any, name: str) -> Any:
    """Turn a NumPy scalar into a Python one and a number that is not finite into None."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    raise TypeError(
        f"the field {name!r} holds a {type(value).__name__}: a number, a string, a bool or None."
    )


def _sort_key(run: RunKey) -> list[tuple[int, float, str]]:
    # Mixed types do not compare: None first, then numbers by size, then text.
    return [
        (0, 0.0, "")
        if value is None
        else (1, float(value), "")
        if isinstance(value, int | float)
        else (2, 0.0, value)
        for value in run
    ]
