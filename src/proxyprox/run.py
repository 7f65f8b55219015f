"""The driver: a run that asks for target gradients and is told them.

A run is a value. :class:`RunState` holds everything that its rest depends on, and two functions
lead from one to the next: :func:`asked` opens a question, :func:`told` takes its answer. Neither
changes the state that it is given, so that a step that is broken off, at whatever line, has not
happened: the run still holds the state before. Only the ledger is outside: what was paid stays
paid.
"""

from __future__ import annotations

import copy
import itertools
import math
import numbers
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Annotated, Any

import numpy as np

import proxyprox.oracle as oracle
from proxyprox import checkpoint
from proxyprox._util import codec
from proxyprox._util.arrays import (
    Growing,
    Vector,
    all_finite,
    changed,
    copy_array,
    copy_tree,
    norm,
    same_point,
)
from proxyprox._util.codec import describe, differences, library, require_form
from proxyprox._util.validation import explain_names, file_path, generator, has, message, scalar
from proxyprox.advice import defaults, outcome
from proxyprox.advice.outcome import Faults, GradientPath
from proxyprox.averaging import Adaptive, Averaging, Last
from proxyprox.inner.base import NonFiniteError, Subproblem
from proxyprox.learning import learn, proxy_for
from proxyprox.methods.base import Answers, OuterStep, Request
from proxyprox.oracle import Query, Solved, Step, Told
from proxyprox.problems import Problem, Zero
from proxyprox.problems import identity as identities
from proxyprox.problems.problem import facts_of, halves_of
from proxyprox.problems.protocols import Facts
from proxyprox.result import Ledger, Result, Status, StepRecord, Trace
from proxyprox.stepsizes.base import Observation, StepSize
from proxyprox.stopping import Criterion, Residual

__all__ = ["Run", "RunState"]

# What a run says that ends without a last question.
KNOWN_AHEAD = (
    "The proxy has the target's curvature: the residual of the inner solve is the target's "
    "gradient there, which was not asked for."
)
BLIND = "The run left w0 by the target's gradients alone: no value shows that its answer is lower."


PARTS = ("method", "inner", "stop", "averaging")


@dataclass(frozen=True)
class RunState:
    """Everything that the rest of a run depends on; never changed, only replaced.

    Attributes
    ----------
    method, step_size : object
        The states of the method and of the step-size rule.
    rng : dict
        The state of the generator of batches and solvers.
    memory : dict
        What the inner solver keeps from step to step.
    anchors : tuple of pairs
        The last points at which the proxy's gradient was asked for, with the gradients.
    path : GradientPath
        The target's answers along the way.
    faults : Faults
        The steps that the proxy blocked.
    trace : Growing
        A record of each outer step.
    average : array or None
        The average of the iterates, if one was asked for.
    share : float
        The newest iterate's share in it.
    question : Query or None
        The question that is open.
    own_points : int
        How many of its points the method has asked about; one more is the step-size rule's.
    starts : bool
        Whether it is asked to choose where the run begins.
    answer : Told or None
        The target's answer to it, paid for, if the step that it leads to was not taken yet.
    learning : object
        What a proxy with numbers that are fitted has learnt; None for any other.
    """

    method: Any
    step_size: Any
    rng: Mapping[str, Any]
    memory: dict[str, Any] = field(default_factory=dict)
    anchors: oracle.Remembered = ()
    path: GradientPath = field(default_factory=GradientPath)
    faults: Faults = field(default_factory=Faults)
    trace: Annotated[Growing, StepRecord] = field(default_factory=Growing)
    average: Vector | None = None
    share: float = 1.0
    question: Query | None = None
    own_points: int = 0
    starts: bool = False
    answer: Told | None = None
    learning: Any = None


@dataclass(frozen=True)
class Parts:
    """What does not change in a run: the problem, the configuration, and tools to work with.

    ``facts`` is what the objective states of itself. ``proxy`` and ``random`` have no state of
    their own between two calls: it is set from a :class:`RunState` first.
    """

    problem: Problem
    method: Any
    inner: Any
    stop: Criterion
    averaging: Averaging
    proxy: Any
    random: np.random.Generator
    penalty: Any
    start: Vector
    step_size: StepSize
    facts: Facts

    def random_at(self, state: Mapping[str, Any]) -> np.random.Generator:
        """Return the generator, brought to a state."""
        self.random.bit_generator.state = state
        return self.random


