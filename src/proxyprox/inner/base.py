"""The one subproblem of all methods, its solvers, and when a solve is good enough.

A rule, public in :mod:`proxyprox.stopping`, bounds ``‖∇φ_k(w)‖`` by a threshold made of quantities
known at run time. Rules compose: ``StronglyConvex(mu=1e-3) | Steps(100)`` stops at whichever comes
first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from proxyprox._util.arrays import (
    Matrix,
    Vector,
    add_to_diagonal,
    dot,
    norm,
    rounding,
    same_point,
)
from proxyprox._util.validation import fraction, has, instance, nonnegative, positive, whole
from proxyprox.problems.problem import facts_of
from proxyprox.problems.protocols import Penalty, Work


class NonFiniteError(ArithmeticError):
    """An oracle or an inner solve produced NaN or an infinity.

    ``status`` is how a run ends that meets it, where that is known.
    """

    def __init__(self, text: str, status: Any = None) -> None:
        super().__init__(text)
        self.status = status


# -- when a solve is good enough: the paper's three inexactness rules, and plainer ones ------------


class Progress(NamedTuple):
    """Where an inner solve stands.

    Attributes
    ----------
    steps : int
        Inner steps taken.
    residual : float
        ``‖∇φ_k(w)‖``; with a penalty, the distance from 0 to the subdifferential.
    displacement : float
        ``‖w − w_k‖``.
    eta : float
        The step size η of the subproblem.
    start_residual : float
        The residual at the start of this solve.
    decrease : callable
        Returns ``φ_k(w_k) − φ_k(w)``; evaluated only by rules that need it.
    """

    steps: int
    residual: float
    displacement: float
    eta: float
    start_residual: float
    decrease: Callable[[], float]


class Criterion:
    """A rule that says when to stop; abstract."""

    needs: tuple[str, ...] = ()
    """Capabilities that the rule asks of the proxy."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in getattr(self, "__dataclass_fields__", ()):
            if name in CHECKS:
                CHECKS[name](name, getattr(self, name))

    def threshold(self, progress: Progress) -> float | None:
        """Return the bound on the residual, or None if the rule has none."""
        return None

    def holds(self, progress: Progress) -> bool | None:
        """Tell whether the inexactness rule holds; None if this is not such a rule."""
        threshold = self.threshold(progress)
        return None if threshold is None else progress.residual <= threshold

    def __call__(self, progress: Progress) -> bool:
        """Tell whether to stop."""
        return bool(self.holds(progress))

    def begin(self, rng: np.random.Generator) -> Criterion:
        """Return the rule to use for one outer step (a random rule draws here)."""
        return self

    def __or__(self, other: Criterion) -> Criterion:
        return AnyOf((self, other))

    def __and__(self, other: Criterion) -> Criterion:
        return AllOf((self, other))


CHECKS: dict[str, Callable[..., Any]] = {
    "mu": partial(positive, remedy="Use Convex(steps=K) if the objective is not strongly convex."),
    "G": nonnegative, "target_gradient_norm": nonnegative, "steps": whole, "tol": positive,
    "factor": fraction, "p": fraction,
}  # fmt: skip


@dataclass(frozen=True)
class StronglyConvex(Criterion):
    """``‖∇φ_k(w)‖² ≤ μ/(4η) ‖w − w_k‖² + G²``: the strongly convex theorem's rule.

    Parameters
    ----------
    mu : float
        Strong convexity of the objective.
    G : float
        Error allowed besides; it costs ``G²/μ`` in the guarantee.

    Examples
    --------
    >>> from proxyprox.stopping import Progress
    >>> at = Progress(3, 0.1, displacement=1.0, eta=0.5, start_residual=1.0, decrease=float)
    >>> StronglyConvex(mu=0.5)(at)
    True
    """

    mu: float
    G: float = 0.0

    def threshold(self, progress: Progress) -> float:
        """Return the square root of the rule's right-hand side."""
        return math.hypot(math.sqrt(self.mu / progress.eta) / 2 * progress.displacement, self.G)


@dataclass(frozen=True)
class Convex(Criterion):
    """``‖∇φ_k(w)‖² ≤ ‖w − w_k‖²/(4η²K) + G²``: the convex theorem's rule for K outer steps."""

    steps: int
    G: float = 0.0

    def threshold(self, progress: Progress) -> float:
        """Return the square root of the rule's right-hand side."""
        slope = 1 / (2 * progress.eta * math.sqrt(self.steps))
        return math.hypot(slope * progress.displacement, self.G)


