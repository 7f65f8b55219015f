"""The driver: a run that asks for target gradients and is told them."""

from __future__ import annotations

import contextlib
import copy
import math
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from proxyprox import _checkpoint as checkpoint
from proxyprox._arrays import Vector, copied, norm
from proxyprox._door import admit, chosen, generator, starting_point
from proxyprox._exchange import Query, Step, noise, price, received, recorded
from proxyprox._faults import Faults
from proxyprox._identity import configuration, identity, seed_of
from proxyprox._ledger import Ledger
from proxyprox._oracles import MeteredProxy
from proxyprox._outcome import GradientPath, by_gradients
from proxyprox._result import Result, Status
from proxyprox._subproblem import NonFiniteError, Subproblem
from proxyprox._trace import Trace
from proxyprox.averaging import Adaptive, Averaging, Last
from proxyprox.problems import Problem, Zero
from proxyprox.stopping import Criterion, Progress


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
        self._proxy = MeteredProxy(proxy, Ledger() if isinstance(proxy, Zero) else self.ledger)
        self._state = method.init(parts.w0, problem)
        self._rng = generator(rng)
        self._w0, self._seed = parts.w0, seed_of(rng)
        self._identity: dict[str, Any] | None = None
        self._memory: dict[str, Any] = {}
        self._average: Vector | None = None
        self._share = 1.0
        self._pending: Query | None = None
        self._solved: tuple[Subproblem, Progress, Criterion] | None = None

    # -- ask and tell -----------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Outer steps taken."""
        return int(self._state.k)

    @property
    def w(self) -> Vector:
        """The answer so far: the last iterate, or the average that was asked for."""
        if self._average is not None:
            return self._average
        if self._measures and isinstance(self.averaging, Adaptive):
            return self.method.answer(self._state)
        return self._state.w

    def ask(self) -> Query:
        """Return the question that is open; asking again does not change it."""
        if self._pending is None:
            objective = self.problem.objective
            batch = objective.everything() if self.method.exact else objective.sample(self._rng)
            self._reopen(batch, tuple(self.method.ask(self._state)))
            assert self._pending is not None
        return self._pending

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
        if self._pending is None:
            raise RuntimeError("tell needs an open question. Call ask() first, and answer that.")
        query = self.ask()
        answers = received(self.problem.objective, query, gradients, observations)
        if self._measures:
            answers.noise, answers.gap = noise(query, None if self.method.exact else halves)
        self._charge(query)
        # Overflow is looked for where it matters; NumPy's warnings would only repeat it.
        with np.errstate(over="ignore", invalid="ignore"), self._unchanged_on_error():
            for answer in answers:
                if not math.isfinite(norm(answer)):
                    raise NonFiniteError(
                        "the target's gradient is NaN or infinite", Status.TARGET_NOT_FINITE
                    )
            self._solved = None
            self._faults.begin(self._proxy)
            state = self.method.tell(self._state, answers, self._proxy, self._solve)
            if not math.isfinite(norm(state.w)):
                raise NonFiniteError("the step led to NaN or an infinity", Status.DIVERGED)
            share, average = self._averaged(state)
            self.ledger.seconds += time.perf_counter() - begun
            k = state.k - 1
            record = recorded(k, self.method.step_size(k), self._solved, self.ledger)
            if self._path is not None:
                exact = query.batch is None or self.method.exact
                self._path.add(query.points[0], answers[0], self.problem.penalty, exact=exact)
        self._faults.end(k, self._proxy, self._state.w, held=record.held)
        self._state, self._pending, self._share, self._average = state, None, share, average
        self.trace.append(record)
        subproblem = None if self._solved is None else self._solved[0]
        return Step(record, state.w, self.w, tuple(answers), subproblem, copy.copy(self.ledger))

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
        """Write the run to a file, whole or not at all."""
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
        start = starting_point(problem, w0)
        tree = checkpoint.read_tree(path, like=start)
        run = checkpoint.rebuilt(path, tree, lambda config: cls(problem, start, **config))
        checkpoint.restore_run(path, tree, run)
        return run

    # -- internals --------------------------------------------------------------------------

    def _reopen(self, batch: Any, points: tuple[Vector, ...] | None) -> None:
        split = getattr(self.problem.objective, "halves", None) if self._measures else None
        halves = None if split is None or points is None else split(batch)
        self._pending = None if points is None else Query(batch, points, halves)

    def _charge(self, query: Query) -> None:
        for name, amount in self.price(query).items():
            setattr(self.ledger, name, getattr(self.ledger, name) + amount)

    def price(self, query: Query) -> dict[str, float]:
        """Return what answering a query adds to the ledger."""
        return price(self.problem.objective, query, self.ledger)

    def _solve(self, linear: Vector, centre: Vector, eta: float) -> Vector:
        phi = Subproblem(self._proxy, linear, centre, eta, self.problem.penalty)
        stop = self.stop.begin(self._rng)
        with self._faults.watch():
            solved = self.inner.solve(phi, centre, stop, self._memory, self._rng)
        self._solved = (phi, solved.progress, stop)
        return solved.w

    @contextlib.contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Undo what a failed step has touched: the solver's memory, the randomness, the cache."""
        memory, known = dict(self._memory), self._proxy.snapshot()
        bits = self._rng.bit_generator
        before = bits.state
        try:
            yield
        except BaseException:
            self._memory.clear()
            self._memory.update(memory)
            self._proxy.rewind(known)
            bits.state = before
            raise

    def _averaged(self, state: Any) -> tuple[float, Vector | None]:
        """Return the newest iterate's share in the average, and the average."""
        if isinstance(self.averaging, (Last, Adaptive)):
            return 1.0, None
        eta = self.method.step_size(state.k - 1) if self._solved is None else self._solved[0].eta
        share = self.averaging.share(self._share, eta, state.k)
        if self._average is None:
            return share, state.w
        return share, self._average + share * (state.w - self._average)
