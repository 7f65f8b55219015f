"""``proxyprox audit``: will this proxy pay, before anything is spent on a run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from proxyprox_app.cli.console import Json, Output, command_line, emit, guarded, say, stdout

TO_RUN = (
    "To run this plan with proxyprox run, which solves the subproblems almost exactly, put these "
    "lines in place of [method] and of target_gradients in {}:"
)
NO_LINES = (
    "proxyprox run has no keys for this plan: call minimize(plan.problem, **plan.arguments) in "
    "Python."
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

    The configuration is that of proxyprox run: [model], [target], [proxy] and [method] batch_size
    are used. Written: audit.html and audit.json.
    """
    import proxyprox as pp
    from proxyprox_app.cli.comparison import output_folder
    from proxyprox_app.report.page import audit_values, write_audit_page
    from proxyprox_app.report.summary import write_json
    from proxyprox_app.study import problem
    from proxyprox_app.study.config import read_config

    settings, base = read_config(config), config.parent.absolute()
    folder, command = output or Path("runs") / f"{config.stem}-audit", command_line(context)
    size = settings.method.batch_size
    settings = problem.prepare(settings, base)
    losses = problem.load_study(settings, base).problem(size)
    found = pp.audit(losses, epsilon=epsilon, budget=budget, rng=settings.run.seed)
    planned = pp.plan(found)
    lines = problem.plan_toml(planned, size)
    values = audit_values(found, planned)
    values["plan"]["toml"] = lines
    # What to run is not what was audited.
    shown = {name: asdict(settings)[name] for name in ("model", "target", "proxy")}
    with output_folder(folder, command):
        file = write_audit_page(
            folder,
            found,
            planned,
            title=f"proxyprox audit: {config.name}",
            command=command,
            config={**shown, "batch_size": size},
        )
        write_json(folder / "audit.json", values)
    if as_json:
        emit({**values, "report": str(file)})
        return
    say(stdout(), str(found))
    say(stdout(), f"Plan: {planned}")
    say(stdout(), NO_LINES if lines is None else f"{TO_RUN.format(config.name)}\n\n{lines}\n")
    say(stdout(), f"Report: {file}", style="bold")
