"""``proxyprox audit``: will this proxy pay, before anything is spent on a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proxyprox_app.cli.console import (
    Json,
    Output,
    command_line,
    emit,
    guarded,
    output_folder,
    say,
    stdout,
    tell_path,
)


@guarded
def audit(
    context: typer.Context,
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="Target, proxy, model.")],
    epsilon: Annotated[float | None, typer.Option(help="Wanted suboptimality ε.")] = None,
    budget: Annotated[int, typer.Option(min=1, help="Most target gradients to use.")] = 400,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Judge a proxy: similarity, noise, predicted target gradients, a verdict and a plan.

    Without --epsilon a hundredth of the start's suboptimality is wanted. With batch_size = "all"
    every gradient is exact: three are used, and rounds of ProxyBFGS are compared with those of
    L-BFGS, to a millionth. Without --output the folder is runs/ and the name of the configuration,
    with "-audit" behind.

    Examples
    --------
    proxyprox run --example > my.toml
    proxyprox audit my.toml
    proxyprox audit my.toml --epsilon 1e-3 --budget 200 --json

    The configuration is that of proxyprox run: [model], [target], [proxy] and [run] batch_size
    are used. Written: audit.html and audit.json.
    """
    import proxyprox as pp
    from proxyprox_app.report.page import audit_values, write_audit_page
    from proxyprox_app.report.summary import write_json
    from proxyprox_app.study.config import read_config
    from proxyprox_app.study.problem import read_study

    settings = read_config(config)
    folder, command = output or Path("runs") / f"{config.stem}-audit", command_line(context)
    study = read_study(settings, config.parent.absolute())
    kept = "Nothing was written: the page is written when the audit has ended."
    with output_folder(folder, command, kept):
        found = pp.audit(study.problem(), epsilon=epsilon, budget=budget, rng=settings.run.seed)
        planned = pp.plan(found)
        values = audit_values(found, planned)
        file = write_audit_page(
            folder,
            found,
            planned,
            title=f"proxyprox audit: {config.name}",
            command=command,
            config=settings.model_dump(exclude={"run": {"methods", "seeds", "target_gradients"}}),
        )
        write_json(folder / "audit.json", values)
    if as_json:
        emit({**values, "report": str(file)})
        return
    say(stdout(), str(found))
    say(stdout(), f"Plan: {planned}")
    say(stdout(), "To run it in Python: minimize(plan.problem, **plan.arguments).")
    tell_path(stdout(), f"Report: {file}")
