"""How an audit's budget of target gradients is shared out, before the first is spent."""

from __future__ import annotations

from dataclasses import dataclass

from proxyprox._checks import has, message, one_of
from proxyprox.diagnostics._curvature import Hvps, Secants, Source
from proxyprox.diagnostics._samples import Sampler
from proxyprox.diagnostics._survey import LEAST_STEPS, least_price

TRIES = 3
"""Target gradients kept back for each step of the path: it may have to be shortened."""

MORE = 21
"""Further ones where the budget allows: steps made with noisy secants need a closer look."""

KINDS = ("auto", "hvp", "secants")


@dataclass(frozen=True)
class Shares:
    """Target gradients: for the curvature at each point, for that of the best scale, for a step."""

    points: tuple[int, ...]
    verify: int
    probes: int = TRIES


def source_for(kind: str, sampler: Sampler, size: int, budget: int, points: int) -> Source:
    """Return where the target's Hessian products come from.

    Parameters
    ----------
    kind : str
        One of ``"auto"``, ``"hvp"``, ``"secants"``.
    sampler : Sampler
        The batches drawn; secants are taken on some of them.
    size, budget, points : int
        Number of parameters, target gradients to spend, points to visit.
    """
    one_of("curvature", kind, KINDS)
    target, objective = sampler.target, sampler.target.objective
    # Products with private data would escape the privacy account, gradients do not.
    if kind != "secants" and has(objective, "hvp") and not has(objective, "epsilon"):
        return Hvps(target)
    if kind == "hvp":
        raise TypeError(
            f"curvature='hvp' needs Hessian-vector products, hvp(w, v), from the objective, but "
            f"{type(objective).__name__} does not offer them. Use curvature='auto'."
        )
    if sampler.exact:
        return Secants(target, sampler.batches)
    if not getattr(objective, "repeatable", True):
        raise TypeError(
            "audit compares gradients of one batch at two points, but the objective says that its "
            "batches are not repeatable. Give it hvp(w, v), or a repeatable simulation of it."
        )
    # As many batches as leave room for the whole Hessian everywhere, in two equal halves.
    rest = budget - points * (sampler.price + 1) - (points - 1) * (TRIES + MORE)
    most = rest // (points * (size + 1))
    return Secants(target, sampler.batches[: max(2, min(most - most % 2, len(sampler.batches)))])


def share_out(source: Source, sampler: Sampler, *, size: int, budget: int, points: int) -> Shares:
    """Divide what the gradients leave over: whole Hessians where possible, else equal parts.

    Raises
    ------
    ValueError
        If the budget does not allow the coarsest look at every point.
    """
    # At every point the batches and an exact gradient; on the way to it, probes of the step.
    spoken_for = points * (sampler.price + 1) + (points - 1) * TRIES
    rest, whole = budget - spoken_for, source.price(size)
    if points * whole <= rest:
        left = (rest - points * whole) // max(points - 1, 1)
        return Shares((whole,) * points, 0, TRIES + min(left, MORE))
    least = least_price(source, size)
    if rest < points * least:
        allowed = f"{spoken_for + points * least} or more for {points} points"
        remedy = "Or visit fewer points, or draw fewer batches."
        raise ValueError(message("budget", budget, allowed, remedy))
    if whole + (points - 1) * least <= rest:
        # One whole Hessian goes to the end of the path, where the prediction is made.
        return Shares((((rest - whole) // max(points - 1, 1)),) * (points - 1) + (whole,), 0)
    verify = source.price(LEAST_STEPS) if rest >= (points + 1) * least else 0
    return Shares(((rest - verify) // points,) * points, verify)
