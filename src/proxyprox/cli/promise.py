"""What the theory promises, as ``proxyprox plan`` prints it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxyprox import theory
from proxyprox.cli.console import say


def promise(
    *, delta: float, sigma: float, H: float, B: float, epsilon: float, mu: float, rho: float
) -> dict[str, Any]:
    """Return settings and counts by name, as JSON values.

    Parameters
    ----------
    delta, sigma, H, B, epsilon, rho : float
        The constants of the theorems.
    mu : float
        Strong convexity; 0 for the convex case.
    """
    given = {"delta": delta, "sigma": sigma, "H": H, "B": B, "epsilon": epsilon, "mu": mu}
    ends = {"epsilon": epsilon, "B": B, "sigma": sigma}
    plan = theory.plan_run(mu=mu, delta=delta, **ends)
    ours = theory.proxyprox_steps(delta=delta, mu=mu, **ends)
    sgd = theory.sgd_steps(H=H, mu=mu, **ends)
    bound = theory.lower_bound(H=H, mu=mu, **ends)
    threshold = theory.similarity_threshold(H=H, mu=mu, epsilon=epsilon, B=B)
    noise = sigma * sigma / mu / epsilon if mu > 0 else (sigma * B / epsilon) ** 2
    # The convex theorem adds its own regulariser to both losses.
    smooth = H if mu > 0 else H + plan.mu
    inner = {"eta": plan.eta, "mu": plan.mu, "H": smooth}
    return {
        "case": "strongly convex" if mu > 0 else "convex",
        "given": {**given, "rho": rho},
        "eta": plan.eta,
        "steps": plan.steps,
        "G": plan.G,
        "regularizer": 0.0 if mu > 0 else plan.mu,
        "guarantee": plan.guarantee,
        "inner_steps": {
            "sgd": theory.inner_steps_sgd(rho=rho, G=plan.G, **inner),
            "gradient_descent": theory.inner_steps_gradient_descent(**inner),
            "nesterov": theory.inner_steps_nesterov(**inner),
        },
        "order": {"proxyprox": ours, "sgd": sgd, "lower_bound": bound, "noise": noise},
        "similarity_threshold": threshold,
        "beats_sgd": delta < H,
        "beats_every_proxy_free_method": delta <= threshold,
        "noise_dominates": noise > bound - noise,
    }


def print_promise(console: Console, found: Mapping[str, Any]) -> None:
    """Print the answers as tables with one line of explanation each.

    Parameters
    ----------
    console : Console
        Where to.
    found : mapping
        What :func:`promise` returns.
    """
    inner, order, given = found["inner_steps"], found["order"], found["given"]
    convex = found["case"] == "convex"
    say(console, f"The loss is {found['case']}; to be within {given['epsilon']:g} of its minimum:")
    settings = [
        ("η", found["eta"], "step size of ProxyProx"),
        ("K", found["steps"], "outer steps, each one target gradient; constants included"),
        ("G", found["G"], "accuracy of an inner solve, besides its relative part"),
        ("bound", found["guarantee"], "the theorem's bound on the expected suboptimality"),
    ]
    if convex:
        settings.insert(3, ("1/(ηK)", found["regularizer"], "weight to add to both losses"))
    _section(console, "A run that gets there", settings)
    _section(
        console,
        "Inner steps T of each of the K, by solver",
        [
            ("SGD", inner["sgd"], f"stochastic proxy gradients of noise ρ = {given['rho']:g}"),
            ("GD", inner["gradient_descent"], "full proxy gradients"),
            ("Nesterov", inner["nesterov"], "full proxy gradients with momentum"),
        ],
    )
    _section(
        console,
        "Target gradients in order of magnitude, constants left out",
        [
            ("ProxyProx", order["proxyprox"], "SGD's count with δ in place of H"),
            ("SGD", order["sgd"], "without a proxy"),
            ("bound", order["lower_bound"], "no method without a proxy needs fewer"),
            ("noise", order["noise"], "the part of each that is due to σ; no proxy lowers it"),
        ],
    )
    console.print()
    for text in _verdict(found):
        say(console, text)


def _section(console: Console, title: str, rows: list[tuple[str, float, str]]) -> None:
    console.print()
    say(console, title, style="bold")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(min_width=9)
    table.add_column(justify="right", min_width=10, no_wrap=True)
    table.add_column()
    for name, value, words in rows:
        table.add_row(f"  {name}", _number(value), Text(words, style="dim"))
    console.print(table)


def _verdict(found: Mapping[str, Any]) -> list[str]:
    delta, threshold = found["given"]["delta"], found["similarity_threshold"]
    if found["beats_every_proxy_free_method"]:
        first = f"δ = {delta:g} ≤ {threshold:.3g}: this proxy beats every method without one"
    elif found["beats_sgd"]:
        first = f"δ = {delta:g} > {threshold:.3g}: this proxy beats SGD, but not every method"
    else:
        first = f"δ = {delta:g} ≥ H = {found['given']['H']:g}: this proxy is of no help"
    said = [f"{first}, up to constants and logarithms."]
    if found["noise_dominates"] and found["beats_sgd"]:
        said.append("But most of each count is noise: larger batches come before a better proxy.")
    return said


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}" if value < 10**9 else f"{float(value):.3g}"
    return f"{value:.4g}"
