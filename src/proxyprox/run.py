"""The driver: a run that asks for target gradients and is told them."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import numbers
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

import proxyprox.oracles as oracles
from proxyprox import checkpoint
from proxyprox._util.arrays import (
    Vector,
    all_finite,
    copy_array,
    copy_tree,
    is_ours,
    isolate,
    norm,
    same_point,
)
from proxyprox._util.signals import critical
from proxyprox._util.validation import file_path, generator, has, message
from proxyprox.averaging import Adaptive, Averaging, Last
from proxyprox.inner.base import NonFiniteError, Subproblem
from proxyprox.methods.base import Answers, OuterStep, Request, copy_for
from proxyprox.methods.quasi_newton import ProxyBFGS
from proxyprox.oracles import MeteredProxy, Query, Step
from proxyprox.outcome import GradientPath, judge_by_gradients
from proxyprox.problems import Problem, Zero
from proxyprox.result import Ledger, Result, Status, StepRecord, Trace, count_words
from proxyprox.setup import (
    choose_method,
    complete_parts,
    draw_first,
    note_full_gradient,
    require_problem,
    starting_point,
)
from proxyprox.stepsizes.base import Observation
from proxyprox.stopping import Convex, Criterion, Progress, Residual, SDane

# Such steps in a row, at the end of a run, that are no accident.
ROW = 5
# Rounds without a decrease after which a run that waits for a small gradient gives up.
IDLE = 10
BLIND = "The run left w0 by the target's gradients alone: no value shows that its answer is lower."


@dataclass(frozen=True)
class Faults:
    """Which outer steps were blocked: the proxy was not finite at a trial point, and it mattered.

    It mattered if a subproblem had no finite solution, so that the step had to be shortened, or
    if the inner rule failed. A line search that turns back from an infinity in time is no fault.
    """

    blocked: tuple[int, ...] = ()
    words: str = ""

    def add(self, k: int, fault: tuple[str, Vector], w: Vector) -> Faults:
        """Return the faults with that of step k from w."""
        what, point = fault
        with np.errstate(over="ignore", invalid="ignore"):
            away = norm(point - w)
        where = f"at a distance of {away:.3g} from w" if math.isfinite(away) else "far from w"
        return Faults((*self.blocked, k), f"the proxy's {what} was not finite {where}")

    def in_a_row(self, steps: int) -> bool:
        """Tell whether the last few of so many steps were all blocked."""
        return steps >= ROW and self.blocked[-ROW:] == tuple(range(steps - ROW, steps))

    def stuck(self, steps: int) -> bool:
        """Tell whether the last few of so many steps, or most of all, were blocked."""
        return self.in_a_row(steps) or 2 * len(self.blocked) > steps

    def summary(self, steps: int) -> str:
        """Return what was met, where and how often, as a sentence."""
        often = f"{len(self.blocked):,} of {count_words(steps, 'step')}"
        return f"That was so in {often}; in the last of them {self.words}."


PARTS = ("method", "inner", "stop", "averaging")
# The default rules of which the number of steps planned decides.
PLANNED = (Convex, SDane)


# What questions and steps assign in a run, besides what they append to.
CHANGED = (
    "faults", "_state", "_step_size_state", "_pending", "_request", "_share", "_average", "_path",
)  # fmt: skip


class Undoable:
    """An object that a block broken off leaves as it was before; abstract.

    An interrupt may cut the undoing short: then the next access finishes it.
    """

    _undo: Callable[[], None] | None = None

    def make_undo(self) -> Callable[[], None]:
        """Return what brings the object back to this moment."""
        raise NotImplementedError(f"{type(self).__name__} must define make_undo()")

    @contextlib.contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """Undo all that the block did if it does not come to its end."""
        self.undo_broken_step()
        self._undo = self.make_undo()
        try:
            yield
            self._undo = None
        finally:
            self.undo_broken_step()

    def undo_broken_step(self) -> None:
        """Undo the rest of a step that was broken off, so that all is as it was before it."""
        if self._undo is not None:
            with critical():
                self._undo()
                self._undo = None


class Run(Undoable):
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

    def __init__(
        self,
        problem: Problem,
        w0: Vector | str | None = None,
        *,
        method: Any = None,
        inner: Any | None = None,
        stop: Criterion | None = None,
        averaging: Averaging | None = None,
        rng: np.random.Generator | int | None = None,
        expected_steps: int | None = None,
    ) -> None:
        self.ledger, self._why_method = Ledger(), ""
        self._notes: list[str] = []
        self._rng, first = generator(rng), ()
        if method is None:
            solves = any(part is not None for part in (inner, stop, averaging))
            first = draw_first(problem, self._rng)
            method, self._why_method = choose_method(problem, solves=solves, first=first)
            self._notes.append(note_full_gradient(problem))
        self._w0, self.inner, self.stop, self._why_inner, self._why_stop, note = complete_parts(
            problem, w0, method, inner, stop, averaging, expected_steps, self.ledger
        )
        self._notes.append(note)
        if isinstance(method, ProxyBFGS):
            problem = problem.with_secants()
        self.problem, self.method = problem, method
        self.step_size = method.step_size
        self.averaging = averaging or (Adaptive() if self.step_size.measures else Last())
        self.trace = Trace()
        self.faults = Faults()
        self._path = GradientPath()
        proxy = problem.proxy if method.uses_proxy else Zero()
        # The zero proxy is free: what is asked of it is not entered in the run's books.
        ledger = Ledger() if isinstance(proxy, Zero) else self.ledger
        ours = is_ours(method) and is_ours(self.inner)
        self._proxy = MeteredProxy(proxy, ledger, by_content=not ours)
        rule = self.step_size
        # The proxy's minimum, where a method of ours starts there, is entered in the books.
        metered = is_ours(method) and not isinstance(proxy, Zero)
        begun = time.perf_counter()
        self._state = method.init(
            copy_for(method, self._w0), replace(problem, proxy=self._proxy) if metered else problem
        )
        # A point that the caller chose is one of the run's, wherever the method would begin.
        self.given = w0 is not None and not isinstance(w0, str)
        if self.given:
            self._state = method.keep_start(self._state)
        if not method.solves_subproblems:
            # The search for the proxy's minimum; other methods start in no time.
            self.ledger.seconds += time.perf_counter() - begun
        self._step_size_state = rule.init(
            copy_for(rule, self._w0), problem, uses_proxy=method.uses_proxy
        )
        self._seed = int(rng) if isinstance(rng, numbers.Integral) else None
        self._config: dict[str, Any] | None = None
        self._identity: dict[str, Any] | None = None
        self._memory: dict[str, Any] = {}
        self._average: Vector | None = None
        self._share = 1.0
        self._pending: Query | None = None
        self._request: Request | None = None
        self._solved: tuple[Subproblem, Progress, Criterion] | None = None
        self._unsolved = False
        if first and not self._next_request().everything:
            self.open(*first)

    # -- ask and tell -----------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Outer steps taken."""
        return int(self._state.k)

    @property
    def rng(self) -> np.random.Generator:
        """The generator of batches and solvers."""
        return self._rng

    @property
    def w(self) -> Vector:
        """The answer so far, a copy: the last iterate, or the average that was asked for."""
        if self._average is not None:
            return copy_array(self._average)
        w = self.method.answer(self._state)
        if isinstance(self.averaging, Adaptive):
            w = self.step_size.answer(self._step_size_state, w)
        return copy_array(w)

    @property
    def start(self) -> Vector:
        """The starting point, a copy."""
        return copy_array(self._w0)

    def ask(self) -> Query:
        """Return the question that is open, a copy; asking again does not change it."""
        self.undo_broken_step()
        if self._pending is None:
            with self.undo_on_error():
                request, objective = self._next_request(), self.problem.objective
                whole = request.everything and has(objective, "everything")
                batch = objective.everything() if whole else objective.sample(self._rng)
                self.open(batch, request)
            assert self._pending is not None
        return self._pending.copied()

    def tell(
        self,
        gradients: Vector | Sequence[Vector] | None = None,
        *,
        observations: Any = None,
        halves: Sequence[Any] | None = None,
        value: float | None = None,
    ) -> Step:
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
            objective's ``value_from``, where it has one.

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
        begun = time.perf_counter()
        self.undo_broken_step()
        if self._pending is None:
            raise RuntimeError("tell needs an open question. Call ask() first, and answer that.")
        query = self._pending
        told = oracles.check_answers(self.problem.objective, query, gradients, observations)
        if value is None and observations is not None:
            value = oracles.observed_value(self.problem.objective, query, observations)
        level, gaps = oracles.noise(query, halves) if self.step_size.measures else (None, ())
        value = oracles.check_value(value, finite=not self.method.backtracks)
        answers = Answers(told, query.batch, level, gaps, value)
        self.ledger.add(self.price(query))
        curvature = oracles.known_curvature(self.problem.objective, query.points[0])
        answers = replace(answers, curvature=curvature)
        # Overflow is looked for where it matters; NumPy's warnings would only repeat it.
        with self.undo_on_error(), np.errstate(over="ignore", invalid="ignore"):
            return self._take_step(query, answers, begun)

    def _take_step(self, query: Query, answers: Answers, begun: float) -> Step:
        """Take the step; whatever raises here, between any two lines, is undone by the caller."""
        finite = all(all_finite(gradient) for gradient in answers.gradients)
        assert self._request is not None
        # At the start there is nothing to turn back to.
        nowhere = self._path.start is None and not self._request.start
        at_start = nowhere and same_point(query.points[0], self._w0)
        if not finite and (at_start or not self.method.backtracks):
            text = "the target's gradient is NaN or infinite"
            raise NonFiniteError(text, Status.TARGET_NOT_FINITE)
        self._solved, self._unsolved, self._proxy.fault = None, False, None
        state, step_size_state = self._states_after(query, answers)
        if not all_finite(state.w):
            raise NonFiniteError("the step led to NaN or an infinity", Status.DIVERGED)
        k = state.k - 1
        eta = self._solved[0].eta if self._solved else self.step_size.eta(step_size_state, k)
        share, average = self._add_to_average(state, eta)
        self.ledger.seconds += time.perf_counter() - begun
        record = oracles.step_record(k, eta, self._solved, self.ledger, answers.value)
        path, exact = copy.copy(self._path), query.batch is None or query.exact
        penalty = isolate(self.problem.penalty)
        # A trial point without an answer is no part of the path: the run stayed where it was.
        point, gradient, value = query.points[0], answers.gradients[0], answers.value
        valued = value is None or math.isfinite(value)
        # A line search that has come back to its iterate is at its end.
        again = self.method.backtracks and same_point(path.point, self._state.w)
        idle = IDLE if again and same_point(point, self._state.w) else 1
        if not finite or not (valued or nowhere or path.start is not None):
            point, gradient, value, idle = path.point, path.gradient, path.value, 0
        elif self._request.start and path.start is not None and same_point(point, state.w):
            # The run begins here: a first gradient elsewhere, however large, is no measure.
            path = path.begun_again(self._w0)
        if point is not None:
            path.add(point, gradient, penalty, exact=exact, value=value, idle=idle)
        met = self._solved is None or self._solved[2](self._solved[1])
        if self._proxy.fault is not None and (
            self._unsolved or not (met if record.held is None else record.held)
        ):
            self.faults = self.faults.add(k, self._proxy.fault, self._state.w)
        self._path = path
        self._state, self._step_size_state = state, step_size_state
        self._pending, self._request, self._share, self._average = None, None, share, average
        self.trace.rows.append(record)
        phi = None if self._solved is None else self._solved[0]
        gradients = tuple(copy_array(answer) for answer in answers.gradients)
        ledger = copy.copy(self.ledger)
        return Step(
            record, copy_array(state.w), self.w, gradients, oracles.copy_subproblem(phi), ledger
        )

    def converged(self, tol: float = 0.0, atol: float = 0.0) -> bool:
        """Tell whether the target's last gradient is small; it has to be exact.

        Parameters
        ----------
        tol : float
            Share of the first gradient's norm that is small.
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
        (2, array([1., 2.]))
        """
        if self._settled:
            return True
        if self.method.backtracks and not same_point(self._path.point, self._state.w):
            # A point that the method turned back from, however flat, is no minimum.
            return False
        small = self._path.below(tol, atol, isolate(self.problem.penalty))
        return small and not self._next_request().start

    @property
    def _settled(self) -> bool:
        """Whether nothing but rounding is left to gain, where the run has stalled or began."""
        promise = self.method.promise(self._state)
        return self._path.rounds_off(promise, stalled=self.stalled)

    @property
    def stalled(self) -> bool:
        """Whether neither the target's value nor its gradient fell in the last rounds.

        A line search that goes on has not failed yet, however many trials it takes.
        """
        return self._path.idle >= IDLE and not self._searching

    @property
    def _searching(self) -> bool:
        """Whether the last trial was rejected, and the next one is much nearer to the iterate."""
        w, last = self._state.w, self._path.point
        if not self.method.backtracks or last is None:
            return False
        return 0 < norm(self._next_request().points[0] - w) <= norm(last - w) / 2

    @property
    def path(self) -> GradientPath:
        """The target's answers along the way."""
        return self._path

    def result(self, status: Status = Status.RUNNING, detail: str = "") -> Result:
        """Return the answer so far; gradients that tell of divergence change the status.

        Parameters
        ----------
        status : Status
            How the run ended, for a loop of one's own: ``Status.STEPS_DONE``, say.
        detail : str
            What else the message is to say.
        """
        return judge_by_gradients(self.result_before_verdict(status, detail))

    def result_before_verdict(self, status: Status, detail: str = "") -> Result:
        """Return the answer so far, the evidence of the gradients in its ``doubt`` only."""
        self.undo_broken_step()
        if status.success and self.steps and self.faults.stuck(self.steps):
            detail = f"{self.faults.summary(self.steps)} {status.value} {detail}".rstrip()
            status = Status.PROXY_NOT_FINITE
        moved = self.trace["displacement"]
        # SGD without a penalty has no subproblems to speak of.
        solves = self.method.uses_proxy or self.problem.penalty is not None
        solves = solves and self.method.solves_subproblems
        w, last = self.w, self._state.w
        if status is Status.CONVERGED and self._path.point is not None and not self._settled:
            # What is known to be good; the step from there has not been judged.
            w = last = self._path.point
        notes = [*self._notes, self.method.note(self._state)]
        blind = self._path.exact and math.isnan(self._path.value)
        blind = blind and not oracles.reports_values(self.problem.objective)
        if self.given and blind and self.steps and not same_point(w, self._w0):
            notes.insert(0, BLIND)
        note = self.step_size.note
        parts = (status.value, detail, *notes, note(self.trace["eta"]) if note else "")
        # Copies throughout: a result does not change when its run goes on, nor the other way.
        return Result(
            w=copy_array(w),
            last=copy_array(last),
            status=status,
            message=" ".join(part for part in parts if part),
            steps=self.steps,
            gradients=oracles.describe_gradients(self.problem),
            ledger=copy.copy(self.ledger),
            trace=Trace(list(self.trace)),
            inner=f"{self.inner!r}{self._why_inner}" if solves else "",
            stop=f"{self.stop!r}{self._why_stop}" if solves else "",
            doubt=self._path.finding(w, last, moved),
            fell=self._path.fell(),
            first_gradient=float(self._path.first[0, 0]) if len(self._path.first) else math.nan,
            method=f"{self.method!r}{self._why_method}",
            biased=bool(getattr(self.problem.objective, "biased", False)),
        )

    # -- saving -----------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """Return, as JSON data, how this run is set up."""
        if self._config is None:
            parts = {name: getattr(self, name) for name in PARTS}
            self._config = {
                **{name: checkpoint.describe(part) for name, part in parts.items()},
                "size": int(self._w0.shape[0]),
                "dtype": str(self._w0.dtype),
                "library": checkpoint.library(self._w0),
            }
        return self._config

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
        self.undo_broken_step()
        # First: it may ask for the proxy's gradient at w0, which is charged and kept.
        about = self._problem_identity() if problem else None
        known = self._proxy.remembered
        if not self._proxy.by_content:
            points = {id(item) for item in checkpoint.walk([self._state, self._step_size_state])}
            known = [pair for pair in known if id(pair[0]) in points]
        copies = {
            "config": self.config(),
            "identity": about,
            "w0": self._w0,
            "state": self._state,
            "step_size": self._step_size_state,
            # The proxy's gradients are kept, not recomputed: counts and bits stay the same.
            "known": [list(pair) for pair in known],
            "memory": self._memory,
            "average": self._average,
            "path": vars(self._path),
            # Gradients by secants depend on those before.
            "target": oracles.target_state(self.problem.objective),
        }
        return {
            "kind": "Run",
            **copy_tree(copies),
            "share": self._share,
            "pending": None if self._pending is None else {"batch": self._pending.batch},
            "rng": self._rng.bit_generator.state,
            "ledger": copy.copy(self.ledger),
            "trace": checkpoint.Prefix(self.trace.rows),
            "faults": self.faults,
        }

    def load_state_dict(self, tree: dict[str, Any], *, any_start: bool = False) -> None:
        """Continue from what :meth:`state_dict` returned, bit for bit.

        Parameters
        ----------
        tree : dict
            The state of a run with the same configuration, start, seed and problem. A default
            inner rule that follows from the number of steps planned gives way to the one that the
            run began with: a run may go on for longer than was planned.
        any_start : bool
            Accept the state of a run that started elsewhere.

        Raises
        ------
        CheckpointError
            If it is the state of another run, or not a run's state; this run is then unchanged.
        """
        checkpoint.require_kind(tree, "Run")
        about = tree.get("identity")
        identity = None if about is None else self._problem_identity(counted=False)
        with checkpoint.refuse_damage():
            stop = self._stop_rule_of(tree)
            now = {**self.config(), "stop": checkpoint.describe(stop)}
            found = [
                text
                for name, setting in now.items()
                for text in checkpoint.differences(name, tree["config"][name], setting)
            ]
            if all(now[name] == tree["config"][name] for name in ("size", "dtype", "library")):
                checkpoint.require_array("w0", tree["w0"], self._w0)
                same = bool((tree["w0"] == self._w0).all())
                if not same and not any_start:
                    found.append("w0 is not that of the saved run")
                if about is not None and identity is not None:
                    dtype = now["dtype"]
                    found += checkpoint.identity_differences(
                        about, identity, dtype=dtype, same_start=same
                    )
        if found:
            raise checkpoint.other_run_error(found)
        with checkpoint.refuse_damage():
            commit = self._validate(tree)
        # All is well: only now is the run changed.
        if stop != self.stop:
            self.stop, self._why_stop = stop, " (the rule that the run began with)"
        commit()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a file, whole or not at all.

        No lock is kept: two processes that load one file both pay for what they ask.
        """
        file_path("path", path)
        checkpoint.save(path, self.state_dict())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        problem: Problem,
        w0: Vector | None = None,
        *,
        classes: Sequence[type] = (),
    ) -> Run:
        """Return the run saved in a file.

        Parameters
        ----------
        path : path-like
            The file; no code in it is ever run.
        problem : Problem
            The same problem: data is not part of a checkpoint, but other data is refused. Plain
            functions are compared by the target's value and the proxy's gradient at the start.
        w0 : array, optional
            Any array of the run's library, dtype and size. The file has the start: this is only
            needed for arrays that are neither NumPy's nor torch's, or to place them on a device.
        classes : sequence of classes, optional
            Your own dataclasses among the run's parts. Those of modules that are imported
            already, and the package's own, are found by name.

        Raises
        ------
        CheckpointError
            If the file is missing, damaged, or of another problem.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> from proxyprox import Problem, ProxyProx, Quadratic, Run
        >>> problem = Problem(Quadratic(np.eye(2), b=np.ones(2)), Quadratic(np.eye(2)))
        >>> run = Run(problem, np.zeros(2), method=ProxyProx(eta=1.0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run.save(f"{folder}/run")
        ...     Run.load(f"{folder}/run", problem).method
        ProxyProx(eta=1.0, correction=Plain())
        """
        file_path("path", path)
        require_problem(problem)
        like = w0
        with contextlib.suppress(ValueError):  # the problem does not know its size
            like = starting_point(problem, None) if w0 is None else w0
        with checkpoint.name_file_in_errors(path):
            saved = checkpoint.read(path)
            checkpoint.require_kind(saved.tree(["kind"]), "Run")
            begun = saved.tree(["config", "w0"], like=like)
            with checkpoint.refuse_damage():
                parts = {name: checkpoint.rebuild(begun["config"][name], classes) for name in PARTS}
            if not getattr(parts["method"], "solves_subproblems", True):
                parts.update(inner=None, stop=None)
            try:
                run = cls(problem, begun["w0"] if w0 is None else w0, **parts)
            except Exception as error:
                text = f"it does not fit this problem: {error} Give that of the saved run."
                raise checkpoint.CheckpointError(text) from error
            tree = saved.tree(like=run.start, classes=[*classes, *run.state_classes])
            run.load_state_dict(tree, any_start=w0 is not None)
        return run

    @property
    def state_classes(self) -> list[type]:
        """The dataclasses in the states of the method and of the step size."""
        return checkpoint.record_classes([self._state, self._step_size_state])

    # -- internals --------------------------------------------------------------------------

    def _validate(self, tree: dict[str, Any]) -> Callable[[], None]:
        """Check a state of this configuration; return what puts the run into it."""
        names = ("w0", "state", "step_size", "known", "memory", "average", "path")
        arrays = copy_tree({name: tree[name] for name in names})
        state, average, like = arrays["state"], arrays["average"], self._w0
        checkpoint.conform("state", state, self._state)
        checkpoint.conform("step_size", arrays["step_size"], self._step_size_state)
        checkpoint.require_count("k", state.k)
        checkpoint.require_array("w", state.w, like)
        if average is not None:
            checkpoint.require_array("average", average, like)
        known = [(point, gradient) for point, gradient in arrays["known"]]
        for array in itertools.chain.from_iterable(known):
            checkpoint.require_array("a known gradient", array, like)
        ledger, rows = tree["ledger"], list(tree["trace"])
        for item in fields(Ledger):
            kind = type(getattr(self.ledger, item.name))
            checkpoint.require_count(item.name, getattr(ledger, item.name), kind)
        if len(rows) != state.k:
            raise ValueError(f"{len(rows)} recorded steps, but k = {state.k}")
        for k, row in enumerate(rows):
            if type(row) is not StepRecord or row.k != k or any(isinstance(x, str) for x in row):
                raise ValueError(f"the record of step {k} is not one")
        if not isinstance(arrays["memory"], dict):
            raise ValueError("the solver's memory is not a table")
        share, pending = tree["share"], tree["pending"]
        checkpoint.require_count("share", share, float)
        if share > 1 or (pending is not None and set(pending) != {"batch"}):
            raise ValueError(f"share is {share!r}, more than 1, or a question has no batch")
        rng = checkpoint.restore_rng(tree["rng"], self._rng)
        faults = tree["faults"]
        checkpoint.conform("faults", faults, Faults())
        steps = {k for k in faults.blocked if type(k) is int and 0 <= k < state.k}
        if sorted(steps) != list(faults.blocked):
            raise ValueError("the blocked steps are not a list of steps")
        path = GradientPath(**arrays["path"])
        path.require_valid(like, state.k)

        def commit() -> None:
            self._w0, self._state, self._average, self._share = arrays["w0"], state, average, share
            self._step_size_state = arrays["step_size"]
            self._identity, self._config = tree.get("identity") or self._identity, None
            self._memory.clear()
            self._memory.update(arrays["memory"])
            self._proxy.remembered = known
            self._rng, self.faults, self.trace = rng, faults, Trace(rows)
            self._path, self._undo = path, None
            for item in fields(Ledger):
                setattr(self.ledger, item.name, getattr(ledger, item.name))
            self._pending = self._request = None
            if tree.get("target"):
                self.problem.objective.load_state_dict(copy_tree(tree["target"]))
            if pending is not None:
                self.open(pending["batch"])

        return commit

    def _stop_rule_of(self, tree: dict[str, Any]) -> Criterion:
        """Return this run's inner rule, or the one that it began with if both were defaults."""
        saved, own = tree["config"]["stop"], self.stop
        kind = saved.get("class") if isinstance(saved, dict) else None
        both = isinstance(own, PLANNED) and kind in [
            checkpoint.class_name(rule) for rule in PLANNED
        ]
        return checkpoint.rebuild(saved) if self._why_stop and both else own

    def _problem_identity(self, *, counted: bool = True) -> dict[str, Any]:
        """Return what the run is about, computed once.

        The proxy's gradient at w0, where that is asked for, is the one that the first step will
        need: it is charged, and kept for it. After that, and when states are only compared
        (``counted=False``), it is no part of the run's books.
        """
        if self._identity is None:
            proxy, known = self._proxy, self._proxy.remembered
            needed = counted and not self.steps and self.method.solves_subproblems
            oracle = proxy if needed else isolate(self.problem.proxy)
            calls: dict[str, int] = {}
            with oracles.counting_calls(self.problem.objective, calls):
                self._identity = checkpoint.identity(
                    self.problem, self._w0, self._seed,
                    lambda: oracles.value_for_report(self.problem, self._w0),
                    oracle.gradient if self.method.uses_proxy else None,
                )  # fmt: skip
            self.ledger.add(calls)
            if self._identity["slope"] is None:
                # The first step is to meet a gradient that is not finite itself.
                proxy.remembered = known
        return self._identity

    def _next_request(self) -> Request:
        """Return what the method wants to know, and the step-size rule with it."""
        method = self.method
        request = copy_for(method, method.ask(copy_for(method, self._state)))
        if not isinstance(request, Request) or not request.points:
            name = f"{type(method).__name__}.ask(state)"
            raise TypeError(message(name, request, "a Request with at least one point"))
        return request

    def _points(self, request: Request) -> tuple[Vector, ...]:
        """Return the points of a request, and the one that the step-size rule compares with."""
        points = tuple(request.points)
        before = self.step_size.comparison_point(self._step_size_state, self.steps)
        if before is None or any(same_point(before, point) for point in points[1:]):
            return points
        return (*points, before)

    @property
    def points(self) -> tuple[Vector, ...]:
        """The points of the next question."""
        return self._points(self._next_request())

    def open(self, batch: Any, request: Request | None = None) -> None:
        """Ask the next question about a batch that is known already."""
        self._request = self._next_request() if request is None else request
        exact, points = self._request.everything, self._points(self._request)
        split = getattr(self.problem.objective, "halves", None)
        halves = None
        # Copied: a user's sampler may reuse its buffer, and ``halves`` write into the batch.
        batch = batch if exact else copy_tree(batch)
        if split is not None and self.step_size.measures:
            halves = copy_tree(split(batch if exact else copy_tree(batch)))
        self._pending = Query(batch, points, halves, exact, self._request.value)

    def price(self, query: Query) -> dict[str, float]:
        """Return what answering a query adds to the ledger."""
        return oracles.price(self.problem.objective, self.ledger, [query.purchase])

    def _solve(
        self, linear: Vector, centre: Vector, eta: float, *, residual: float | None = None
    ) -> Vector:
        if not eta > 0:
            remedy = "Give the method an eta, or pass one to step.solve."
            raise ValueError(message("eta of the subproblem", eta, "positive", remedy))
        # NumPy would broadcast a user's correction of another shape.
        oracles.as_gradient("the correction's estimate", linear, centre)
        phi = Subproblem(self._proxy, linear, centre, eta, self.problem.penalty)
        rule = self.stop if residual is None else self.stop & Residual(residual)
        stop = rule.begin(self._rng)
        # A user's solver may write into its arguments and reuse the array it returns.
        inner = self.inner
        given = phi if is_ours(inner) else oracles.copy_subproblem(phi)
        try:
            solved = inner.solve(given, copy_for(inner, centre), stop, self._memory, self._rng)
        except NonFiniteError as error:
            self._unsolved = True
            if self._proxy.fault is None:
                # Not the proxy's doing: a shorter step would only put off the end.
                error.status = error.status or Status.DIVERGED
            raise
        self._solved = (phi, solved.progress, stop)
        return copy_for(inner, solved.w)

    def _states_after(self, query: Query, answers: Answers) -> tuple[Any, Any]:
        """Return the states of the method and of the step size after a step."""
        rule, k, learnt = self.step_size, self.steps, self._step_size_state
        if rule.measures:
            gaps = itertools.chain(answers.half_gaps, itertools.repeat(None))
            point, *others = zip(query.points, answers.gradients, gaps, strict=False)
            seen = Observation(
                k=k,
                w=point[0],
                gradient=point[1],
                anchor=self._proxy.gradient(point[0]),
                noise=answers.noise,
                half_gap=point[2],
                elsewhere=tuple(others),
                find_smoothness=lambda: self._proxy.smoothness,
            )
            learnt = rule.observe(copy_for(rule, learnt), copy_for(rule, seen))
        assert self._request is not None
        own = replace(answers, gradients=answers.gradients[: len(self._request.points)])
        method, copies = self.method, not is_ours(self.method)
        step = OuterStep(
            self._proxy, self._rng, rule, learnt, k, self._solve,
            copies=copies, penalty=isolate(self.problem.penalty),
        )  # fmt: skip
        # A user's method may write into what it is given, and keep what it returns.
        state = method.tell(copy_for(method, self._state), copy_for(method, own), step)
        if copies:
            state = copy_tree(state)
            self._require_state(state, k)
        return state, rule.end_step(step.learnt, k, state.w) if rule.measures else step.learnt

    def _require_state(self, state: Any, k: int) -> None:
        name = f"the state that {type(self.method).__name__}.tell returns"
        if not (hasattr(state, "w") and hasattr(state, "k")):
            raise TypeError(message(name, state, "an object with w and k"))
        if state.k != k + 1:
            raise ValueError(message(f"k in {name}", state.k, f"{k + 1}, one more than before"))
        oracles.as_gradient(f"w in {name}", state.w, self._w0)

    def make_undo(self) -> Callable[[], None]:
        """Return what brings the run back to this moment; what was paid stays paid.

        It may be called twice: an interrupt can cut the first call short.
        """
        values = {name: getattr(self, name) for name in CHANGED}
        steps, memory, known = len(self.trace), dict(self._memory), self._proxy.remembered
        bits = self._rng.bit_generator
        randomness = bits.state

        def undo() -> None:
            vars(self).update(values)
            del self.trace.rows[steps:]
            self._memory.clear()
            self._memory.update(memory)
            self._proxy.remembered = known
            bits.state = randomness
            # A safeguard's undoing brings back an earlier moment than the run's own.
            self._undo = None

        return undo

    def _add_to_average(self, state: Any, eta: float) -> tuple[float, Vector | None]:
        """Return the newest iterate's share in the average, and the average."""
        if isinstance(self.averaging, (Last, Adaptive)):
            return 1.0, None
        share = self.averaging.share(self._share, eta, state.k)
        if self._average is None:
            return share, state.w
        return share, self._average + share * (state.w - self._average)
