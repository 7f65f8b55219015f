"""``proxyprox plan``: what the theory says, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from proxyprox.cli.console import Json, emit, examples, guarded, say, stdout

EPILOG = examples(
    "proxyprox plan --delta 0.1 --sigma 0 --mu 0.01 --H 10 --B 1 --epsilon 1e-3",
    "proxyprox plan --delta 0.1 --sigma 1 --H 10 --B 1 --epsilon 0.1",
    "proxyprox plan --delta 0 --sigma 1 --mu 1 --H 9 --B 1 --epsilon 0.1 --json",
)


@guarded
def plan(
    delta: Annotated[float, typer.Option(help="Similarity δ: smoothness of loss minus proxy.")],
    sigma: Annotated[float, typer.Option(help="Noise σ of a target gradient.")],
    H: Annotated[float, typer.Option("--H", help="Smoothness H of loss and proxy.")],
    B: Annotated[float, typer.Option("--B", help="Distance B of the start to a minimiser.")],
    epsilon: Annotated[float, typer.Option(help="Wanted accuracy ε.")],
    mu: Annotated[float, typer.Option(help="Strong convexity μ of the loss; 0 for convex.")] = 0.0,
    rho: Annotated[
        float | None,
        typer.Option(help="Noise ρ of a stochastic proxy gradient; default σ."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what the theory says for given constants: step size, steps, inner steps, SGD's count.

    Left out or zero, μ gives the convex case. The orders of magnitude leave constants out: compare
    them with each other, not with K.
    """
    given = {"delta": delta, "sigma": sigma, "H": H, "B": B, "epsilon": epsilon, "mu": mu}
    found = theory_says({**given, "rho": sigma if rho is None else rho})
    if as_json:
        emit(found)
    else:
        _print(found)


def theory_says(given: Mapping[str, float]) -> dict[str, Any]:
    """Return settings and counts by name, as JSON values, for the constants of the theorems."""
    from proxyprox import theory

    names = ("mu", "delta", "sigma", "H", "B", "epsilon")
    mu, delta, sigma, H, B, epsilon = (given[name] for name in names)
    ends = {"epsilon": epsilon, "B": B, "sigma": sigma}
    plan = theory.plan_run(mu=mu, delta=delta, **ends)
    order = {
        "proxyprox": theory.proxyprox_steps(delta=delta, mu=mu, **ends),
        "sgd": theory.sgd_steps(H=H, mu=mu, **ends),
        "lower_bound": theory.lower_bound(H=H, mu=mu, **ends),
        "noise": sigma * sigma / mu / epsilon if mu > 0 else (sigma * B / epsilon) ** 2,
    }
    threshold = theory.similarity_threshold(H=H, mu=mu, epsilon=epsilon, B=B)
    # The convex theorem adds its own regulariser to both losses.
    smooth = H if mu > 0 else H + plan.mu
    inner = {"eta": plan.eta, "mu": plan.mu, "H": smooth}
    return {
        "case": "strongly convex" if mu > 0 else "convex",
        "given": dict(given),
        "eta": plan.eta,
        "steps": plan.steps,
        "G": plan.G,
        "regularizer": 0.0 if mu > 0 else plan.mu,
        "guarantee": plan.guarantee,
        "inner_steps": {
            "sgd": theory.inner_steps_sgd(rho=given["rho"], G=plan.G, **inner),
            "gradient_descent": theory.inner_steps_gradient_descent(**inner),
            "nesterov": theory.inner_steps_nesterov(**inner),
        },
        "order": order,
        "similarity_threshold": threshold,
        "beats_sgd": delta < H,
        "beats_every_proxy_free_method": delta <= threshold,
        "noise_dominates": order["noise"] > order["lower_bound"] - order["noise"],
    }


def _print(found: Mapping[str, Any]) -> None:
    """Print the answers as tables with a few words of explanation for each."""
    from rich.table import Table
    from rich.text import Text

    inner, order, given = found["inner_steps"], found["order"], found["given"]
    console = stdout()
    say(console, f"The loss is {found['case']}; to be within {given['epsilon']:g} of its minimum:")
    sections: dict[str, list[tuple[str, float, str]]] = {
        "A run that gets there": [
            ("η", found["eta"], "step size of ProxyProx"),
            ("K", found["steps"], "outer steps, each one target gradient; constants included"),
            ("G", found["G"], "accuracy of an inner solve, besides its relative part"),
            ("1/(ηK)", found["regularizer"], "weight to add to both losses"),
            ("bound", found["guarantee"], "the theorem's bound on the expected suboptimality"),
        ],
        "Inner steps T of each of the K, by solver": [
            ("SGD", inner["sgd"], f"stochastic proxy gradients of noise ρ = {given['rho']:g}"),
            ("GD", inner["gradient_descent"], "full proxy gradients"),
            ("Nesterov", inner["nesterov"], "full proxy gradients with momentum"),
        ],
        "Target gradients in order of magnitude, constants left out": [
            ("ProxyProx", order["proxyprox"], "SGD's count with δ in place of H"),
            ("SGD", order["sgd"], "without a proxy"),
            ("bound", order["lower_bound"], "no method without a proxy needs fewer"),
            ("noise", order["noise"], "the part of each that is due to σ; no proxy lowers it"),
        ],
    }
    for title, rows in sections.items():
        console.print()
        say(console, title, style="bold")
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(min_width=9)
        table.add_column(justify="right", min_width=10, no_wrap=True)
        for name, value, words in rows:
            shown = f"{value:,}" if isinstance(value, int) and value < 10**9 else f"{value:.4g}"
            table.add_row(f"  {name}", shown, Text(words, style="dim"))
        console.print(table)
    console.print()
    say(console, _verdict(found))


def _verdict(found: Mapping[str, Any]) -> str:
    delta, threshold = found["given"]["delta"], found["similarity_threshold"]
    if found["beats_every_proxy_free_method"]:
        text = f"δ = {delta:g} ≤ {threshold:.3g}: this proxy beats every method without one"
    elif found["beats_sgd"]:
        text = f"δ = {delta:g} > {threshold:.3g}: this proxy beats SGD, but not every method"
    else:
        text = f"δ = {delta:g} ≥ H = {found['given']['H']:g}: this proxy is of no help"
    text += ", up to constants and logarithms."
    if found["noise_dominates"] and found["beats_sgd"]:
        text += " But most of each count is noise: larger batches come before a better proxy."
    return text
