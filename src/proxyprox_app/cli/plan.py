"""``proxyprox plan``: what the theory says, before anything is spent."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from proxyprox_app.cli.console import Json, emit, guarded, say, stdout


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

    Left out or zero, μ gives the convex case; knowing it never makes a plan longer. With
    --sigma 0, rounds of exact gradients are counted as well. If ε ≥ HB²/2, the start is good
    enough, and that is all that is said. The orders of magnitude leave
    constants out: compare them with each other, not with K.

    Examples
    --------
    proxyprox plan --delta 0.1 --sigma 0 --mu 0.01 --H 10 --B 1 --epsilon 1e-3
    proxyprox plan --delta 0.1 --sigma 1 --H 10 --B 1 --epsilon 0.1
    proxyprox plan --delta 0 --sigma 1 --mu 1 --H 9 --B 1 --epsilon 0.1 --json
    """
    from proxyprox import theory
    from proxyprox._util.extras import require

    jinja2: Any = require("jinja2", extra="app", purpose="printing a plan")

    rho = sigma if rho is None else rho
    ends = {"epsilon": epsilon, "B": B, "sigma": sigma}
    solved, found = (theory.plan_run(mu=mu, delta=delta, solved=s, **ends) for s in (True, False))
    # A strongly convex loss is a convex one, too: what is known of μ must not do harm.
    cases = [0.0, mu] if mu > 0 else [0.0]
    threshold = max(theory.similarity_threshold(H=H, mu=m, epsilon=epsilon, B=B) for m in cases)
    order = {
        "proxyprox": min(theory.proxyprox_steps(delta=delta, mu=m, **ends) for m in cases),
        "sgd": min(theory.sgd_steps(H=H, mu=m, **ends) for m in cases),
        "lower_bound": min(theory.lower_bound(H=H, mu=m, **ends) for m in cases),
        "noise": min(sigma**2 / m / epsilon if m else (sigma * B / epsilon) ** 2 for m in cases),
    }
    # The convex theorem adds its own regulariser to both losses.
    convex = found.regularized
    added = found.mu if convex else 0.0
    inner = {"eta": found.eta, "mu": found.mu, "H": H + added}
    known = {"epsilon": epsilon, "B": B, "H": H, "mu": mu}
    start = H * B * B / 2
    proxies = {"proxybfgs": delta, "proxy_free": H / 2}
    values: dict[str, Any] = {
        "case": "strongly convex" if mu > 0 else "convex",
        "given": {"delta": delta, "H": H, "mu": mu, **ends, "rho": rho},
        "eta": solved.eta,
        "steps": solved.steps,
        "guarantee": solved.guarantee,
        "averaging": f"Geometric({solved.average:.6g})" if mu > 0 else "Uniform()",
        "stop": f"Residual({solved.tol:.4g})",
        "inexact": {
            "eta": found.eta,
            "steps": found.steps,
            "G": found.G,
            "regularizer": added,
            "guarantee": found.guarantee,
            "problem": f"regularized(problem, {found.mu:.6g}, w0)" if convex else "problem",
            "averaging": "Uniform()" if convex else f"Geometric({found.average:.6g})",
            "stop": f"Convex({found.steps}, {found.G:.4g})"
            if convex
            else f"StronglyConvex({found.mu:.6g}, {found.G:.4g})",
        },
        "inner_steps": {
            "sgd": theory.inner_steps_sgd(rho=rho, G=found.G, **inner),
            "gradient_descent": theory.inner_steps_gradient_descent(**inner),
            "nesterov": theory.inner_steps_nesterov(**inner),
        },
        "order": order,
        "rounds": {
            name: theory.exact_rounds(delta=each, **known) if sigma == 0 else None
            for name, each in proxies.items()
        },
        "start": start,
        "start_is_enough": start <= epsilon,
        "similarity_threshold": threshold,
        "beats_sgd": delta < H,
        "beats_every_proxy_free_method": delta <= threshold,
        "noise_dominates": 2 * order["noise"] > order["lower_bound"],
    }
    if as_json:
        emit(values)
        return
    loader = jinja2.PackageLoader("proxyprox_app.cli", "")
    options = {"undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    text = jinja2.Environment(loader=loader, **options).get_template("plan.txt").render(values)
    say(stdout(), text.strip())