def questions(parts: Parts, state: RunState) -> tuple[Request, tuple[Vector, ...]]:
    """Return what the method wants to know, and all points, the step-size rule's among them."""
    method = parts.method
    request = method.ask(copy_tree(state.method))
    if not isinstance(request, Request) or not request.points:
        name = f"{type(method).__name__}.ask(state)"
        raise TypeError(message(name, request, "a Request with at least one point"))
    points = tuple(request.points)
    before = parts.step_size.comparison_point(state.step_size, state.method.k)
    if before is None or any(same_point(before, point) for point in points[1:]):
        return request, points
    return request, (*points, before)


def asked(parts: Parts, state: RunState, batch: tuple[Any, ...] = ()) -> RunState:
    """Return the state with a question open, about a batch that is drawn now or known already."""
    request, points = questions(parts, state)
    objective, exact, rng = parts.problem.objective, request.everything, state.rng
    if not batch and exact and has(objective, "everything"):
        batch = (objective.everything(),)
    elif not batch:
        batch = (objective.sample(parts.random_at(rng)),)
        rng = parts.random.bit_generator.state
    # Copied: a user's sampler may reuse its buffer.
    drawn = batch[0] if exact else copy_tree(batch[0])
    halves = halves_of(parts.facts, drawn) if parts.step_size.measures else None
    # Copied: the method may write into what it has returned.
    points = tuple(map(copy_array, points))
    question = Query(drawn, points, halves, exact, request.value, request.outputs)
    own, starts = len(request.points), request.start
    return changed(state, rng=rng, question=question, own_points=own, starts=starts, answer=None)


def told(parts: Parts, state: RunState, answers: Answers) -> tuple[RunState, Solved | None]:
    """Return the state after the step that the answers lead to, and the subproblem it solved.

    The record of the step is not in the trace yet: what it cost is the ledger's to say.
    """
    method, rule, query = parts.method, parts.step_size, state.question
    assert query is not None
    # At the start there is nothing to turn back to.
    at_start = state.path.start is None and not state.starts
    at_start = at_start and same_point(query.points[0], parts.start)
    finite = all(map(all_finite, answers.gradients)) or bool(answers.outputs)
    if not finite and (at_start or not method.backtracks):
        text = "the target's gradient is NaN or infinite"
        raise NonFiniteError(text, Status.TARGET_NOT_FINITE)
    solver = _Solver(parts, state)
    before, learnt, k = copy_tree(state.method), state.step_size, state.method.k
    own, learning, memory = answers, state.learning, solver.memory
    if parts.proxy.learns:
        learning, before, learnt = learn(parts, state, answers, before, outcome.POLICY.row)
        if learning.numbers != state.learning.numbers:
            memory.clear()
    if rule.measures:
        learnt = rule.observe(copy_tree(learnt), _observation(parts, query, answers, k))
    if len(answers.gradients) > state.own_points:
        own = changed(answers, gradients=answers.gradients[: state.own_points])
    step = OuterStep(parts.proxy, solver.rng, rule, learnt, k, solver, parts.penalty)
    # Copied: what a method, a correction or a solver returns may be a buffer of its own.
    after = copy_tree(method.tell(before, copy_tree(own), step))
    _require_state(method, after, k, parts.start)
    learnt = rule.end_step(step.learnt, k, after.w) if rule.measures else step.learnt
    if not all_finite(after.w):
        raise NonFiniteError("the step led to NaN or an infinity", Status.DIVERGED)
    solved = solver.solved
    eta = solved.phi.eta if solved else rule.eta(learnt, k)
    share, average = _add_to_average(parts.averaging, state, after, eta)
    faults, anchors, fault = state.faults, parts.proxy.remembered, parts.proxy.fault
    if fault is not None:
        if solver.unsolved or not _rule_held(solved):
            faults = faults.add(k, fault, state.method.w)
        anchors = tuple(pair for pair in anchors if all_finite(pair[1]))
    path = outcome.path_after(parts, state, answers, after, finite)
    return changed(
        state, method=after, step_size=learnt, rng=parts.random.bit_generator.state,
        memory=solver.memory, anchors=anchors, path=path, faults=faults, average=average,
        share=share, question=None, own_points=0, starts=False, answer=None, learning=learning,
    ), solved  # fmt: skip


