"""The step that ProxyProx and its momentum and variance-reduced relatives share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from proxyprox import stepsizes
from proxyprox._arrays import Vector
from proxyprox._checks import message
from proxyprox.corrections import Correction, Plain
from proxyprox.methods._measured import corrected, measured_step
from proxyprox.methods.base import Eta, Solve, State


def checked_correction(correction: Any) -> None:
    """Refuse what is not a correction, such as its class."""
    if isinstance(correction, type) or not (
        callable(correction) and hasattr(correction, "two_points")
    ):
        allowed = "a correction, such as Plain() or EMA(0.1)"
        raise TypeError(message("correction", correction, allowed))


def start(w0: Vector, eta: Eta, problem: Any, *, uses_proxy: bool = True) -> State:
    """Return the state before the first step, with a rule's memory if η is to be measured."""
    if eta != "auto":
        return State(w=w0)
    return State(w=w0, rule=stepsizes.begin(w0, problem, uses_proxy=uses_proxy))


def best(state: State) -> Vector:
    """Return the rule's average, or the last iterate where nothing is measured."""
    return state.w if state.rule is None else stepsizes.answer(state.rule, state.w)


def points(state: State, correction: Correction) -> tuple[Vector, ...]:
    """Return w_k, and w_{k−1} too if the correction or the step size compares the two."""
    secant = state.rule is not None and stepsizes.wants_secant(state.rule, state.k)
    if (correction.two_points or secant) and state.previous is not None:
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
    if state.rule is not None:
        # With a rule the plain correction becomes the mean that the rule finds best.
        chosen = None if isinstance(correction, Plain) else correction
        return measured_step(state, gradients, proxy, solve, correction=chosen)
    anchor = proxy.gradient(state.w)
    difference = gradients[0] - anchor
    before = gradients[1] - state.previous_anchor if len(gradients) == 2 else None
    estimate = corrected(correction, difference, before, state.estimate, state.k)
    w = solve(linear=estimate, centre=state.w, eta=eta)
    return replace(
        state,
        w=w,
        k=state.k + 1,
        estimate=estimate,
        previous=state.w if correction.two_points else None,
        previous_anchor=anchor if correction.two_points else None,
    )
