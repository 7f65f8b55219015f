"""``proxyprox run``: one's own data, without writing Python."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

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

EPILOG = examples(
    "proxyprox run --example > my.toml",
    "proxyprox run my.toml",
    "proxyprox run my.toml --output runs/mine --json",
    "",
    "The configuration has five sections: \\[model] family, l2, l1, intercept, standardize, "
    "classes; \\[target] file, label, features, weight, format; \\[proxy] kind, file, label, "
    "weight, format, fraction, rows; \\[method] name, eta, correction, a, batch_size, averaging, "
    "inner, inner_steps, inner_tolerance; \\[run] target_gradients, tuning_gradients, seconds, "
    "seeds, seed, compare, weights. --example explains every one.",
    "",
    'The step size: eta = "auto" measures it on the way, a number or a list fixes it, and without '
    "eta nine are tried; the table shows what either cost in target gradients.",
    "",
    "Data: CSV, TSV, Parquet, svmlight and npz. Written: records.jsonl, summary.json, figures, "
    "report.html, and the weights for the raw columns as weights.json and weights.npz.",
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
    from proxyprox.experiments.study_config import EXAMPLE

    if example:
        typer.echo(EXAMPLE, nl=False)
        return
    if config is None:
        raise CommandError(
            "which configuration? Begin with: proxyprox run --example > my.toml, then "
            "proxyprox run my.toml"
        )
    _run(config, output or Path("runs") / config.stem, command_line(context), workers, as_json)


def _run(path: Path, folder: Path, command: str, workers: int | None, as_json: bool) -> None:
    from proxyprox.cli.comparison import output_folder

    with output_folder(folder):
        _fitted(path, folder, command, workers, as_json)


def _fitted(path: Path, folder: Path, command: str, workers: int | None, as_json: bool) -> None:
    from proxyprox.cli.comparison import Contest, conduct, present
    from proxyprox.experiments import study as own_data
    from proxyprox.experiments.study import prediction_rule, whose, write_weights
    from proxyprox.experiments.study_config import read_config
    from proxyprox.experiments.summary import end_points

    settings, base = read_config(path), path.parent.absolute()
    wanted = settings.run.weights
    # The records do not depend on whose weights are written: another choice may use them.
    settings = replace(settings, run=replace(settings.run, weights="method"))
    settings = own_data.prepare(settings, base)
    entries = own_data.entries(settings, base)
    main = entries[0].method
    shown = asdict(settings)
    shown["run"]["weights"] = wanted
    contest = Contest(
        title=f"proxyprox: {path.name}",
        config=settings,
        entries=entries,
        play=partial(own_data.run_job, base=base, keep=folder.absolute()),
        seeds=settings.run.seeds,
        tuning_budget=settings.run.tuning_budget,
        budget=settings.run.target_gradients,
        shown={**shown, "facts": own_data.facts(settings, base)},
        notes=own_data.notes(settings, base),
        main=main,
        remarks=lambda rows: [whose(main, wanted, end_points(rows))[-1]],
    )
    done = conduct(contest, folder=folder, workers=workers, command=command, as_json=as_json)
    chosen, lowest, _ = whose(main, wanted, end_points(done.rows))
    entry = next(entry for entry in entries if entry.method == chosen)
    eta = done.outcome.chosen[entry.panel, entry.method]
    answer = own_data.fit(settings, base, folder, entry, eta)
    weights = write_weights(folder, settings, own_data.study(settings, base), answer)
    more = {
        "lowest": lowest,
        "weights_of": chosen,
        "weights": [str(file) for file in weights],
        "status": answer["message"],
        "success": answer["success"],
        "eta": eta,
    }
    present(done, as_json=as_json, more=more)
    if not as_json:
        tell_path(stdout(), f"Weights ({chosen}): {weights[0]} and {weights[1].name}")
        say(stdout(), prediction_rule(settings, own_data.study(settings, base)))
    if not answer["success"]:
        size = f"{eta:g}" if isinstance(eta, float | int) else eta
        say(
            stderr(),
            f"Error: {chosen} did not end well (eta = {size}). {answer['message']} The "
            "weights written are what it ended with, marked as not usable.",
            style="bold red",
        )
        raise typer.Exit(BAD_RUN)
