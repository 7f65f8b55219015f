"""What goes to the terminal, and what a command says when it cannot continue."""

from __future__ import annotations

import errno
import functools
import hashlib
import inspect
import json
import math
import os
import shlex
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
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


def stdout(**options: Any) -> Console:
    """Return a console for results."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, **options)
    console.width = min(console.width, WIDEST)
    return console


def stderr() -> Console:
    """Return a console for progress and errors."""
    return stdout(stderr=True)


def plain(text: object, style: str = "") -> Text:
    """Return what a user may have written, for a table or a line: no markup, nothing that acts.

    Parameters
    ----------
    text : object
        Anything; shown as its ``str``.
    style : str
        Colour or weight, dropped if there is no terminal.
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
        Colour or weight, dropped if there is no terminal.
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


def print_table(
    console: Console,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    styles: Sequence[str],
) -> None:
    """Print a table: names to the left, numbers to the right.

    Parameters
    ----------
    console : Console
        Where to.
    headings : sequence of str
        Of the columns.
    rows : iterable of sequences of str
        The cells; brackets in them are no markup.
    styles : sequence of str
        Colour or weight of each row.
    """
    from rich.table import Table

    table, rows = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim"), [*rows]
    for place, heading in enumerate(headings):
        numbers = all(not row[place] or row[place][0] in "+-(–0123456789" for row in rows)
        table.add_column(heading, justify="right" if place and numbers else "left",
                         no_wrap=0 < place < len(headings) - 1)  # fmt: skip
    for cells, style in zip(rows, styles, strict=True):
        table.add_row(*map(plain, cells), style=style)
    console.print(table)


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


def _escape_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    """Show control characters of what was typed as escapes in errors of usage."""

    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except Exception as error:
            # Asked for by attribute: the class of such errors is another one in newer releases.
            if hasattr(error, "format_message"):
                vars(error)["message"] = printable(vars(error)["message"])
            raise

    return wrapper


class EscapingGroup(typer.core.TyperGroup):
    """Commands whose errors of usage act on no terminal, before the command and in it."""

    make_context = _escape_errors(typer.core.TyperGroup.make_context)
    invoke = _escape_errors(typer.core.TyperGroup.invoke)


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
                text, code = _text_and_code(error)
                say(stderr(), text if code == INTERRUPTED else f"Error: {text}", "bold red")
                if kwargs.get("as_json"):
                    emit({"error": text, "exit_code": code})
                raise typer.Exit(code) from None

    return wrapper


def _text_and_code(error: BaseException) -> tuple[str, int]:
    """Return what to tell the user about an error, and the exit code."""
    if isinstance(error, CommandError):
        return str(error), error.code
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted.", INTERRUPTED
    if isinstance(error, OSError) and error.errno is not None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        place = f"{error.filename}: " if error.filename is not None else ""
        advice = " What is finished is kept: make room and repeat the command." if full else ""
        return f"{place}{error.strerror}.{advice}", BAD_RUN if full else BAD_INPUT
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("proxyprox"):
        return f'{error.name} is not installed: pip install "proxyprox[app]".', BAD_INPUT
    if isinstance(error, (ValueError, TypeError, ImportError, OSError)):
        # The package raises these for what it was given, in words meant for a reader.
        return str(error), BAD_INPUT
    return f"{type(error).__name__}: {error}. A defect: PROXYPROX_DEBUG=1 shows where.", BAD_RUN


EXIT_CODES = (
    "[bold]Exit codes[/bold]\n"
    "  0 done   1 the run ended badly   2 wrong input or data   130 interrupted"
)


def help_of(command: Callable[..., object]) -> dict[str, Any]:
    """Return help and epilog of a command, both from its docstring.

    Parameters
    ----------
    command : callable
        Its docstring may end with a section ``Examples``: commands, then remarks.
    """
    about, epilog = list[str](), list[str]()
    for paragraph in inspect.cleandoc(command.__doc__ or "").replace("[", "\\[").split("\n\n"):
        _, heading, commands = paragraph.partition("Examples\n--------\n")
        if heading:
            epilog.append(f"[bold]Examples[/bold]\n{textwrap.indent(commands, '  ')}")
        else:  # the help wraps paragraphs itself
            (epilog or about).append(paragraph.replace("\n", " "))
    return {"help": "\n\n".join(about), "epilog": "\n\n".join([*epilog, EXIT_CODES])}


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the results.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Runs of each method.")]


@contextmanager
def output_folder(
    folder: Path, command: str, kept: str = "Finished runs are kept."
) -> Iterator[None]:
    """Make a folder and hold its lock while the block runs.

    Parameters
    ----------
    folder : Path
        Where everything goes.
    command : str
        What to type after an interruption.
    kept : str
        What an interruption leaves of the work, as a sentence.

    Raises
    ------
    CommandError
        When it cannot be written to or another process writes it, and when the user interrupts.
    """
    from proxyprox._util.files import locked

    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error).rstrip(".")
            text = f"the folder {str(folder)!r} cannot be written to ({reason}): choose another "
            raise CommandError(f"{text}with --output.") from error
        try:
            yield
        except KeyboardInterrupt:
            text = f"Interrupted. {kept}\nTo run it again:  {command}"
            raise CommandError(text, INTERRUPTED) from None


def command_line(context: typer.Context) -> str:
    """Return the command with the options that were given, quoted for a shell.

    Parameters
    ----------
    context : typer.Context
        Context of the running command.
    """
    words = []
    for parameter in context.command.params:
        name = str(parameter.name)
        if getattr(context.get_parameter_source(name), "name", None) == "COMMANDLINE":
            words += [parameter.opts[0]] if parameter.param_type_name == "option" else []
            words += [] if getattr(parameter, "is_flag", False) else [str(context.params[name])]
    return f"{context.command_path} {shlex.join(words)}".rstrip()


def without_formula(cell: object) -> object:
    """Return a cell of a table so that no spreadsheet takes it for a formula.

    Text that begins like a formula gets an apostrophe in front; numbers stay what they are.

    Parameters
    ----------
    cell : object
        A cell or the name of a column.

    Examples
    --------
    >>> without_formula("=1+1"), without_formula("-1.5"), without_formula("a")
    ("'=1+1", '-1.5', 'a')
    """
    # Spreadsheets compute the wide forms of the signs, too.
    signs = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
    if not isinstance(cell, str) or not cell.lstrip(" \xa0").startswith(signs):
        return cell
    with suppress(ValueError):
        if "_" not in cell and math.isfinite(float(cell)):
            return cell
    return f"'{cell}"


def file_digest(path: str | os.PathLike[str]) -> str:
    """Return 16 hex digits that another content of the file would change."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
