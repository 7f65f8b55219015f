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

QUANTITIES = {
    "delta": "similarity δ: how differently proxy and target curve",
    "H": "smoothness H: the target's strongest curvature",
    "mu": "strong convexity μ: the target's weakest curvature",
    "sigma2": "noise σ²: how far one batch's target gradient is off, squared",
}


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
    from proxyprox_app.report.page import audit_values, write_report
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
        limits = [
            {"quantity": words, **values[name]}
            for name, words in QUANTITIES.items()
            if name in values
        ]
        ways = values.get("rehearsed") or {
            "ProxyBFGS with this proxy": values["rounds"],
            "ProxyBFGS without a proxy": values["rounds_without"],
            "L-BFGS": values["rounds_lbfgs"],
        }
        unit = "target gradients" if "rehearsed" in values else "rounds of exact gradients"
        file = write_report(
            folder,
            name="audit.html",
            title=f"proxyprox audit: {config.name}",
            lead=[found.sentence, *found.reasons],
            tables=[
                (f"Rehearsed: {unit}", [{"method": way, unit: n} for way, n in ways.items()]),
                ("What was estimated", limits),
                ("What the plan costs", [values["plan"]["bill"]]),
            ],
            notes=planned.notes,
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
