"""Signals that end a process: what is under way is saved, and then the process ends.

Inside :func:`ending_signals` SIGTERM and SIGHUP raise in the main thread as Ctrl-C does, and when
everything is saved the process ends by that very signal. Code that must not be cut in two says so:
inside :func:`critical` no signal raises; one that comes raises at its end.

Both are generators: if a signal raises on the way into or out of one, Python closes it all the
same. Handlers are called between two instructions of the main thread, so a plain count suffices.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP came; the process ends by it when :func:`ending_signals` is left."""


class _Watch:
    """The handlers that ours replace, the critical blocks that are open, and what has come."""

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.process, self.blocks, self.waiting = os.getpid(), 0, False
        self.ending: int | None = None

    def handle(self, number: int, frame: Any) -> None:
        """Note a signal, and raise unless something must be finished first."""
        if self.process != os.getpid():  # a child made by fork has nothing to save
            signal.signal(number, self.before[number])
            signal.raise_signal(number)
        elif self.before[number] is not signal.SIG_DFL or self.ending is None:
            self.ending = number if self.before[number] is signal.SIG_DFL else self.ending
            self.waiting = True
            self.raise_waiting()

    def raise_waiting(self) -> None:
        """Raise what has come, if nothing is in its way."""
        if self.waiting and not self.blocks:
            self.waiting = False
            raise_if_ending()
            raise KeyboardInterrupt


_watch = _Watch()


@contextmanager
def ending_signals() -> Iterator[None]:
    """Save on SIGTERM and SIGHUP as on Ctrl-C: they raise inside the block, and end the process.

    The block saves what it must when :class:`KeyboardInterrupt` (or its subclass
    :class:`Terminated`) passes through; on leaving it the process ends by the signal that came,
    with the usual exit status. It raises once: others like it disturb no saving. Handlers are set
    in the main thread only and put back; a signal that is ignored or that has another handler is
    left alone. Inside another such block it does nothing.

    Examples
    --------
    >>> with ending_signals():
    ...     signal.getsignal(signal.SIGINT) is signal.default_int_handler
    False
    >>> signal.getsignal(signal.SIGINT) is signal.default_int_handler
    True
    """
    global _watch
    if _watch.before or threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = _watch = _Watch()
    try:
        with critical():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                handler = signal.getsignal(number := getattr(signal, name, signal.SIGINT))
                if handler in (signal.default_int_handler, signal.SIG_DFL):
                    watch.before[number] = handler
                    signal.signal(number, watch.handle)
        yield
    finally:
        watch.blocks += 1
        for number, handler in watch.before.items():
            # Unless somebody has set another meanwhile.
            if signal.getsignal(number) == watch.handle:
                signal.signal(number, handler)
        _watch = _Watch()
        if watch.ending is not None:
            signal.raise_signal(watch.ending)
        if watch.waiting:
            raise KeyboardInterrupt


@contextmanager
def critical() -> Iterator[Callable[[], bool]]:
    """Let no signal raise inside the block; one that comes raises at its end.

    Yields
    ------
    asked : callable
        Tells whether a signal waits; for a block of several steps.

    Examples
    --------
    >>> try:
    ...     with ending_signals(), critical() as asked:
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("finished", asked())
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    finished True
    interrupted
    """
    watch = _watch if threading.current_thread() is threading.main_thread() else _Watch()
    try:
        watch.blocks += 1
        yield lambda: watch.waiting
    finally:
        watch.blocks -= 1
        watch.raise_waiting()


def raise_if_ending() -> None:
    """Raise for a signal that ends the process, again if somebody has caught its exception."""
    if _watch.ending is not None and threading.current_thread() is threading.main_thread():
        raise Terminated(signal.Signals(_watch.ending).name)
