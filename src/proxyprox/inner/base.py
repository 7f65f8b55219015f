"""The one subproblem of all methods, and what its solvers share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

from numpy.random import Generator

from proxyprox._util.arrays import Matrix, Vector, add_to_diagonal, dot, norm, rounding, same_point
from proxyprox._util.validation import has, whole
from proxyprox.problems.problem import facts_of
from proxyprox.problems.protocols import Penalty, Work
from proxyprox.stopping import Criterion, Progress


class NonFiniteError(ArithmeticError):
    """An oracle or an inner solve produced NaN or an infinity.

    ``status`` is how a run ends that meets it, where that is known.
    """

    def __init__(self, text: str, status: Any = None) -> None:
        super().__init__(text)
        self.status = status


class Subproblem:
    r"""The model of the objective around a centre.

    .. math:: \varphi(w) = \hat L(w) + \langle m, w - c\rangle + \frac{1}{2\eta}\|w - c\|^2
              \;(+\,\psi(w))

    Parameters
    ----------
    proxy : Proxy
        L̂, cheap.
    linear : array
        m, the estimate of ∇L − ∇L̂.
    centre : array
        c, usually the current iterate.
    eta : float
        η > 0; ``math.inf`` drops the quadratic.
    penalty : Penalty, optional
        ψ, shared by both losses.
    """

    __slots__ = ("_centre_value", "centre", "eta", "linear", "penalty", "proxy", "pull")

    def __init__(
        self, proxy: Any, linear: Vector, centre: Vector, eta: float, penalty: Penalty | None = None
    ) -> None:
        self.proxy = proxy
        self.linear = linear
        self.centre = centre
        self.eta = eta
        self.penalty = penalty
        self.pull = 1 / eta
        self._centre_value: float | None = None

    def value(self, w: Vector) -> float:
        """Return φ(w)."""
        away = w - self.centre
        smooth: float = (
            self.proxy.value(w) + dot(self.linear, away) + self.pull / 2 * dot(away, away)
        )
        return smooth if self.penalty is None else smooth + self.penalty.value(w)

    def gradient(self, w: Vector) -> Vector:
        """Return the gradient of φ without ψ."""
        gradient = self.proxy.gradient(w) + self.linear
        return gradient if self.pull == 0 else gradient + self.pull * (w - self.centre)

    def hvp(self, w: Vector, v: Vector) -> Vector:
        """Return ∇²φ(w) v."""
        return self.proxy.hvp(w, v) + self.pull * v

    def hessian(self, w: Vector) -> Matrix:
        """Return ∇²φ(w)."""
        return add_to_diagonal(self.proxy.hessian(w), self.pull)

    def residual(self, w: Vector, gradient: Vector) -> float:
        """Return ‖∇φ(w)‖, or the distance to the subdifferential when there is a penalty."""
        return norm(gradient) if self.penalty is None else self.penalty.distance(w, gradient)

    @property
    def smoothness(self) -> float:
        """H + 1/η."""
        return float(self.proxy.smoothness) + self.pull

    @property
    def convex(self) -> bool:
        """Whether the proxy is not known to be anything else."""
        return facts_of(self.proxy).convex

    @property
    def strong_convexity(self) -> float:
        """1/η, plus what the proxy is known to add."""
        return float(getattr(self.proxy, "strong_convexity", None) or 0.0) + self.pull

    def decrease(self, w: Vector) -> float:
        """Return φ(c) − φ(w), measured from the centre so that little is lost to rounding."""
        if same_point(w, self.centre):
            return 0.0
        if self._centre_value is None:
            self._centre_value = self.value(self.centre)
        return self._centre_value - self.value(w)

    def progress(
        self, w: Vector, gradient: Vector, steps: int, start_residual: float | None = None
    ) -> Progress:
        """Measure where an inner solve stands; NaN and infinities end it here."""
        residual = self.residual(w, gradient)
        displacement = norm(w - self.centre)
        if not (math.isfinite(residual) and math.isfinite(displacement)):
            raise NonFiniteError("the proxy's gradient is not finite at a trial point")
        first = residual if start_residual is None else start_residual
        return Progress(steps, residual, displacement, self.eta, first, partial(self.decrease, w))


# What a solver keeps from one outer step to the next: arrays and numbers, saved with the run.
Memory = dict[str, Any]


class InnerResult(NamedTuple):
    """The point an inner solve ended at, and how good it is there."""

    w: Vector
    progress: Progress


class InnerSolver(Protocol):
    """Minimise a subproblem until a criterion is met."""

    needs: ClassVar[tuple[str, ...]]
    """Capabilities that the solver asks of the proxy."""

    handles_penalty: ClassVar[bool]
    """Whether the solver copes with a non-smooth term."""

    def solve(
        self, phi: Subproblem, start: Vector, stop: Criterion, memory: Memory, rng: Generator
    ) -> InnerResult:
        """Minimise ``phi`` from ``start``.

        Parameters
        ----------
        phi : Subproblem
            What to minimise.
        start : array
            Where to begin.
        stop : Criterion
            When to stop.
        memory : dict
            The solver's own memory, empty at the first outer step; changed in place.
        rng : numpy.random.Generator
            For solvers that sample.

        Returns
        -------
        InnerResult
            The last point, with the residual measured there.
        """


class Solver:
    """What the package's own solvers have in common; most of them only say what a step is."""

    handles_penalty: ClassVar[bool] = False
    max_steps: int

    def __post_init__(self) -> None:
        """Check the numbers of steps."""
        for name in ("steps", "max_steps", "max_products", "history"):
            if hasattr(self, name):
                whole(name, getattr(self, name))

    def begin(self, phi: Subproblem, start: Vector, memory: Memory) -> Moves:
        """Return what takes a step from a point, and when to give up."""
        raise NotImplementedError

    def solve(
        self, phi: Subproblem, start: Vector, stop: Criterion, memory: Memory, rng: Generator
    ) -> InnerResult:
        """Take steps until the criterion is met, none helps, or there were enough."""
        step, patience = self.begin(phi, start, memory)
        point, first = Point.at(phi, start), None
        for t in range(self.max_steps + 1):
            progress = phi.progress(point.w, point.gradient, t, first)
            first = progress.start_residual
            if stop(progress) or t == self.max_steps:
                break
            if patience is not None and patience.is_exhausted(progress.residual):
                break
            moved = step(point, first)
            if moved is None:
                break
            point = moved
        return InnerResult(point.w, progress)


