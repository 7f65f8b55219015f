"""Figure 2 of the paper, from the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from experiments.shared import Json, Output, guarded, start
from proxyprox._util.extras import require
from proxyprox_app.cli.console import (
    command_line,
    emit,
    output_folder,
    say,
    stderr,
    stdout,
    tell_path,
)


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
        float | None,
        typer.Option(min=0.01, help="Passes over the target data (with --clean: all); default 5."),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's own methods, 25 passes, one seed.")
    ] = False,
    clean: Annotated[
        int | None,
        typer.Option(min=20, help="So many images are the target, all others the proxy."),
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="Wrong labels of the others: pair or uniform.")
    ] = None,
    noise_rate: Annotated[float, typer.Option(help="Share of wrong labels.")] = 0.45,
    device: Annotated[
        str | None, typer.Option(help="cuda or cpu; default: cuda if there is one.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="CIFAR-10: archive, batches or image folder; default PROXYPROX_DATA."),
    ] = None,
    as_json: Json = False,
) -> None:
    """ResNet-18 with a proxy of 2,560 images: the paper's Figure 2.

    SGD, SGD with momentum, AdamW, AdamW with proxy batches interleaved, and ProxyProx with 20 and
    40 inner steps and with an EMA correction; train loss, test accuracy and the measured gradient
    of the subproblem against passes over the target data.

    With --clean, few images have right labels and all others wrong ones: clean ones alone, noisy
    ones alone, fine-tuning, mixing, forward loss correction and ProxyProx, at equal numbers of
    gradients.

    Examples
    --------
    python -m experiments.cifar10 --tiny
    python -m experiments.cifar10 --device cuda --seeds 3
    python -m experiments.cifar10 --data ~/cifar-10-batches-py --paper
    python -m experiments.cifar10 --clean 2000 --noise pair --noise-rate 0.45 --passes 10

    Without --tiny a GPU is wanted. Stopped by Ctrl-C, SIGTERM or SIGHUP it saves the step it is
    at, and the same command resumes.
    """
    require("torch", extra="torch", purpose="training a network")
    from experiments.cifar10.config import FIGURE2, TINY, TINY_FIGURE2, WRONG_LABELS, Config
    from experiments.cifar10.config import tiny as small
    from experiments.cifar10.results import sentences, unit
    from experiments.cifar10.run import run

    config = (TINY_FIGURE2 if tiny else FIGURE2) if paper else TINY if tiny else Config()
    config = replace(config, seeds=seeds or config.seeds, passes=passes or config.passes)
    if clean is not None:
        config = replace(config, recipes=small(WRONG_LABELS) if tiny else WRONG_LABELS, clean=clean)
    config = replace(config, noise=noise, noise_rate=noise_rate)
    name = "cifar10" + ("" if clean is None else f"-clean{clean}-{noise or 'right'}")
    folder = output or Path("runs") / (f"{name}-tiny" if tiny else name)
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
        emit({"folder": str(folder), "findings": sentences(records, unit(config))})
        return
    for text in sentences(records, unit(config)):
        say(stdout(), text)
    tell_path(stdout(), f"Report: {folder / 'report.html'}")


if __name__ == "__main__":
    start(cifar10)
