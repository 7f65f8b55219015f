"""Answers that cost money, on disk before they count."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxyprox._files import sync_folder


class JournalError(ValueError):
    """A journal on disk belongs to other data or other settings, or cannot be read."""


class Journal:
    """An append-only file of JSON lines that survives a kill at any moment.

    A line counts when its newline is on disk; a torn last line is cut off. The first line says
    what the journal is about, and a journal about something else is refused.

    Parameters
    ----------
    path : path-like or None
        The file; None keeps nothing.
    about : mapping
        What must agree for the entries to be usable, as JSON values.
    newer : tuple of str
        Names in ``about`` that files of earlier versions lack; those are not compared then.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "labels.jsonl"
    >>> Journal(path, {"rows": 3}).append({"row": 1, "label": "yes"})
    >>> Journal(path, {"rows": 3}).entries
    [{'row': 1, 'label': 'yes'}]
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        about: Mapping[str, Any],
        newer: tuple[str, ...] = (),
    ) -> None:
        self.path = None if path is None else Path(path)
        self.entries: list[dict[str, Any]] = []
        if self.path is None:
            return
        wanted = json.loads(json.dumps({"about": dict(about)}))
        lines = self._recovered()
        if not lines:
            self._write(wanted)
            return
        held = lines[0].get("about") if isinstance(lines[0], dict) else None
        if isinstance(held, dict):
            for name in newer:
                if name not in held:
                    wanted["about"].pop(name, None)
        if lines[0] != wanted:
            raise JournalError(
                f"{self.path} holds labels for something else ({_differences(lines[0], wanted)}): "
                "choose another file, or repeat the settings that made it."
            )
        self.entries = lines[1:]

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add an entry; when this returns, it is on disk."""
        plain = json.loads(json.dumps(dict(entry), default=_plain, allow_nan=False))
        if self.path is not None:
            self._write(plain)
        self.entries.append(plain)

    def _recovered(self) -> list[dict[str, Any]]:
        assert self.path is not None
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return []
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            lines = [json.loads(line) for line in whole.splitlines()]
        except ValueError as error:
            raise JournalError(f"{self.path} is damaged ({error}): restore a copy.") from error
        if len(whole) < len(content):
            os.truncate(self.path, len(whole))
        return lines

    def _write(self, entry: Mapping[str, Any]) -> None:
        assert self.path is not None
        new = not self.path.exists()
        line = (json.dumps(entry, ensure_ascii=False) + "\n").encode("utf-8")
        with self.path.open("ab", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            try:
                done = 0
                while done < len(line):
                    done += file.write(line[done:])
                os.fsync(file.fileno())
            except BaseException:
                # A full disk must not leave half a line for the next answer to run into.
                os.ftruncate(file.fileno(), size)
                raise
        if new:
            sync_folder(self.path.parent)


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a label must be a number or a string, got a {type(value).__name__}.")


def _differences(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    there, here = held.get("about") if isinstance(held, dict) else None, wanted["about"]
    if not isinstance(there, dict):
        return "it is not a journal of labels"
    names = sorted(there.keys() | here.keys())
    return ", ".join(
        f"{name}: there {there.get(name)!r}, now {here.get(name)!r}"
        for name in names
        if there.get(name) != here.get(name)
    )
