"""A progress bar for the loop of ``minimize``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from proxyprox._ledger import Budget


@contextlib.contextmanager
def bar(wanted: bool, steps: int | None, limits: Budget | None) -> Iterator[Callable[[Any], None]]:
    """Show outer steps, or target gradients where only those are limited, while the block runs.

    Yields
    ------
    advance : callable
        To be called with the run after every outer step.
    """
    if not wanted:
        yield lambda run: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    total = steps or (limits.target_gradients if limits is not None else None)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task("outer steps" if steps else "target gradients", total=total)

        def advance(run: Any) -> None:
            shown.update(task, completed=run.steps if steps else run.ledger.target_gradients)

        yield advance
