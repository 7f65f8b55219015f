"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

T = TypeVar("T")

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Processes to use; default: the cores there are."),
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Runs of each method.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Folder for records, summary, figures and report."),
]
NoDownload = Annotated[bool, typer.Option("--no-download", help="Never use the network.")]


def listed(kind: Callable[[str], T], words: str) -> Callable[[str], tuple[T, ...]]:
    """Return the reader of a list separated by commas.

    Parameters
    ----------
    kind : callable
        Reads one entry.
    words : str
        What an entry is, for the message.
    """

    def read(text: str) -> tuple[T, ...]:
        if isinstance(text, tuple):  # a default, which is parsed already
            return text
        if text.strip().lower() == "none":
            return ()
        try:
            return tuple(kind(part) for part in text.split(","))
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not {words}, separated by commas") from None

    return read
