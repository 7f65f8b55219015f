"""Figure 2 of the paper, from the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from experiments.shared import Json, Output, guarded, start
from proxyprox._util.extras import require
from proxyprox.cli.comparison import output_folder
from proxyprox.cli.console import command_line, emit, say, stderr, stdout, tell_path


@guarded
def cifar10(
    context: typer.Context,
    output: Output = None,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="A small network on synthetic images: a minute on a CPU.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Runs of each recipe; default 3 (tiny: 1).")
    ] = None,
    passes: Annotated[
        float | None, typer.Option(min=0.01, help="Passes over the target data; default 5.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cuda or cpu; default: cuda where there is one.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="CIFAR-10: archive, batches or image folder; default PROXYPROX_DATA."),
    ] = None,
    as_json: Json = False,
) -> None:
    """ResNet-18 with a proxy of 2,560 images: the paper's Figure 2.

    SGD, SGD with momentum, AdamW and ProxyProx with 20 and 40 inner steps and with an EMA
    correction; train loss, test accuracy and the measured gradient of the subproblem against
    passes over the target data.

    Examples
    --------
    python -m experiments.cifar10 --tiny
    python -m experiments.cifar10 --device cuda --seeds 3
    python -m experiments.cifar10 --data ~/cifar-10-batches-py --passes 25

    Without --tiny a GPU is wanted. Stopped by Ctrl-C, SIGTERM or SIGHUP it saves the step it is
    at, and the same command resumes.
    """
    require("torch", extra="torch", purpose="training a network")
    from experiments.cifar10.config import TINY, Config
    from experiments.cifar10.results import sentences
    from experiments.cifar10.run import run

    config = TINY if tiny else Config()
    config = replace(config, seeds=seeds or config.seeds, passes=passes or config.passes)
    folder = output or Path("runs") / ("cifar10-tiny" if tiny else "cifar10")
    command = command_line(context)
    with output_folder(folder, command):
        records = run(
            config,
            folder,
            device=device,
            folder=data,
            command=command,
            progress=lambda line: say(stderr(), line),
        )
    if as_json:
        emit({"folder": str(folder), "findings": sentences(records)})
        return
    for text in sentences(records):
        say(stdout(), text)
    tell_path(stdout(), f"Report: {folder / 'report.html'}")


if __name__ == "__main__":
    start(cifar10)
