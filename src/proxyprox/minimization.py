"""``minimize``: the loop that answers a run's questions from the objective itself."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from proxyprox import observers as watchers
from proxyprox._util.arrays import Vector
from proxyprox._util.files import LockedError, locked
from proxyprox._util.names import explain_names
from proxyprox._util.signals import ending_signals, raise_if_ending
from proxyprox._util.validation import flag, has, require_takes, whole
from proxyprox.advice import defaults
from proxyprox.advice.outcome import judge_outcome
from proxyprox.advice.safeguard import SafeguardedRun
from proxyprox.advice.sampling import as_problem
from proxyprox.averaging import Averaging
from proxyprox.checkpoint import Checkpoint, CheckpointError, as_checkpoint, resume
from proxyprox.inner.base import NonFiniteError
from proxyprox.methods import Method
from proxyprox.observers import Ending, Observer, Saving, as_ending, check_observers, not_writable
from proxyprox.oracle import OutOfBudget, Step, answer_query, counting_calls
from proxyprox.problems.problem import require_enough, require_problem, require_ready
from proxyprox.result import Budget, Result, Status, as_budget, count_words
from proxyprox.run import Run
from proxyprox.stopping import Criterion

__all__ = ["OracleError", "minimize"]

Answer = TypeVar("Answer")
# What the loop drives: a run, alone or with its rivals.
Driven = Run | SafeguardedRun


class OracleError(RuntimeError):
    """The objective or the proxy raised; ``result`` holds the last good state of the run."""

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:  # other processes raise it, too
        return type(self), (str(self), self.result)


@explain_names
def minimize(
    problem: Any, w0: Vector | str | None = None, *, method: Any = None,
    steps: int | None = None, budget: Budget | int | None = None, tol: float | None = None,
    atol: float | None = None, inner: Any | None = None, stop: Criterion | None = None,
    averaging: Averaging | None = None, rng: np.random.Generator | int | None = None,
    callback: Callable[[Step], Any] | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None, progress: bool = False,
    safeguard: bool | Method = False, observers: Sequence[Observer] = (),
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
        to the subdifferential). Gaps go with squares: ``tol=1e-4`` leaves about 1e-8 of the first
        gap ``L(w0) − L*`` if curvatures are alike, more if they are not. If neither they
        nor a method are given, the run ends where the method's own model, or the pace of the last
        losses if that says more, leaves 1e-9 of that gap; and otherwise where ``tol`` is 1e-8
        (1e-5 by differences or in float32, 1e-4 with both), which the message says.
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
    rival, limits = defaults.rival_for(problem, safeguard), as_budget(budget)
    steps, ends = defaults.choose_ends(
        problem, method, None if steps is None else whole("steps", steps), limits, tol, atol,
        alone=rival is None,
    )  # fmt: skip
    require_takes("callback", callback, ("step",))
    looking: list[Any] = [watchers.ProgressBar(steps, limits)] if flag("progress", progress) else []
    looking += [] if callback is None else [watchers.Callback(callback)]
    looking += check_observers(observers)
    if rival is not None and method is None:
        # The rivals run on the same samples: the method is one of batches, as they are.
        method = defaults.POLICY.sampled_method
    saver = None if checkpoint is None else as_checkpoint(checkpoint)
    defaults.require_countable(problem, method, limits)
    require_enough(problem.objective, steps)
    run = Run(
        problem, w0, method=method, inner=inner, stop=stop, averaging=averaging, rng=rng,
        expected_steps=defaults.planned_steps(steps, limits, method),
    )  # fmt: skip
    driven: Driven = run if rival is None else SafeguardedRun(run, rival, limits)
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
            looking.append(watchers.Tolerance(*ends, limited))
        if steps is not None:
            missed = "" if ends is None else "The gradient is still above the tolerance."
            looking.append(watchers.StepLimit(steps, missed))
        looking += [] if limits is None else [watchers.BudgetLimit(limits)]
        loop = _Loop(driven, looking, None if saver is None else Saving(saver))
        return _resume_and_run(run, loop)


def _resume_and_run(run: Run, loop: _Loop) -> Result:
    """Resume if there is something to resume, run, and judge the outcome."""
    start, resumed, saver = run.w, None, None if loop.saving is None else loop.saving.saver
    if saver is not None and os.path.exists(saver.path):
        resume(saver.path, loop.run)
        resumed = loop.run.steps
    result = loop.go()
    status, guarded = result.status, isinstance(loop.run, SafeguardedRun)
    if not run.given and run.method.backtracks and run.path.start is not None:
        # Without a w0 of the caller's the run began where the method chose to.
        start = run.path.start
    calls: dict[str, int] = {}
    with counting_calls(run.problem.objective, calls):
        result = judge_outcome(
            result, run.problem, start,
            path=run.path, measured=run.step_size.measures, guarded=guarded,
        )  # fmt: skip
    result.ledger.add(calls)
    idle = status.success and result.steps == resumed
    if saver is not None and resumed is not None and (idle or resumed):
        already = ", it was finished already: no step was added"
        how = already if idle else f" after {count_words(resumed, 'step')}"
        text = f"{result.message} Resumed from {os.fspath(saver.path)!r}{how}."
        result = replace(result, message=text)
    return result


@dataclass(frozen=True)
class _Loop:
    """Takes a run, alone or with its rivals, to one of its ends; saves it on the way."""

    run: Driven
    observers: list[Any]
    saving: Saving | None

    def go(self) -> Result:
        """Return the result of the run at its end."""
        # Not a context manager: an interrupt on the way into its exit would save nothing.
        try:
            with contextlib.ExitStack() as entered:
                for observer in self.observers:
                    if has(observer, "__enter__"):
                        entered.enter_context(observer)
                ending = self._begin() or self._take_steps()
                result = self.run.result_before_verdict(*ending)
        except BaseException as error:
            self._save_after_error(error)
            raise
        if self.saving is not None:
            try:
                self.saving.save()
            except Exception as error:
                raise self._oracle_error(error, "") from error
        return result

    def _begin(self) -> Ending | None:
        """Show the run to its observers; one that is resumed may have ended already."""
        if self.saving is not None:
            _ask_objective(self.run.open_question)
            self.saving.begin(self.run)
        for observer in self.observers:
            if has(observer, "begin"):
                # A budget opens the first question.
                ending = as_ending(_ask_objective(observer.begin, self.run))
                if ending is not None:
                    return ending
        return None

    def _take_steps(self) -> Ending:
        """Take steps until an observer ends the run, or nothing more can be had."""
        run, saving, objective = self.run, self.saving, self.run.problem.objective
        while True:
            if saving is not None:
                raise_if_ending()
            if not run.held:
                query, begun = _ask_objective(run.open_question), time.perf_counter()
                try:
                    answer = _ask_objective(answer_query, objective, query)
                except _ObjectiveError as error:
                    if isinstance(error.__cause__, OutOfBudget):
                        return Ending(Status.BUDGET_SPENT, str(error.__cause__))
                    raise
                elapsed = time.perf_counter() - begun
                answer.extra.update(target_seconds=elapsed, seconds=elapsed)
                run.hold(answer)
            try:
                step = run.tell()
            except NonFiniteError as error:
                detail = f"That was outer step {run.steps}."
                return Ending(error.status or Status.DIVERGED, detail)
            if saving is not None:
                saving.after_step(step.state, step)
            ending = None
            for observer in self.observers:
                # Everybody sees the step that ends a run; the first one's ending counts.
                if ending is None:
                    ending = self._show(observer, step)
                elif not isinstance(observer, watchers.Watcher):
                    self._show(observer, step)
            if ending is not None:
                return ending

    def _show(self, observer: Any, step: Step) -> Ending | None:
        try:
            return as_ending(observer.after_step(step.state, step))
        except Exception as error:
            error.add_note(f"It was raised in {type(observer).__name__}.after_step.")
            raise

    def _save_after_error(self, error: BaseException) -> None:
        """Save the run; raise the error with the last good state, unless it passes as it is."""
        saved = ""
        if self.saving is not None:
            saved = f" The run is saved in {os.fspath(self.saving.saver.path)!r}."
            try:
                self.saving.save()
            except Exception as failure:
                saved = f" It could not be saved ({type(failure).__name__}: {failure})."
        cause = error.__cause__ if isinstance(error, _ObjectiveError) else error
        # A wrong shape or dtype in the first answer is the caller's to fix, as in the arguments.
        first = (
            error is cause and self.run.steps == 0 and isinstance(error, (ValueError, TypeError))
        )
        if isinstance(cause, Exception) and not first:
            raise self._oracle_error(cause, saved) from cause
        if saved:
            error.add_note(saved.strip())

    def _oracle_error(self, error: Exception, saved: str) -> OracleError:
        steps = self.run.steps
        return OracleError(
            f"{type(error).__name__} in outer step {steps}: {str(error).rstrip('.')}. "
            f"What {count_words(steps, 'finished step')} led to is in this error's result.{saved}",
            self.run.result_before_verdict(Status.INTERRUPTED),
        )


def _ask_objective(question: Callable[..., Answer], *arguments: Any) -> Answer:
    """Return the answer; errors of the objective are told apart from the run's own."""
    try:
        return question(*arguments)
    except Exception as error:
        raise _ObjectiveError from error


class _ObjectiveError(Exception):
    """The objective raised, whatever it raised: its cause says what."""
