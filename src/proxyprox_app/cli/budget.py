"""``proxyprox budget``: what a file of a privacy budget says, for a privacy officer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proxyprox._util.text import printable
from proxyprox_app.cli.console import CommandError, Json, emit, guarded


@guarded
def budget(
    file: Annotated[Path, typer.Argument(help="The file of a PrivacyBudget.")],
    as_json: Json = False,
) -> None:
    """Show who spent how much of a privacy budget, when and how, and what is left.

    The file is checked and not changed; neither ε nor δ need be known. Fits may be running.

    Examples
    --------
    proxyprox budget budget.sqlite
    proxyprox budget budget.sqlite --json

    Per plan: who opened it and when, the times of its charges, σ, the sampling rate, the
    accountant, its ε and how much of it is spent. NOT PRIVATE marks noise that was seeded.
    """
    from proxyprox.private.accounting import PrivacyBudget, PrivacyBudgetError, page

    try:
        report = PrivacyBudget.read(file).report()
    except PrivacyBudgetError as error:
        raise CommandError(str(error)) from error
    if as_json:
        emit(report)
    else:
        typer.echo(printable(page(report)))