class _Solver:
    """Solves the subproblems of one step; the inner solver's memory is its own."""

    def __init__(self, parts: Parts, state: RunState) -> None:
        self.rng = parts.random_at(state.rng)
        parts.proxy.remembered, parts.proxy.fault = state.anchors, None
        self.parts, self.memory = parts, dict(state.memory)
        self.solved: Solved | None = None
        self.unsolved = False

    def __call__(
        self, linear: Vector, centre: Vector, eta: float, *, residual: float | None = None
    ) -> Vector:
        """Minimise the proxy with a linear term and a proximal one."""
        if not eta > 0:
            remedy = "Give the method an eta, or pass one to step.solve."
            raise ValueError(message("eta of the subproblem", eta, "positive", remedy))
        # NumPy would broadcast a user's correction of another shape.
        oracle.as_gradient("the correction's estimate", linear, centre)
        parts, centre = self.parts, copy_array(centre)
        phi = Subproblem(parts.proxy, copy_array(linear), centre, eta, parts.penalty)
        rule = parts.stop if residual is None else parts.stop & Residual(residual)
        stop = rule.begin(self.rng)
        try:
            found = parts.inner.solve(phi, copy_array(centre), stop, self.memory, self.rng)
        except NonFiniteError as error:
            self.unsolved = True
            if parts.proxy.fault is None:
                # Not the proxy's doing: a shorter step would only put off the end.
                error.status = error.status or Status.DIVERGED
            raise
        self.solved = Solved(phi, found.progress, stop)
        return found.w


def _rule_held(solved: Solved | None) -> bool:
    """Tell whether the inner rule held, or was met where it bounds nothing."""
    if solved is None:
        return True
    held = solved.stop.holds(solved.progress)
    return bool(solved.stop(solved.progress)) if held is None else held


def _observation(parts: Parts, query: Query, answers: Answers, k: int) -> Observation:
    """Return a step as the step-size rule sees it."""
    gaps = itertools.chain(answers.half_gaps, itertools.repeat(None))
    point, *others = zip(query.points, answers.gradients, gaps, strict=False)
    w, gradient, gap = copy_tree(point)
    return Observation(
        k, w, gradient, parts.proxy.gradient(w), answers.noise, gap, copy_tree(tuple(others)),
        lambda: parts.proxy.smoothness,
    )  # fmt: skip


def _require_state(method: Any, state: Any, k: int, like: Vector) -> None:
    """Refuse what is no state after step k."""
    name = f"the state that {type(method).__name__}.tell returns"
    if not (hasattr(state, "w") and hasattr(state, "k")):
        raise TypeError(message(name, state, "an object with w and k"))
    if state.k != k + 1:
        raise ValueError(message(f"k in {name}", state.k, f"{k + 1}, one more than before"))
    oracle.as_gradient(f"w in {name}", state.w, like)


def _add_to_average(
    averaging: Averaging, state: RunState, after: Any, eta: float
) -> tuple[float, Vector | None]:
    """Return the newest iterate's share in the average, and the average."""
    if isinstance(averaging, Last):
        return 1.0, None
    share, average = averaging.share(state.share, eta, after.k), state.average
    return share, after.w if average is None else average + share * (after.w - average)


def answer_of(parts: Parts, state: RunState) -> Vector:
    """Return what a run would answer in a state, a copy."""
    if state.average is not None:
        return copy_array(state.average)
    w = parts.method.answer(copy_tree(state.method))
    if isinstance(parts.averaging, Adaptive):
        w = parts.step_size.answer(copy_tree(state.step_size), w)
    return copy_array(w)


