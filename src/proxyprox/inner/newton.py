"""Newton's method: in closed form, with a factor, by conjugate gradients, with a kept factor."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from numpy.random import Generator

from proxyprox._util import arrays
from proxyprox._util.arrays import Matrix, Vector, dot, norm
from proxyprox.inner.base import (
    InnerResult,
    Memory,
    Moves,
    NonFiniteError,
    Point,
    Solver,
    SolverPolicy,
    Subproblem,
    damped_step,
)
from proxyprox.problems.problem import facts_of
from proxyprox.stopping import Criterion, Progress


@dataclass(frozen=True)
class ClosedForm(Solver):
    """``w = c − (P + I/η)⁻¹∇φ(c)``; from the iterate itself, ``w − η(I + ηP)⁻¹g``.

    The inverse is formed once for each η and kept by the proxy. A second application, on the
    remaining gradient, refines the answer where the first one misses the criterion by rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, ProxyProx, Quadratic, minimize
    >>> target = Quadratic(np.diag([1.0, 9.0]), b=-np.ones(2))
    >>> problem = Problem(target, Quadratic(np.diag([1.0, 8.0])))
    >>> minimize(problem, method=ProxyProx(1.0), inner=ClosedForm(), steps=60).w.round(4)
    array([1.    , 0.1111])
    """

    refinements: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("gradient", "solve_shifted")

    def solve(
        self, phi: Subproblem, start: Vector, stop: Criterion, memory: Memory, rng: Generator
    ) -> InnerResult:
        """Apply the shifted inverse to the gradient, and again if the residual asks for it."""
        w, gradient = start, phi.gradient(start)
        first = phi.residual(w, gradient)
        progress: Progress | None = None
        # The zero proxy's inverse is a number: there is nothing to refine, and w − ηg stays SGD's.
        rounds = 1 if phi.proxy.smoothness == 0 else self.refinements
        for t in range(1, rounds + 1):
            refined = w - phi.proxy.solve_shifted(gradient, phi.eta)
            gradient = phi.gradient(refined)
            reached = phi.progress(refined, gradient, t, first)
            if progress is not None and reached.residual >= progress.residual:
                break
            w, progress = refined, reached
            if stop(progress) or progress.residual == 0:
                break
        assert progress is not None
        return InnerResult(w, progress)


@dataclass(frozen=True)
class Newton(Solver):
    """``w ← w − t (∇²φ(w))⁻¹∇φ(w)`` with backtracking on t; the slow, exact baseline.

    If the Hessian is not positive definite, a multiple of the identity that makes it safely
    so is added.

    Parameters
    ----------
    max_steps : int
        Give up after this many steps, with the rule recorded as not held.

    Examples
    --------
    >>> from proxyprox import Problem, Quadratic, minimize
    >>> from proxyprox.inner import Newton
    >>> problem = Problem(Quadratic([[2.0]], b=[-2.0]), proxy=Quadratic([[1.0]]))
    >>> minimize(problem, inner=Newton(), steps=60).w.round(3)
    array([1.])
    """

    max_steps: int = 100

    needs: ClassVar[tuple[str, ...]] = ("value", "gradient", "hessian")

    def begin(self, phi: Subproblem, start: Vector, memory: Memory) -> Moves:
        """Return the damped Newton step."""
        return lambda at, _: newton_step(phi, at), None


def newton_step(phi: Subproblem, at: Point) -> Point | None:
    """Take a damped Newton step, with the Hessian shifted if it is not positive definite."""
    hessian = phi.hessian(at.w)
    shift = 1e-10 * float(abs(hessian).max())
    if not math.isfinite(shift):
        raise NonFiniteError("the proxy's Hessian is not finite at a trial point")
    direction = arrays.solve_positive(hessian, -at.gradient)
    if direction is not None:
        return damped_step(phi, at, direction)
    while direction is None:
        if arrays.solve_positive(arrays.add_to_diagonal(hessian, shift), -at.gradient) is not None:
            # Twice what suffices: at the edge the matrix is nearly singular.
            direction = arrays.solve_positive(
                arrays.add_to_diagonal(hessian, 2 * shift), -at.gradient
            )
        shift = max(10 * shift, 1e-12)
    return damped_step(phi, at, direction, convex=False)


@dataclass(frozen=True)
class NewtonCG(Solver):
    """Damped Newton whose linear systems are solved by conjugate gradients, inexactly.

    Parameters
    ----------
    max_steps : int
        Newton steps at most.
    max_products : int
        Hessian-vector products at most for each Newton step.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization", section 7.1.

    Examples
    --------
    >>> NewtonCG().needs
    ('value', 'gradient', 'hvp')
    """

    max_steps: int = 100
    max_products: int = 1000

    needs: ClassVar[tuple[str, ...]] = ("value", "gradient", "hvp")

    def begin(self, phi: Subproblem, start: Vector, memory: Memory) -> Moves:
        """Return the inexact Newton step."""

        def step(point: Point, first: float) -> Point | None:
            # Forcing term: loose far away, superlinear in the end.
            forcing = min(0.1, math.sqrt(point.residual / first)) if first else 0.1
            direction = self._direction(phi, point, forcing * point.residual)
            return damped_step(phi, point, direction)

        return step, None

    def _direction(self, phi: Subproblem, point: Point, tolerance: float) -> Vector:
        """Return d with ``‖∇²φ d + ∇φ‖ ≤ tolerance``, or the best before negative curvature."""
        scale = _unit(point)
        downhill = -point.gradient if scale == 1 else -scale * point.gradient
        apply = partial(phi.hvp, point.w)
        direction = conjugate_gradients(apply, downhill, scale * tolerance, self.max_products)
        direction = direction if norm(direction) > 0 else downhill
        return direction if scale == 1 else direction / scale


def _unit(point: Point) -> float:
    """Return what to multiply gradients with, if squares of such ones under- or overflow."""
    least, most = (1e-10, 1e10) if arrays.dtype_name(point.w) == "float32" else (1e-100, 1e100)
    return arrays.power_of_two(point.residual, point.w, least, most)


def conjugate_gradients(
    apply: Callable[[Vector], Vector], b: Vector, tolerance: float, most: int
) -> Vector:
    """Return x with ``‖A x − b‖ ≤ tolerance``; negative curvature ends it, at 0 if it is b's."""
    x, residual, search = arrays.zeros_like(b), b, b
    squared = dot(b, b)
    for _ in range(most):
        if math.sqrt(squared) <= tolerance:
            break
        product = apply(search)
        curvature = dot(search, product)
        if not math.isfinite(curvature):
            raise NonFiniteError("a Hessian-vector product is not finite")
        if curvature <= 0:
            break
        step = squared / curvature
        x = x + step * search
        residual = residual - step * product
        before, squared = squared, dot(residual, residual)
        search = residual + squared / before * search
    return x


