"""From an exception to one message and an exit code."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import typer
import typer.core

from proxyprox._signals import ending_signals
from proxyprox._text import printable
from proxyprox.cli._console import emit, say, stderr

P = ParamSpec("P")
R = TypeVar("R")

BAD_RUN, BAD_INPUT, INTERRUPTED = 1, 2, 130


class CommandError(Exception):
    """A command cannot go on; the message says why and what to do."""

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
    if type(error).__name__ == "WorkerLostError":  # by name: its module is slow to import
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
