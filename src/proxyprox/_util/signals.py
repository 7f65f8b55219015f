"""Signals that end a process: what is under way is finished or undone, saved, and then it ends.

Inside :func:`ending_signals` SIGTERM and SIGHUP raise in the main thread as Ctrl-C does, and when
everything is saved the process ends by that very signal. Code that must not be cut in two says so:
inside :class:`critical` no signal raises; it raises at the end.

Python calls a handler between two instructions of the main thread, so plain counters suffice.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

# Signals within this many seconds of the one that raised belong to it: they disturb no saving.
BURST = 0.3

_PROTECTED: set[CodeType] = set()
_watch: _Watch | None = None


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP came; the process ends by it when :class:`ending_signals` is left."""


def protected(function: F) -> F:
    """Let no signal raise before the first statement of a function, which must be critical."""
    _PROTECTED.add(function.__code__)
    return function


class _Watch:
    """The handlers that are set, and what has come."""

    def __init__(self) -> None:
        self.before: dict[int, Any] = {}
        self.hard = 1  # nothing raises before the handlers are set
        self.waiting = False
        self.ending: int | None = None
        self.raised_at = -BURST
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # Ignored signals stay ignored (nohup), and another's handler is left alone.
            if number and signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
                self.before[number] = signal.getsignal(number)
                signal.signal(number, self.handle)

    def take_down(self) -> None:
        """Put the default handlers back, unless somebody has set others meanwhile."""
        self.hard += 1
        for number, handler in self.before.items():
            if signal.getsignal(number) == self.handle:
                signal.signal(number, handler)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Note the signal, and raise unless something must be finished first."""
        if self.before[number] is signal.SIG_DFL:
            self.ending = number
        self.waiting = True
        if frame is None or frame.f_code not in _PROTECTED:
            self.due()

    def due(self) -> None:
        """Raise what has come, if nothing is in its way and it is not part of the last burst."""
        if not self.waiting or self.hard:
            return
        self.waiting, now = False, time.monotonic()
        if now - self.raised_at >= BURST:
            self.raised_at = now
            if self.ending is not None:
                raise Terminated(signal.Signals(self.ending).name)
            raise KeyboardInterrupt


class ending_signals:  # noqa: N801 - used like a function
    """Save on SIGTERM and SIGHUP as on Ctrl-C: they raise inside the block, and end the process.

    The block saves what it must when :class:`KeyboardInterrupt` (or its subclass
    :class:`Terminated`) passes through; on leaving it the process ends by the signal that came,
    with the usual exit status. Handlers are set in the main thread only and put back; a signal
    that is ignored or that has another handler is left alone. Inside another such block it does
    nothing.

    Examples
    --------
    >>> with ending_signals():
    ...     signal.getsignal(signal.SIGINT) is signal.default_int_handler
    False
    >>> signal.getsignal(signal.SIGINT) is signal.default_int_handler
    True
    """

    _own: _Watch | None = None

    @protected
    def __enter__(self) -> None:
        global _watch
        if _watch is not None or threading.current_thread() is not threading.main_thread():
            return
        self._own = _watch = watch = _Watch()
        if watch.waiting:
            self.__exit__()
        watch.hard = 0

    @protected
    def __exit__(self, *error: object) -> None:
        global _watch
        watch = self._own
        if watch is None:
            return
        watch.take_down()
        self._own = _watch = None
        if watch.ending is not None:
            signal.raise_signal(watch.ending)
        if watch.waiting and not any(isinstance(part, KeyboardInterrupt) for part in error):
            raise KeyboardInterrupt


class critical:  # noqa: N801 - used like a function
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

    def __enter__(self) -> Callable[[], bool]:
        self._watch = watch = _of_this_thread()
        if watch is not None:
            # The last: what raises before it leaves nothing behind.
            watch.hard += 1
        return lambda: watch is not None and bool(watch.waiting)

    @protected
    def __exit__(self, *error: object) -> None:
        if self._watch is not None:
            self._watch.hard -= 1
            self._watch.due()


def raise_if_ending() -> None:
    """Raise again for a signal that ends the process, if somebody has caught its exception."""
    watch = _of_this_thread()
    if watch is not None and watch.ending is not None:
        raise Terminated(signal.Signals(watch.ending).name)


def _of_this_thread() -> _Watch | None:
    return _watch if threading.current_thread() is threading.main_thread() else None


def _forget_in_child() -> None:
    """Give a child made by fork the default handlers: it has nothing to save."""
    global _watch
    watch, _watch = _watch, None
    if watch is not None:
        watch.take_down()
        watch.ending = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
