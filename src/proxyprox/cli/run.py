"""``proxyprox run``: methods compared on one's own tables, without writing Python."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proxyprox.cli import console
from proxyprox.cli.console import CommandError, Json, Output, Workers, guarded

if TYPE_CHECKING:
    from proxyprox.study.config import StudyConfig


@guarded
def run(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG.toml", help="What to fit, to what, and how.")
    ] = None,
    output: Output = None,
    example: Annotated[bool, typer.Option("--example", help="Print a configuration.")] = False,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Fit a model to your own rows with few target gradients.

    Without --output the folder is runs/ and the name of the configuration.

    Examples
    --------
    proxyprox run --example > my.toml
    proxyprox run my.toml
    proxyprox run my.toml --output runs/mine --json

    --example explains every key of the five sections [model], [target], [proxy], [method] and
    [run]. The data are CSV, TSV, Parquet, svmlight or npz files.

    The step size: eta = "auto" measures it on the way, a number or a list fixes it, and without
    eta nine are tried; the table shows what either cost in target gradients.

    Written: records.jsonl, summary.json, figures, report.html, and the weights for the raw columns
    as weights.json.
    """
    from proxyprox.study import config as settings

    if example:
        typer.echo(settings.example(), nl=False)
        return
    if config is None:
        raise CommandError("name a configuration; proxyprox run --example prints one.")
    read, base, title = settings.read_config(config), config.parent.absolute(), config.name
    folder = output or Path("runs") / config.stem
    run_study(read, base, f"proxyprox: {title}", folder, context, workers, as_json)


def run_study(
    config: StudyConfig,
    base: Path,
    title: str,
    folder: Path,
    context: typer.Context,
    workers: int | None,
    as_json: bool,
) -> None:
    """Compare the methods of a configuration, and write the weights of one of them."""
    from proxyprox.cli.comparison import output_folder, present, run_experiment, write_results
    from proxyprox.report.summary import last_rows
    from proxyprox.study import problem
    from proxyprox.study.compare import Experiment

    command = console.command_line(context)
    with output_folder(folder, command):
        config = problem.prepare(config, base)
        wanted, shown = config.run.weights, asdict(config)
        # The records do not depend on which weights are written: another choice may use them.
        config = replace(config, run=replace(config.run, weights="method"))
        study = problem.load_study(config, base)
        curves = {curve.method: curve for curve in study.curves()}
        main = next(iter(curves))
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
        outcome = run_experiment(experiment, folder=folder, workers=workers, as_json=as_json)
        done = write_results(experiment, outcome, folder=folder, command=command)
        ends = done["panels"][0]["methods"]
        method, lowest, _ = problem.method_to_write(main, wanted, ends)
        eta = outcome.etas[problem.PANEL, method]
        file = folder / "weights.json"
        answer = problem.write_weights(file, study, curves[method], eta)
    done |= {
        "lowest": lowest,
        "weights_of": method,
        "weights": [str(file)],
        "status": answer.message,
        "success": answer.success,
        "eta": eta,
    }
    present(done, as_json=as_json)
    if not as_json:
        screen = console.stdout()
        console.tell_path(screen, f"Weights ({method}): {file}")
        console.say(screen, problem.prediction_rule(study))
    if not answer.success:
        text = f"Error: {method} ended badly (eta = {eta}); its weights are not usable. "
        console.say(console.stderr(), text + answer.message, "bold red")
        raise typer.Exit(console.BAD_RUN)
