"""``minimize``: the loop that answers a run's questions from the objective itself.

It drives one run, or one with its rivals, until an observer or one of its own limits ends it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from proxyprox import observers as watchers
from proxyprox._util import validation as check
from proxyprox._util.arrays import Vector
from proxyprox._util.files import LockedError, locked
from proxyprox._util.signals import critical, ending_signals, raise_if_ending
from proxyprox.advice import defaults
from proxyprox.advice.outcome import judge_outcome
from proxyprox.advice.safeguard import SafeguardedRun
from proxyprox.averaging import Averaging
from proxyprox.checkpoint import Checkpoint, CheckpointError, as_checkpoint, resume
from proxyprox.inner.base import NonFiniteError
from proxyprox.methods import Method
from proxyprox.observers import Ending, Observer, as_ending
from proxyprox.oracle import OutOfBudget, Step, Told, answer_query, charging_calls
from proxyprox.problems.problem import as_problem, require_enough, require_problem, require_ready
from proxyprox.result import Budget, Result, Status, as_budget
from proxyprox.run import Run
from proxyprox.stopping import Criterion

__all__ = ["BudgetLimit", "OracleError", "StepLimit", "Tolerance", "Watcher", "minimize"]

Answer = TypeVar("Answer")


class OracleError(RuntimeError):
    """The objective or the proxy raised; ``result`` holds the last good state of the run."""

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:  # other processes raise it, too
        return type(self), (str(self), self.result)


def what_is_left(run: Any) -> str:
    """Return what the method's model leaves of the first gap, as a sentence; empty if unknown."""
    share = defaults.POLICY.close * run.left
    if not 0 < share < 1:
        return ""
    return f"By the method's model about {share:.0e} of the first gap L − L* is left."


class Watcher:
    """An observer that looks at the run before the first step as after every other."""

    def begin(self, run: Any) -> Ending | None:
        """Take the run, and look at it as it stands: a resumed one may have ended already."""
        self.run = run
        return self.look()

    def after_step(self, state: Any, step: Step) -> Ending | None:
        """Look again."""
        return self.look()

    def look(self) -> Ending | None:
        """Say whether the run ends here."""
        raise NotImplementedError


class Tolerance(Watcher):
    """Ends a run of exact gradients when they are small, or when nothing falls any more."""

    def __init__(self, tol: float | None, atol: float, detail: str = "") -> None:
        self.tol, self.atol, self.detail = tol, atol, detail

    def look(self) -> Ending | None:
        """Say whether the gradient is within the tolerance, or the run has stalled."""
        if self.run.converged(self.tol, self.atol):
            said = f"{what_is_left(self.run)} {self.detail}"
            return Ending(Status.CONVERGED, said.strip())
        return Ending(Status.STALLED, self.detail) if self.run.stalled else None


class StepLimit(Watcher):
    """Ends a run after a number of steps."""

    def __init__(self, steps: int, detail: str = "") -> None:
        self.steps, self.detail = steps, detail

    def look(self) -> Ending | None:
        """Say whether all steps are taken."""
        if self.run.steps < self.steps:
            return None
        return Ending(Status.STEPS_DONE, f"{self.detail} {what_is_left(self.run)}".strip())


class BudgetLimit(Watcher):
    """Ends a run before the question that its budget does not pay for."""

    def __init__(self, limits: Budget) -> None:
        self.limits = limits

    def look(self) -> Ending | None:
        """Compare what was paid, and what the next answer costs, with the limits."""
        # An answer that is known already is paid for.
        if self.run.held:
            return None
        price = self.run.price(self.run.open_question())
        spent = self.limits.exceeded(self.run.ledger, price)
        if spent is None:
            return None
        return Ending(Status.BUDGET_SPENT, f"Limit: {spent}. {what_is_left(self.run)}".strip())