class Run:
    """A run in the hands of its user: :meth:`ask`, compute or wait, :meth:`tell`.

    The target may be a person, a robot or a hospital; :func:`~proxyprox.minimize` is the loop for
    a target that is a function. The state is explicit: a run saved at any moment, even between a
    question and its answer, resumes bit for bit.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    w0 : array or "proxy", optional
        Where to begin; zeros if the problem knows its size. "proxy" is the proxy's minimum, where
        it has one.
    method : Method, optional
        The outer method, such as ``ProxyProx(eta=1.0)``; by default what suits the problem, as in
        :func:`~proxyprox.minimize`.
    inner : InnerSolver, optional
        How subproblems are solved; by default the method's own, or what suits the proxy.
    stop : Criterion, optional
        When an inner solve is good enough; by default the paper's rule for what is known.
    averaging : Averaging
        Which point is the answer.
    rng : int or numpy.random.Generator, optional
        Randomness of batches and solvers.
    expected_steps : int, optional
        Outer steps planned, for the default rule in the convex case.

    Examples
    --------
    >>> import numpy as np
    >>> from proxyprox import Problem, ProxyProx, Quadratic, Run
    >>> target = Quadratic(np.eye(2), b=np.array([-1.0, -2.0]))
    >>> run = Run(Problem(target, proxy=Quadratic(np.eye(2))), method=ProxyProx(eta=1e6))
    >>> query = run.ask()
    >>> step = run.tell(target.gradient(query.points[0]))
    >>> run.result().w.round(3)
    array([1., 2.])
    """

    @explain_names
    def __init__(
        self, problem: Problem, w0: Vector | str | None = None, *, method: Any = None,
        inner: Any | None = None, stop: Criterion | None = None,
        averaging: Averaging | None = None, rng: np.random.Generator | int | None = None,
        expected_steps: int | None = None,
    ) -> None:  # fmt: skip
        self.ledger, why_method, notes = Ledger(), "", []
        random, first = generator(rng), ()
        if method is None:
            solves = any(part is not None for part in (inner, stop, averaging))
            first = defaults.draw_first(problem, random)
            method, why_method = defaults.choose_method(problem, solves=solves, first=first)
            notes.append(defaults.note_full_gradient(problem))
        start, inner, stop, why_inner, why_stop, note = defaults.complete_parts(
            problem, w0, method, inner, stop, averaging, expected_steps, self.ledger
        )
        self._notes = [*notes, note]
        self._why = {"method": why_method, "inner": why_inner, "stop": why_stop}
        self._seed = int(rng) if isinstance(rng, numbers.Integral) else None
        self._planned = expected_steps
        self._identity: dict[str, Any] | None = None
        problem = method.prepare(problem)
        rule = method.step_size.suited(problem, uses_proxy=method.uses_proxy)
        proxy = problem.proxy if method.uses_proxy else Zero()
        metered = proxy_for(proxy, self.ledger, start)
        averaging = averaging or (Adaptive() if rule.measures else Last())
        self.parts = Parts(
            problem, method, inner, stop, averaging, metered, random,
            oracle.copying(problem.penalty), start, rule, facts_of(problem.objective),
        )  # fmt: skip
        begun = time.perf_counter()
        given = problem if isinstance(proxy, Zero) else problem.with_proxy(metered)
        begin = method.init(copy_array(start), given)
        # A point that the caller chose is one of the run's, wherever the method would begin.
        self.given = w0 is not None and not isinstance(w0, str)
        if self.given:
            begin = method.keep_start(begin)
        if method.defaults() is None:
            # The search for the proxy's minimum; other methods start in no time.
            self.ledger.seconds += time.perf_counter() - begun
        learnt = rule.init(copy_array(start), problem, uses_proxy=method.uses_proxy)
        self.state = self._first = RunState(
            copy_tree(begin), copy_tree(learnt), random.bit_generator.state,
            anchors=metered.remembered, learning=metered.first if metered.learns else None,
        )  # fmt: skip
        if first and not method.ask(copy_tree(begin)).everything:
            self.open(*first)

    # -- the configuration ------------------------------------------------------------------

    problem = property(attrgetter("parts.problem"), doc="What is minimised.")
    method = property(attrgetter("parts.method"), doc="The outer method.")
    inner = property(attrgetter("parts.inner"), doc="The inner solver.")
    stop = property(attrgetter("parts.stop"), doc="When an inner solve is good enough.")
    averaging = property(attrgetter("parts.averaging"), doc="Which point is the answer.")
    step_size = property(attrgetter("parts.step_size"), doc="The method's step-size rule.")
    path = property(attrgetter("state.path"), doc="The target's answers along the way.")

    # -- ask and tell -----------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Outer steps taken."""
        return int(self.state.method.k)

    @property
    def trace(self) -> Trace:
        """The record of each outer step."""
        return Trace(list(self.state.trace))

    @property
    def w(self) -> Vector:
        """The answer so far, a copy: the last iterate, or the average that was asked for."""
        return answer_of(self.parts, self.state)

    @property
    def rng(self) -> np.random.Generator:
        """The generator of batches and solvers as it is now, a copy."""
        return codec.restore_rng(self.state.rng, self.parts.random)

    @property
    def start(self) -> Vector:
        """The starting point, a copy."""
        return copy_array(self.parts.start)

    def ask(self) -> Query:
        """Return the question that is open, a copy; asking again does not change it."""
        return self.open_question().copied()

    def open_question(self) -> Query:
        """Return the question that is open, opened if need be; not to be written into."""
        if self.state.question is None:
            self.state = asked(self.parts, self.state)
        assert self.state.question is not None
        return self.state.question

    def hold(self, answer: Told) -> None:
        """Keep the target's answer to the open question, which is charged: it is not asked again.

        :meth:`tell` without arguments takes the step that it leads to.
        """
        query = self.open_question()
        answer = answer._replace(gradients=oracle.check_gradients(query, answer.gradients))
        oracle.charge(self.ledger, {**self.price(query), **answer.extra})
        self.state = changed(self.state, answer=answer)

    @property
    def held(self) -> bool:
        """Whether the open question has an answer that no step has followed yet."""
        return self.state.answer is not None

    def draw_seed(self) -> int:
        """Return a seed for another generator, drawn from this run's."""
        random = self.parts.random_at(self.state.rng)
        seed = int(random.integers(2**62))
        self.state = replace(self.state, rng=random.bit_generator.state)
        return seed

    def open(self, batch: Any) -> None:
        """Ask the next question about a batch that is known already."""
        self.state = asked(self.parts, self.state, (batch,))

    @property
    def points(self) -> tuple[Vector, ...]:
        """The points of the next question, before a batch is drawn for it."""
        return questions(self.parts, self.state)[1]

    def price(self, query: Query) -> dict[str, float]:
        """Return what answering a query adds to the ledger."""
        price = oracle.price(self.problem.objective, self.ledger, [query.purchase])
        return price | ({"target_calls": len(query.points)} if query.outputs else {})

    def tell(
        self, gradients: Vector | Sequence[Vector] | None = None, *, observations: Any = None,
        halves: Sequence[Any] | None = None, value: float | None = None,
    ) -> Step:  # fmt: skip
        """Answer the open question and take the outer step.

        Parameters
        ----------
        gradients : array or sequence of arrays
            The batch's gradient at each of the query's points.
        observations : optional
            Instead of gradients: what was observed for the batch (labels, a rollout), which the
            objective turns into gradients by its ``gradient_from``.
        halves : pair of arrays, optional
            The gradients of the query's two half batches at its first point, whose mean is the
            first of ``gradients``: how far they differ tells a measured step size the noise. A
            list of such pairs, one for each of the query's points, tells how it changes.
        value : float, optional
            The loss at the query's first point, without the penalty, where it is known: methods
            that ask for it (``query.value``) reject bad steps by it. Of observations it is the
            objective's ``gradient_from``, if that returns it, too.

        Returns
        -------
        Step
            The finished step.

        Raises
        ------
        NonFiniteError
            If an answer is NaN or infinite, or the inner solve meets such a number.
        RuntimeError
            If no question is open: :meth:`ask` opens one.

        Notes
        -----
        After any error the run stays as it was before the call, the question open; only the
        ledger keeps what the answer and the attempt cost.
        """
        begun, parts, query = time.perf_counter(), self.parts, self.state.question
        if query is None:
            raise RuntimeError("tell needs an open question. Call ask() first, and answer that.")
        objective, known = parts.problem.objective, self.state.answer
        if gradients is None and observations is None and known is not None:
            given, halves, value = known.gradients, known.halves, known.value
        else:
            known = None
            given, seen = oracle.check_answers(objective, query, gradients, observations)
            value = seen if value is None else value
        level, gaps = oracle.noise(query, halves) if parts.step_size.measures else (None, ())
        value = None if value is None else scalar("value", value)
        if value is not None and not (parts.method.backtracks or math.isfinite(value)):
            remedy = "Leave it out where it is not known."
            raise ValueError(message("value", value, "a finite number", remedy))
        if known is None:
            oracle.charge(self.ledger, self.price(query))
        self.ledger.value_calls += value is not None
        curvature = None
        if has(objective, "curvature"):
            curvature = objective.curvature(copy_array(query.points[0]))
            curvature = None if curvature is None or not all_finite(curvature) else curvature
        outputs: tuple[Any, ...] = ()
        if query.outputs:
            outputs, value = given, objective.loss_of(given[0])
            given = tuple(math.nan * w for w in query.points)
        answers = Answers(given, query.batch, level, gaps, value, curvature, outputs)
        try:
            # Overflow is looked for where it matters; NumPy's warnings would only repeat it.
            with np.errstate(over="ignore", invalid="ignore"):
                state, solved = told(parts, self.state, answers)
                size = norm(given[0])
        except Exception:
            # An answer that leads nowhere is asked for again.
            self.state = changed(self.state, answer=None)
            raise
        self.ledger.seconds += time.perf_counter() - begun
        k = state.method.k - 1
        eta = solved.phi.eta if solved else parts.step_size.eta(state.step_size, k)
        record = oracle.step_record(k, eta, solved, self.ledger, value, size)
        self.state = state = changed(state, trace=state.trace.append(record))
        ledger, answer = changed(self.ledger), partial(answer_of, parts, state)
        return Step(record, state, given, solved, ledger, answer)

    def converged(self, tol: float | None = None, atol: float = 0.0) -> bool:
        """Tell whether the run is at its end; gradients have to be exact.

        If the proxy is known to have the target's curvature, the gradient after a step of
        ``DANE(eta=math.inf)`` is the residual of its inner solve: it need not be asked for.

        Parameters
        ----------
        tol : float, optional
            Share of the first gradient's norm that is small. By default the end is where 1e-9 of
            the first gap ``L − L*`` is left by the method's model of the loss, or the gradient is
            small as in :func:`~proxyprox.minimize`.
        atol : float
            Norm that is small.

        Returns
        -------
        bool
            Whether ``‖∇L‖ ≤ max(tol·‖first ∇L‖, atol)`` at the point asked about last (with a
            penalty: the distance from 0 to the subdifferential), or the run has stalled, or begun,
            at a point from which no step promises more than the rounding of the loss.
            ``result(Status.CONVERGED)`` then answers with that point.

        Examples
        --------
        >>> import numpy as np
        >>> from proxyprox import DANE, Problem, Quadratic, Run
        >>> target = Quadratic(np.eye(2), b=np.array([-1.0, -2.0]))
        >>> run = Run(Problem(target, proxy=Quadratic(np.eye(2))), method=DANE())
        >>> while not run.converged(tol=1e-6):
        ...     step = run.tell(target.gradient(run.ask().points[0]))
        >>> run.steps, run.w
        (1, array([1., 2.]))
        """
        path, method, default = self.state.path, self.state.method, tol is None
        if tol is None:
            tol = defaults.default_tolerance(self.problem.objective, self.start)[0]
        if self.method.asks_outputs:
            return self.method.ends(copy_tree(method), tol, atol) is Status.CONVERGED
        ahead = outcome.known_ahead(self.parts, self.state)
        if ahead < math.inf and ahead <= path.limit(tol, atol, self.parts.penalty):
            return True
        if outcome.settled(self.parts, self.state):
            return True
        if self.method.backtracks and not same_point(path.point, method.w):
            # A point that the method turned back from, however flat, is no minimum.
            return False
        small = outcome.below(path, tol, atol, self.parts.penalty)
        if default:
            # In unlike units a small gradient is no small gap: the model's word counts.
            small = self.left <= 1 or (small and not self.left > defaults.POLICY.far)
        return small and not self.method.ask(copy_tree(method)).start

    @property
    def left(self) -> float:
        """What is left to gain by the method's model, in units of what is close enough, or NaN."""
        gaps = self.method.gaps(self.state.method)
        return defaults.share_left(self.problem.objective, self.start, gaps)

    @property
    def stalled(self) -> bool:
        """Whether neither the target's value nor its gradient fell in the last rounds.

        A line search that goes on has not failed yet, however many trials it takes.
        """
        return outcome.stalled(self.parts, self.state)

    def result(self, status: Status = Status.RUNNING, detail: str = "") -> Result:
        """Return the answer so far; gradients that tell of divergence change the status.

        Parameters
        ----------
        status : Status
            How the run ended, for a loop of one's own: ``Status.STEPS_DONE``, say.
        detail : str
            What else the message is to say.
        """
        return outcome.judge_by_gradients(self.result_before_verdict(status, detail))

    def result_before_verdict(self, status: Status, detail: str = "") -> Result:
        """Return the answer so far, the evidence of the gradients in its ``doubt`` only."""
        state, path, steps, trace = self.state, self.state.path, self.steps, self.trace
        if status.success and steps and state.faults.stuck(steps, outcome.POLICY.row):
            detail = f"{state.faults.summary(steps)} {status.value} {detail}".rstrip()
            status = Status.PROXY_NOT_FINITE
        # SGD without a penalty has no subproblems to speak of.
        solves = self.method.uses_proxy or self.problem.penalty is not None
        solves = solves and self.method.defaults() is not None
        w, last = self.w, state.method.w
        if (
            status is Status.CONVERGED
            and path.point is not None
            and not outcome.settled(self.parts, state)
        ):
            if outcome.known_ahead(self.parts, state) <= path.size(self.parts.penalty):
                detail = f"{detail} {KNOWN_AHEAD}".lstrip()
            else:
                # What is known to be good; the step from there has not been judged.
                w = last = path.point
        known = path.known_values(self.problem, self.parts.start, w)[1]
        at_answer = same_point(path.point, w)
        notes = [*self._notes, self.method.note(copy_tree(state.method))]
        if state.learning is not None:
            notes.append(self.parts.proxy.proxy.words(state.learning))
        blind = path.exact and math.isnan(path.value)
        blind = blind and not oracle.reports_values(self.problem.objective)
        if self.given and blind and steps and not same_point(w, self.parts.start):
            notes.insert(0, BLIND)
        parts = (status.value, detail, *notes)
        moved = np.array([row.displacement for row in state.trace])
        # Copies throughout: a result does not change when its run goes on, nor the other way.
        return Result(
            w=copy_array(w), last=copy_array(last), status=status, steps=steps, trace=trace,
            message=" ".join(str(part) for part in parts if part), ledger=copy.copy(self.ledger),
            gradients=outcome.describe_gradients(self.problem),
            method=f"{self.method!r}{self._why['method']}",
            inner=f"{self.inner!r}{self._why['inner']}" if solves else "",
            stop=f"{self.stop!r}{self._why['stop']}" if solves else "",
            doubt=outcome.finding(path, w, w if same_point(w, last) else last, moved),
            fun=math.nan if known is None else known,
            jac=copy_array(path.gradient) if at_answer and path.exact else None,
            biased=self.parts.facts.biased,
            details=self.method.details(copy_tree(state.method)),
        )  # fmt: skip

    # -- saving -----------------------------------------------------------------------------

    @cached_property
    def record_classes(self) -> dict[str, type]:
        """The classes of which a file of this run may hold records, by name."""
        makers = (self.method, self.inner, self.step_size, self.problem.objective)
        listed = [cls for maker in makers for cls in getattr(maker, "states", ())]
        return codec.record_classes(self._first, [Ledger, *listed])

    def config(self) -> dict[str, Any]:
        """Return, as JSON data, how this run is set up."""
        start = self.parts.start
        parts = {name: describe(getattr(self.parts, name)) for name in PARTS}
        like = {"size": int(start.shape[0]), "dtype": str(start.dtype), "library": library(start)}
        return parts | {name: describe(value) for name, value in like.items()}

    def state_dict(self, *, problem: bool = True) -> dict[str, Any]:
        """Return everything that the rest of the run depends on, as a tree of plain parts.

        Parameters
        ----------
        problem : bool
            Whether to tell what problem it is about, which takes a pass over the data the first
            time; without it :meth:`load_state_dict` cannot refuse another problem.

        Returns
        -------
        dict
            Numbers, texts, arrays, and dicts, lists, tuples and dataclasses of them. It does not
            change when the run goes on; its ``"trace"`` is the steps so far, without a copy.

        Examples
        --------
        >>> import numpy as np
        >>> from proxyprox import Problem, Quadratic, Run
        >>> target = Quadratic(np.eye(2), b=np.array([-1.0, -2.0]), noise=0.1)
        >>> problem = Problem(target, proxy=Quadratic(np.eye(2)))
        >>> run, other = Run(problem, rng=0), Run(problem, rng=0)
        >>> step = run.tell(target.gradient(*run.ask().points, run.ask().batch))
        >>> other.load_state_dict(run.state_dict())
        >>> other.steps, bool((other.ask().batch == run.ask().batch).all())
        (1, True)
        """
        # First: it may ask for the proxy's gradient at w0, which is charged and kept.
        about = self._problem_identity() if problem else None
        # Gradients by secants depend on those before.
        memory = self.parts.facts.memory
        target = {} if memory is None else copy_tree(dict(memory.state_dict()))
        return {
            "kind": "Run", "config": self.config(), "planned": self._planned, "identity": about,
            "w0": self.start, "state": copy_tree(self.state), "ledger": copy.copy(self.ledger),
            "target": target,
        }  # fmt: skip

    def load_state_dict(self, tree: dict[str, Any]) -> None:
        """Continue from what :meth:`state_dict` returned, bit for bit.

        Parameters
        ----------
        tree : dict
            The state of a run with the same configuration, start, seed and problem. A default
            inner rule that follows from the number of steps planned gives way to the one that the
            run began with: a run may go on for longer than was planned.

        Raises
        ------
        CheckpointError
            If it is the state of another run, or not a run's state; this run is then unchanged.
        """
        checkpoint.require_kind(tree, "Run")
        about = tree.get("identity")
        identity = None if about is None else self._problem_identity(counted=False)
        with checkpoint.refuse_damage():
            stop, planned = self.stop, tree["planned"]
            if self._why["stop"]:
                stop = defaults.choose_stop(None, self.problem, self.method, planned)[0]
            now = {**self.config(), "stop": describe(stop)}
            found = [
                text
                for name, setting in now.items()
                for text in differences(name, tree["config"][name], setting)
            ]
            if all(now[name] == tree["config"][name] for name in ("size", "dtype", "library")):
                require_form("w0", tree["w0"], Vector, self.parts.start)
                same = bool((tree["w0"] == self.parts.start).all())
                if not same:
                    found.append("w0 is not that of the saved run")
                if about is not None and identity is not None:
                    found += identities.differences_of(about, identity, now["dtype"], same)
        if found:
            raise checkpoint.other_run_error(found)
        checkpoint.require_listed(tree)
        with checkpoint.refuse_damage():
            state, ledger, target = tree["state"], tree["ledger"], tree.get("target")
            require_form("ledger", ledger, Ledger, None)
            if any(paid < 0 for paid in codec.walk(vars(ledger)) if not isinstance(paid, dict)):
                raise ValueError("something in the ledger is negative")
            require_form("state", state, RunState, self.parts.start)
            self._require_valid(state)
            keeps = self.parts.facts.memory is not None
            if target is not None and not (isinstance(target, dict) and (keeps or not target)):
                raise ValueError("target is no state of the objective")
            # NumPy compares the generator's state itself, but for a position in its buffer.
            random = codec.restore_rng(state.rng, self.parts.random)
        # All is well: only now is the run changed.
        if stop != self.stop:
            self._why["stop"], self._planned = " (the rule that the run began with)", planned
        self.parts = replace(self.parts, stop=stop, random=random)
        self._identity = about or self._identity
        self.state = copy_tree(state)
        vars(self.ledger).update(vars(ledger))
        if target:
            self.parts.facts.memory.load_state_dict(copy_tree(target))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a file, whole or not at all.

        No lock is kept: two processes that load one file both pay for what they ask.
        """
        file_path("path", path)
        checkpoint.save(path, self.state_dict(), self.record_classes)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], problem: Problem, w0: Vector | str | None = None,
        **settings: Any,
    ) -> Run:  # fmt: skip
        """Return the run saved in a file.

        The file only says how far the run has come. Problem, start and settings are given anew;
        those of the saved run are compared with them.

        Parameters
        ----------
        path : path-like
            The file; no code in it is ever run.
        problem : Problem
            The same problem: other data is refused. Plain functions are compared by the target's
            value and the proxy's gradient at the start.
        w0 : array or "proxy", optional
            The same start.
        **settings
            The same ``method``, ``inner``, ``stop``, ``averaging`` and ``rng`` as for :class:`Run`.

        Raises
        ------
        CheckpointError
            If the file is missing, damaged, or of another problem, start or configuration. The
            message names what differs.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from proxyprox import Problem, ProxyProx, Quadratic, Run
        >>> problem = Problem(Quadratic(np.eye(2), b=np.ones(2)), Quadratic(np.eye(2)))
        >>> run = Run(problem, method=ProxyProx(eta=1.0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run.save(f"{folder}/run")
        ...     Run.load(f"{folder}/run", problem, method=ProxyProx(eta=1.0)).steps
        0
        """
        file_path("path", path)
        run = cls(problem, w0, **settings)
        checkpoint.resume(path, run)
        return run

    # -- internals --------------------------------------------------------------------------

    def _require_valid(self, state: RunState) -> None:
        """Refuse what is no state of this configuration."""
        for name in ("method", "step_size"):
            was, now = (type(getattr(one, name)) for one in (state, self.state))
            if now is type(None) and self.step_size.measures:
                continue  # a rule that begins with nothing may have learnt anything
            if was is not now:
                raise ValueError(f"state.{name} is a {was.__name__}, not a {now.__name__}")
        if type(state.learning) is not type(self.state.learning):
            raise ValueError("state.learning is not that of this proxy")
        k, query, blocked = state.method.k, state.question, state.faults.blocked
        require_form("k", k, int, None)
        require_form("w", state.method.w, Vector, self.parts.start)
        state.path.require_valid(k)
        if [row.k for row in state.trace] != list(range(k)):
            raise ValueError(f"the trace is not one of {k} steps")
        if list(blocked) != sorted(set(blocked)) or any(step >= k for step in blocked):
            raise ValueError("the blocked steps are not a list of steps")
        if not state.share <= 1 or (query and not 0 < state.own_points <= len(query.points)):
            raise ValueError("the share is above 1, or the open question has no points")

    def _problem_identity(self, *, counted: bool = True) -> dict[str, Any]:
        """Return what the run is about, computed once.

        The proxy's gradient at w0 is charged if it is asked for, and kept if it is one that the
        first step will need. If states are only compared (``counted=False``), it is not charged: a
        run that is resumed has the same ledger as one that was never broken off.
        """
        if self._identity is None:
            parts = self.parts
            needed = counted and not self.steps and parts.method.defaults() is not None
            asked_of = parts.proxy
            if not needed:
                ledger = self.ledger if counted else Ledger()
                asked_of = proxy_for(parts.problem.proxy, ledger, parts.start)
            asked_of.remembered = self.state.anchors
            with oracle.charging_calls(self.problem.objective, self.ledger):
                self._identity = identities.identity_of(
                    self.problem, parts.start, self._seed,
                    lambda: outcome.value_for_report(self.problem, parts.start, ledger=self.ledger),
                    asked_of.gradient if parts.method.uses_proxy else None,
                )  # fmt: skip
            if needed and self._identity["slope"] is not None:
                # The first step is to meet a gradient that is not finite itself.
                self.state = replace(self.state, anchors=asked_of.remembered)
        return self._identity