Secants = tuple[()] | tuple[Matrix, Matrix]
# A step, the change of the gradient along it, and their product.
Pair = tuple[Vector, Vector, float]


@dataclass(frozen=True)
class QuasiNewton(Solver):
    """``w ← w − t B∇φ(w)`` with ``B ≈ (∇²φ)⁻¹`` carried from one subproblem to the next.

    Successive subproblems differ by a linear term, a small move of the centre and perhaps η, so
    that the proxy's Hessian is nearly the same. It is kept with a factor of ``∇²L̂ + I/η``, and the
    newest secants of ∇L̂ correct it (limited-memory BFGS that starts from that factor): later outer
    steps need one or two proxy gradients and no Hessian. None of what is kept depends on η but the
    factor, which is made anew. The Hessian is evaluated again when steps that fail to shrink the
    gradient tenfold have taken as long as that would (by the proxy's ``work``; two steps running
    if it says nothing).

    Parameters
    ----------
    max_steps : int
        See :class:`Newton`.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization", chapters 6 and 7; Byrd, Chin, Neveitt and Nocedal,
    "On the use of stochastic Hessian information in optimization methods for machine learning".

    Examples
    --------
    >>> QuasiNewton().needs
    ('value', 'gradient', 'hessian')
    """

    max_steps: int = 200

    needs: ClassVar[tuple[str, ...]] = ("value", "gradient", "hessian")

    def begin(self, phi: Subproblem, start: Vector, memory: Memory) -> Moves:
        """Return the step with the kept Hessian, which is evaluated again when it stops paying."""
        kept, slow = _Kept(phi, memory, int(start.shape[0])), 0

        def step(point: Point, _: float) -> Point | None:
            nonlocal slow
            # What is due since the solves before is evaluated at the start: their points may have
            # been far away.
            fresh = kept.due or slow >= kept.patience
            moved = None if fresh else kept.step(point)
            if moved is None:
                kept.build(point)
                moved, slow = kept.step(point), 0
            if moved is None:
                return None
            failed = moved.residual > 0.1 * point.residual
            slow = slow + 1 if failed else 0
            kept.add(point, moved, failed)
            return moved

        return step, None


