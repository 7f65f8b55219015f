"""One outer step: the target's gradients, the correction, the inner solve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from proxyprox._util.validation import message
from proxyprox.corrections import Correction
from proxyprox.inner.base import NonFiniteError
from proxyprox.torch import checks
from proxyprox.torch.distributed import copy_into, set_gradients
from proxyprox.torch.inner import Block, OuterStep, copy_tensors, solve
from proxyprox.torch.proxy import clear, gradients

if TYPE_CHECKING:
    from proxyprox.torch.optimizer import ProxyProx


def make_blocks(optimizer: ProxyProx) -> list[Block]:
    """Return the parameters that have a gradient; the others are left alone, as torch does."""
    blocks, state = [], optimizer.state
    for group in optimizer.param_groups:
        params = [p for p in group["params"] if p.grad is not None]
        checks.check_dense(params)
        eta, decay = float(group["lr"]), float(group["weight_decay"])
        if params and not eta >= 0:
            raise ValueError(message("lr", eta, "0 or a positive number", "Check the schedule."))
        decoupled = group["decoupled_weight_decay"] and decay > 0
        decays = (0.0, eta * decay) if decoupled else (decay, 0.0)
        for known in (True, False):
            members = [p for p in params if ("estimate" in state[p]) == known]
            if members:
                target, states = [p.grad for p in members], [state[p] for p in members]
                blocks.append(Block(members, target, states, eta, *decays))
    return blocks


def coefficients(correction: Correction, k: int, *, started: bool) -> tuple[float, float]:
    """Return d and e of a correction ``m ← d·(g − a) + e·m``.

    They are read off its values at two unit vectors, and applied in place to all parameters at
    once, with no temporary copy of the network. ``started`` says that there is an estimate already.

    Examples
    --------
    >>> from proxyprox.corrections import EMA
    >>> coefficients(EMA(a=0.25), k=3, started=True)
    (0.25, 0.75)
    """

    def value_at(vectors: Any) -> Any:
        new, kept = vectors.copy()
        return correction(new, None, kept if started else None, k)

    try:
        parts = value_at(np.eye(2))
        others = np.array([[130.0, -7.0, 0.4], [50.0, 0.9, -170.0]])
        if not np.allclose(value_at(others), parts @ others, rtol=1e-9):
            raise ValueError("other vectors are combined in another way")
        return float(parts[0]), float(parts[1])
    except (TypeError, AttributeError, ValueError) as error:
        raise TypeError(
            "correction must be linear in the differences (additions, and products with numbers), "
            f"got {correction!r}. Use Plain, EMA or Mean, or proxyprox.minimize on arrays."
        ) from error


def keeps_estimate(correction: Correction) -> bool:
    """Tell whether the estimate must be kept from step to step."""
    coefficients(correction, 0, started=False)
    return coefficients(correction, 1, started=True)[1] != 0


def update_correction(block: Block, outer: OuterStep) -> None:
    """Set ``block.correction`` to the new estimate of ∇L − ∇L̂, in the memory of the old one.

    With a full pass, ∇L̂(w_k) is in ``.grad``.
    """
    started = "estimate" in block.states[0]
    of_new, of_kept = coefficients(outer.optimizer.correction, outer.k, started=started)
    if not started:
        estimate: Any = torch._foreach_mul(block.target, of_new)
    else:
        estimate = [state["estimate"] for state in block.states]
        torch._foreach_mul_(estimate, of_kept)
        torch._foreach_add_(estimate, block.target, alpha=of_new)
    torch._foreach_add_(estimate, [p.grad for p in block.params], alpha=-of_new)
    if block.coupled_decay:
        torch._foreach_add_(estimate, block.params, alpha=block.coupled_decay * of_new)
    block.correction = estimate
    for state, kept in zip(block.states, estimate, strict=True) if outer.keeps else ():
        state["estimate"] = kept


def take_step(blocks: list[Block], outer: OuterStep) -> tuple[float, float]:
    """Move the parameters; ``.grad`` is afterwards what each block has as its target's gradient.

    Returns what :func:`solve` does.
    """
    optimizer, probe = outer.optimizer, outer.probe and outer.k == 0
    params = [p for block in blocks for p in block.params]
    try:
        with checks.watched_passes(optimizer, params, outer.k, outer.probe):
            if probe:
                checks.check_full_batches(optimizer.proxy, optimizer.model)
            return proximal_step(blocks, outer)
    finally:
        for block in blocks:
            set_gradients(block.params, block.target)


def proximal_step(blocks: list[Block], outer: OuterStep) -> tuple[float, float]:
    """Estimate ∇L − ∇L̂ and minimise the proxy with that correction around w_k.

    The parameters change in place, or not at all if anything fails on the way; ``.grad`` is used
    for the proxy's gradients.
    """
    moving = [block for block in blocks if block.moves]
    correct(blocks, outer)
    try:
        outer.stepper.begin(outer.k, outer.optimizer.param_groups)
        found = solve(moving, outer) if moving else (math.nan, math.nan)
        if outer.probe and moving:
            params = [p for block in moving for p in block.params]
            target = [g for block in moving for g in block.target]
            checks.check_end(outer.optimizer.proxy, params, target, outer.k, outer.steps)
    except BaseException as error:
        for block in (block for block in moving if block.centre):
            copy_into(block.params, block.centre)
        torch.clear_autocast_cache()
        if isinstance(error, NonFiniteError):
            for state in (state for block in blocks for state in block.states):
                state.pop("estimate", None)  # what is not finite may be in it
        raise
    for block in moving:
        if block.decoupled_decay:
            torch._foreach_add_(block.params, block.centre, alpha=-block.decoupled_decay)
    return found


def correct(blocks: list[Block], outer: OuterStep) -> None:
    """Update the corrections; the whole proxy's gradient at w_k is then in ``.grad``."""
    optimizer, probe = outer.optimizer, outer.probe and outer.k == 0
    proxy: Any = optimizer.proxy
    if probe and not proxy.sampled:
        checks.probe_proxy(proxy)
    params = [p for block in blocks for p in block.params]
    value = proxy.full(params)
    if outer.k == 0:
        checks.check_dependence(params)
    found = gradients(params)
    if probe:
        checks.check_loss(value)
        target = [g for block in blocks for g in block.target]
        checks.compare_lengths(checks.length(found), checks.length(target))
    optimizer.ledger.proxy_gradients += 1
    for block in blocks:
        update_correction(block, outer)
        block.weight = optimizer.correction_weight
        if block.moves:
            block.centre = copy_tensors(block.params)
        else:
            clear(block.params)  # or a torch inner optimiser would move it
