"""The driver: a run that asks for target gradients and is told them."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from proxyprox import _checkpoint as checkpoint
from proxyprox._arrays import Vector, all_finite, copied
from proxyprox._checks import file_path, generator
from proxyprox._door import admit, chosen, require_problem, starting_point
from proxyprox._exchange import (
    Query,
    Step,
    noise,
    price,
    received,
    recorded,
    subproblem_copied,
)
from proxyprox._faults import Faults
from proxyprox._identity import configuration, identity, seed_of
from proxyprox._isolation import copied_tree, is_ours
from proxyprox._ledger import Ledger
from proxyprox._oracles import MeteredProxy
from proxyprox._outcome import GradientPath, by_gradients
from proxyprox._result import Result, Status
from proxyprox._signals import critical
from proxyprox._subproblem import NonFiniteError, Subproblem
from proxyprox._trace import Trace
from proxyprox.averaging import Adaptive, Averaging, Last
from proxyprox.methods import Answers
from proxyprox.problems import Problem, Zero
from proxyprox.stopping import Criterion, Progress


class Snapshot(NamedTuple):
    """What questions and steps change in a run, at one moment; the ledger is not among it."""

    state: Any
    pending: Query | None
    share: float
    average: Vector | None
    steps: int
    blocked: int
    words: str
    memory: dict[str, Any]
    known: list[tuple[Vector, Vector]]
    bits: Any
    randomness: Any
    path: GradientPath | None


class Run:
    """A run in the hands of its user: :meth:`ask`, compute or wait, :meth:`tell`.

    The target may be a person, a robot or a hospital; :func:`~proxyprox.minimize` is the loop for
    a target that is a function. The state is explicit: a run saved at any moment, even between a
    question and its answer, goes on bit for bit.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    w0 : array, optional
        Where to begin; zeros if the problem knows its size.
    method : Method, optional
        The outer method, such as ``ProxyProx(eta=1.0)``; by default ``ProxyProx(eta="auto")``.
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
        w0: Vector | None = None,
        *,
        method: Any = None,
        inner: Any | None = None,
        stop: Criterion | None = None,
        averaging: Averaging | None = None,
        rng: np.random.Generator | int | None = None,
        expected_steps: int | None = None,
    ) -> None:
        method = chosen(method)
        parts = admit(problem, w0, method, inner, stop, averaging, expected_steps)
        self.problem = problem
        self.method = method
        self.inner = parts.inner
        self.stop = parts.stop
        self._measures = getattr(method, "eta", None) == "auto"
        self.averaging = averaging or (Adaptive() if self._measures else Last())
        self.ledger = Ledger()
        self.trace = Trace()
        self._faults = Faults()
        self._path: GradientPath | None = GradientPath()
        self._why_inner, self._why_stop = parts.why_inner, parts.why_stop
        proxy = problem.proxy if method.uses_proxy else Zero()
        # The zero proxy is free: what is asked of it is not entered in the run's books.
        self._proxy = MeteredProxy(
            proxy,
            Ledger() if isinstance(proxy, Zero) else self.ledger,
            by_content=not (is_ours(method) and is_ours(self.inner)),
        )
        self._state = method.init(parts.w0 if is_ours(method) else copied(parts.w0), problem)
        self._rng = generator(rng)
        self._w0, self._seed = parts.w0, seed_of(rng)
        self._identity: dict[str, Any] | None = None
        self._memory: dict[str, Any] = {}
        self._average: Vector | None = None
        self._share = 1.0
        self._pending: Query | None = None
        self._solved: tuple[Subproblem, Progress, Criterion] | None = None
        self._broken_off: Snapshot | None = None

    # -- ask and tell -----------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Outer steps taken."""
        return int(self._state.k)

    @property
    def w(self) -> Vector:
        """The answer so far, a copy: the last iterate, or the average that was asked for."""
        if self._average is not None:
            return copied(self._average)
        if self._measures and isinstance(self.averaging, Adaptive):
            return copied(self.method.answer(self._state))
        return copied(self._state.w)

    def ask(self) -> Query:
        """Return the question that is open, a copy; asking again does not change it."""
        self.settle()
        if self._pending is None:
            before = self.snapshot()
            try:
                objective = self.problem.objective
                batch = objective.everything() if self.method.exact else objective.sample(self._rng)
                self._reopen(batch, tuple(self.method.ask(self._state)))
            except BaseException:
                self._broken_off = before
                self.settle()
                raise
            assert self._pending is not None
        return self._pending.copied()

    def tell(
        self,
        gradients: Vector | Sequence[Vector] | None = None,
        *,
        observations: Any = None,
        halves: tuple[Vector, Vector] | None = None,
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
            first of ``gradients``: how far they differ tells a measured step size the noise.

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
        self.settle()
        if self._pending is None:
            raise RuntimeError("tell needs an open question. Call ask() first, and answer that.")
        query = self._pending
        answers = received(self.problem.objective, query, gradients, observations)
        if self._measures:
            answers.noise, answers.gap = noise(query, None if self.method.exact else halves)
        self._charge(query)
        before = self.snapshot()
        try:
            # Overflow is looked for where it matters; NumPy's warnings would only repeat it.
            with np.errstate(over="ignore", invalid="ignore"):
                step = self._stepped(query, answers, begun)
        except BaseException:
            # Noted first: should an interrupt cut settle() short, the next access finishes it.
            self._broken_off = before
            self.settle()
            raise
        return step

    def _stepped(self, query: Query, answers: Answers, begun: float) -> Step:
        """Take the step; whatever raises here, between any two lines, is undone by the caller."""
        for answer in answers:
            if not all_finite(answer):
                raise NonFiniteError(
                    "the target's gradient is NaN or infinite", Status.TARGET_NOT_FINITE
                )
        self._solved = None
        self._faults.begin(self._proxy)
        state = self._told(answers)
        if not all_finite(state.w):
            raise NonFiniteError("the step led to NaN or an infinity", Status.DIVERGED)
        share, average = self._averaged(state)
        self.ledger.seconds += time.perf_counter() - begun
        k = state.k - 1
        record = recorded(k, self.method.step_size(k), self._solved, self.ledger)
        path = copy.copy(self._path)
        if path is not None:
            exact = query.batch is None or self.method.exact
            path.add(query.points[0], answers[0], self.problem.penalty, exact=exact)
        solved = True if self._solved is None else self._solved[2](self._solved[1])
        held = solved if record.held is None else record.held
        self._faults.end(k, self._proxy, self._state.w, held=held)
        self._path = path
        self._state, self._pending, self._share, self._average = state, None, share, average
        self.trace.append(record)
        phi = None if self._solved is None else self._solved[0]
        gradients = tuple(copied(answer) for answer in answers)
        ledger = copy.copy(self.ledger)
        return Step(record, copied(state.w), self.w, gradients, subproblem_copied(phi), ledger)

    def result(self, status: Status = Status.RUNNING, detail: str = "") -> Result:
        """Return the answer so far; gradients that tell of divergence change the status.

        Parameters
        ----------
        status : Status
            How the run ended, for a loop of one's own: ``Status.STEPS_DONE``, say.
        detail : str
            What else the message is to say.
        """
        return by_gradients(self.unjudged(status, detail))

    def unjudged(self, status: Status, detail: str = "") -> Result:
        """Return the answer so far, the evidence of the gradients in its ``doubt`` only."""
        self.settle()
        if status.success and self.steps and self._faults.stuck(self.steps):
            detail = f"{self._faults.summary(self.steps)} {status.value} {detail}".rstrip()
            status = Status.PROXY_NOT_FINITE
        moved = self.trace["displacement"]
        doubt = None if self._path is None else self._path.finding(self.w, self._state.w, moved)
        # SGD without a penalty has no subproblems to speak of.
        solves = self.method.uses_proxy or self.problem.penalty is not None
        # Copies throughout: a result does not change when its run goes on, nor the other way.
        return Result(
            w=copied(self.w),
            last=copied(self._state.w),
            status=status,
            message=f"{status.value}{' ' + detail if detail else ''}",
            steps=self.steps,
            ledger=copy.copy(self.ledger),
            trace=Trace(list(self.trace)),
            inner=f"{self.inner!r}{self._why_inner}" if solves else "",
            stop=f"{self.stop!r}{self._why_stop}" if solves else "",
            doubt=doubt,
            fell=self._path is not None and self._path.fell(),
            first_gradient=self._path.first[0].norm
            if self._path and self._path.first
            else math.nan,
        )

    # -- saving -----------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """Return, as JSON data, how this run is set up."""
        return configuration(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a file, whole or not at all.

        No lock is kept: two processes that load one file both pay for what they ask.
        """
        file_path("path", path)
        self.settle()
        checkpoint.save_tree(path, {**checkpoint.run_tree(self), "identity": identity(self)})

    @classmethod
    def load(cls, path: str | os.PathLike[str], problem: Problem, w0: Vector | None = None) -> Run:
        """Return the run saved in a file.

        Parameters
        ----------
        path : path-like
            The file; no code in it is ever run.
        problem : Problem
            The same problem: data is not part of a checkpoint, but other data is refused. Plain
            functions are compared by the proxy's gradient at w0, if that is the saved run's.
        w0 : array, optional
            Any array of the run's kind and size, if the problem does not know its size.

        Raises
        ------
        CheckpointError
            If the file is missing, damaged, or of another problem.
        """
        file_path("path", path)
        require_problem(problem)
        start = starting_point(problem, w0)
        tree = checkpoint.read_tree(path, like=start)
        run = checkpoint.rebuilt(path, tree, lambda config: cls(problem, start, **config))
        checkpoint.restore_run(path, tree, run)
        return run

    # -- internals --------------------------------------------------------------------------

    def _reopen(self, batch: Any, points: tuple[Vector, ...] | None) -> None:
        split = getattr(self.problem.objective, "halves", None) if self._measures else None
        if points is None:
            self._pending = None
            return
        exact = bool(self.method.exact)
        batch = batch if exact else copied_tree(batch)
        # Copied: a user's sampler may reuse its buffer, and ``halves`` write into the batch.
        halves = (
            None if split is None else copied_tree(split(batch if exact else copied_tree(batch)))
        )
        self._pending = Query(batch, points, halves, exact)

    def _charge(self, query: Query) -> None:
        self.ledger.add(self.price(query))

    def price(self, query: Query) -> dict[str, float]:
        """Return what answering a query adds to the ledger."""
        return price(self.problem.objective, query, self.ledger)

    def _solve(self, linear: Vector, centre: Vector, eta: float) -> Vector:
        phi = Subproblem(self._proxy, linear, centre, eta, self.problem.penalty)
        stop = self.stop.begin(self._rng)
        # A user's solver may write into its arguments and reuse the array it returns.
        ours = is_ours(self.inner)
        given = phi if ours else subproblem_copied(phi)
        start = centre if ours else copied(centre)
        with self._faults.watch():
            solved = self.inner.solve(given, start, stop, self._memory, self._rng)
        self._solved = (phi, solved.progress, stop)
        return solved.w if ours else copied(solved.w)

    def _told(self, answers: Answers) -> Any:
        """Return the method's state after the step; a user's method gets copies of all arrays."""
        if is_ours(self.method):
            return self.method.tell(self._state, answers, self._proxy, self._solve)
        handed = Answers(copied(answer) for answer in answers)
        handed.noise, handed.gap = answers.noise, copied_tree(answers.gap)
        state = self.method.tell(copied_tree(self._state), handed, self._proxy, self._solve)
        return copied_tree(state)

    def snapshot(self) -> Snapshot:
        """Return what a step may change, for :meth:`return_to`."""
        bits = self._rng.bit_generator
        return Snapshot(
            self._state, self._pending, self._share, self._average, len(self.trace),
            len(self._faults.blocked), self._faults.words,
            dict(self._memory), self._proxy.snapshot(), bits, bits.state, self._path,
        )  # fmt: skip

    def return_to(self, before: Snapshot) -> None:
        """Go back to a snapshot of this run; doing so twice is no different."""
        self._state, self._pending = before.state, before.pending
        self._share, self._average = before.share, before.average
        self.trace.shorten(before.steps)
        self._faults.go_back(before.blocked, before.words)
        self._memory.clear()
        self._memory.update(before.memory)
        self._proxy.rewind(list(before.known))
        before.bits.state = before.randomness
        self._path = before.path
        self._broken_off = None

    def settle(self) -> None:
        """Undo the rest of a step that was broken off, so that the run is as it was before it."""
        if self._broken_off is not None:
            with critical():
                self.return_to(self._broken_off)

    def _averaged(self, state: Any) -> tuple[float, Vector | None]:
        """Return the newest iterate's share in the average, and the average."""
        if isinstance(self.averaging, (Last, Adaptive)):
            return 1.0, None
        eta = self.method.step_size(state.k - 1) if self._solved is None else self._solved[0].eta
        share = self.averaging.share(self._share, eta, state.k)
        if self._average is None:
            return share, state.w
        return share, self._average + share * (state.w - self._average)
