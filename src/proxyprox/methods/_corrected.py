"""The step that ProxyProx and its momentum and variance-reduced relatives share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxyprox._arrays import Vector
from proxyprox._checks import message
from proxyprox.corrections import Correction
from proxyprox.methods.base import Solve, State


def checked_correction(correction: Any) -> None:
    """Refuse what is not a correction, such as its class."""
    if isinstance(correction, type) or not (
        callable(correction) and hasattr(correction, "two_points")
    ):
        allowed = "a correction, such as Plain() or EMA(0.1)"
        raise TypeError(message("correction", correction, allowed))


def points(state: State, correction: Correction) -> tuple[Vector, ...]:
    """Return w_k, and w_{k−1} too if the correction compares the two on one batch."""
    if correction.two_points and state.previous is not None:
        return (state.w, state.previous)
    return (state.w,)


def corrected_step(
    state: State,
    gradients: Sequence[Vector],
    proxy: Any,
    solve: Solve,
    *,
    correction: Correction,
    eta: float,
) -> State:
    """Estimate ∇L − ∇L̂ and minimise the proxy with that correction around w_k."""
    anchor = proxy.gradient(state.w)
    difference = gradients[0] - anchor
    before = gradients[1] - state.previous_anchor if len(gradients) == 2 else None
    estimate = correction(difference, before, state.estimate, state.k)
    w = solve(linear=estimate, centre=state.w, eta=eta)
    return State(
        w=w,
        k=state.k + 1,
        estimate=estimate,
        previous=state.w if correction.two_points else None,
        previous_anchor=anchor if correction.two_points else None,
    )
