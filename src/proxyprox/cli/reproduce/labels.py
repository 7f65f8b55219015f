"""``proxyprox reproduce labels``: few labels, many inputs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from proxyprox.cli.console import (
    Json,
    NoDownload,
    Output,
    Seeds,
    Workers,
    command_line,
    examples,
    guarded,
    listed,
)

EPILOG = examples(
    "proxyprox reproduce labels",
    "proxyprox reproduce labels --datasets breast_cancer,wine --taught none --seeds 3",
    "proxyprox reproduce labels --datasets none --taught a9a --labels 50,200,1000",
    "",
    "Ctrl-C keeps what is finished; the same command goes on from there.",
)


@guarded
def labels(
    context: typer.Context,
    output: Output = None,
    seeds: Seeds = 10,
    datasets: Annotated[
        str, typer.Option(help="Sets without a teacher: scikit-learn's or LIBSVM's, or none.")
    ] = "breast_cancer,wine,digits,mushrooms,a9a",
    taught: Annotated[
        str, typer.Option(help="Sets of two classes with three teachers each, or none.")
    ] = "a9a",
    numbers: Annotated[
        str, typer.Option("--labels", help="Numbers of labels.")
    ] = "20,50,200,1000,5000",
    no_download: NoDownload = False,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Test loss against the number of labels: our estimators, scikit-learn's and others.

    The same labels for every method, paired differences with intervals over seeds, and teachers
    that are good, mediocre and useless. About ten minutes on one core, five on two.
    """
    from proxyprox.cli.comparison import output_folder
    from proxyprox.cli.console import emit, say, stdout
    from proxyprox.cli.reproduce.label_tables import held, print_differences
    from proxyprox.experiments import labels as experiment

    config = experiment.Config(
        datasets=listed(str, "names")(datasets),
        taught=listed(str, "names")(taught),
        labels=listed(int, "whole numbers")(numbers),
        seeds=seeds,
    )
    folder = output or Path("runs") / "labels"
    experiment.fetch(config, download=not no_download, progress=sys.stderr.isatty())
    command = command_line(context)
    with output_folder(folder):
        records = held(config, folder=folder, workers=workers, command=command, as_json=as_json)
        from proxyprox.experiments.labels import publish

        shown = {**asdict(config), "data": experiment.facts(config)}
        gaps, said = publish(folder, records, command=command, config=shown)
    if as_json:
        emit({"folder": str(folder), "differences": gaps, "findings": said})
        return
    print_differences(stdout(), gaps)
    for text in said:
        say(stdout(), text)
    say(stdout(), f"Report: {folder / 'report.html'}", style="bold")
