"""The questions of ``proxyprox label``: pool, prompt, summary and export."""

from __future__ import annotations

import csv
import errno
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from proxyprox._util.files import atomic_write_bytes
from proxyprox._util.text import without_formula
from proxyprox.cli.console import BAD_INPUT, BAD_RUN, CommandError, plain, say
from proxyprox.datasets import DataError, read_table

SHOWN = 12
"""Features shown of a row, the largest first."""

WORDS = 5000
"""Words that become features of rows that have only text."""

NAMED = 8
"""Columns named in a sentence."""

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""Files that may hold text, and what separates their columns."""


@dataclass(frozen=True)
class Pool:
    """The rows to be labelled, and how each is shown to a person.

    Attributes
    ----------
    X : array or sparse matrix
        The features.
    names : tuple of str
        Their names.
    texts : list of str or None
        What is shown of each row; None for its features.
    told : str
        What is learned from, in words.
    """

    X: Any
    names: tuple[str, ...]
    texts: list[str] | None
    told: str

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
        left, or only numbers of rows, the words that are shown are the features.
    """
    if str(path) == "-":
        raise CommandError(
            "label needs the rows in a file, because the answers come from standard input: name a "
            "CSV, Parquet, svmlight or npz file instead of '-'."
        )
    if show is None:
        table = _numbers(path, None)
        return Pool(table.X, table.feature_names, None, f"Features: {_some(table.feature_names)}.")
    wanted = [name.strip() for name in show.split(",")]
    columns, rows = _cells(path)
    absent = [name for name in wanted if name not in columns]
    if absent:
        raise CommandError(
            f"--show names the column {absent[0]!r}, but {path.name} has {', '.join(columns)}."
        )
    shown = [[row[name] or "" for name in wanted] for row in rows]
    texts = ["\n".join(map(": ".join, zip(wanted, row, strict=True))) for row in shown]
    features = [name for name in columns if name not in wanted]
    if all(_is_row_number([row[name] for row in rows]) for name in features):
        left = f"; left out: {_some(features)}, which only numbers the rows" if features else ""
        found = _words([" ".join(row) for row in shown])
        if found is not None:
            return Pool(*found, texts, f"Features: the words of {_some(wanted)}{left}.")
    if not features:
        raise CommandError(f"{path.name} has neither numbers nor words to learn from.")
    table = _numbers(path, features)
    return Pool(
        table.X,
        table.feature_names,
        texts,
        f"Features: {_some(table.feature_names)}. The words of {_some(wanted)} are shown but not "
        "used; with all columns in --show the words are the features.",
    )


