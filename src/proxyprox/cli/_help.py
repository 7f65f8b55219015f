"""Wording that every command's help shares."""

from __future__ import annotations

import inspect

EXIT_CODES = (
    "[bold]Exit codes[/bold]\n"
    "  0 done   1 the run ended badly   2 wrong input or data   130 interrupted"
)


def prose(text: str | None) -> str:
    """Return a docstring as paragraphs without line breaks, which the help wraps itself.

    Parameters
    ----------
    text : str or None
        The docstring of a command.
    """
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


def examples(*parts: str) -> str:
    """Return an epilog of example commands, remarks and the exit codes.

    Parameters
    ----------
    *parts : str
        Commands, one each; what follows an empty string is a remark.
    """
    commands = [*parts, ""][: [*parts, ""].index("")]
    remarks = [f"\n{part}" for part in parts[len(commands) + 1 :]]
    shown = [f"  {command}" for command in commands]
    return "\n".join(["[bold]Examples[/bold]", *shown, *remarks, "", EXIT_CODES])
