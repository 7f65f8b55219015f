"""``minimize``: the loop that answers a run's questions from the objective itself."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from proxyprox import _checkpoint as checkpoints
from proxyprox._arrays import Vector
from proxyprox._checkpoint import Checkpoint, as_checkpoint
from proxyprox._checks import message, whole
from proxyprox._ledger import Budget, as_budget
from proxyprox._result import Result, Status
from proxyprox._run import Run, Step
from proxyprox._subproblem import NonFiniteError
from proxyprox.averaging import Averaging
from proxyprox.problems import Problem
from proxyprox.stopping import Criterion


class OracleError(RuntimeError):
    """The objective or the proxy raised; ``result`` holds the last good state of the run."""

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result


def minimize(
    problem: Problem,
    w0: Vector | None = None,
    *,
    method: Any,
    steps: int | None = None,
    budget: Budget | int | None = None,
    inner: Any | None = None,
    stop: Criterion | None = None,
    averaging: Averaging | None = None,
    rng: np.random.Generator | int | None = None,
    callback: Callable[[Step], Any] | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Result:
    """Minimise the objective with few of its gradients, by leaning on the proxy.

    Parameters
    ----------
    problem : Problem
        The expensive objective, the cheap proxy and the penalty they share.
    w0 : array, optional
        Where to begin; zeros if the problem knows its size.
    method : Method
        The outer method, such as ``ProxyProx(eta=1.0)``.
    steps : int, optional
        Outer steps to take.
    budget : Budget or int, optional
        Limits on what may be used; a number limits the target gradients. Either ``steps`` or
        ``budget`` must be given.
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
        Save the run there, and go on from there if the file exists.
    progress : bool
        Show a progress bar.

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
    >>> from proxyprox import Problem, ProxyProx, logistic_regression, minimize
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> target = logistic_regression(StandardScaler().fit_transform(X), y, l2=1e-3, batch_size=64)
    >>> problem = Problem(target, proxy=target.label_free())
    >>> result = minimize(problem, method=ProxyProx(eta=10.0), steps=50, rng=0)
    >>> result.ledger.target_gradients, bool(target.value(result.w) < 0.1)
    (50, True)
    """
    steps = None if steps is None else whole("steps", steps)
    limits = as_budget(budget)
    if steps is None and limits is None:
        raise ValueError("steps or budget must be given: without either a run has no end.")
    if callback is not None and not callable(callback):
        raise TypeError(message("callback", callback, "a function of a Step"))
    saver = as_checkpoint(checkpoint)
    run = Run(
        problem, w0, method=method, inner=inner, stop=stop, averaging=averaging, rng=rng,
        expected_steps=_expected(steps, limits, method),
    )  # fmt: skip
    if saver is not None and os.path.exists(saver.path):
        tree = checkpoints.read_tree(saver.path, like=run.w)
        checkpoints.restore_run(saver.path, tree, run)
    with _kept(run, saver), _bar(progress, steps, limits) as advance:
        return _loop(run, steps, limits, callback, saver, advance)


def _loop(
    run: Run,
    steps: int | None,
    limits: Budget | None,
    callback: Callable[[Step], Any] | None,
    saver: Checkpoint | None,
    advance: Callable[[Run], None],
) -> Result:
    objective = run.problem.objective
    while steps is None or run.steps < steps:
        query = run.ask()
        if limits is not None:
            spent = limits.exceeded(run.ledger, run.price(query))
            if spent is not None:
                return run.result(Status.BUDGET_SPENT, f"Limit: {spent}.")
        begun = time.perf_counter()
        gradients = [objective.gradient(point, query.batch) for point in query.points]
        elapsed = time.perf_counter() - begun
        run.ledger.target_seconds += elapsed
        run.ledger.seconds += elapsed
        try:
            step = run.tell(gradients)
        except NonFiniteError as error:
            status = error.args[0] if isinstance(error.args[0], Status) else Status.DIVERGED
            return run.result(status, f"That was outer step {run.steps}.")
        if saver is not None and saver.due(run.steps):
            saver.save(run)
        advance(run)
        if callback is not None:
            try:
                finished = bool(callback(step))
            except StopIteration:
                finished = True
            if finished:
                return run.result(Status.STOPPED_BY_CALLBACK)
    return run.result(Status.STEPS_DONE)


@contextlib.contextmanager
def _kept(run: Run, saver: Checkpoint | None) -> Iterator[None]:
    """Save the run however it ends, and hand its last good state to whoever catches the error."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if run.steps == 0:
            # Nothing was paid yet: a wrong shape or dtype is the caller's to mend.
            raise
        raise _with_result(error, run, saver) from error
    except Exception as error:
        raise _with_result(error, run, saver) from error
    finally:
        if saver is not None:
            saver.save(run)


def _with_result(error: Exception, run: Run, saver: Checkpoint | None) -> OracleError:
    kept = f" The run is saved in {os.fspath(saver.path)!r}." if saver is not None else ""
    return OracleError(
        f"{type(error).__name__} in outer step {run.steps}: {error}. "
        f"The {run.steps} finished steps are in this error's result.{kept}",
        run.result(Status.INTERRUPTED),
    )


def _expected(steps: int | None, limits: Budget | None, method: Any) -> int | None:
    if steps is not None or limits is None or limits.target_gradients is None:
        return steps
    return max(
        1, int(limits.target_gradients) // (2 if getattr(method, "two_points", False) else 1)
    )


@contextlib.contextmanager
def _bar(wanted: bool, steps: int | None, limits: Budget | None) -> Iterator[Callable[[Run], None]]:
    if not wanted:
        yield lambda run: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    total = steps or (limits.target_gradients if limits is not None else None)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("outer steps" if steps else "target gradients", total=total)

        def advance(run: Run) -> None:
            done = run.steps if steps else run.ledger.target_gradients
            bar.update(task, completed=done)

        yield advance
