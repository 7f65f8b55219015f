"""The live display of a tournament: what is running, how far it is, and the time left."""

from __future__ import annotations

import time
from types import TracebackType
from typing import IO

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from proxyprox._text import printable
from proxyprox.experiments.tournament import Job


class LiveDisplay:
    """Progress bars on stderr; a context manager."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description:<17}", markup=False),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            # The estimate follows the last minutes: entries differ in cost.
            TimeRemainingColumn(elapsed_when_finished=True, compact=True),
            TextColumn(
                "{task.fields[last]}",
                style="dim",
                markup=False,
                table_column=Column(no_wrap=True),
            ),
            console=console,
            speed_estimate_period=120,
        )
        self._task = self._bars.add_task("starting", total=None, last="")

    def __enter__(self) -> LiveDisplay:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def begin(self, stage: str, effort: float, done: float) -> None:
        """Start a bar for the stage."""
        if self._bars.tasks[-1].description == "starting":
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(printable(stage), total=max(effort, 1e-9), last="")
        self._bars.update(self._task, completed=done)

    def advance(self, job: Job) -> None:
        """Move the bar on by the job's share of the work."""
        self._bars.update(self._task, advance=job.effort * job.budget, last=printable(job.method))
        if self._bars.tasks[-1].finished:
            self._bars.update(self._task, last="")


class LineDisplay:
    """A line for every tenth of a stage: for logs and pipes."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._stage, self._total, self._done, self._shown = "", 1.0, 0.0, 0
        self._begun, self._before = 0.0, 0.0

    def begin(self, stage: str, effort: float, done: float) -> None:
        """Announce the stage."""
        self._stage, self._total = stage, max(effort, 1e-9)
        self._done = self._before = done
        self._begun = time.monotonic()
        self._shown = self._tenths()
        if done < effort:
            self._print(f"{stage}: {self._shown * 10} % done" if done else stage)

    def advance(self, job: Job) -> None:
        """Say how far the stage is, and about how long it will take, every tenth of the way."""
        self._done += job.effort * job.budget
        if self._tenths() <= self._shown:
            return
        self._shown = self._tenths()
        spent = time.monotonic() - self._begun
        left = spent * (self._total - self._done) / (self._done - self._before)
        ahead = f", about {left:.0f} s left" if left >= 1 else ""
        self._print(f"{self._stage}: {self._shown * 10} % done{ahead}")

    def _tenths(self) -> int:
        return int(10 * self._done / self._total + 1e-9)

    def _print(self, line: str) -> None:
        self._file.write(f"{printable(line)}\n")
        self._file.flush()


class NoDisplay:
    """Shows nothing: for ``--json`` and tests."""

    def begin(self, stage: str, effort: float, done: float) -> None:
        """Show nothing."""

    def advance(self, job: Job) -> None:
        """Show nothing."""
