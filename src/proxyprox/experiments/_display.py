"""The live display of a tournament: what is running, how far it is, and the time left."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from proxyprox.experiments.tournament import Job


class LiveDisplay:
    """Progress bars on stderr; a context manager."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description:<18}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("elapsed"),
            TimeElapsedColumn(),
            TextColumn("left"),
            # The estimate follows the last minutes: entries differ in cost.
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("[dim]{task.fields[last]}"),
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
        self._task = self._bars.add_task(stage, total=max(effort, 1e-9), last="")
        self._bars.update(self._task, completed=done)

    def advance(self, job: Job) -> None:
        """Move the bar on by the job's share of the work."""
        last = f"{job.panel}: {job.method}"
        self._bars.update(self._task, advance=job.effort * job.budget, last=last)


class NoDisplay:
    """Shows nothing: for ``--json``, pipes and tests."""

    def begin(self, stage: str, effort: float, done: float) -> None:
        """Show nothing."""

    def advance(self, job: Job) -> None:
        """Show nothing."""
