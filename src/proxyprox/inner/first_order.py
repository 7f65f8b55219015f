"""Inner solvers that use gradients only, and values if there is a penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from numpy.random import Generator

from proxyprox._util.arrays import Vector, all_finite, dot, norm, rounding
from proxyprox._util.validation import has, positive
from proxyprox.inner.base import (
    InnerResult,
    Memory,
    Moves,
    NonFiniteError,
    Patience,
    Solver,
    Subproblem,
    first_finite,
    next_to_rounding,
)
from proxyprox.stopping import Criterion, Progress


@dataclass(frozen=True)
class GradientDescent(Solver):
    """``w ← w − γ∇φ(w)``.

    With ``γ = 1/(1/γ' + 1/η)`` it is ``w ← (w/γ' + c/η − [∇L̂(w) + m]) / (1/γ' + 1/η)``, a step of
    size γ' that is implicit in the quadratic: it is stable for every η if γ' suits the proxy.

    Parameters
    ----------
    step_size : float, optional
        γ; by default ``1/(H + 1/η)``.
    max_steps : int
        See :class:`Newton`.

    Examples
    --------
    >>> from proxyprox import Problem, Quadratic, minimize
    >>> problem = Problem(Quadratic([[2.0]], b=[-2.0]), proxy=Quadratic([[1.0]]))
    >>> minimize(problem, inner=GradientDescent(), steps=60).w.round(3)
    array([1.])
    """

    step_size: float | None = None
    max_steps: int = 100_000

    needs: ClassVar[tuple[str, ...]] = ("gradient", "smoothness")

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        if self.step_size is not None:
            positive("step_size", self.step_size)

    def begin(self, phi: Subproblem, start: Vector, memory: Memory) -> Moves:
        """Return the step along the gradient."""
        gamma = 1 / phi.smoothness if self.step_size is None else self.step_size
        patience = Patience(200, next_to_rounding(phi, start, 1 / gamma))
        return lambda at, _: first_finite(phi, at.w, -gamma * at.gradient), patience


@dataclass(frozen=True)
class ProximalGradient(Solver):
    """FISTA with backtracking and gradient-based restarts on ``φ = smooth + ψ``.

    Without a penalty it is accelerated gradient descent that needs no smoothness constant. The
    residual is the distance from 0 to ``∇(smooth)(w) + ∂ψ(w)``, measured exactly; because that
    takes one more gradient, it is measured only when the cheap bound from the last prox step says
    that the criterion may be met.

    Parameters
    ----------
    max_steps : int
        See :class:`Newton`.

    References
    ----------
    Beck and Teboulle, "A fast iterative shrinkage-thresholding algorithm"; O'Donoghue and Candès,
    "Adaptive restart for accelerated gradient schemes".

    Examples
    --------
    >>> from proxyprox import L1, Problem, Quadratic, minimize
    >>> problem = Problem(Quadratic([[2.0]], b=[-2.0]), Quadratic([[1.0]]), L1(1.0))
    >>> minimize(problem, inner=ProximalGradient(), steps=60).w.round(3)
    array([0.5])
    """

    max_steps: int = 20_000

    needs: ClassVar[tuple[str, ...]] = ("value", "gradient")
    handles_penalty: ClassVar[bool] = True

    def solve(
        self, phi: Subproblem, start: Vector, stop: Criterion, memory: Memory, rng: Generator
    ) -> InnerResult:
        """Take accelerated prox steps until the criterion is met."""
        w = y = start
        gradient_y = phi.gradient(y)
        progress = phi.progress(w, gradient_y, 0)
        first = progress.start_residual
        known, weight = has(phi.proxy, "smoothness"), 1.0
        bound = phi.smoothness if known else memory.get("bound", 0.0)
        bound = bound if bound > 0 else max(first, 1e-8)
        patience = Patience(1000, next_to_rounding(phi, start, bound))
        for t in range(1, self.max_steps + 1):
            if stop(progress):
                break
            before = w
            try:
                w, bound = self._step(phi, y, gradient_y, bound, known)
            except NonFiniteError:
                if y is before:
                    raise
                # Momentum led to where the proxy is not finite: restart it.
                y, weight, gradient_y = before, 1.0, phi.gradient(before)
                w, bound = self._step(phi, y, gradient_y, bound, known)
            move = y - w
            slope, away = bound * norm(move), norm(w - phi.centre)
            # A step shorter than the rounding of y leads nowhere.
            still = norm(move) <= 4 * rounding(y, 1) * norm(y)
            spent = still or t == self.max_steps or patience.is_exhausted(slope)
            # Measured where the criterion would hold at a tenth of the prox step's gradient.
            hopeful = Progress(t, slope / 10, away, phi.eta, first, partial(phi.decrease, w))
            if spent or stop(hopeful) or t % 50 == 0:
                progress = phi.progress(w, phi.gradient(w), t, first)
                if stop(progress) or spent:
                    break
            if dot(move, w - before) > 0:
                # Momentum points uphill: restart it.
                weight = 1.0
            grown = (1 + math.sqrt(1 + 4 * weight * weight)) / 2
            y = w + (weight - 1) / grown * (w - before)
            weight = grown
            gradient_y = phi.gradient(y)
        memory["bound"] = bound
        return InnerResult(w, progress)

    def _step(
        self, phi: Subproblem, y: Vector, gradient: Vector, bound: float, known: bool
    ) -> tuple[Vector, float]:
        """Return the prox step from y and the smoothness bound that made it safe."""
        prox = phi.penalty.prox if phi.penalty is not None else (lambda v, step: v)
        if not all_finite(gradient):
            raise NonFiniteError("the proxy's gradient is not finite at a trial point")
        if known:
            return prox(y - gradient / bound, 1 / bound), bound
        here = _smooth_value(phi, y)
        if not math.isfinite(here):
            raise NonFiniteError("the proxy's value is not finite at a trial point")
        slack = 1e-12 * abs(here)
        # A little longer each time: the next place may be flatter.
        trial = 0.9 * bound
        while True:
            w = prox(y - gradient / trial, 1 / trial)
            move = w - y
            curved = trial / 2 * dot(move, move)
            if curved <= 10 * slack:
                # Too short a move for values to judge: the last bound stands.
                return prox(y - gradient / bound, 1 / bound), bound
            model = here + dot(gradient, move) + curved
            if _smooth_value(phi, w) <= model + slack or trial > 1e300:
                return w, trial
            trial *= 2


def _smooth_value(phi: Subproblem, w: Vector) -> float:
    total = phi.value(w)
    return total if phi.penalty is None else total - phi.penalty.value(w)