@check.explain_names
def minimize(
    problem: Any, w0: Vector | str | None = None, *, method: Any = None,
    steps: int | None = None, budget: Budget | int | None = None, tol: float | None = None,
    atol: float | None = None, inner: Any | None = None, stop: Criterion | None = None,
    averaging: Averaging | None = None, rng: np.random.Generator | int | None = None,
    callback: Callable[[Step], Any] | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None, progress: bool = False,
    safeguard: bool | Method = False, observers: Sequence[Observer] | None = None,
) -> Result:  # fmt: skip
    """Minimise the objective with few of its gradients, by leaning on the proxy.

    Parameters
    ----------
    problem : Problem, or a loss that can be sampled
        The expensive objective, the cheap proxy and the penalty they share. A loss of a table, such
        as :func:`~proxyprox.logistic_regression`, may come alone: a sample of its rows is the proxy
        where that saves time, and the result says what was chosen.
    w0 : array or "proxy", optional
        Where to begin; zeros if the problem knows its size. "proxy" is the proxy's minimum; where
        none is found the result says so. A point that is given is one of the run: if the objective
        has values, the answer is never above it.
    method : Method, optional
        The outer method, such as ``ProxyProx(eta=1.0)``. By default what suits the target, and the
        result says why: for sampled gradients ``ProxyProx(eta="auto")``, which measures its step
        size during the run; for exact ones a method that needs few of them.
    steps : int, optional
        Outer steps to take; at most, if there is a tolerance.
    budget : Budget or int, optional
        Limits on what may be used; a number limits the target gradients. With sampled gradients
        either ``steps`` or ``budget`` must be given. With exact ones both are limits: a run without
        a method ends when the gradient is small, after 1,000 steps at most.
    tol, atol : float, optional
        End the run, for exact gradients alone, where ``‖∇L‖ ≤ max(tol·‖first ∇L‖, atol)`` at a
        point that was asked about, which is then the answer (with a penalty: the distance from 0
        to the subdifferential). Gaps go with squares: ``tol=1e-3`` leaves about 1e-6 of the first
        gap ``L(w0) − L*`` if curvatures are alike, more if they are not. If neither they
        nor a method are given, the run ends where the method's own model, or the pace of the last
        losses if that says more, leaves 1e-9 of that gap; and otherwise where ``tol`` is 1e-8
        (1e-5 by differences or in float32, 1e-4 with both). The message says what is left.
    inner : InnerSolver, optional
        How subproblems are solved; by default what suits the proxy, and the result says why.
    stop : Criterion, optional
        When an inner solve is good enough; by default the paper's rule for what is known.
    averaging : Averaging, optional
        Which point is the answer; the last iterate by default.
    rng : int or numpy.random.Generator, optional
        Randomness of batches and solvers; the same seed gives the same run.
    callback : callable, optional
        Called with a :class:`Step` after every outer step; return True to stop.
    checkpoint : Checkpoint or path, optional
        Save the run there, and go on from there if the file exists; a file of another problem,
        start, seed or configuration is refused, and so is one that another process writes;
        :class:`Checkpoint` says what is noticed. SIGTERM and SIGHUP save as Ctrl-C does, and then
        end the process.
    progress : bool
        Show a progress bar.
    safeguard : bool or Method
        Never worse than without a proxy: a rival without one, and ERM on the rows seen where there
        are rows, run along on the same samples, held-out ones decide which answer is returned, and
        a proxy that clearly trails is dropped mid-run. ``Result.safeguard`` holds the evidence;
        :mod:`proxyprox.advice.safeguard` says what is charged: at most 15 % more samples, and the
        rival's own where batches may not be evaluated again. True stands for ``SGD("auto")``;
        another rival is given by itself, as in ``safeguard=Adam(0.01)``.
    observers : sequence of objects with ``after_step(state, step)``, optional
        They look on after every outer step, and may end the run: :mod:`proxyprox.observers`.

    Returns
    -------
    Result
        The answer, how the run ended, what was paid, and how well each step was solved.

    Raises
    ------
    ValueError, TypeError
        For arguments that cannot work, before anything is paid.
    OracleError
        If the objective, the proxy or the callback raises; its ``result`` holds the last good
        state, and the checkpoint is kept.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from proxyprox import Problem, logistic_regression, minimize
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> target = logistic_regression(StandardScaler().fit_transform(X), y, l2=1e-3, batch_size=64)
    >>> problem = Problem(target, proxy=target.label_free())
    >>> result = minimize(problem, steps=50, rng=0)
    >>> result.steps, bool(target.value(result.w) < 0.1)
    (50, True)
    """
    problem = as_problem(problem)
    require_problem(problem)
    require_ready(problem)
    rival = defaults.rival_for(problem, safeguard)
    limits = as_budget(budget)
    steps, ends = defaults.choose_ends(
        problem, method, None if steps is None else check.whole("steps", steps), limits, tol, atol,
        alone=rival is None,
    )  # fmt: skip
    check.require_takes("callback", callback, ("step",))
    looking: list[Any] = (
        [watchers.ProgressBar(steps, limits)] if check.flag("progress", progress) else []
    )
    looking += [] if callback is None else [watchers.Callback(callback)]
    looking += watchers.check_observers([] if observers is None else observers)
    if rival is not None and method is None:
        # The rivals run on the same samples: the method is one of batches, as they are.
        method = defaults.POLICY.sampled_method
    saver = as_checkpoint(checkpoint)
    defaults.require_countable(problem, method, limits)
    require_enough(problem.objective, steps)
    run = Run(
        problem, w0, method=method, inner=inner, stop=stop, averaging=averaging, rng=rng,
        expected_steps=defaults.planned_steps(steps, limits, method),
    )  # fmt: skip
    driven = run if rival is None else SafeguardedRun(run, rival, limits)
    ending: list[Any] = []
    with contextlib.ExitStack() as held:
        if saver is not None:
            held.enter_context(ending_signals())
            try:
                held.enter_context(locked(saver.path))
            except LockedError as error:
                raise CheckpointError(f"checkpoint {error}") from error
            except OSError as error:
                raise not_writable(saver, error) from error
        if ends is not None:
            limited = ""
            if ends[0] is None:
                limited = defaults.default_tolerance(problem.objective, run.start)[1]
            ending.append(Tolerance(*ends, limited))
        if steps is not None:
            missed = "" if ends is None else "The gradient is still above the tolerance."
            ending.append(StepLimit(steps, missed))
        ending += [] if limits is None else [BudgetLimit(limits)]
        return _resume_and_run(run, _Drive(driven, looking, ending, saver))


