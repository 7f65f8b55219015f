"""What to know before and after: ``audit`` and ``plan`` of a run, ``budget`` of privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from proxyprox._util.text import printable
from proxyprox_app.cli.console import CommandError, Json, emit, guarded, say, stderr, stdout


@guarded
def audit(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG.toml", help="Target, proxy, model.")
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a configuration.")] = False,
    epsilon: Annotated[float | None, typer.Option(help="Wanted suboptimality ε.")] = None,
    budget: Annotated[int, typer.Option(min=1, help="Most target gradients to use.")] = 400,
    as_json: Json = False,
) -> None:
    """Judge a proxy: similarity, noise, predicted target gradients, a verdict and a plan.

    Without --epsilon a hundredth of the start's suboptimality is wanted.

    Examples
    --------
    proxyprox audit --example > my.toml
    proxyprox audit my.toml
    proxyprox audit my.toml --epsilon 1e-3 --budget 200 --json > audit.json
    """
    import proxyprox as pp
    from proxyprox_app import problem

    if example:
        typer.echo(problem.example(), nl=False)
        return
    if config is None:
        raise CommandError("name a configuration, which --example prints.")
    settings = problem.read_config(config)
    study = problem.read_study(settings, config.parent.absolute())
    found = pp.audit(study.problem(), epsilon=epsilon, budget=budget, rng=settings.run.seed)
    planned = pp.plan(found)
    if as_json:
        findings = [finding._asdict() for finding in study.findings]
        emit({**audit_values(found, planned), "findings": findings})
        return
    for finding in study.findings:
        say(stderr(), f"Note: {finding}", "yellow")
    say(stdout(), str(found))
    say(stdout(), f"Plan: {planned}")
    say(stdout(), "To run it in Python: minimize(plan.problem, **plan.arguments).")


def plain(value: Any) -> Any:
    """Return a value as JSON has it: None if not finite, the name of a constant, else its repr."""
    value = value._asdict() if hasattr(value, "_asdict") else value
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return None if isinstance(value, float) and not math.isfinite(value) else value
    return getattr(value, "name", repr(value))


def audit_values(audit: Any, plan: Any) -> dict[str, Any]:
    """Return an audit, and the plan made of it, as JSON values."""
    names = (
        "verdict", "leaning", "sentence", "doubts", "reasons", "epsilon", "delta", "H", "mu",
        "sigma2",
    )  # fmt: skip
    found = {name: plain(getattr(audit, name)) for name in names}
    told = audit.prediction
    ways = {"sgd": told.sgd, "proxyprox": told.proxyprox, "offered": told.best}
    found["rehearsed"] = {way: plain(each.steps) for way, each in ways.items()}
    found["scale"] = plain(audit.scale)
    steps = ("method", "steps", "averaging", "stop", "expected", "reaches", "notes")
    planned = {name: plain(getattr(plan, name)) for name in steps}
    planned["bill"] = plain(vars(plan.bill))
    return {**found, "ledger": audit.ledger.as_dict(), "plan": planned}


@guarded
def plan(
    delta: Annotated[float, typer.Option(help="Similarity δ: smoothness of loss minus proxy.")],
    sigma: Annotated[float, typer.Option(help="Noise σ of a target gradient.")],
    H: Annotated[float, typer.Option("--H", help="Smoothness H of loss and proxy.")],
    B: Annotated[float, typer.Option("--B", help="Distance B of the start to a minimiser.")],
    epsilon: Annotated[float, typer.Option(help="Wanted accuracy ε.")],
    mu: Annotated[float, typer.Option(help="Strong convexity μ of the loss; 0 for convex.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Print what the theory says for given constants: step size, steps, and if the proxy helps.

    Left out or zero, μ gives the convex case; knowing it never makes a plan longer. With
    --sigma 0, rounds of exact gradients are counted as well. If ε ≥ HB²/2, the start is good
    enough, and that is all that is said.

    Examples
    --------
    proxyprox plan --delta 0.1 --sigma 0 --mu 0.01 --H 10 --B 1 --epsilon 1e-3
    proxyprox plan --delta 0.1 --sigma 1 --H 10 --B 1 --epsilon 0.1
    proxyprox plan --delta 0 --sigma 1 --mu 1 --H 9 --B 1 --epsilon 0.1 --json
    """
    from proxyprox import theory
    from proxyprox._util.extras import require

    jinja2: Any = require("jinja2", extra="app", purpose="printing a plan")

    found = theory.plan_run(delta=delta, sigma=sigma, B=B, epsilon=epsilon, mu=mu, solved=True)
    # A strongly convex loss is a convex one, too: what is known of μ must not do harm.
    threshold = max(theory.similarity_threshold(H=H, mu=m, epsilon=epsilon, B=B) for m in {0.0, mu})
    rounds = {
        name: theory.exact_rounds(delta=each, epsilon=epsilon, B=B, H=H, mu=mu)
        for name, each in {"proxybfgs": delta, "proxy_free": H / 2}.items()
        if sigma == 0
    }
    start = H * B * B / 2
    values: dict[str, Any] = {
        "given": {"delta": delta, "sigma": sigma, "H": H, "B": B, "epsilon": epsilon, "mu": mu},
        **{name: getattr(found, name) for name in ("eta", "steps", "guarantee")},
        "averaging": f"Geometric({found.average:.6g})" if mu > 0 else "Uniform()",
        "stop": f"Residual({found.tol:.4g})",
        "rounds": rounds,
        "start": start,
        "start_is_enough": start <= epsilon,
        "similarity_threshold": threshold,
        "beats_sgd": delta < H,
        "beats_every_proxy_free_method": delta <= threshold,
    }
    if as_json:
        emit(values)
        return
    loader = jinja2.PackageLoader("proxyprox_app.cli", "")
    options = {"undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    text = jinja2.Environment(loader=loader, **options).get_template("plan.txt").render(values)
    say(stdout(), text.strip())


@guarded
def budget(
    file: Annotated[Path, typer.Argument(help="The file of a PrivacyBudget.")],
    as_json: Json = False,
) -> None:
    """Show who spent how much of a privacy budget, when and how, and what is left.

    The file is checked and not changed; neither ε nor δ need be known. Fits may be running.

    Examples
    --------
    proxyprox budget budget.sqlite
    proxyprox budget budget.sqlite --json

    Per plan: who opened it and when, the times of its charges, σ, its ε and how much of it is
    spent.
    """
    from proxyprox.private.accounting import PrivacyBudget, PrivacyBudgetError, page

    try:
        report = PrivacyBudget.read(file).report()
    except PrivacyBudgetError as error:
        raise CommandError(str(error)) from error
    if as_json:
        emit(report)
    else:
        typer.echo(printable(page(report)))
