"""Ctrl-C that waits for the end of a step, so that what is saved is whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def noted() -> Iterator[Callable[[], bool]]:
    """Note the first Ctrl-C or SIGTERM inside the block instead of breaking off.

    A second one raises KeyboardInterrupt at once: a step may be long. Signals that the process
    ignores stay ignored; in threads other than the main one nothing is changed.

    Yields
    ------
    asked : callable
        Tells whether a signal has come; whoever is told saves, and raises KeyboardInterrupt.

    Examples
    --------
    >>> with noted() as asked:
    ...     signal.raise_signal(signal.SIGINT)
    ...     asked()
    True
    """
    came: list[int] = []

    def note(number: int, frame: Any) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            # None: set by something other than Python, which could not be put back.
            if signal.getsignal(number) not in (None, signal.SIG_IGN):
                before[number] = signal.signal(number, note)
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
