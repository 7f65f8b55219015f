"""Blocks of parameters, changed and put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from proxyprox.torch.corrections import Tensors
from proxyprox.torch.proxy import gradients

SWAPS = 8
"""Parts in which networks are exchanged: few calls, and no third copy of the whole."""


@dataclass
class Block:
    """``φ(w) = L̂(w) + weight·⟨linear, w − c⟩ + ‖w − c‖²/(2η)`` on the parameters of one group.

    Attributes
    ----------
    params : list of tensors
        w; changed in place.
    centre : list of tensors
        c = w_k.
    linear : list of tensors
        What is added to the proxy's gradient, before its weight.
    weight : float
        Weight of ``linear``.
    eta : float
        The group's step size η > 0, possibly infinite.
    """

    params: Tensors
    centre: Tensors
    linear: Tensors
    weight: float
    eta: float

    @property
    def pull(self) -> float:
        """1/η."""
        return 1 / self.eta

    def implicit_step(self, gamma: float) -> None:
        """Move to ``(w/γ + c/η − [∇L̂(w) + m]) / (1/γ + 1/η)``, with ∇L̂(w) in ``.grad``.

        Written as ``w + s/η (c − w) − s [∇L̂(w) + m]``, ``s = 1/(1/γ + 1/η)``: nothing in it grows
        when η goes to 0 or to infinity.
        """
        relative = gamma * self.pull
        shrunk = gamma / (1 + relative)
        if relative > 0:
            torch._foreach_lerp_(self.params, self.centre, relative / (1 + relative))
        torch._foreach_add_(self.params, gradients(self.params), alpha=-shrunk)
        torch._foreach_add_(self.params, self.linear, alpha=-shrunk * self.weight)

    def complete_gradient(self, *, at_centre: bool) -> None:
        """Turn ∇L̂(w) in ``.grad`` into ∇φ(w), in place."""
        found = gradients(self.params)
        torch._foreach_add_(found, self.linear, alpha=self.weight)
        if self.pull > 0 and not at_centre:
            # Two scaled additions need no copy of w − c. They round like w itself does in a step
            # that is stable, one with γ/η ≤ 2.
            torch._foreach_add_(found, self.params, alpha=self.pull)
            torch._foreach_add_(found, self.centre, alpha=-self.pull)


def swap(first: Tensors, second: Tensors) -> None:
    """Exchange the contents of two lists of tensors, with a copy of a few of them at a time."""
    size = -(-len(first) // SWAPS)
    for at in range(0, len(first), size):
        one, other = first[at : at + size], second[at : at + size]
        held = copy_of(one)
        torch._foreach_copy_(one, other)
        torch._foreach_copy_(other, held)
        del held  # before the next ones are copied
    forget_casts()


def forget_casts() -> None:
    """Drop autocast's low-precision copies of weights, which have just moved.

    They live until the outermost ``autocast`` ends, and a step may be inside it.
    """
    torch.clear_autocast_cache()


def copy_of(tensors: Tensors) -> list[Any]:
    """Return a copy of every tensor, strides and signs of zero included."""
    copies: list[Any] = torch._foreach_mul(tensors, 1.0)
    return copies
