"""``proxyprox audit``: will this proxy pay, before anything is spent on a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from proxyprox_app.cli.console import (
    CommandError,
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

SAMPLED = {
    "SGD": "sgd",
    "ProxyProx with the proxy as it is": "proxyprox",
    "ProxyProx as the plan has it": "offered",
}
EXACT = {
    "ProxyBFGS with this proxy": "rounds",
    "ProxyBFGS without a proxy": "rounds_without",
}


@guarded
def audit(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG.toml", help="Target, proxy, model.")
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a configuration.")] = False,
    epsilon: Annotated[float | None, typer.Option(help="Wanted suboptimality ε.")] = None,
    budget: Annotated[int, typer.Option(min=1, help="Most target gradients to use.")] = 400,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Judge a proxy: similarity, noise, predicted target gradients, a verdict and a plan.

    Without --epsilon a hundredth of the start's suboptimality is wanted. With batch_size = "all"
    every gradient is exact: three are used, and rounds of ProxyBFGS with and without the proxy are
    compared, to a millionth. Without --output the folder is runs/ and the name of the
    configuration, with "-audit" behind.

    Examples
    --------
    proxyprox audit --example > my.toml
    proxyprox audit my.toml
    proxyprox audit my.toml --epsilon 1e-3 --budget 200 --json

    Written: audit.html and audit.json.
    """
    import proxyprox as pp
    from proxyprox_app.page import write_json, write_page
    from proxyprox_app.study.config import example as text_of_example
    from proxyprox_app.study.config import read_config
    from proxyprox_app.study.problem import read_study

    if example:
        typer.echo(text_of_example(), nl=False)
        return
    if config is None:
        raise CommandError("name a configuration, which --example prints.")
    settings = read_config(config)
    folder, command = output or Path("runs") / f"{config.stem}-audit", command_line(context)
    study = read_study(settings, config.parent.absolute())
    kept = "Nothing was written: the page is written when the audit has ended."
    with output_folder(folder, command, kept):
        found = pp.audit(study.problem(), epsilon=epsilon, budget=budget, rng=settings.run.seed)
        planned = pp.plan(found)
        values = audit_values(found, planned)
        known = [name for name in QUANTITIES if name in values]
        limits = [{"quantity": QUANTITIES[name], **values[name]} for name in known]
        names, source = (SAMPLED, values["rehearsed"]) if "rehearsed" in values else (EXACT, values)
        ways = {name: source[key] for name, key in names.items()}
        unit = "target gradients" if "rehearsed" in values else "rounds of exact gradients"
        bill = {name.replace("_", " "): n for name, n in values["plan"]["bill"].items() if n}
        tables = {
            "Rehearsed": [{"method": way, unit: n} for way, n in ways.items()],
            "What was estimated": limits,
            "What the plan costs": [{"of what": name, "how much": n} for name, n in bill.items()],
        }
        file = write_page(
            folder / "audit.html", title=f"proxyprox audit: {config.name}",
            lead=[found.sentence, *found.reasons], notes=planned.notes, command=command,
            parts=[{"heading": name, "rows": rows} for name, rows in tables.items()],
        )  # fmt: skip
        write_json(folder / "audit.json", values)
    if as_json:
        emit({**values, "report": str(file)})
        return
    say(stdout(), str(found))
    say(stdout(), f"Plan: {planned}")
    say(stdout(), "To run it in Python: minimize(plan.problem, **plan.arguments).")
    tell_path(stdout(), f"Report: {file}")


def plain(value: Any) -> Any:
    """Return a value as JSON has it: None if not finite, the name of a constant, else its repr."""
    value = value._asdict() if hasattr(value, "_asdict") else value
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    known = value is None or isinstance(value, bool | int | float | str)
    return value if known else getattr(value, "name", repr(value))


def audit_values(audit: Any, plan: Any) -> dict[str, Any]:
    """Return an audit, and the plan made of it, as JSON values; what one lacks is left out."""
    names = (
        "verdict", "leaning", "sentence", "doubts", "reasons", "confidence", "epsilon",
        "rounds", "rounds_without", "delta", "H", "mu", "sigma2", "misfits",
    )  # fmt: skip
    found = {name: plain(getattr(audit, name)) for name in names if hasattr(audit, name)}
    if hasattr(audit, "prediction"):
        ways = {"sgd": "sgd", "proxyprox": "proxyprox", "offered": "best"}
        found["rehearsed"] = {
            way: plain(getattr(audit.prediction, name).steps) for way, name in ways.items()
        }
        found["scale"] = plain(audit.scale.value)
    steps = ("method", "steps", "averaging", "stop", "expected", "reaches", "notes")
    planned = {name: plain(getattr(plan, name)) for name in steps}
    planned["bill"] = plain(vars(plan.bill))
    return {**found, "ledger": audit.ledger.as_dict(), "plan": planned}
