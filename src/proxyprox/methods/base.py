"""What an outer method is: it asks for target gradients at points, is told them, and moves.

A method is frozen configuration. What it carries from step to step is its state: any tree of
dataclasses, dicts, lists, numbers and arrays of any shape, with the iterate ``w`` and the number
of steps ``k`` in it. The run saves the state, resumes it bit for bit, and calls the method::

    state = method.init(w0, problem)
    repeat:
        request = method.ask(state)              # at which points, of a batch or of everything
        answers = the target's gradients there
        state = method.tell(state, answers, step)

``step`` is what the method may use: the proxy, the step size and the inner solver.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from array_api_compat import is_array_api_obj

from proxyprox._util.arrays import Matrix, Vector, changed
from proxyprox.corrections import Correction, Plain, estimate_of
from proxyprox.result import Status
from proxyprox.stepsizes.auto import as_step_size
from proxyprox.stepsizes.base import Constant, Eta, Restart, Solve, StepSize


@dataclass(frozen=True)
class Request:
    """What a method wants to know: gradients at some points, of one batch or of everything.

    Attributes
    ----------
    points : tuple of arrays
        Where; the first is the point that the step is about. All on the same batch.
    everything : bool
        Ask for the full gradients, of ``objective.everything()``, in place of a sampled batch.
    value : bool
        Whether the method can use the loss at the first point; it is told where it is known.
    start : bool
        Whether the method is still choosing where to begin, between two points: if it moves to the
        second one, the run counts as begun there, and it does not end before both are known.
    outputs : bool
        Ask for the outputs of the target's model at the points, in place of gradients.
    """

    points: tuple[Vector, ...]
    everything: bool = False
    value: bool = False
    start: bool = False
    outputs: bool = False


@dataclass(frozen=True)
class Answers:
    """The target's gradients at the points of a :class:`Request`, and what they were made of.

    Attributes
    ----------
    gradients : tuple of arrays
        One for each point, all of the same batch.
    batch : object
        The batch as the objective drew it, such as an array of row numbers.
    noise : float or None
        An estimate of ``E‖g − ∇L‖²`` for the first gradient; 0 for an exact one, None if it
        is not known.
    half_gaps : tuple of arrays
        At each point, half the difference of two half batches' gradients: samples of that noise.
        Empty if there are no halves.
    value : float or None
        The loss at the first point, without the penalty; None if it is not known.
    curvature : array of shape (d, d) or None
        An approximate Hessian of the target at the first point, positive semidefinite, where the
        objective has one at no extra cost: ``curvature(w)``.
    outputs : tuple of arrays
        The outputs of the target's model at the points, if those were asked for.
    """

    gradients: tuple[Vector, ...]
    batch: Any = None
    noise: float | None = None
    half_gaps: tuple[Vector, ...] = ()
    value: float | None = None
    curvature: Matrix | None = None
    outputs: tuple[Any, ...] = ()


class OuterStep:
    """What a method may use while it takes a step.

    Attributes
    ----------
    proxy : Proxy
        The proxy, each access counted; gradients at the last few points are remembered.
    rng : numpy.random.Generator
        The run's randomness.
    learnt : object
        The state of the step-size rule.
    """

    def __init__(
        self, proxy: Any, rng: np.random.Generator, rule: StepSize, learnt: Any, k: int,
        solve: Solve, penalty: Any = None,
    ) -> None:  # fmt: skip
        self.proxy, self.rng, self.learnt, self._penalty = proxy, rng, learnt, penalty
        self._rule, self._k, self._solve = rule, k, solve

    @property
    def eta(self) -> float:
        """η of this step."""
        return self._rule.eta(self.learnt, self._k)

    @property
    def gain(self) -> float | None:
        """The weight that the step-size rule gives the newest difference, where it has one."""
        return self._rule.gain(self.learnt)

    @property
    def restart(self) -> Restart | None:
        """Where to start instead, if the step-size rule undoes the last step."""
        return self._rule.restart(self.learnt)

    def solve(self, linear: Vector, centre: Vector, eta: float | None = None) -> Vector:
        """Minimise ``L̂ + ⟨linear, ·⟩ + ‖· − centre‖²/(2η)`` with the run's solver and criterion.

        Without ``eta`` the step-size rule decides; it may try smaller ones where it has to.
        """
        if eta is not None:
            return self._solve(linear, centre, eta)
        w, self.learnt = self._rule.solve(self.learnt, self._k, linear, centre, self._solve)
        return w

    def prox(self, w: Vector, step: Any) -> Vector:
        """Return the penalty's proximal point; w itself without a penalty.

        ``step`` is a number, or an array for each coordinate if the penalty is ``separable``.
        """
        return w if self._penalty is None else self._penalty.prox(w, step)


@dataclass(frozen=True)
class State:
    """The least that a method's state holds: the iterate and the number of steps taken."""

    w: Vector
    k: int = 0


