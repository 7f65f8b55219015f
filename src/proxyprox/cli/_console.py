"""What goes to the terminal: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    # Every command imports this module, and rich only to print: --version does without.
    from rich.console import Console

WIDEST = 100
"""Columns beyond which lines get hard to read."""


def stdout() -> Console:
    """Return a console for results."""
    return _console(stderr=False)


def stderr() -> Console:
    """Return a console for progress and errors."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if console.width > WIDEST:
        console.width = WIDEST
    return console


def say(console: Console, text: str, style: str = "") -> None:
    """Print text as it is: results wrapped, messages in a log left in one piece.

    Parameters
    ----------
    console : Console
        Where to.
    text : str
        Anything; brackets in it are no markup.
    style : str
        Colour or weight, dropped where there is no terminal.
    """
    from rich.text import Text

    console.print(Text(text, style=style), soft_wrap=console.stderr and not console.is_terminal)


def tell_path(console: Console, text: str) -> None:
    """Print a line that names a file, never folded: a path must survive being copied.

    Parameters
    ----------
    console : Console
        Where to.
    text : str
        The line.
    """
    from rich.text import Text

    console.print(Text(text, style="bold"), soft_wrap=True)


def emit(content: dict[str, Any]) -> None:
    """Print the one JSON object of ``--json``.

    Parameters
    ----------
    content : dict
        JSON values.
    """
    typer.echo(json.dumps(content, allow_nan=False))
