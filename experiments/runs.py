"""Finished runs in one SQLite file, which survives a kill at any moment."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from experiments.report.summary import flat
from proxyprox._util.files import atomic_write_text
from proxyprox._util.journal import Event, Journal
from proxyprox._util.signals import critical

Point: TypeAlias = dict[str, Any]


class RecordsError(ValueError):
    """Records on disk are damaged, or were made with other settings."""


class Records:
    """The points of an experiment's runs; a context manager.

    A run is in the file with all its points or, after a crash, with none of them.

    Parameters
    ----------
    folder : path-like
        Folder of the file ``runs.sqlite``; it is made.
    settings : mapping
        What the runs depend on, as JSON values. Runs made with other settings are refused.

    Raises
    ------
    RecordsError
        When the file is damaged or holds runs of other settings, or when the folder holds records
        of proxyprox 0.1.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> run = {"method": "SGD", "seed": 0}
    >>> with Records(folder.name, {"budget": 10}) as records:
    ...     records.add(run, [{"target_gradients": 10, "loss": 0.5}])
    ...     run in records, records.points(run)[0]["loss"]
    (True, 0.5)
    >>> folder.cleanup()
    """

    def __init__(self, folder: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "runs.sqlite"
        if not path.exists() and any(self.folder.glob("records*.jsonl")):
            raise RecordsError(f"{folder} holds records of proxyprox 0.1: choose an empty folder.")
        self._settings: Any = None
        self._runs: dict[str, int] = {}  # the number of each run's event
        self._journal = Journal(path, "file of runs", RecordsError, self._replay)
        self._check_settings(json.loads(json.dumps(settings)))

    def _replay(self, event: Event) -> None:
        if event.kind == "settings":
            self._settings = event.content
        elif event.kind == "run":
            self._runs[event.key] = event.number
        else:
            raise ValueError(event.kind)

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *error: object) -> None:
        """Keep the file; there is nothing to close."""

    def __contains__(self, run: Mapping[str, Any]) -> bool:
        with self._journal.transaction():
            return _name(run) in self._runs

    def __len__(self) -> int:
        with self._journal.transaction():
            return len(self._runs)

    def points(self, run: Mapping[str, Any]) -> list[Point]:
        """Return the points of a finished run, each with the fields that name the run."""
        if run not in self:
            raise KeyError(f"the run {dict(run)} is not finished")
        return self._points([self._runs[_name(run)]])

    def _points(self, numbers: list[int]) -> list[Point]:
        with self._journal.transaction():
            events = self._journal.read(numbers)
        return [point for event in events for point in json.loads(event.data or b"")]

    def add(self, run: Mapping[str, Any], points: Iterable[Mapping[str, Any]]) -> None:
        """Add a finished run; one that is already there stays as it is.

        Parameters
        ----------
        run : mapping
            The fields that name the run.
        points : iterable of mappings
            Its points in order. Numbers that are not finite are stored as ``null``.
        """
        plain = [_plain_values({**run, **point}) for point in points]
        text = json.dumps(plain, allow_nan=False, ensure_ascii=False)
        try:
            with critical(), self._journal.transaction() as append:  # the run is paid for
                if _name(run) not in self._runs:
                    append("run", _name(run), data=text.encode())
        except RecordsError as error:
            full = errno.ENOSPC if "full" in str(error) else errno.EIO
            raise OSError(full, f"the run was not stored ({error})", str(self.folder)) from error

    def export(self, name: str, runs: Iterable[Mapping[str, Any]]) -> list[Point]:
        """Write the points of these runs to a file of JSON lines in the folder, and return them."""
        points = [point for run in runs for point in self.points(run)]
        lines = (json.dumps(point, allow_nan=False, ensure_ascii=False) + "\n" for point in points)
        atomic_write_text(self.folder / name, "".join(lines))
        return points

    def everything(self) -> list[Point]:
        """Return the points of all finished runs, in the order in which these were added."""
        return self._points(list(self._runs.values()))

    def _check_settings(self, settings: Mapping[str, Any]) -> None:
        if not self._runs:
            with self._journal.transaction() as append:
                if settings != self._settings:
                    append("settings", content=settings)
            return
        there, now = dict(flat(self._settings)), dict(flat(settings))
        names = sorted(name for name in there | now if there.get(name) != now.get(name))
        if names:
            parts = (f"{name} (there {there.get(name)!r}, now {now.get(name)!r})" for name in names)
            text = f"{self.folder} holds records of other settings: {', '.join(parts)}"
            raise RecordsError(f"{text}. Choose another folder (--output).")


def read_records(path: str | os.PathLike[str]) -> list[Point]:
    """Read the JSON lines that :meth:`Records.export` wrote."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def _name(run: Mapping[str, Any]) -> str:
    return json.dumps(_plain_values(run))


def _plain_values(values: Mapping[str, Any]) -> Point:
    """Turn NumPy scalars into Python ones and numbers that are not finite into None."""
    plain = {name: v.item() if isinstance(v, np.generic) else v for name, v in values.items()}
    for name, value in plain.items():
        if isinstance(value, float) and not math.isfinite(value):
            plain[name] = None
    return plain