class _Kept:
    """The proxy's Hessian in a solver's memory, with a factor for this η and the newest secants."""

    def __init__(self, phi: Subproblem, memory: Memory, size: int) -> None:
        self.phi, self.memory = phi, memory
        if memory and memory["hessian"].shape != (size, size):
            memory.clear()
        work = facts_of(phi.proxy).work
        # How many slow steps the next Hessian is worth, running and in all.
        self.patience, in_all = 2.0, 20.0
        if work is not None:
            self.patience = in_all = min(max(work.hessian / work.gradient, 1.0), 50.0)
        self.due = not memory or memory["slow"] >= in_all
        if not self.due and memory["eta"] != phi.eta:
            self._factorise(memory["hessian"], memory["secants"], memory["slow"])

    def build(self, point: Point) -> None:
        """Evaluate the Hessian at a point."""
        self._factorise(self.phi.proxy.hessian(point.w))

    def _factorise(self, hessian: Matrix, secants: Secants = (), slow: int = 0) -> None:
        factor = arrays.factor_positive(arrays.add_to_diagonal(hessian, self.phi.pull))
        self.memory.clear()
        self.due = factor is None
        if factor is not None:
            self.memory.update(hessian=hessian, factor=factor, eta=self.phi.eta)
            self.memory.update(secants=secants, slow=slow)

    def step(self, point: Point) -> Point | None:
        """Return the next point, None if no step helps."""
        if not self.memory:
            # Not positive definite here: a non-convex proxy. Take the shifted Newton step.
            return newton_step(self.phi, point)
        kept = self.memory["factor"], self.memory["secants"]
        direction = quasi_newton_direction(*kept, self.phi.pull, point.gradient)
        return damped_step(self.phi, point, direction)

    def add(self, point: Point, moved: Point, failed: bool) -> None:
        """Add the secant between two points, and whether the step was slow."""
        if self.memory:
            s = moved.w - point.w
            change = moved.gradient - point.gradient - self.phi.pull * s
            self.memory["secants"] = add_secant(self.memory["secants"], s, change)
            self.memory["slow"] += int(failed)


@dataclass(frozen=True)
class LBFGS(Solver):
    """Limited-memory BFGS: needs values and gradients, nothing else.

    Parameters
    ----------
    history : int
        Secant pairs kept.
    max_steps : int
        See :class:`Newton`.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization", sections 3.1 and 7.2.

    Examples
    --------
    >>> LBFGS(history=5).needs
    ('value', 'gradient')
    """

    history: int = 10
    max_steps: int = 1000

    needs: ClassVar[tuple[str, ...]] = ("value", "gradient")

    def begin(self, phi: Subproblem, start: Vector, memory: Memory) -> Moves:
        """Return the step along the direction of the last secants, or of the gradient."""
        secants: Secants = ()
        unit, length = 0.0, 1.0

        def step(at: Point, _: float) -> Point | None:
            nonlocal secants, unit, length
            unit, moved = unit or _unit(at), None
            gradient = unit * at.gradient
            if secants:
                S, Y = secants
                scale = dot(S[-1], Y[-1]) / dot(Y[-1], Y[-1])
                direction = -inverse_product(lambda q: scale * q, S, Y, gradient)
                moved = damped_step(phi, at, direction, longer=True)
            if moved is None:
                # Of the length of the last step; nothing is known of the first one's.
                secants, direction = (), -(length / (unit * at.residual)) * gradient
                moved = damped_step(phi, at, direction, longer=True)
            if moved is not None:
                s, change = moved.w - at.w, unit * (moved.gradient - at.gradient)
                secants, length = add_secant(secants, s, change, self.history), norm(s)
            return moved

        return step, None


def add_secant(
    secants: Secants, s: Vector, change: Vector, most: int = SolverPolicy.secants
) -> Secants:
    """Return the newest secants with one more, if its curvature is more than rounding."""
    xp = arrays.namespace(s)
    least = float(xp.finfo(s.dtype).tiny)
    if not dot(s, change) > max(1e-10 * norm(s) * norm(change), least):
        return secants
    if not secants:
        return s[None, :], change[None, :]
    S, C = (rows[max(len(rows) + 1 - most, 0) :] for rows in secants)
    return xp.concat([S, s[None, :]]), xp.concat([C, change[None, :]])


def quasi_newton_direction(
    factor: Matrix, secants: Secants, pull: float, gradient: Vector
) -> Vector:
    """Return ``−B∇φ``, B the factor's inverse after BFGS updates."""
    solve = partial(arrays.solve_factored, factor)
    if not secants:
        return -solve(gradient)
    S, C = secants
    return -inverse_product(solve, S, C + pull * S, gradient)


def inverse_product(solve: Callable[[Vector], Vector], S: Matrix, Y: Matrix, q: Vector) -> Vector:
    """Return ``B⁻¹ q`` of BFGS with the pairs in the rows of S and Y, the newest last.

    The two loops over pairs, as two triangular systems: with R the upper triangle of ``S Yᵀ`` and D
    its diagonal, ``α = R⁻¹ S q``, ``r = solve(q − Yᵀα)``, ``γ = R⁻ᵀ (D α − Y r)``, ``r + Sᵀγ``.
    """
    R = S @ Y.T
    alpha = arrays.solve_upper(R, S @ q)
    r = solve(q - alpha @ Y)
    return r + arrays.solve_upper(R, R.diagonal() * alpha - Y @ r, transposed=True) @ S
