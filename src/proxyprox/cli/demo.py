"""``proxyprox demo``: what a proxy is worth, in less than a minute and without a network."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import typer

from proxyprox.cli.console import Json, Output, Seeds, Workers, command_line, examples, guarded

EPILOG = examples(
    "proxyprox demo",
    "proxyprox demo --output runs/demo --seeds 3",
    "proxyprox demo --json | python -m json.tool",
)

INTRO = (
    "Logistic regression on 569 tumours (scikit-learn's breast cancer data). A target gradient "
    "needs labels and is dear; the proxy is the same loss without labels (first table) or on a "
    "part of the rows (second table), and cheap. Every step size was tuned with the same effort, "
    "then run with {seeds} seeds."
)


@guarded
def demo(
    context: typer.Context,
    output: Output = Path("runs/demo"),
    as_json: Json = False,
    workers: Workers = None,
    seeds: Seeds = 5,
) -> None:
    """Compare methods with and without a proxy on data that is always there.

    Prints how many target gradients each method needs and what the proxy cost, and writes
    records, a summary, figures and a report. Finished runs found in the folder are used.
    """
    from proxyprox.cli.comparison import Contest, conduct, present
    from proxyprox.experiments import logistic

    config = replace(logistic.DEMO, seeds=seeds)
    contest = Contest(
        title="proxyprox: a demonstration",
        config=config,
        entries=logistic.entries(config),
        play=logistic.run_job,
        seeds=config.seeds,
        tuning_budget=config.tuning_budget,
        budget=config.budget,
        shown={**asdict(config), "data": logistic.facts(config)},
    )
    command = command_line(context)
    folder = output or Path("runs/demo")
    done = conduct(contest, folder=folder, workers=workers, command=command, as_json=as_json)
    present(done, as_json=as_json, intro=INTRO.format(seeds=seeds))
