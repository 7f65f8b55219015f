"""``proxyprox run``: one's own data, without writing Python."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxyprox.cli import console
from proxyprox.cli.console import CommandError, Json, Output, Workers, examples, guarded

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
    folder, command = output or Path("runs") / config.stem, console.command_line(context)
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
    from proxyprox.cli.comparison import output_folder, present, run_experiment, write_results
    from proxyprox.report.summary import last_rows, summarise
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
        outcome = run_experiment(
            experiment, folder=folder, workers=workers, command=command, as_json=as_json
        )
        done = write_results(experiment, outcome, folder=folder, command=command)
        ends = last_rows(summarise(outcome.records))
        method, lowest, _ = problem.method_to_write(main, wanted, ends)
        eta = outcome.etas[problem.PANEL, method]
        files, answer = problem.write_weights(folder, study, curves[method], eta)
    done |= {
        "lowest": lowest,
        "weights_of": method,
        "weights": list(map(str, files)),
        "status": answer.message,
        "success": answer.success,
        "eta": eta,
    }
    present(done, as_json=as_json, intro=intro)
    if not as_json:
        screen = console.stdout()
        console.tell_path(screen, f"Weights ({method}): {files[0]} and {files[1].name}")
        console.say(screen, problem.prediction_rule(study))
    if not answer.success:
        text = f"Error: {method} did not end well (eta = {eta}). {answer.message} The weights "
        text += "written are what it ended with, marked as not usable."
        console.say(console.stderr(), text, style="bold red")
        raise typer.Exit(console.BAD_RUN)
