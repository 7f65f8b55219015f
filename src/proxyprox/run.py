"""The driver: a run that asks for target gradients and is told them."""

from __future__ import annotations

import contextlib
import copy
import math
import numbers
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from proxyprox import checkpoint
from proxyprox._util.arrays import Vector, all_finite, copied, norm
from proxyprox._util.isolation import copied_tree, is_ours, isolated
from proxyprox._util.signals import critical
from proxyprox._util.validation import file_path, generator
from proxyprox.averaging import Adaptive, Averaging, Last
from proxyprox.checkpoint import Prefix
from proxyprox.methods import Answers
from proxyprox.oracles import (
    MeteredProxy,
    Query,
    Step,
    checked_gradient,
    noise,
    price,
    received,
    recorded,
    reported_value,
    subproblem_copied,
)
from proxyprox.outcome import GradientPath, by_gradients
from proxyprox.problems import Problem, Zero
from proxyprox.result import Ledger, Result, Status, StepRecord, Trace, counted
from proxyprox.setup import admit, chosen, require_problem, starting_point
from proxyprox.stopping import Convex, Criterion, Progress, SDane
from proxyprox.subproblem import NonFiniteError, Subproblem

ROW = 5
"""Such steps in a row, at the end of a run, that are no accident."""


class Faults:
    """Which outer steps were blocked: the proxy was not finite at a trial point, and it mattered.

    It mattered if a subproblem had no finite solution, so that the step had to be shortened, or
    if the inner rule failed. A line search that turns back from an infinity in time is no fault.
    """

    def __init__(self) -> None:
        self.blocked: list[int] = []
        self.words = ""
        self._raised = False

    def begin(self, proxy: MeteredProxy) -> None:
        """Look from here on, at the begin of a step."""
        proxy.fault, self._raised = None, False

    @contextlib.contextmanager
    def watch(self) -> Iterator[None]:
        """Notice a subproblem without a finite solution."""
        try:
            yield
        except NonFiniteError:
            self._raised = True
            raise

    def end(self, k: int, proxy: MeteredProxy, w: Vector, *, held: bool) -> None:
        """Enter step k from w if it was blocked."""
        if proxy.fault is None or (held and not self._raised):
            return
        what, point = proxy.fault
        with np.errstate(over="ignore", invalid="ignore"):
            away = norm(point - w)
        where = f"at a distance of {away:.3g} from w" if math.isfinite(away) else "far from w"
        self.blocked.append(k)
        self.words = f"the proxy's {what} was not finite {where}"

    def in_a_row(self, steps: int) -> bool:
        """Tell whether the last few of so many steps were all blocked."""
        return steps >= ROW and self.blocked[-ROW:] == list(range(steps - ROW, steps))

    def stuck(self, steps: int) -> bool:
        """Tell whether the last few of so many steps, or most of all, were blocked."""
        return self.in_a_row(steps) or 2 * len(self.blocked) > steps

    def summary(self, steps: int) -> str:
        """Return what was met, where and how often, as a sentence."""
        often = f"{len(self.blocked):,} of {counted(steps, 'step')}"
        return f"That was so in {often}; in the last of them {self.words}."

    def as_tree(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"blocked": Prefix(self.blocked), "words": self.words}

    def go_back(self, count: int, words: str) -> None:
        """Forget what was entered after so many blocked steps."""
        del self.blocked[count:]
        self.words = words

    def restore(self, tree: Any, steps: int) -> None:
        """Go back to what a checkpoint kept."""
        blocked, words = list(tree["blocked"]), tree["words"]
        whole = all(type(k) is int and 0 <= k < steps for k in blocked)
        if not whole or sorted(set(blocked)) != blocked or not isinstance(words, str):
            raise ValueError("the blocked steps are not a list of steps")
        self.blocked, self.words = blocked, words


