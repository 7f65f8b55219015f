"""What goes to the terminal, and what a command says when it cannot continue."""

from __future__ import annotations

import errno
import functools
import inspect
import json
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer
import typer.core

from proxyprox._util.signals import ending_signals
from proxyprox._util.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


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


P = ParamSpec("P")
R = TypeVar("R")

BAD_RUN, BAD_INPUT, INTERRUPTED = 1, 2, 130


class CommandError(Exception):
    """A command cannot continue; the message says why and what to do."""

    def __init__(self, text: str, code: int = BAD_INPUT) -> None:
        super().__init__(text)
        self.code = code


class EscapingGroup(typer.core.TyperGroup):
    """Commands whose errors of usage show control characters of what was typed as escapes."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the options that stand before the command."""
        with _escaped():
            return super().make_context(*args, **kwargs)

    def invoke(self, *args: Any, **kwargs: Any) -> Any:
        """Read the options of the command, and run it."""
        with _escaped():
            return super().invoke(*args, **kwargs)


@contextmanager
def _escaped() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # Asked for by attribute: the class of such errors is another one in newer releases.
        if hasattr(error, "format_message") and isinstance(getattr(error, "message", None), str):
            vars(error)["message"] = printable(vars(error)["message"])
        raise


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors of a command into a message on standard error and an exit code.

    With ``--json`` the message is also the field ``error`` of the object on standard output. The
    environment variable ``PROXYPROX_DEBUG`` lets the traceback through. SIGTERM and SIGHUP are
    treated as Ctrl-C is, and then end the process.

    Parameters
    ----------
    command : callable
        A command; its parameter ``as_json``, if it has one, tells what to print.
    """

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with ending_signals():
            try:
                return command(*args, **kwargs)
            except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
                raise
            except (Exception, KeyboardInterrupt) as error:
                if os.environ.get("PROXYPROX_DEBUG") and not isinstance(error, KeyboardInterrupt):
                    raise
                text, code = described(error)
                _report(text, code, as_json=bool(kwargs.get("as_json")))
                raise typer.Exit(code) from None

    return wrapper


def described(error: BaseException) -> tuple[str, int]:
    """Return what to tell the user about an error, and the exit code.

    Parameters
    ----------
    error : BaseException
        What was raised.
    """
    if isinstance(error, CommandError):
        return str(error), error.code
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted.", INTERRUPTED
    if isinstance(error, OSError) and error.errno is not None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        place = f"{error.filename}: " if error.filename is not None else ""
        advice = " What is finished is kept: make room and repeat the command." if full else ""
        return f"{place}{error.strerror}.{advice}", BAD_RUN if full else BAD_INPUT
    if type(error).__name__ == "BrokenProcessPool":  # by name: its module is slow to import
        return (
            "A worker process was ended from outside, perhaps for want of memory. What is "
            "finished is kept: repeat the command, if need be with --workers 1."
        ), BAD_RUN
    if isinstance(error, (ValueError, TypeError, ImportError, OSError)):
        # The package raises these for what it was given, in words meant for a reader.
        return str(error), BAD_INPUT
    kind = type(error).__name__
    return (
        f"{kind}: {str(error).rstrip('.')}. This should not happen: PROXYPROX_DEBUG=1 shows where "
        "it comes from."
    ), BAD_RUN


def _report(text: str, code: int, *, as_json: bool) -> None:
    console = stderr()
    say(console, text if code == INTERRUPTED else f"Error: {text}", style="bold red")
    if as_json:
        content: dict[str, Any] = {"error": text, "exit_code": code}
        emit(content)


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


def command_line(context: typer.Context) -> str:
    """Return the command with the options that were given, quoted for a shell.

    Parameters
    ----------
    context : typer.Context
        Context of the running command.
    """
    words, values = [context.command_path], context.params
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        value = values[str(parameter.name)]
        if parameter.param_type_name == "argument":
            words.append(shlex.quote(str(value)))
        elif getattr(parameter, "is_flag", False):
            words.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            words += [parameter.opts[0], shlex.quote(str(value))]
    return " ".join(words)