def _resume_and_run(run: Run, drive: _Drive) -> Result:
    """Resume if there is something to resume, run, and judge the outcome."""
    start, resumed, driven, path = run.w, None, drive.run, ""
    if drive.saver is not None and os.path.exists(drive.saver.path):
        path = os.fspath(drive.saver.path)
        resume(path, driven)
        resumed = driven.steps
    result = drive.to_end()
    status, guarded = result.status, driven is not run
    if not run.given and run.method.backtracks and run.path.start is not None:
        # Without a w0 of the caller's the run began where the method chose to.
        start = run.path.start
    with charging_calls(run.problem.objective, result.ledger):
        result = judge_outcome(
            result, run.problem, start,
            path=run.path, measured=run.step_size.measures, guarded=guarded,
        )  # fmt: skip
    idle = status.success and result.steps == resumed
    if resumed is not None and (idle or resumed):
        already = ", it was finished already: no step was added"
        how = already if idle else f" after {check.count_words(resumed, 'step')}"
        result = replace(result, message=f"{result.message} Resumed from {path!r}{how}.")
    return result


@dataclass
class _Drive:
    """A run on its way to one of its ends: who looks on, what limits it, and what saves it."""

    run: Any
    looking: Sequence[Any]
    limits: Sequence[Any]
    saver: Checkpoint | None

    def to_end(self) -> Result:
        """Take the run to its end, and save it there, however it ends."""
        # Not a context manager: an interrupt on the way into its exit would save nothing.
        try:
            with contextlib.ExitStack() as entered:
                for observer in self.looking:
                    if check.has(observer, "__enter__"):
                        entered.enter_context(observer)
                result: Result = self.run.result_before_verdict(*self._take_steps())
        except BaseException as error:
            self._save_after_error(error)
            raise
        try:
            self._save()
        except Exception as error:
            raise _oracle_error(self.run, error, "") from error
        return result

    def _save(self) -> None:
        """Write the file, and let no signal cut the writing short."""
        if self.saver is not None:
            with critical():
                self.saver.save(self.run)

    def _take_steps(self) -> Ending:
        """Take steps until an observer or a limit ends the run, or nothing more can be had."""
        run, saver = self.run, self.saver
        if saver is not None:
            # Before anything is paid: batches that cannot be saved are refused.
            _ask_objective(run.open_question)
            try:
                self._save()
            except OSError as error:
                raise not_writable(saver, error) from error
        for observer in [*self.looking, *self.limits]:
            # One that is resumed may have ended already. A budget opens the first question.
            begun = _ask_objective(observer.begin, run) if check.has(observer, "begin") else None
            if (ending := as_ending(begun)) is not None:
                return ending
        while True:
            if saver is not None:
                raise_if_ending()
            try:
                if not run.held:
                    run.hold(_ask_objective(_answer, run))
                step = run.tell()
            except NonFiniteError as error:
                return Ending(error.status or Status.DIVERGED, f"That was outer step {run.steps}.")
            except _ObjectiveError as error:
                if isinstance(error.__cause__, OutOfBudget):
                    return Ending(Status.BUDGET_SPENT, str(error.__cause__))
                raise
            if saver is not None and saver.due(run.steps):
                self._save()
            # Every observer sees the step that ends a run; the first one's ending counts.
            found = [end for end in [_show(observer, step) for observer in self.looking] if end]
            found = found or [end for end in (limit.look() for limit in self.limits) if end]
            if found:
                return found[0]

    def _save_after_error(self, error: BaseException) -> None:
        """Save the run; raise the error with the last good state, unless it passes as it is."""
        saved = ""
        if self.saver is not None:
            saved = f" The run is saved in {os.fspath(self.saver.path)!r}."
            try:
                self._save()
            except Exception as failure:
                saved = f" It could not be saved ({type(failure).__name__}: {failure})."
        cause = error.__cause__ if isinstance(error, _ObjectiveError) else error
        # A wrong shape or dtype in the first answer is the caller's to fix, as in the arguments.
        first = (
            error is cause and self.run.steps == 0 and isinstance(error, (ValueError, TypeError))
        )
        if isinstance(cause, Exception) and not first:
            raise _oracle_error(self.run, cause, saved) from cause
        if saved:
            error.add_note(saved.strip())