@dataclass(frozen=True)
class Defaults:
    """The inner solver and its criterion that a method's authors use; None for the usual ones."""

    inner: Any | None = None
    stop: Any | None = None


class Method:
    """An outer method; a subclass is a frozen dataclass that defines :meth:`tell`.

    Where it needs more than the gradient of a batch at the current iterate it also defines
    :meth:`ask`, and :meth:`init` where its state has more than ``w`` and ``k``.
    :func:`proxyprox.testing.check_method` checks one of your own.

    Attributes
    ----------
    eta : float, callable, StepSize or "auto"
        A number, a function of k, a :class:`~proxyprox.stepsizes.StepSize`, or "auto"; a method
        that gives every ``step.solve`` its own needs none.
    uses_proxy : bool
        False for a method that treats the proxy as zero.
    exact : bool
        Whether every request is for everything.
    needs : tuple of str
        What the objective must offer, such as ("everything",); checked before anything is paid.
    two_points : bool
        Whether a batch is evaluated at two points, so that batches must be repeatable.
    backtracks : bool
        Whether it turns back from a trial point where the target is not finite; a run of another
        method ends there, and every run that has no answer but one at w0 that is not finite.
    states : tuple of types, optional
        Dataclasses and named tuples that a state holds later and not at the start: a checkpoint has
        records of no others.

    Examples
    --------
    ProxyProx with heavy-ball momentum, for any step size, ``eta="auto"`` included:

    >>> from dataclasses import dataclass
    >>> from typing import Any
    >>> import numpy as np
    >>> from proxyprox import Method, Problem, Quadratic, minimize
    >>> @dataclass(frozen=True)
    ... class Momentum:
    ...     w: Any
    ...     velocity: Any
    ...     k: int = 0
    >>> @dataclass(frozen=True)
    ... class HeavyBall(Method):
    ...     eta: Any
    ...     beta: float = 0.5
    ...
    ...     def init(self, w0, problem):
    ...         return Momentum(w0, 0 * w0)
    ...
    ...     def tell(self, state, answers, step):
    ...         difference = answers.gradients[0] - step.proxy.gradient(state.w)
    ...         velocity = self.beta * state.velocity + (1 - self.beta) * difference
    ...         w = step.solve(linear=velocity, centre=state.w)
    ...         return Momentum(w, velocity, state.k + 1)
    >>> target = Quadratic(np.diag([1.0, 9.0]), b=np.array([-1.0, -9.0]))
    >>> problem = Problem(target, proxy=Quadratic(np.diag([1.0, 8.0])))
    >>> minimize(problem, method=HeavyBall(eta="auto"), steps=60).w.round(4)
    array([1., 1.])
    """

    uses_proxy: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ()
    two_points: bool = False
    backtracks: ClassVar[bool] = False
    asks_outputs: ClassVar[bool] = False
    eta: Eta

    @property
    def step_size(self) -> StepSize:
        """The rule that ``eta`` stands for."""
        eta = getattr(self, "eta", None)
        return Constant(math.nan) if eta is None else as_step_size(eta)

    def defaults(self) -> Defaults | None:
        """Return the solver and the criterion to use if the caller names none.

        None means that the method never calls ``step.solve``: it takes neither.
        """
        return Defaults()

    def prepare(self, problem: Any) -> Any:
        """Return the problem as this method wants it; by default as it is."""
        return problem

    def init(self, w0: Vector, problem: Any) -> Any:
        """Return the state before the first step; it has ``w`` and ``k``."""
        return State(w=w0)

    def keep_start(self, state: Any) -> Any:
        """Return the state before the first step if the caller gave w0: it is a point of the run.

        Only a method that begins elsewhere has to change anything.
        """
        return state

    def ask(self, state: Any) -> Request:
        """Return what the next step wants to know: by default a batch's gradient at w_k."""
        return Request((state.w,), everything=self.exact)

    def tell(self, state: Any, answers: Answers, step: OuterStep) -> Any:
        """Return the state after one outer step, with ``k`` one larger."""
        raise NotImplementedError(f"{type(self).__name__} must define tell(state, answers, step)")

    def adapt(self, state: Any, before: Any, after: Any, *, leap: bool) -> Any:
        """Return the state for a proxy whose numbers have changed: by default as it is.

        ``before`` and ``after`` are the proxy with the numbers as they were and as they are now;
        ``leap`` says that the new one fits the target so much better that its minimum is worth a
        look.
        """
        return state

    def answer(self, state: Any) -> Vector:
        """Return the iterate to answer with."""
        return state.w

    def models_target(self, problem: Any) -> bool:
        """Tell whether its subproblem without a proximal term is the target, but for a constant."""
        return False

    def note(self, state: Any) -> str:
        """Return a sentence for the result's message: the state's ``note``, if it has one."""
        return str(getattr(state, "note", "") or "")

    def promise(self, state: Any) -> float:
        """Return an upper bound on what the next step is to gain; NaN if none is known."""
        return math.nan

    def ends(self, state: Any, tol: float, atol: float) -> Status | None:
        """Return how the run ends, or None, for a method that asks for outputs: no gradient says.

        Such a method has ``asks_outputs = True``, and ``w`` and ``value`` in its state.
        """
        return None

    def details(self, state: Any) -> Any:
        """Return what else a result is to hold; None by default."""
        return None

    def gaps(self, state: Any) -> tuple[float, float]:
        """Return what is left to gain, and what there was at first; NaN if that is not known."""
        return math.nan, math.nan


