"""``proxyprox run``: one's own data, without writing Python."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxyprox.cli.console import (
    BAD_RUN,
    CommandError,
    Json,
    Output,
    Workers,
    command_line,
    examples,
    guarded,
    say,
    stderr,
    stdout,
    tell_path,
)

if TYPE_CHECKING:
    from proxyprox.study.config import StudyConfig

EPILOG = examples(
    "proxyprox run --example > my.toml",
    "proxyprox run my.toml",
    "proxyprox run my.toml --output runs/mine --json",
    "",
    "--example explains every key of the five sections \\[model], \\[target], \\[proxy], "
    "\\[method] and \\[run]. The data are CSV, TSV, Parquet, svmlight or npz files.",
    "",
    'The step size: eta = "auto" measures it on the way, a number or a list fixes it, and without '
    "eta nine are tried; the table shows what either cost in target gradients.",
    "",
    "Written: records.jsonl, summary.json, figures, report.html, and the weights for the raw "
    "columns as weights.json and weights.npz.",
)


@guarded
def run(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG.toml", help="What to fit, to what, and how.")
    ] = None,
    output: Output = None,
    example: Annotated[
        bool, typer.Option("--example", help="Print a commented configuration that works.")
    ] = False,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Fit a model to your own rows with few target gradients.

    Without --output the folder is runs/ and the name of the configuration.
    """
    from proxyprox.study import config as settings

    if example:
        typer.echo(settings.example(), nl=False)
        return
    if config is None:
        raise CommandError(
            "which configuration? Begin with: proxyprox run --example > my.toml, then "
            "proxyprox run my.toml"
        )
    read = settings.read_config(config)
    folder, command = output or Path("runs") / config.stem, command_line(context)
    title = f"proxyprox: {config.name}"
    run_study(read, config.parent.absolute(), title, folder, command, workers, as_json)


def run_study(
    config: StudyConfig,
    base: Path,
    title: str,
    folder: Path,
    command: str,
    workers: int | None,
    as_json: bool,
    intro: str = "",
) -> None:
    """Compare the methods of a configuration, and write the weights of one of them."""
    from proxyprox.cli.comparison import output_folder, publish, run_experiment
    from proxyprox.report.summary import last_rows
    from proxyprox.study import problem
    from proxyprox.study.compare import Experiment

    wanted = config.run.weights
    with output_folder(folder):
        # The records do not depend on which weights are written: another choice may use them.
        config = replace(config, run=replace(config.run, weights="method"))
        config = problem.prepare(config, base)
        study = problem.load_study(config, base)
        curves = {curve.method: curve for curve in study.curves()}
        main = next(iter(curves))
        shown = asdict(replace(config, run=replace(config.run, weights=wanted)))
        experiment = Experiment(
            title=title,
            config=config,
            curves=list(curves.values()),
            run_job=partial(problem.run_job, base=base),
            seeds=config.run.seeds,
            tuning_budget=config.run.tuning_budget,
            budget=config.run.target_gradients,
            shown={**shown, "facts": study.facts()},
            notes=study.notes(),
            main=main,
            remarks=lambda rows: [problem.method_to_write(main, wanted, last_rows(rows))[-1]],
        )
        common: dict[str, Any] = {"folder": folder, "command": command, "as_json": as_json}
        outcome = run_experiment(experiment, workers=workers, **common)

        def weights(rows: Any) -> dict[str, Any]:
            method, lowest, _ = problem.method_to_write(main, wanted, last_rows(rows))
            eta = outcome.etas[curves[method].panel, method]
            files, answer = problem.write_weights(folder, study, curves[method], eta)
            return {
                "lowest": lowest,
                "weights_of": method,
                "weights": list(map(str, files)),
                "status": answer.message,
                "success": answer.success,
                "eta": eta,
            }

        done = publish(experiment, outcome, **common, intro=intro, more=weights)
    method = done["weights_of"]
    if not as_json:
        tell_path(stdout(), f"Weights ({method}): {done['weights'][0]} and weights.npz")
        say(stdout(), problem.prediction_rule(study))
    if not done["success"]:
        say(
            stderr(),
            f"Error: {method} did not end well (eta = {done['eta']}). {done['status']} The "
            "weights written are what it ended with, marked as not usable.",
            style="bold red",
        )
        raise typer.Exit(BAD_RUN)
