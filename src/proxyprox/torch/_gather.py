"""From parameter groups to lists of tensors, and the estimate of ∇L − ∇L̂ on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from proxyprox._ledger import Ledger
from proxyprox.corrections import Correction
from proxyprox.torch._block import copy_of
from proxyprox.torch._linear import Tensors, coefficients, combine
from proxyprox.torch._modes import proxy_mode
from proxyprox.torch._proxy import Oracle, gradients

SMALLEST_ETA = 1e-30
"""Below this a step size counts as 0 (the end of a schedule): its inverse would overflow."""


@dataclass
class Part:
    """The parameters of one group that have a gradient, with what belongs to them."""

    params: list[Any]
    target: list[Any]
    states: list[dict[str, Any]]
    eta: float
    weight_decay: float
    decoupled: bool
    before: list[Any] | None = None
    correction: Tensors = field(default_factory=list)

    @property
    def moves(self) -> bool:
        """Whether the step size lets the group move at all."""
        return self.eta > SMALLEST_ETA

    @property
    def coupled_decay(self) -> float:
        """The weight decay that belongs into the target's gradient."""
        return 0.0 if self.decoupled else self.weight_decay


def gather(groups: Iterable[Mapping[str, Any]], state: Mapping[Any, dict[str, Any]]) -> list[Part]:
    """Collect the parameters that have a gradient; the others are left alone, as torch does."""
    parts = []
    for group in groups:
        params = [p for p in group["params"] if p.grad is not None]
        for p in params:
            if p.grad.is_sparse:
                raise RuntimeError(
                    "ProxyProx does not support sparse gradients: the proxy's gradient is dense. "
                    "Use nn.Embedding(..., sparse=False), or another optimiser for that group."
                )
        if params:
            parts.append(
                Part(
                    params=params,
                    target=[p.grad for p in params],
                    states=[state[p] for p in params],
                    eta=float(group["lr"]),
                    weight_decay=float(group["weight_decay"]),
                    decoupled=bool(group["decoupled_weight_decay"]),
                )
            )
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
        How differences become an estimate.
    k : int
        Outer step.
    anchor : bool
        Whether ``.grad`` holds ∇L̂(w_k); otherwise it counts as zero.
    keep : bool
        Whether the estimate is part of the state.
    """
    started = [keep and "estimate" in state for state in part.states]
    if any(started) and not all(started):
        # A parameter that was not there before starts afresh; this is rare, so one at a time.
        found: list[Any] = []
        for i, state in enumerate(part.states):
            one = Part(
                [part.params[i]], [part.target[i]], [state], part.eta, part.weight_decay,
                part.decoupled, None if part.before is None else [part.before[i]],
            )  # fmt: skip
            update_correction(one, correction, k, anchor=anchor, keep=keep)
            found.extend(one.correction)
        part.correction = found
        return
    old = all(started)
    numbers = coefficients(correction, k, started=old)
    two_points = old and part.before is not None
    before = part.before if two_points else None
    minus = [p.grad for p in part.params] if anchor else None
    saved = [state["previous_anchor"] for state in part.states] if two_points and anchor else None
    estimate = [state["estimate"] for state in part.states] if old else None
    part.correction = combine(numbers, estimate, part.target, minus, before, saved)
    decay = part.coupled_decay
    if decay:
        torch._foreach_add_(part.correction, part.params, alpha=decay * numbers.difference)
        if two_points:
            previous = [state["previous"] for state in part.states]
            torch._foreach_add_(part.correction, previous, alpha=decay * numbers.before)
    if keep:
        for state, new in zip(part.states, part.correction, strict=True):
            state["estimate"] = new
    if correction.two_points:
        _remember_point(part, anchor=anchor)


def _remember_point(part: Part, *, anchor: bool) -> None:
    now = {"previous": copy_of(part.params)}
    if anchor:
        now["previous_anchor"] = copy_of([p.grad for p in part.params])
    for name, values in now.items():
        for state, value in zip(part.states, values, strict=True):
            state[name] = value


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
