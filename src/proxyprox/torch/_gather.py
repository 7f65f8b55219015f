"""From parameter groups to lists of tensors, and the estimate of ∇L − ∇L̂ on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from proxyprox._checks import message
from proxyprox._ledger import Ledger
from proxyprox.corrections import Correction
from proxyprox.torch._block import copy_of
from proxyprox.torch._linear import Tensors, anchor_share, coefficients, combine, difference
from proxyprox.torch._modes import proxy_mode
from proxyprox.torch._proxy import Oracle, clear, gradients

SMALLEST_ETA = 1e-30
"""Below this a step size counts as 0 (the end of a schedule): its inverse would overflow."""


@dataclass
class Part:
    """Parameters of one group that have a gradient, with what belongs to them.

    Either all of them have an estimate from earlier steps or none has. ``target`` is g_k; where a
    fourth copy of the parameters would be needed otherwise, it becomes ``x·m + y·∇L̂(w_k)`` with
    ``shares = (x, y)``, and the memory of g_k is free.
    """

    params: list[Any]
    target: Tensors
    states: list[dict[str, Any]]
    eta: float
    weight_decay: float
    decoupled: bool
    before: list[Any] | None = None
    correction: Tensors = field(default_factory=list)
    shares: tuple[float, float] = (0.0, 0.0)

    @property
    def moves(self) -> bool:
        """Whether the step size lets the group move at all."""
        return self.eta > SMALLEST_ETA

    @property
    def coupled_decay(self) -> float:
        """The weight decay that belongs into the target's gradient."""
        return 0.0 if self.decoupled else self.weight_decay

    def remembered(self, name: str) -> list[Any] | None:
        """Return what the state holds under a name, if it does."""
        return [state[name] for state in self.states] if name in self.states[0] else None

    def remember(self, name: str, values: Tensors) -> None:
        """Put tensors into the state."""
        for state, value in zip(self.states, values, strict=True):
            state[name] = value

    def forget(self) -> None:
        """Start the estimate anew at the next step."""
        for state in self.states:
            state.pop("estimate", None)
            state.pop("previous", None)

    def remember_point(self) -> None:
        """Put w_k into the state, in the memory of w_{k−1}."""
        kept = self.remembered("previous")
        if kept is None:
            self.remember("previous", copy_of(self.params))
        else:
            torch._foreach_copy_(kept, self.params)


def gather(
    groups: Iterable[Mapping[str, Any]],
    state: Mapping[Any, dict[str, Any]],
    before: Mapping[Any, Any],
) -> list[Part]:
    """Collect the parameters that have a gradient; the others are left alone, as torch does.

    Parameters
    ----------
    groups : iterable of mappings
        The optimiser's parameter groups.
    state : mapping
        Its state by parameter.
    before : mapping
        The batch's gradient at w_{k−1} by parameter, where there is one.
    """
    parts: list[Part] = []
    for group in groups:
        params = [p for p in group["params"] if p.grad is not None]
        for p in params:
            if p.grad.is_sparse:
                raise RuntimeError(
                    "ProxyProx does not support sparse gradients: the proxy's gradient is dense. "
                    "Use nn.Embedding(..., sparse=False), or another optimiser for that group."
                )
        eta = float(group["lr"])
        if params and not eta >= 0:
            raise ValueError(message("lr", eta, "0 or a positive number", "Look at the schedule."))
        known = [p for p in params if "estimate" in state[p]]
        fresh = [p for p in params if "estimate" not in state[p]]
        parts += [
            Part(
                params=members,
                target=[p.grad for p in members],
                states=[state[p] for p in members],
                eta=eta,
                weight_decay=float(group["weight_decay"]),
                decoupled=bool(group["decoupled_weight_decay"]),
                before=[before[p] for p in members] if members[0] in before else None,
            )
            for members in (known, fresh)
            if members
        ]
    return parts


def update_correction(
    part: Part, correction: Correction, k: int, *, anchor: bool, keep: bool
) -> None:
    """Set ``part.correction`` to the new estimate of ∇L − ∇L̂.

    Parameters
    ----------
    part : Part
        A group's tensors; with an anchor, ∇L̂(w_k) is in their ``.grad``.
    correction : Correction
        How differences become an estimate; for one that compares two points,
        :func:`join_points` has been called before.
    k : int
        Outer step.
    anchor : bool
        Whether ``.grad`` holds ∇L̂(w_k); otherwise it counts as zero.
    keep : bool
        Whether the estimate is part of the state.
    """
    estimate = part.remembered("estimate")
    minus = [p.grad for p in part.params] if anchor else None
    if correction.two_points:
        part.correction = difference(estimate, part.target, minus, part.shares[1])
        part.remember_point()
    else:
        numbers = coefficients(correction, k, started=estimate is not None)
        part.correction = combine(numbers, estimate, part.target, minus)
        if part.coupled_decay:
            alpha = part.coupled_decay * numbers.difference
            torch._foreach_add_(part.correction, part.params, alpha=alpha)
    if keep:
        part.remember("estimate", part.correction)


def join_points(part: Part, correction: Correction, k: int) -> None:
    """Replace g_k by all of a two-point correction's next estimate but the proxy's share.

    That is ``d·g_k + b·g′ + e·kept``, in the memory of g′, the batch's gradient at w_{k−1}.
    """
    kept = part.remembered("estimate")
    numbers = coefficients(correction, k, started=kept is not None)
    if numbers.difference == 0:
        raise TypeError(
            "a correction that compares two points must use the newest difference, got "
            f"{correction!r} which drops it at step {k}."
        )
    decay = part.coupled_decay
    joint: Tensors = part.before or torch._foreach_mul(part.target, numbers.difference)
    if kept is not None:
        torch._foreach_mul_(joint, numbers.before)
        torch._foreach_add_(joint, part.target, alpha=numbers.difference)
        torch._foreach_add_(joint, kept, alpha=numbers.estimate)
        if decay:
            previous = part.remembered("previous")
            torch._foreach_add_(joint, previous, alpha=decay * numbers.before)
    if decay:
        torch._foreach_add_(joint, part.params, alpha=decay * numbers.difference)
    part.target, part.before = joint, None
    part.shares = (1.0, numbers.difference)
    clear(part.params)


def anchor_estimate(part: Part, correction: Correction, k: int) -> None:
    """Make the estimate of a two-point correction ready for the next step.

    The next step needs ``e·m + b·(g′ − ∇L̂(w_k))``, so that ``m − (b/e) ∇L̂(w_k)`` is all there is
    to keep. For STORM, b = −e, that is an estimate of ∇L(w_k) itself: it outlives the proxy.
    """
    of_estimate, of_anchor = part.shares
    share = anchor_share(correction, k + 1) / of_anchor
    torch._foreach_mul_(part.correction, 1 - share * of_estimate)
    torch._foreach_add_(part.correction, part.target, alpha=share)


def shift_estimates(
    params: list[Any],
    state: Mapping[Any, dict[str, Any]],
    old: Oracle,
    new: Oracle,
    ledger: Ledger,
    model: Any | None,
    mode: str,
) -> None:
    """Carry estimates of ∇L − ∇L̂ over to a new proxy: add ∇L̂_old(w) − ∇L̂_new(w)."""
    held = [p.grad for p in params]
    estimates = [state[p]["estimate"] for p in params]
    try:
        with proxy_mode(model, mode):
            for oracle, sign in ((old, 1.0), (new, -1.0)):
                oracle.full(params)
                ledger.proxy_gradients += 1
                torch._foreach_add_(estimates, gradients(params), alpha=sign)
    finally:
        for p, g in zip(params, held, strict=True):
            p.grad = g
