"""``proxyprox reproduce``: the experiments, one file each.

To add one, write its file beside this one and register it with a line below.
"""

from __future__ import annotations

import typer

from proxyprox.cli.console import prose
from proxyprox.cli.reproduce import cifar10, labels, mushrooms

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Run an experiment of the paper, and write its records, figures and report.",
)
app.command("mushrooms", help=prose(mushrooms.mushrooms.__doc__), epilog=mushrooms.EPILOG)(
    mushrooms.mushrooms
)
app.command("cifar10", help=prose(cifar10.cifar10.__doc__), epilog=cifar10.EPILOG)(cifar10.cifar10)
app.command("labels", help=prose(labels.labels.__doc__), epilog=labels.EPILOG)(labels.labels)
