"""The command line: ``demo``, ``run``, ``predict``, ``audit``, ``label``, ``plan`` and others.

A command is a function of this package and named below. It imports what it needs when it is called,
so that ``--help`` answers at once.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from proxyprox import __version__
from proxyprox._util.signals import ending_signals
from proxyprox_app.cli import audit, demo, label, run
from proxyprox_app.cli.console import EscapingGroup, help_of

__all__ = ["app", "main"]

app = typer.Typer(
    name="proxyprox",
    cls=EscapingGroup,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (
    demo.demo, run.run, run.predict, audit.audit, label.label, audit.plan, audit.budget,
):  # fmt: skip
    app.command(**help_of(_command))(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"proxyprox {__version__}")
        raise typer.Exit()


# Eager: typer needs slow imports to call a command.
Version = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version."
)


def _root(context: typer.Context, version: Annotated[bool, Version] = False) -> None:
    """Minimise an expensive loss with few of its gradients, by leaning on a cheap proxy.

    Examples
    --------
    proxyprox demo                               see what a proxy is worth
    proxyprox run sales.csv --target churned     a model of your own table

    PROXYPROX_DEBUG=1 shows the traceback of an error.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.callback(invoke_without_command=True, **help_of(_root))(_root)


def main() -> None:
    """Run the command line; what the ``proxyprox`` script calls."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show η gets a question mark, not an error.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    with ending_signals():
        app(prog_name="proxyprox")
