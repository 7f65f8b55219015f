"""Keeps records of different configurations out of one folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proxyprox._files import atomic_write_text

__all__ = ["RecordsError", "check_config"]


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
