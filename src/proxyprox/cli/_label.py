"""Questions about rows, and where the answers go."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from proxyprox.cli._console import plain, say
from proxyprox.cli._label_pool import Pool

BACK = ("b", "back", "<")
"""What a person may type to answer the last question again, unless a class is called that."""

STOP = ("q", "quit")
"""What a person may type to stop, unless a class is called that; Enter alone always does."""


def answers_file(data: Path, wanted: Path | None) -> Path:
    """Return the file of the answers: the wanted one, or one beside the data.

    Answers that version 0.1 put beside the data are found under the name it used.
    """
    if wanted is not None:
        return wanted
    now, before = (data.with_name(f"{data.name}.labels.{end}") for end in ("sqlite", "jsonl"))
    return before if before.is_file() and not now.exists() else now


class Back:
    """The answer of a person who wants the last question again."""


class Questions:
    """Asks for labels at the terminal."""

    def __init__(self, console: Console, pool: Pool, classes: tuple[str, ...]) -> None:
        self._console, self._pool, self._classes = console, pool, classes
        taken = {name.lower() for name in classes}
        self._back = [word for word in BACK if word not in taken]
        self._stop = [word for word in STOP if word not in taken]

    @property
    def how(self) -> str:
        """How to answer, go back and stop: by words that no class is called."""
        back = f"{self._back[0]} answers the last question again, " if self._back else ""
        stop = f"{self._stop[0]} or " if self._stop else ""
        return (
            f"Type a class, the beginning of its name or its number; {back}{stop}Enter alone stops."
        )

    def explain(self) -> None:
        """Say how to answer, go back and stop, and how rows are counted."""
        say(self._console, f"{self.how} Rows are counted from 0, as in the file of answers.")

    def say(self, text: str) -> None:
        """Tell the person something."""
        say(self._console, text)

    def answer(self, row: int, number: int, budget: int) -> str | Back | None:
        """Return the class of a row, or None if the person wants to stop.

        Parameters
        ----------
        row : int
            The row, counted from zero.
        number : int
            Which label it is, counted from one.
        budget : int
            How many there may be.
        """
        self._console.print()
        say(self._console, f"Row {row}, label {number} of {budget}", style="bold")
        say(self._console, self._pool.shown(row))
        choices = "  ".join(f"{i} {name}" for i, name in enumerate(self._classes, start=1))
        while True:
            given = self._typed(choices)
            if not given or given.lower() in self._stop:
                return None
            found = self._meant(given)
            if found is not None:
                return found
            say(self._console, f"{given!r} is none of them, or more than one. {self.how}")

    def _typed(self, choices: str) -> str:
        """Return what is typed; nothing at the end of the input."""
        # Not by a prompt of typer's, which puts a blank on standard output.
        self._console.print(plain(f"{choices}: "), end="", soft_wrap=True)
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            line = ""
        if not line.endswith("\n"):
            # Ctrl-C and the end of the input both mean: that was all.
            self._console.print()
        return line.strip()

    def _meant(self, given: str) -> str | Back | None:
        """Return the class that was meant; None if there is none, or more than one."""
        if given in self._classes:
            return given
        if given.isdecimal() and 1 <= int(given) <= len(self._classes):
            return self._classes[int(given) - 1]
        if given.lower() in self._back:
            return Back()
        lower = [name.lower() for name in self._classes]
        if lower.count(given.lower()) == 1:
            return self._classes[lower.index(given.lower())]
        begun = [name for name in self._classes if name.lower().startswith(given.lower())]
        return begun[0] if len(begun) == 1 else None
