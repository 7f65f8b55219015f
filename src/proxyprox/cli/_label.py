"""Questions about rows, and what the answers say."""

from __future__ import annotations

import csv
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from proxyprox.cli._console import say
from proxyprox.cli._errors import CommandError
from proxyprox.datasets import DataError, read_table

SHOWN = 12
"""Features shown of a row, the largest first."""

WORDS = 5000
"""Words that become features of rows that have only text."""

BACK = ("b", "back", "<")
"""What a person may type to answer the last question again, unless a class is called that."""

STOP = ("q", "quit")
"""What a person may type to stop, unless a class is called that; Enter alone always does."""


@dataclass(frozen=True)
class Pool:
    """The rows to be labelled, and how each is shown to a person."""

    X: Any
    names: tuple[str, ...]
    texts: list[str] | None

    def shown(self, row: int) -> str:
        """Return a row as text."""
        if self.texts is not None:
            return self.texts[row]
        values = self.X[[row]]
        values = (values.toarray() if hasattr(values, "toarray") else values).ravel()
        order = sorted(range(len(values)), key=lambda j: -abs(values[j]))[:SHOWN]
        return "  ".join(f"{self.names[j]} = {values[j]:g}" for j in sorted(order) if values[j])


def read_pool(path: Path, show: str | None) -> Pool:
    """Read the rows of a file.

    Parameters
    ----------
    path : Path
        The data.
    show : str or None
        Columns of a CSV that are shown to the person instead of being features. If no others are
        left, the words that are shown are the features.
    """
    if str(path) == "-":
        raise CommandError(
            "label needs the rows in a file, because the answers come from standard input: name a "
            "CSV, Parquet, svmlight or npz file instead of '-'."
        )
    if show is None:
        try:
            table = read_table(path)
        except DataError as error:
            hint = " A column named by --show is shown to you and is no feature."
            # Python has an argument for the format, the command line has the ending alone.
            text = str(error).replace(", or pass format=.", ".")
            raise CommandError(f"{text}{hint if 'not a number' in text else ''}") from error
        return Pool(table.X, table.feature_names, None)
    wanted = [name.strip() for name in show.split(",")]
    if path.suffix.lower() not in (".csv", ".tsv"):
        raise CommandError(f"--show needs a CSV or TSV file, got {path.name}: leave it out.")
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        columns = list(reader.fieldnames or ())
        absent = [name for name in wanted if name not in columns]
        if absent:
            raise CommandError(
                f"--show names the column {absent[0]!r}, but {path.name} has {', '.join(columns)}."
            )
        shown = [[row[name] or "" for name in wanted] for row in reader]
    texts = ["\n".join(map(": ".join, zip(wanted, row, strict=True))) for row in shown]
    features = [name for name in columns if name not in wanted]
    if not features:
        return _words([" ".join(row) for row in shown], texts, path)
    table = read_table(path, features=features)
    return Pool(table.X, table.feature_names, texts)


def _words(documents: list[str], texts: list[str], path: Path) -> Pool:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(max_features=WORDS, sublinear_tf=True)
    try:
        X = vectorizer.fit_transform(documents)
    except ValueError:
        raise CommandError(f"{path.name} has neither numbers nor words to learn from.") from None
    return Pool(X, tuple(vectorizer.get_feature_names_out()), texts)


def fingerprint(path: Path) -> str:
    """Return a short digest of a file, by which answers and rows are kept together."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def drop_if_unanswered(file: Path) -> None:
    """Remove a file of answers without any, so that a slip in the first options costs nothing."""
    if file.is_file():
        content = file.read_bytes()
        if content.startswith(b'{"about"') and b'{"row"' not in content:
            file.unlink()


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
        self._console.print(Text(f"{choices}: "), end="", soft_wrap=True)
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