def _cells(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the names of the columns, and the cells of each row by name."""
    separator = SEPARATORS.get(path.suffix.lower())
    if separator is None:
        raise CommandError(f"--show needs a CSV or TSV file, got {path.name}: leave it out.")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, delimiter=separator)
            return list(reader.fieldnames or ()), list(reader)
    except (csv.Error, UnicodeDecodeError) as error:
        raise CommandError(
            f"{path.name} is not a table in UTF-8 text ({error}): save it as CSV in UTF-8."
        ) from error


def _numbers(path: Path, features: list[str] | None) -> Any:
    try:
        return read_table(path) if features is None else read_table(path, features=features)
    except DataError as error:
        # Python has arguments for the format and the features, the command line has not.
        text = str(error).replace(", or pass format=.", ".")
        text = text.replace(
            "leave the column out of 'features'",
            f"list the column in --show{'' if features is None else ', too'}: those are shown to "
            "you and are no features",
        )
        raise CommandError(text) from error


def _is_row_number(cells: Sequence[str | None]) -> bool:
    """Tell whether a column is a different whole number in every row: an id, no feature."""
    found = [(cell or "").strip() for cell in cells]
    return all(map(str.isdecimal, found)) and len(set(map(int, found))) == len(found)


def _some(names: Sequence[str]) -> str:
    """Return names, the first few of many."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _words(documents: list[str]) -> tuple[Any, tuple[str, ...]] | None:
    """Return how often words occur in texts, and the words; None if there are none."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(max_features=WORDS, sublinear_tf=True)
    try:
        X = vectorizer.fit_transform(documents)
    except ValueError:
        return None
    return X, tuple(vectorizer.get_feature_names_out())


def summary(budget: Any, file: Path, exported: Path | None = None) -> dict[str, Any]:
    """Return what was bought and what it is worth.

    Parameters
    ----------
    budget : LabelBudget
        The labels.
    file : Path
        Where they are.
    exported : Path, optional
        A table of the labelled rows, if one was asked for.
    """
    counts: dict[str, int] = {}
    for label in budget.labels.values():
        counts[str(label)] = counts.get(str(label), 0) + 1
    shares = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    labels = "1 label" if budget.spent == 1 else f"{budget.spent} labels"
    sentences = [f"{labels} ({shares or 'none'}) {'is' if budget.spent == 1 else 'are'} in {file}."]
    gain = float("inf")
    mean: dict[str, Any] | None = None
    if len(counts) > 1:
        model = budget.fit()
        gain = budget.expected_gain()
        found = model.mean_prediction(budget.X)
        if isinstance(found.estimate, float):
            mean = {"class": str(model.classes_[1]), "low": found.low, "high": found.high}
            mean["estimate"] = found.estimate
            sentences.append(
                f"Of all rows {found.estimate:.1%} are expected to be {mean['class']} "
                f"(95 % interval {found.low:.1%} to {found.high:.1%})."
            )
    if gain < float("inf"):
        sentences.append(
            f"Another {budget.ahead} labels are expected to lower the log-loss by {gain:.2g}."
        )
    sentences.append(budget.finished or "The same command goes on from here.")
    if budget.spent:
        sentences.append(
            f"The labelled rows are in {exported}."
            if exported is not None
            else "For a table of the labelled rows: the same command with --export labelled.csv."
        )
    return {
        "answers": str(file),
        "exported": None if exported is None or not budget.spent else str(exported),
        "labels": budget.spent,
        "classes": counts,
        "expected_gain": gain if gain < float("inf") else None,
        "mean": mean,
        "finished": budget.finished,
        "sentences": sentences,
    }


TABLES = {".csv": ",", ".tsv": "\t"}
"""Files whose own columns are exported, and what separates them."""


def refuse_losing(target: Path, source: Path, answers: Path) -> None:
    """Refuse a table that would replace the data or the answers, or that cannot be written.

    Parameters
    ----------
    target : Path
        The file to write.
    source, answers : Path
        The data and the file of the answers.
    """
    for other, what in ((source, "the rows"), (answers, "the answers")):
        if same_file(target, other):
            raise CommandError(
                f"--export would replace {what} in {other}: name another file, for example "
                f"--export {source.stem}-labelled.csv."
            )
    if target.is_dir():
        raise CommandError(f"--export needs a file, but {target} is a folder: name a file in it.")
    if not target.parent.is_dir():
        raise CommandError(
            f"--export cannot write {target}: the folder {target.parent} does not exist. Make it, "
            "or name another."
        )


def refuse_foreign(target: Path, source: Path, pool: Pool, labels: Mapping[int, Any]) -> None:
    """Refuse to replace a file that an earlier export of these answers cannot have written.

    Parameters
    ----------
    target : Path
        The file to write.
    source : Path
        The data.
    pool : Pool
        The rows.
    labels : mapping
        Labels by row number.
    """
    if not target.is_file() or not target.stat().st_size:
        return
    names, rows = _table(source, pool, sorted(labels))
    # Version 0.1 wrote formulas as they were.
    known = {tuple(map(_written, row)) for row in rows.values()}
    known |= {tuple(_written(without_formula(value)) for value in row) for row in rows.values()}
    try:
        with target.open(newline="", encoding="utf-8") as file:
            found = list(csv.reader(file, delimiter=_separator(target)))
    except (OSError, ValueError, csv.Error):
        found = []
    # Answers are only added: rows of an earlier export are among those labelled now.
    header = [*names, _column(names)]
    headers = (header, [without_formula(name) for name in header])
    if (
        not found
        or found[0] not in headers
        or any(tuple(row[:-1]) not in known for row in found[1:])
    ):
        raise CommandError(
            f"--export would replace {target}, which holds something other than rows labelled "
            "here: name another file, or add --overwrite."
        )


def export(target: Path, source: Path, pool: Pool, labels: Mapping[int, Any]) -> None:
    """Write the labelled rows with their labels as a table that holds no formula.

    Parameters
    ----------
    target : Path
        The file to write, CSV or TSV; it appears whole or stays what it was.
    source : Path
        The data; of a CSV or TSV all columns are written, else the features.
    pool : Pool
        The rows.
    labels : mapping
        Labels by row number.
    """
    names, rows = _table(source, pool, sorted(labels))
    lines = [[*names, _column(names)], *([*rows[row], labels[row]] for row in sorted(labels))]
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=_separator(target))
    writer.writerows([without_formula(cell) for cell in line] for line in lines)
    try:
        atomic_write_bytes(target, text.getvalue().encode("utf-8", "surrogateescape"))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise CommandError(
            f"--export cannot write {target}: {error.strerror}. The answers are kept, and so is "
            "an earlier export.",
            BAD_RUN if full else BAD_INPUT,
        ) from error


def same_file(first: Path, second: Path) -> bool:
    """Tell whether two paths lead to one file.

    Parameters
    ----------
    first, second : Path
        The paths; the file need not exist yet.
    """
    if first.resolve() == second.resolve():
        return True
    return first.exists() and second.exists() and first.samefile(second)


def _separator(target: Path) -> str:
    return TABLES.get(target.suffix.lower(), ",")


def _column(names: list[str]) -> str:
    """Return the name of the labels' column, which no other has."""
    column = "label"
    while column in names:
        column += "_"
    return column


def _written(value: Any) -> str:
    """Return a cell as a table has it."""
    return "" if value is None else str(value)


def _table(source: Path, pool: Pool, wanted: list[int]) -> tuple[list[str], dict[int, list[Any]]]:
    """Return the columns' names and the wanted rows."""
    separator = TABLES.get(source.suffix.lower())
    if separator is not None:
        with source.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, delimiter=separator)
            names = list(reader.fieldnames or ())
            table = [[row[name] for name in names] for row in reader]
        # Where the features were read by other rules, the rows must still be the same.
        if names and len(table) == pool.X.shape[0]:
            return names, {row: table[row] for row in wanted}
    found = {}
    for row in wanted:
        values = pool.X[[row]]
        values = values.toarray() if hasattr(values, "toarray") else values
        found[row] = values.ravel().tolist()
    return list(pool.names), found


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
