"""``proxyprox reproduce mushrooms``: the paper's Figure 1."""

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
    "proxyprox reproduce mushrooms",
    "proxyprox reproduce mushrooms --output runs/quick --seeds 3 --budget 300",
    "proxyprox reproduce mushrooms --dataset a9a --output runs/a9a",
    "PROXYPROX_DATA=~/data proxyprox reproduce mushrooms --no-download",
    "",
    "Ctrl-C keeps what is finished; the same command goes on from there.",
)


@guarded
def mushrooms(
    context: typer.Context,
    output: Output = None,
    seeds: Seeds = 5,
    budget: Annotated[int, typer.Option(min=1, help="Target gradients of a run.")] = 1000,
    tuning_budget: Annotated[
        int, typer.Option(min=1, help="Target gradients of a run that tries a step size.")
    ] = 250,
    inner_steps: Annotated[
        int, typer.Option(min=1, help="Gradient-descent steps of the methods as published.")
    ] = 20,
    batch_sizes: Annotated[
        str, typer.Option(help="Rows of a target gradient; one panel each.")
    ] = "1024,256",
    fractions: Annotated[
        str, typer.Option(help="Shares of the rows in the subsampled proxies, or none.")
    ] = "0.01,0.05,0.2,0.5",
    dataset: Annotated[
        str, typer.Option(help="Another LIBSVM set of two classes, such as a9a.")
    ] = "mushrooms",
    no_download: NoDownload = False,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Logistic regression with a proxy that has no labels: the paper's Figure 1.

    Three panels (batch 1024, batch 256, and proxies made of a part of the rows), every step size
    tuned on a grid, median and quartiles over seeds. Finished runs found in the folder are used.
    """
    from proxyprox.cli.comparison import Contest, conduct, output_folder, present
    from proxyprox.experiments import logistic

    config = logistic.Config(
        dataset=dataset,
        batch_sizes=listed(int, "whole numbers")(batch_sizes),
        fractions=listed(float, "numbers")(fractions),
        inner_steps=inner_steps,
        budget=budget,
        tuning_budget=tuning_budget,
        seeds=seeds,
    )
    folder = output or Path("runs") / dataset
    with output_folder(folder):
        # Once, before there are workers: a set that cannot be had is one message.
        logistic.fetch(config, download=not no_download, progress=sys.stderr.isatty())
    contest = Contest(
        title=f"Logistic regression on {dataset} with a proxy that has no labels",
        config=config,
        entries=logistic.entries(config),
        play=logistic.run_job,
        seeds=seeds,
        tuning_budget=tuning_budget,
        budget=budget,
        shown={**asdict(config), "data": logistic.facts(config)},
    )
    command = command_line(context)
    done = conduct(contest, folder=folder, workers=workers, command=command, as_json=as_json)
    present(done, as_json=as_json)