def not_writable(saver: Checkpoint, error: OSError) -> ValueError:
    """Return the error for a file that cannot be written."""
    allowed, reason = "a file that can be written", error.strerror or str(error)
    return ValueError(check.message("checkpoint", os.fspath(saver.path), allowed, f"{reason}."))


def _answer(run: Run | SafeguardedRun) -> Told:
    """Open the next question and return its answer, with the seconds that it took."""
    query, begun = run.open_question(), time.perf_counter()
    answer = answer_query(run.problem.objective, query)
    elapsed = time.perf_counter() - begun
    answer.extra.update(target_seconds=elapsed, seconds=elapsed)
    return answer


def _show(observer: Any, step: Step) -> Ending | None:
    try:
        found = observer.after_step(step.state, step)
    except Exception as error:
        error.add_note(f"It was raised in {type(observer).__name__}.after_step.")
        raise
    return as_ending(found)


def _oracle_error(run: Run | SafeguardedRun, error: Exception, saved: str) -> OracleError:
    finished = check.count_words(run.steps, "finished step")
    return OracleError(
        f"{type(error).__name__} in outer step {run.steps}: {str(error).rstrip('.')}. "
        f"What {finished} led to is in this error's result.{saved}",
        run.result_before_verdict(Status.INTERRUPTED),
    )


def _ask_objective(question: Callable[..., Answer], *arguments: Any) -> Answer:
    """Return the answer; errors of the objective are told apart from the run's own."""
    try:
        return question(*arguments)
    except Exception as error:
        raise _ObjectiveError from error


class _ObjectiveError(Exception):
    """The objective raised, whatever it raised: its cause says what."""