PARTS = ("method", "inner", "stop", "averaging")
PLANNED = (Convex, SDane)
"""The default rules of which the number of steps planned decides."""


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
        self._w0 = parts.w0
        self._seed = int(rng) if isinstance(rng, numbers.Integral) else None
        self._config: dict[str, Any] | None = None
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
    def rng(self) -> np.random.Generator:
        """The generator of batches and solvers."""
        return self._rng

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
            path.add(query.points[0], answers[0], isolated(self.problem.penalty), exact=exact)
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
        self.settle()
        # First: it may ask for the proxy's gradient at w0, which is charged and kept.
        about = self._identified() if problem else None
        known = self._proxy.snapshot()
        if not self._proxy.by_content:
            points = {id(item) for item in checkpoint.walk(self._state)}
            known = [pair for pair in known if id(pair[0]) in points]
        copies = {
            "config": self.config(),
            "identity": about,
            "w0": self._w0,
            "state": self._state,
            # The proxy's gradients are kept, not recomputed: counts and bits stay the same.
            "known": [list(pair) for pair in known],
            "memory": self._memory,
            "average": self._average,
            "path": None if self._path is None else self._path.as_tree(),
        }
        return {
            "kind": "Run",
            **copied_tree(copies),
            "share": self._share,
            "pending": None if self._pending is None else {"batch": self._pending.batch},
            "rng": self._rng.bit_generator.state,
            "ledger": copy.copy(self.ledger),
            "trace": checkpoint.Prefix(self.trace.rows),
            "faults": self._faults.as_tree(),
        }

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
        self._load(tree)

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
        with checkpoint.naming(path):
            saved = checkpoint.read(path)
            checkpoint.require_kind(saved.tree(["kind"]), "Run")
            begun = saved.tree(["config", "w0"], like=_like(problem, w0))
            with checkpoint.structure():
                parts = {name: checkpoint.rebuild(begun["config"][name], classes) for name in PARTS}
            try:
                run = cls(problem, begun["w0"] if w0 is None else w0, **parts)
            except Exception as error:
                raise checkpoint.CheckpointError(
                    f"it does not fit this problem: {error} Give the problem that the run was "
                    "saved with."
                ) from error
            known = [*classes, *checkpoint.record_classes(run._state)]
            run._load(saved.tree(like=run._w0, classes=known), any_start=w0 is not None)
        return run

    # -- internals --------------------------------------------------------------------------

    def _load(self, tree: dict[str, Any], *, any_start: bool = False) -> None:
        """Take over a state; with ``any_start`` from whatever start this run was built with."""
        checkpoint.require_kind(tree, "Run")
        about = tree.get("identity")
        identity = None if about is None else self._identified(counted=False)
        with checkpoint.structure():
            stop = self._stop_of(tree)
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
                    found += checkpoint.other_identity(
                        about, identity, dtype=now["dtype"], same_start=same
                    )
        if found:
            raise checkpoint.other_run(found)
        with checkpoint.structure():
            commit = self._checked(tree)
        # All is well: only now is the run changed.
        if stop != self.stop:
            self.stop, self._why_stop = stop, " (the rule that the run began with)"
        commit()

    def _checked(self, tree: dict[str, Any]) -> Callable[[], None]:
        """Check a state of this configuration; return what puts the run into it."""
        names = ("w0", "state", "known", "memory", "average", "path")
        arrays = copied_tree({name: tree[name] for name in names})
        state, average, like = arrays["state"], arrays["average"], self._w0
        checkpoint.conform("state", state, self._state)
        checkpoint.require_count("k", state.k)
        checkpoint.require_array("w", state.w, like)
        if average is not None:
            checkpoint.require_array("average", average, like)
        known = [(point, gradient) for point, gradient in arrays["known"]]
        for pair in known:
            for array in pair:
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
        rng = checkpoint.restored_rng(tree["rng"], self._rng)
        faults = Faults()
        faults.restore(tree["faults"], state.k)
        path = GradientPath.from_tree(arrays["path"], like, state.k)
        points = None if pending is None else tuple(self.method.ask(state))

        def commit() -> None:
            self._w0, self._state, self._average, self._share = arrays["w0"], state, average, share
            self._identity, self._config = tree.get("identity") or self._identity, None
            self._memory.clear()
            self._memory.update(arrays["memory"])
            self._proxy.rewind(known)
            self._rng, self._faults, self.trace = rng, faults, Trace(rows)
            self._path, self._broken_off = path, None
            for item in fields(Ledger):
                setattr(self.ledger, item.name, getattr(ledger, item.name))
            self._reopen(None if pending is None else pending["batch"], points)

        return commit

    def _stop_of(self, tree: dict[str, Any]) -> Criterion:
        """Return this run's inner rule, or the one that it began with if both were defaults."""
        if not self._why_stop or not isinstance(self.stop, PLANNED):
            return self.stop
        saved = tree["config"]["stop"]
        rules = [checkpoint.class_name(rule) for rule in PLANNED]
        if isinstance(saved, dict) and saved.get("class") in rules:
            return checkpoint.rebuild(saved)  # type: ignore[no-any-return]
        return self.stop

    def _identified(self, *, counted: bool = True) -> dict[str, Any]:
        """Return what the run is about, computed once.

        The proxy's gradient at w0, where that is asked for, is the one that the first step will
        need: it is charged, and kept for it. After that, and when states are only compared
        (``counted=False``), it is no part of the run's books.
        """
        if self._identity is None:
            proxy, known = self._proxy, self._proxy.snapshot()
            oracle = proxy if counted and not self.steps else isolated(self.problem.proxy)
            self._identity = checkpoint.identity(
                self.problem, self._w0, self._seed,
                lambda: reported_value(self.problem, self._w0),
                oracle.gradient if self.method.uses_proxy else None,
            )  # fmt: skip
            if self._identity["slope"] is None:
                # The first step is to meet a gradient that is not finite itself.
                proxy.rewind(known)
        return self._identity

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
        # NumPy would broadcast a user's correction of another shape.
        checked_gradient("the correction's estimate", linear, centre)
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


def _like(problem: Problem, w0: Vector | None) -> Vector | None:
    """Return an array of the library and device that a run on this problem would have."""
    if w0 is None:
        with contextlib.suppress(ValueError):  # the problem does not know its size
            return starting_point(problem, None)
    return w0
