"""Jobs spread over processes, each with a pipe of its own.

Nothing is shared between workers, neither lock nor queue: whichever is ended, at whatever moment,
the others and the parent are not held up. A pool with common queues can hang when a worker is
killed while it holds the queue's lock, and an interrupted tournament kills its workers.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from proxyprox._signals import critical

__all__ = ["WorkerLostError", "spread"]

J = TypeVar("J")
R = TypeVar("R")

_PATIENCE = 5.0
"""Seconds that a worker gets to end before it is killed."""


_SAME_MOMENT = 0.2
"""Seconds within which a signal reaches all processes of a group."""


class WorkerLostError(RuntimeError):
    """A worker process was ended from outside."""


class _RemoteError(Exception):
    """The traceback of an error in a worker, as its text."""


def spread(
    jobs: Sequence[J], play: Callable[[Any, J], R], config: Any, workers: int
) -> Iterator[tuple[J, R]]:
    """Yield each job with what ``play(config, job)`` returned, in the order they finish.

    Parameters
    ----------
    jobs : sequence
        What to run; begun in this order.
    play : callable
        Importable by name, as are its arguments and results.
    config : object
        Handed to every call.
    workers : int
        Number of processes. They are ended when the iteration is, however it is.

    Raises
    ------
    WorkerLostError
        When a worker is ended from outside.
    """
    # Fresh processes: forked ones would inherit the progress display's thread in mid-air.
    context: Any = multiprocessing.get_context("spawn")
    if os.name != "nt":
        # The first spawned process would start it, and starting it lets interrupts through.
        resource_tracker.ensure_running()
    # Unpacked only when the worker watches its parent: what it imports may take long.
    task = pickle.dumps((play, config))
    processes: list[Any] = []
    pipes: list[Any] = []
    todo = iter(jobs)
    finished = False
    try:
        with critical(), _not_for_children():
            for _ in range(min(workers, len(jobs))):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, task), daemon=True)
                process.start()
                theirs.close()  # the worker holds the only other end: its death is an EOF here
                processes.append(process)
                pipes.append(ours)
        busy: dict[Any, J] = {}
        for pipe in pipes:
            _hand_out(pipe, todo, busy)
        while busy:
            ready: list[Any] = wait(list(busy))
            for pipe in ready:
                job = busy.pop(pipe)
                yield job, _received(pipe)
                _hand_out(pipe, todo, busy)
        finished = True
    finally:
        with critical():
            _end(processes, pipes, gently=finished)


def _hand_out(pipe: Any, todo: Iterator[J], busy: dict[Any, J]) -> None:
    for job in todo:
        try:
            pipe.send(job)
        except OSError as error:
            raise _lost() from error
        busy[pipe] = job
        return


def _received(pipe: Any) -> Any:
    try:
        result, error, text = pipe.recv()
    except (EOFError, OSError) as lost:
        raise _lost() from lost
    if error is not None:
        raise error from _RemoteError(text)
    return result


def _lost() -> WorkerLostError:
    # What ends a whole group of processes ends this one, too: its own signal is the better news.
    time.sleep(_SAME_MOMENT)
    return WorkerLostError("a worker process was ended from outside")


def _end(processes: Sequence[Any], pipes: Sequence[Any], *, gently: bool) -> None:
    for pipe in pipes:
        pipe.close()  # an idle worker reads the end of its pipe and returns
    for process in processes:
        if not gently:
            process.terminate()
    for process in processes:
        process.join(_PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()


def _serve(pipe: Any, task: bytes) -> None:
    """Answer jobs until the pipe ends: one thread, and Ctrl-C left to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    play, config = pickle.loads(task)
    threadpool_limits(1)
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        while True:
            job = pipe.recv()
            answer: tuple[Any, Exception | None, str]
            try:
                answer = (play(config, job), None, "")
            except Exception as error:
                answer = (None, _portable(error), traceback.format_exc())
            pipe.send(answer)


def _end_with_parent() -> None:
    # A parent killed outright cannot end its workers, and a job may take long.
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _portable(error: Exception) -> Exception:
    """Return the error if it survives the pipe, else its words."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@contextlib.contextmanager
def _not_for_children() -> Iterator[None]:
    """Keep Ctrl-C from processes started inside, even while they still import.

    They would print a traceback of their own. The mask is inherited; it does not hold a Ctrl-C
    back here, where another thread may receive it.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