@dataclass(frozen=True)
class SolverPolicy:
    """What the solvers of subproblems are chosen and ended by.

    benchmarks/outer_step.py and benchmarks/scaling.py set the first three, benchmarks/rounds.py
    the last two (docs/results/rounds). The others are usual: Nocedal and Wright, "Numerical
    Optimization", chapters 3 and 7.

    Attributes
    ----------
    dense : int
        Parameters up to which a d × d Hessian is kept if nothing is known of what it takes.
    products : int
        Products with the Hessian, each about as long as a gradient, that a kept one saves a run.
    factors : float
        Nanoseconds for each of the d³ operations of all factors of a run, and of solves with them.
    secants : int
        Secants kept beside a Hessian.
    sufficient : float
        A step is accepted that gains this share of what its slope promises.
    steep : float
        A step after which the slope is a larger share of the first one is too short.
    shortest : float
        The share of a full step at which a search gives up.
    small : float
        A gradient of this share of the first one is small, and its square next to zero.
    runaway : float
        A solver that moves on by this share of its way when the gradient is next to zero has no
        minimum before it.
    """

    dense: int = 1000
    products: int = 500
    factors: float = 0.4
    secants: int = 20
    sufficient: float = 1e-4
    steep: float = 0.9
    shortest: float = 1e-12
    small: float = 1e-3
    runaway: float = 0.1


class Choice(NamedTuple):
    """A solver and why it was picked."""

    solver: Any
    reason: str


@dataclass(frozen=True)
class Auto:
    """Pick the solver that suits the proxy; ``Result.inner`` says which, and why.

    Examples
    --------
    >>> from proxyprox import Quadratic
    >>> Auto().choose(Quadratic([[1.0]]), penalty=None, size=1).reason
    'the proxy is quadratic and solves in closed form'
    """

    def choose(self, proxy: Any, penalty: Any | None, size: int) -> Choice:
        """Return the solver for a proxy of ``size`` parameters and the reason for it."""
        # Here, because the solvers' modules import this one.
        from proxyprox import inner

        if (own := facts_of(proxy).solver) is not None and penalty is None:
            return Choice(own, "the proxy has a proxy of its own")
        if penalty is not None:
            return Choice(inner.ProximalGradient(), "the problem has a non-smooth penalty")
        if has(proxy, "solve_shifted"):
            return Choice(inner.ClosedForm(), "the proxy is quadratic and solves in closed form")
        worth, why = worth_keeping(facts_of(proxy).work, size)
        if has(proxy, "hessian") and worth:
            reason = f"the proxy has a Hessian and {size} parameters{why}"
            return Choice(inner.QuasiNewton(), reason)
        if has(proxy, "hvp"):
            reason = f"the proxy has Hessian-vector products and {size} parameters{why}"
            return Choice(inner.NewtonCG(), reason)
        return Choice(inner.LBFGS(), "the proxy offers values and gradients only")


def worth_keeping(work: Work | None, size: int) -> tuple[bool, str]:
    """Tell whether a d × d Hessian is worth keeping, and why."""
    if work is None:
        limit = SolverPolicy.dense
        return size <= limit, f", {'at most' if size <= limit else 'more than'} {limit}"
    kept = work.hessian + SolverPolicy.factors * size**3
    products = SolverPolicy.products * work.gradient
    times = f": to keep it takes about {kept / 1e9:.1g} s a run, products {products / 1e9:.1g} s"
    return kept <= products, times


def needs_of(solver: Any) -> tuple[str, ...]:
    """Return the capabilities that a configured solver asks for."""
    asked: tuple[str, ...] = tuple(solver.needs)
    # A step size given by hand makes the smoothness constant unnecessary.
    if getattr(solver, "step_size", None) is not None:
        asked = tuple(need for need in asked if need != "smoothness")
    return asked


