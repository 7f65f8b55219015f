"""One outer step on lists of tensors: the function behind the optimiser's ``step``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from proxyprox._ledger import Ledger
from proxyprox._subproblem import NonFiniteError
from proxyprox.corrections import Correction
from proxyprox.stopping import Criterion, Progress, Steps
from proxyprox.torch._block import Block, copy_of, forget_casts
from proxyprox.torch._gather import Part, anchor_estimate, join_points, update_correction
from proxyprox.torch._inner_solve import InnerSolve, Rules
from proxyprox.torch._probe import depends, finite, probe, same_units, still_finite
from proxyprox.torch._proxy import Oracle, clear, gradients
from proxyprox.torch.inner import Stepper


@dataclass(frozen=True)
class Settings:
    """What stays the same from step to step; see the optimiser's parameters."""

    correction: Correction
    weight: float
    keeps: bool
    paired: bool
    measure: bool
    max_steps: int
    check_every: int
    watch: bool


def explicit_step(parts: list[Part], k: int, settings: Settings) -> None:
    """Minimise ``θ⟨m, w⟩ + ‖w − w_k‖²/(2η)``: without a proxy the plain method is SGD."""
    for part in parts:
        if settings.correction.two_points:
            join_points(part, settings.correction, k)
        update_correction(part, settings.correction, k, anchor=False, keep=settings.keeps)
        if part.decoupled and part.weight_decay:
            torch._foreach_mul_(part.params, 1 - part.eta * part.weight_decay)
        alpha = -part.eta * settings.weight
        torch._foreach_add_(part.params, part.correction, alpha=alpha)


def proximal_step(
    parts: list[Part],
    k: int,
    oracle: Oracle,
    stepper: Stepper,
    rule: Criterion,
    settings: Settings,
    ledger: Ledger,
    *,
    look: bool,
) -> tuple[int, Progress | None]:
    """Estimate ∇L − ∇L̂ and minimise the proxy with that correction around w_k.

    Parameters
    ----------
    parts : list of Part
        The parameters with their target gradients; changed in place, or not at all if anything
        fails on the way. ``.grad`` is used for the proxy's gradients.
    k : int
        Outer step.
    oracle, stepper, rule, settings
        The proxy, how inner steps are taken, when they end, and the rest.
    ledger : Ledger
        Counts the proxy's gradients.
    look : bool
        Probe the proxy first.

    Returns
    -------
    steps : int
        Inner steps taken.
    seen : Progress or None
        Where the solve ended, if it was measured.
    """
    moving = [part for part in parts if part.moves]
    value = _correct(parts, k, oracle, rule, settings, ledger, look=look)
    blocks: list[Block] = []
    try:
        blocks += [_block(part, oracle, rule, settings) for part in moving]
        if not moving:
            return 0, None
        rules = Rules(
            stop=rule,
            max_steps=settings.max_steps,
            check_every=settings.check_every,
            measure=settings.measure,
            weight=settings.weight,
            paired=settings.paired,
            pair_weight=1.0 if _needs_full(rule, settings) else settings.weight,
            probe=look,
            first=k == 0 and len(moving) == len(parts) and not _needs_full(rule, settings),
        )
        stepper.begin(k)
        corrections = [part.correction for part in moving]
        solve = InnerSolve(blocks, corrections, oracle, stepper, rules, ledger, value)
        steps, seen = solve.run()
        if settings.watch:
            for part in moving:
                still_finite(part.params, part.target, k)
    except BaseException as error:
        for block in blocks:
            torch._foreach_copy_(block.params, block.centre)
        forget_casts()
        if isinstance(error, NonFiniteError):
            for part in parts:
                part.forget()  # what is not finite may be in the estimate
        raise
    finally:
        if settings.correction.two_points:
            for part in parts:
                anchor_estimate(part, settings.correction, k)
    for part, block in zip(moving, blocks, strict=True):
        if part.decoupled and part.weight_decay:
            torch._foreach_add_(part.params, block.centre, alpha=-part.eta * part.weight_decay)
    return steps, seen


def _needs_full(rule: Criterion, settings: Settings) -> bool:
    """Tell whether ∇L̂(w_k) is wanted as a whole."""
    measured = settings.measure or not isinstance(rule, Steps)
    return not settings.paired or settings.keeps or measured


def _correct(
    parts: list[Part],
    k: int,
    oracle: Oracle,
    rule: Criterion,
    settings: Settings,
    ledger: Ledger,
    *,
    look: bool,
) -> Any | None:
    """Update the corrections, and return L̂(w_k) if its gradient is still in ``.grad``."""
    full, value = _needs_full(rule, settings), None
    if settings.correction.two_points:
        for part in parts:
            join_points(part, settings.correction, k)
    if look and not oracle.sampled:
        probe(oracle)
    if full:
        params = [p for part in parts for p in part.params]
        value = oracle.full(params)
        if k == 0:
            depends(params)
        found = gradients(params)
        if look:
            finite(value)
            same_units(found, [g for part in parts for g in part.target])
        ledger.proxy_gradients += 1
    for part in parts:
        update_correction(part, settings.correction, k, anchor=full, keep=settings.keeps)
        if not part.moves:
            clear(part.params)  # or a torch inner optimiser would move it
    return None if settings.paired else value


def _block(part: Part, oracle: Oracle, rule: Criterion, settings: Settings) -> Block:
    """Return one part's share of φ_k, at its centre."""
    # A correction that compares two points has w_k in its memory already.
    point = part.remembered("previous") if settings.correction.two_points else None
    centre = copy_of(part.params) if point is None else point
    linear, weight = part.correction, settings.weight
    if settings.paired and _needs_full(rule, settings):
        # The pairs cancel ∇L̂(w_k) on average: it comes back in the linear term.
        linear, weight = [p.grad for p in part.params], 1.0
        if getattr(oracle, "static", False):
            linear = copy_of(linear)  # the next gradient will lie in the same memory
        torch._foreach_add_(linear, part.correction, alpha=settings.weight)
        clear(part.params)
        part.target, part.shares = linear, (settings.weight, 1.0)
    return Block(part.params, centre, linear, weight, part.eta)
