"""``proxyprox demo``: what a proxy is worth, in well under a minute."""

from __future__ import annotations

import tomllib
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
    "needs labels and is expensive; the proxy is the same loss without labels, and cheap. Every "
    "step size was tuned with the same effort, then run with {seeds} seeds."
)

COMPARE = ["sgd", "proxyprox", "auxmom", "auxmvr", "erm"]


@guarded
def demo(
    context: typer.Context,
    output: Output = Path("runs/demo"),
    as_json: Json = False,
    workers: Workers = None,
    seeds: Seeds = 5,
) -> None:
    """Compare methods with and without a proxy on data that is always there.

    Runs the configuration that proxyprox run --example prints, with more methods. Prints how many
    target gradients each method needs and what the proxy cost, and writes records, a summary,
    figures, a report and the weights. Finished runs found in the folder are used.
    """
    from proxyprox.cli.run import run_study
    from proxyprox.study.config import example, parse_config

    settings = tomllib.loads(example())
    settings["run"] |= {"seeds": seeds, "compare": COMPARE}
    config = parse_config(settings)
    title, folder = "proxyprox: a demonstration", output or Path("runs/demo")
    command, intro = command_line(context), INTRO.format(seeds=seeds)
    run_study(config, Path(), title, folder, command, workers, as_json, intro)
