"""What goes to the terminal: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    # Every command imports this module, and rich only to print: --version does without.
    from rich.console import Console
    from rich.text import Text

from proxyprox._text import printable

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

    console = Console(stderr=stderr, highlight=False, markup=False)
    if console.width > WIDEST:
        console.width = WIDEST
    return console


def plain(text: object, style: str = "") -> Text:
    """Return what a user may have written, for a table or a line: no markup, nothing that acts.

    Parameters
    ----------
    text : object
        Anything; shown as its ``str``.
    style : str
        Colour or weight, dropped where there is no terminal.
    """
    from rich.text import Text

    return Text(printable(str(text)), style=style)


def say(console: Console, text: str, style: str = "") -> None:
    """Print text: results wrapped, messages in a log left in one piece.

    Parameters
    ----------
    console : Console
        Where to.
    text : str
        Anything; brackets in it are no markup, and control characters are shown as escapes.
    style : str
        Colour or weight, dropped where there is no terminal.
    """
    console.print(plain(text, style), soft_wrap=console.stderr and not console.is_terminal)


def tell_path(console: Console, text: str) -> None:
    """Print a line that names a file, never folded: a path must survive being copied.

    Parameters
    ----------
    console : Console
        Where to.
    text : str
        The line.
    """
    console.print(plain(text, "bold"), soft_wrap=True)


def emit(content: dict[str, Any]) -> None:
    """Print the one JSON object of ``--json``.

    Parameters
    ----------
    content : dict
        JSON values.
    """
    # JSON escapes every control character but this one.
    typer.echo(json.dumps(content, allow_nan=False).replace("\x7f", "\\u007f"))