@dataclass(frozen=True)
class CorrectedState(State):
    """The iterate, the correction's memory and, where two points are compared, the one before."""

    memory: Any = None
    previous: Vector | None = None
    previous_anchor: Vector | None = None


class CorrectedMethod(Method):
    """Estimate ∇L − ∇L̂ and minimise the proxy with that correction around w_k; abstract."""

    correction: Correction

    def __post_init__(self) -> None:
        """Check η."""
        self.step_size  # noqa: B018

    @property
    def step_size(self) -> StepSize:
        """The rule that ``eta`` stands for; an infinite one leaves out the proximal term."""
        return as_step_size(self.eta, allow_inf=self.exact or self.correction != Plain())

    @property
    def two_points(self) -> bool:  # type: ignore[override]
        """Whether the correction compares two points on one batch."""
        return self.correction.two_points

    def init(self, w0: Vector, problem: Any) -> CorrectedState:
        """Start at w0."""
        return CorrectedState(w=w0)

    def ask(self, state: CorrectedState) -> Request:
        """Ask at w_k, and at w_{k−1} on the same batch if the correction compares the two."""
        both = self.two_points and state.previous is not None
        points = (state.w, state.previous) if both else (state.w,)
        return Request(points, everything=self.exact)

    def tell(self, state: CorrectedState, answers: Answers, step: OuterStep) -> CorrectedState:
        """Solve the corrected proximal subproblem."""
        centre, anchor, before = state.w, step.proxy.gradient(state.w), None
        difference = answers.gradients[0] - anchor
        if step.restart is not None:
            # The newest batch is known at the centre before: start there again, with a shorter η.
            centre, anchor = step.restart.centre, step.restart.anchor
            difference = step.restart.difference
        elif len(answers.gradients) == 2:
            before = answers.gradients[1] - state.previous_anchor
        if step.gain is not None and isinstance(self.correction, Plain):
            # The rule's mean of all differences, weighed by their expected errors.
            mean = state.memory
            memory = difference if mean is None else mean + step.gain * (difference - mean)
            estimate = memory
        else:
            memory = self.correction(difference, before, state.memory, state.k)
            estimate = estimate_of(self.correction, memory)
        w = step.solve(linear=estimate, centre=centre)
        kept = (centre, anchor) if self.two_points else (None, None)
        return CorrectedState(w, state.k + 1, memory, *kept)

    def adapt(self, state: CorrectedState, before: Any, after: Any, *, leap: bool) -> Any:
        """Return the state with the memory moved: it estimates ∇L − ∇L̂ at w_k."""
        if not is_array_api_obj(state.memory):
            return changed(state, memory=None)
        gap = before.gradient(state.w) - after.gradient(state.w)
        anchor = None if state.previous is None else after.gradient(state.previous)
        return changed(state, memory=state.memory + gap, previous_anchor=anchor)
