"""``proxyprox plan``: what the theory says, before anything is spent."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from proxyprox_app.cli.console import Json, emit, guarded, say, stdout

TABLE = """\
The loss is {case}; to be within {given[epsilon]:g} of its minimum:

A run that gets there, its subproblems solved exactly, the proxy convex
  η         {eta:>10.4g}  step size of ProxyProx
  K         {steps:>10,}  steps, each one target gradient; constants included
  bound     {guarantee:>10.4g}  on the expected suboptimality of the mean
  minimize(problem, w0, method=ProxyProx({eta:.6g}), steps={steps},
           averaging={averaging}, stop={stop})

The same with subproblems solved to the paper's accuracy
  η         {inexact[eta]:>10.4g}  step size
  K         {inexact[steps]:>10,}  steps
  G         {inexact[G]:>10.4g}  accuracy of an inner solve, besides its relative part
  1/(ηK)    {inexact[regularizer]:>10.4g}  weight to add to both losses
  bound     {inexact[guarantee]:>10.4g}  on the expected suboptimality of the mean
  minimize({inexact[problem]}, w0,
           method=ProxyProx({inexact[eta]:.6g}), steps={inexact[steps]},
           averaging={inexact[averaging]}, stop={inexact[stop]})

Inner steps T of each of these, by solver
  SGD       {inner_steps[sgd]:>10,}  stochastic proxy gradients of noise ρ = {given[rho]:g}
  GD        {inner_steps[gradient_descent]:>10,}  full proxy gradients
  Nesterov  {inner_steps[nesterov]:>10,}  full proxy gradients with momentum

Target gradients in order of magnitude, constants left out
  ProxyProx {order[proxyprox]:>10.4g}  SGD's count with δ in place of H
  SGD       {order[sgd]:>10.4g}  without a proxy
  bound     {order[lower_bound]:>10.4g}  no method without a proxy needs fewer
  noise     {order[noise]:>10.4g}  the part of each that is due to σ; no proxy lowers it

"""

# Only where σ = 0.
EXACT = """\
The gradients are exact (σ = 0): leave the method to minimize, which takes
ProxyBFGS, and count rounds, of one full gradient each, in place of K steps
  ProxyBFGS {rounds[proxybfgs]:>10,}  at most, on a quadratic
  L-BFGS    {rounds[proxy_free]:>10,}  the same without a proxy, its memory unlimited
K is what DANE needs for every loss with these constants.
proxyprox audit rehearses both methods on your own problem.

"""


# Only where δ = 0, too.
SAME = """\
The gradients are exact and the proxy has the loss's curvature (σ = δ = 0): one
full gradient solves the problem, by method=DANE(eta=math.inf).

"""

ENOUGH = """\
Nothing needs to be run: the start is within ε = {epsilon:g} of the minimum, as
L(w_0) − L* ≤ HB²/2 = {start:.4g}."""


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
    --sigma 0, rounds of exact gradients are counted as well. Where ε ≥ HB²/2, the start is good
    enough, and that is all that is said. The orders of magnitude leave
    constants out: compare them with each other, not with K.

    Examples
    --------
    proxyprox plan --delta 0.1 --sigma 0 --mu 0.01 --H 10 --B 1 --epsilon 1e-3
    proxyprox plan --delta 0.1 --sigma 1 --H 10 --B 1 --epsilon 0.1
    proxyprox plan --delta 0 --sigma 1 --mu 1 --H 9 --B 1 --epsilon 0.1 --json
    """
    from proxyprox import theory

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
    added = found.mu if found.regularized else 0.0
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
            "problem": "problem",
            "averaging": f"Geometric({found.average:.6g})",
            "stop": f"StronglyConvex({found.mu:.6g}, {found.G:.4g})",
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
        "start_is_enough": start <= epsilon,
        "similarity_threshold": threshold,
        "beats_sgd": delta < H,
        "beats_every_proxy_free_method": delta <= threshold,
        "noise_dominates": 2 * order["noise"] > order["lower_bound"],
    }
    if found.regularized:
        values["inexact"] |= {
            "problem": f"regularized(problem, {found.mu:.6g}, w0)",
            "averaging": "Uniform()",
            "stop": f"Convex({found.steps}, {found.G:.4g})",
        }
    if as_json:
        emit(values)
        return
    if values["start_is_enough"]:
        say(stdout(), ENOUGH.format(epsilon=epsilon, start=start))
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
    table = TABLE
    if sigma == 0:
        table += EXACT if delta > 0 else SAME
    say(stdout(), table.format_map(values) + text)
