"""The same step with a step size that is measured on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxyprox import stepsizes
from proxyprox._arrays import Vector
from proxyprox._isolation import copied_tree, is_ours
from proxyprox._subproblem import NonFiniteError
from proxyprox.corrections import Correction
from proxyprox.methods.base import Solve, State
from proxyprox.problems.quadratic import NotConvexError
from proxyprox.stepsizes import Memory, Signals

TRIES = 20


def measured_step(
    state: State,
    gradients: Sequence[Vector],
    proxy: Any,
    solve: Solve,
    *,
    correction: Correction | None,
) -> State:
    """Measure δ and the noise, then take the corrected step; without a correction, track ∇h."""
    memory, centre = _rule(state), state.w
    anchor = proxy.gradient(centre)
    signals = _signals(state, gradients, anchor, proxy)
    taken_back = stepsizes.overshot(memory, signals)
    memory = stepsizes.observed(memory, signals, state.estimate)
    difference, before = signals.difference, signals.before
    if taken_back:
        # The newest batch is known at the point before: begin there again, with a shorter step.
        centre, anchor, difference, before = state.previous, state.previous_anchor, before, None
    if correction is None:
        estimate = stepsizes.tracked(memory, difference, state.estimate)
    else:
        estimate = corrected(correction, difference, before, state.estimate, state.k)
    if signals.gap is not None and stepsizes.wants_shaking(memory, state.k):
        memory = _shaken(solve, estimate, centre, memory, signals.gap)
    w, memory = _solved(solve, estimate, centre, memory)
    return State(
        w=w,
        k=state.k + 1,
        estimate=estimate,
        previous=centre,
        previous_anchor=anchor,
        rule=stepsizes.moved(memory, centre, w, state.k),
    )


def corrected(
    correction: Correction,
    difference: Vector,
    before: Vector | None,
    estimate: Vector | None,
    k: int,
) -> Vector:
    """Return the correction's estimate; a user's may write into its arguments, or answer them."""
    if is_ours(correction):
        return correction(difference, before, estimate, k)
    handed = copied_tree(difference), copied_tree(before), copied_tree(estimate)
    return copied_tree(correction(*handed, k))


def _rule(state: State) -> Memory:
    assert state.rule is not None
    return state.rule


def _signals(state: State, gradients: Sequence[Vector], anchor: Vector, proxy: Any) -> Signals:
    memory, before = _rule(state), None
    if len(gradients) == 2:
        before = gradients[1] - state.previous_anchor
    elif memory["exact"]:
        # One batch for all steps: its gradient at the point before was the last answer.
        before = memory["last"]
    gap = getattr(gradients, "gap", None)
    if gap is None and len(gradients) == 2 and "last" in memory:
        # Two batches at one point: what they differ by is noise.
        gap = before - memory["last"]
    later = state.previous is not None
    return Signals(
        k=state.k,
        w=state.w,
        gradient=gradients[0],
        difference=gradients[0] - anchor,
        noise=getattr(gradients, "noise", None),
        gap=gap,
        step=state.w - state.previous if later else None,
        before=before,
        anchor_change=anchor - state.previous_anchor if later else None,
        smoothness=proxy.smoothness,
    )


def _shaken(solve: Solve, estimate: Vector, centre: Vector, memory: Memory, gap: Vector) -> Memory:
    """Find out how far a sample of the noise moves the solution of a subproblem."""
    eta = stepsizes.horizon(memory)
    try:
        still = solve(linear=estimate, centre=centre, eta=eta)
        moved = solve(linear=estimate + gap, centre=centre, eta=eta)
    except (NonFiniteError, NotConvexError):
        return memory
    return stepsizes.with_damping(memory, moved - still, gap, eta)


def _solved(
    solve: Solve, estimate: Vector, centre: Vector, memory: Memory
) -> tuple[Vector, Memory]:
    """Solve the subproblem, with a smaller η where it is not convex, or all but not."""
    for _ in range(TRIES):
        try:
            w = solve(linear=estimate, centre=centre, eta=memory["eta"])
        except (NonFiniteError, NotConvexError):
            memory = stepsizes.shortened(memory)
            continue
        if not stepsizes.too_long(memory, centre, w):
            return w, memory
        memory = stepsizes.shortened(memory)
    return solve(linear=estimate, centre=centre, eta=memory["eta"]), memory