@dataclass(frozen=True)
class NonConvex(Criterion):
    """``‖∇φ_k(w)‖² ≤ 7/(16η²)‖w − w_k‖² + ‖∇L(w)‖²/8`` and ``φ_k(w) ≤ φ_k(w_k)``.

    The paper prints ``‖φ_k‖²`` for ``‖∇φ_k‖²``. The target's gradient at a trial point is not
    known without paying for it, so its term is left out unless a lower bound is given: the rule
    is then stricter than the theorem asks, never laxer.

    Parameters
    ----------
    target_gradient_norm : float
        A lower bound on ``‖∇L(w)‖``, if one is known.
    """

    target_gradient_norm: float = 0.0
    needs = ("value",)

    def threshold(self, progress: Progress) -> float:
        """Return the square root of the rule's right-hand side."""
        slope = math.sqrt(7) / (4 * progress.eta)
        return math.hypot(slope * progress.displacement, self.target_gradient_norm / math.sqrt(8))

    def holds(self, progress: Progress) -> bool:
        """Tell whether the gradient is small enough and φ did not grow."""
        return progress.residual <= self.threshold(progress) and progress.decrease() >= 0


@dataclass(frozen=True)
class SDane(Criterion):
    """``‖∇φ_k(w)‖ ≤ ‖w − w_k‖/(2η)``: S-DANE's rule, which needs neither μ nor G.

    References
    ----------
    Jiang, Rodomanov and Stich, "Stabilized proximal-point methods for federated optimization".
    """

    def threshold(self, progress: Progress) -> float:
        """Return ``‖w − w_k‖/(2η)``."""
        return progress.displacement / (2 * progress.eta)


@dataclass(frozen=True)
class Residual(Criterion):
    """``‖∇φ_k(w)‖ ≤ tol``, an absolute accuracy."""

    tol: float

    def threshold(self, progress: Progress) -> float:
        """Return the tolerance."""
        return self.tol


@dataclass(frozen=True)
class Relative(Criterion):
    """``‖∇φ_k(w)‖ ≤ factor · ‖∇φ_k(start)‖``."""

    factor: float

    def threshold(self, progress: Progress) -> float:
        """Return the scaled residual of the start."""
        return self.factor * progress.start_residual


@dataclass(frozen=True)
class Steps(Criterion):
    """Stop after a fixed number of inner steps.

    Examples
    --------
    >>> from proxyprox.stopping import Progress
    >>> at = Progress(3, 0.1, displacement=1.0, eta=0.5, start_residual=1.0, decrease=float)
    >>> Steps(20)(at)
    False
    """

    steps: int

    def __call__(self, progress: Progress) -> bool:
        """Tell whether the steps are taken."""
        return progress.steps >= self.steps


@dataclass(frozen=True)
class RandomSteps(Criterion):
    """Stop after a geometric number of inner steps, ``1/p`` on average, drawn each outer step."""

    p: float

    def begin(self, rng: np.random.Generator) -> Criterion:
        """Draw this outer step's number of inner steps."""
        return Steps(int(rng.geometric(self.p)))


@dataclass(frozen=True)
class _Joined(Criterion):
    """Several rules as one; abstract."""

    rules: tuple[Criterion, ...]

    enough: ClassVar[Callable[[Iterable[object]], bool]]
    bound: ClassVar[Callable[..., Any]]

    def __post_init__(self) -> None:
        """Check the rules."""
        for rule in self.rules:
            instance("a stopping rule", rule, Criterion, "joined to one such as Steps(20)")

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        """Capabilities that any of the rules asks for."""
        return tuple({need for rule in self.rules for need in rule.needs})

    def threshold(self, progress: Progress) -> float | None:
        """Return the laxest or the strictest of the rules' bounds."""
        bounds = (rule.threshold(progress) for rule in self.rules)
        known = [bound for bound in bounds if bound is not None]
        return float(type(self).bound(known)) if known else None

    def holds(self, progress: Progress) -> bool | None:
        """Tell whether enough of the inexactness rules hold."""
        answers = (rule.holds(progress) for rule in self.rules)
        known = [answer for answer in answers if answer is not None]
        return type(self).enough(known) if known else None

    def __call__(self, progress: Progress) -> bool:
        """Tell whether to stop."""
        return type(self).enough(rule(progress) for rule in self.rules)

    def begin(self, rng: np.random.Generator) -> Criterion:
        """Begin every rule."""
        return type(self)(tuple(rule.begin(rng) for rule in self.rules))


class AnyOf(_Joined):
    """Stop as soon as one of the rules says so.

    Examples
    --------
    >>> from proxyprox.stopping import Progress
    >>> at = Progress(3, 0.1, displacement=1.0, eta=0.5, start_residual=1.0, decrease=float)
    >>> (Steps(20) | Relative(0.5))(at)
    True
    """

    enough, bound = any, max


class AllOf(_Joined):
    """Stop when all of the rules say so."""

    enough, bound = all, min


# -- the subproblem, and what solves it ------------------------------------------------------------


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
        return Progress(
            steps=steps,
            residual=residual,
            displacement=displacement,
            eta=self.eta,
            start_residual=residual if start_residual is None else start_residual,
            decrease=partial(self.decrease, w),
        )


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
