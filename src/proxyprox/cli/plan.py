"""``proxyprox plan``: what the theory promises, before anything is spent."""

from __future__ import annotations

from typing import Annotated

import typer

from proxyprox.cli.console import Json, examples, guarded

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
    from proxyprox.cli.console import emit, stdout
    from proxyprox.cli.promise import print_promise, promise

    found = promise(
        delta=delta,
        sigma=sigma,
        H=H,
        B=B,
        epsilon=epsilon,
        mu=mu,
        rho=sigma if rho is None else rho,
    )
    if as_json:
        emit(found)
    else:
        print_promise(stdout(), found)
