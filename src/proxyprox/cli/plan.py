"""``proxyprox plan``: what the theory says, before anything is spent."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from proxyprox.cli.console import Json, emit, guarded, say, stdout

TABLE = """\
The loss is {case}; to be within {given[epsilon]:g} of its minimum:

A run that gets there
  η         {eta:>10.4g}  step size of ProxyProx
  K         {steps:>10,}  steps, each one target gradient; constants included
  G         {G:>10.4g}  accuracy of an inner solve, besides its relative part
  1/(ηK)    {regularizer:>10.4g}  weight to add to both losses
  bound     {guarantee:>10.4g}  the theorem's bound on the expected suboptimality

Inner steps T of each of the K, by solver
  SGD       {inner_steps[sgd]:>10,}  stochastic proxy gradients of noise ρ = {given[rho]:g}
  GD        {inner_steps[gradient_descent]:>10,}  full proxy gradients
  Nesterov  {inner_steps[nesterov]:>10,}  full proxy gradients with momentum

Target gradients in order of magnitude, constants left out
  ProxyProx {order[proxyprox]:>10.4g}  SGD's count with δ in place of H
  SGD       {order[sgd]:>10.4g}  without a proxy
  bound     {order[lower_bound]:>10.4g}  no method without a proxy needs fewer
  noise     {order[noise]:>10.4g}  the part of each that is due to σ; no proxy lowers it

"""


@guarded
def plan(
    delta: Annotated[float, typer.Option(help="Similarity δ: smoothness of loss minus proxy.")],
    sigma: Annotated[float, typer.Option(help="Noise σ of a target gradient.")],
    H: Annotated[float, typer.Option("--H", help="Smoothness H of loss and proxy.")],
    B: Annotated[float, typer.Option("--B", help="Distance B of the start to a minimiser.")],
    epsilon: Annotated[float, typer.Option(help="Wanted accuracy ε.")],
    mu: Annotated[float, typer.Option(help="Strong convexity μ of the loss; 0 for convex.")] = 0.0,
    rho: Annotated[
        float | None, typer.Option(help="Noise ρ of a proxy gradient; default σ.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what the theory says for given constants: step size, steps, inner steps, SGD's count.

    Left out or zero, μ gives the convex case. The orders of magnitude leave constants out: compare
    them with each other, not with K.

    Examples
    --------
    proxyprox plan --delta 0.1 --sigma 0 --mu 0.01 --H 10 --B 1 --epsilon 1e-3
    proxyprox plan --delta 0.1 --sigma 1 --H 10 --B 1 --epsilon 0.1
    proxyprox plan --delta 0 --sigma 1 --mu 1 --H 9 --B 1 --epsilon 0.1 --json
    """
    from proxyprox import theory

    rho = sigma if rho is None else rho
    ends = {"epsilon": epsilon, "B": B, "sigma": sigma}
    found = theory.plan_run(mu=mu, delta=delta, **ends)
    threshold = theory.similarity_threshold(H=H, mu=mu, epsilon=epsilon, B=B)
    noise = sigma * sigma / mu / epsilon if mu > 0 else (sigma * B / epsilon) ** 2
    bound = theory.lower_bound(H=H, mu=mu, **ends)
    # The convex theorem adds its own regulariser to both losses.
    inner = {"eta": found.eta, "mu": found.mu, "H": H if mu > 0 else H + found.mu}
    values: dict[str, Any] = {
        "case": "strongly convex" if mu > 0 else "convex",
        "given": {"delta": delta, "H": H, "mu": mu, **ends, "rho": rho},
        "eta": found.eta,
        "steps": found.steps,
        "G": found.G,
        "regularizer": 0.0 if mu > 0 else found.mu,
        "guarantee": found.guarantee,
        "inner_steps": {
            "sgd": theory.inner_steps_sgd(rho=rho, G=found.G, **inner),
            "gradient_descent": theory.inner_steps_gradient_descent(**inner),
            "nesterov": theory.inner_steps_nesterov(**inner),
        },
        "order": {
            "proxyprox": theory.proxyprox_steps(delta=delta, mu=mu, **ends),
            "sgd": theory.sgd_steps(H=H, mu=mu, **ends),
            "lower_bound": bound,
            "noise": noise,
        },
        "similarity_threshold": threshold,
        "beats_sgd": delta < H,
        "beats_every_proxy_free_method": delta <= threshold,
        "noise_dominates": noise > bound - noise,
    }
    if as_json:
        emit(values)
        return
    if delta <= threshold:
        text = f"δ = {delta:g} ≤ {threshold:.3g}: this proxy beats every method without one"
    elif delta < H:
        text = f"δ = {delta:g} > {threshold:.3g}: this proxy beats SGD, but not every method"
    else:
        text = f"δ = {delta:g} ≥ H = {H:g}: this proxy is of no help"
    text += ", up to constants and logarithms."
    if values["noise_dominates"] and delta < H:
        text += " But most of each count is noise: larger batches come before a better proxy."
    say(stdout(), TABLE.format_map(values) + text)