class Patience:
    """Counts steps without a new smallest residual.

    On a smooth convex function the gradient of each step of descent is shorter than the last, so
    many steps without a new minimum mean that only rounding moves it (or that the step size
    diverges). A rule that asks for more than rounding allows would otherwise never be met.

    Parameters
    ----------
    steps : int
        Steps to bear; a tenth of them where the residual is next to rounding anyway.
    rounding : float
        A residual that is next to rounding, see :func:`next_to_rounding`.
    """

    def __init__(self, steps: int, rounding: float = 0.0) -> None:
        self._allowed, self._waited, self._best = steps, 0, math.inf
        self._rounding = rounding

    def is_exhausted(self, residual: float) -> bool:
        """Take note of a residual and tell whether to give up."""
        self._waited = 0 if residual < self._best else self._waited + 1
        self._best = min(self._best, residual)
        near = self._best <= self._rounding
        return self._waited >= (self._allowed // 10 if near else self._allowed)


def next_to_rounding(phi: Subproblem, w: Vector, smoothness: float) -> float:
    """Return a residual that is within a few digits of what the terms of ∇φ cancel to.

    At a minimiser of the target ∇L̂ and m are each other's negative: what is left of them is
    rounding, of the size of m's and of that which w's own causes.
    """
    return rounding(w, 3 / 4) * (norm(phi.linear) + smoothness * norm(w))


class Point(NamedTuple):
    """A point with its gradient, and its value if that is known."""

    w: Vector
    gradient: Vector
    residual: float
    value: float | None = None

    @classmethod
    def at(cls, phi: Subproblem, w: Vector) -> Point:
        """Evaluate the gradient at a point."""
        gradient = phi.gradient(w)
        return cls(w, gradient, norm(gradient))


# Takes a point and the residual at the start; returns the next point, None if no step helps.
Moves = tuple[Callable[[Point, float], Point | None], Patience | None]


def damped_step(
    phi: Subproblem, at: Point, direction: Vector, *, convex: bool = True, longer: bool = False
) -> Point | None:
    """Move from a point along a descent direction, by the full step if that pays.

    The full step is taken when it halves the gradient: the usual case, and one that costs no
    values. Otherwise the step is halved until φ decreases sufficiently (Armijo). Where rounding
    hides the decrease, a smaller gradient is accepted instead. Where φ is known not to be convex
    a smaller gradient may lie uphill, and only values count. A direction of unknown length may be
    followed ``longer``: the step is doubled while the loss keeps falling nearly as steeply.

    Returns
    -------
    Point or None
        The new point, or None when no step along the direction helps.

    Raises
    ------
    NonFiniteError
        If no step helps because the proxy answers with NaN or infinities.
    """
    convex = convex and phi.convex
    full = _finite_point(phi, at.w + direction)
    if convex and not longer and full is not None and full.residual <= at.residual / 2:
        return full
    slope = dot(at.gradient, direction)
    if not slope < 0:
        return None
    here = phi.value(at.w) if at.value is None else at.value
    if not math.isfinite(here):
        raise NonFiniteError("the proxy's value is not finite where its gradient is")
    # Rounding may hide the decrease along a direction of unknown length.
    blur = rounding(at.w, 1) * abs(here) if longer else 0.0
    step, faulty = 1.0, False
    while step > SolverPolicy.shortest:
        trial = at.w + step * direction
        value = phi.value(trial)
        if math.isfinite(value) and value <= here + blur + SolverPolicy.sufficient * step * slope:
            point = full if step == 1.0 else _finite_point(phi, trial)
            # A value that did not move is rounding: only a smaller gradient is progress then.
            if point is not None and (value < here or point.residual < at.residual):
                point = point._replace(value=value)
                return _lengthened(phi, at, direction, point, step) if longer else point
            faulty = faulty or point is None
        step /= 2
    if convex and full is not None and full.residual < at.residual:
        return full
    # A search of unknown length turns back there, and ends.
    if faulty and not longer:
        raise NonFiniteError("the proxy's gradient is not finite where its value is")
    return None


def _lengthened(phi: Subproblem, at: Point, direction: Vector, point: Point, step: float) -> Point:
    """Return the point of the longest doubled step that pays (Wolfe's second condition)."""
    slope = dot(at.gradient, direction)
    while dot(point.gradient, direction) < SolverPolicy.steep * slope:
        step *= 2
        further = _finite_point(phi, at.w + step * direction)
        reached = math.nan if further is None else phi.value(further.w)
        if further is None or point.value is None or not reached <= point.value:
            break
        point = further._replace(value=reached)
    return point


def first_finite(phi: Subproblem, w: Vector, move: Vector) -> Point:
    """Return the point of a move from w, which is halved until the gradient there is finite."""
    step = 1.0
    while True:
        point = Point.at(phi, w + step * move if step < 1 else w + move)
        if math.isfinite(point.residual) or step < SolverPolicy.shortest:
            return point
        step /= 2


def _finite_point(phi: Subproblem, w: Vector) -> Point | None:
    point = Point.at(phi, w)
    return point if math.isfinite(point.residual) else None
