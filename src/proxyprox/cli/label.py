"""``proxyprox label``: buy labels from whoever sits at the terminal."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxyprox.cli import console
from proxyprox.cli.console import CommandError, say

if TYPE_CHECKING:
    from proxyprox.sklearn import LabelBudget

# How many features of a row are shown, how many words become features, and how many columns a
# sentence names.
SHOWN, WORDS, NAMED = 12, 5000, 8

# Names of columns that may only identify the rows.
IDENTIFIER = re.compile(r"(.*[_ ])?(id|uuid|index|row|nr|no)", re.IGNORECASE)

# What may be typed in place of a class, unless a class is called so.
BACK, STOP = ("b", "back", "<"), ("", "q", "quit")
HOW = (
    "Type a class, the beginning of its name or its number; b or < answers the last question "
    "again, q or Enter alone stops; every answer is kept."
)


@console.guarded
def label(
    data: Annotated[Path, typer.Argument(help="Rows to label: CSV, Parquet, svmlight or npz.")],
    classes: Annotated[str, typer.Option(help="The classes, separated by commas.")],
    budget: Annotated[int, typer.Option(min=1, help="Labels to buy at most.")] = 100,
    batch: Annotated[int, typer.Option(min=1, help="Rows drawn at a time.")] = 10,
    criterion: Annotated[str, typer.Option(help="uniform, uncertainty or leverage.")] = "uniform",
    least_gain: Annotated[float | None, typer.Option(help="Stop below this gain.")] = None,
    show: Annotated[str, typer.Option(help="Columns that you are shown.")] = "",
    ignore: Annotated[str, typer.Option(help="Columns that are no features.")] = "",
    answers: Annotated[Path | None, typer.Option(help="File of the answers.")] = None,
    export: Annotated[Path | None, typer.Option(help="CSV file for the labelled rows.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    as_json: console.Json = False,
) -> None:
    """Label the rows that are worth it, one question at a time.

    A classifier is fitted to the answers with all rows as proxy; how sure it is, and what more
    labels would bring, is printed at the end. --least-gain stops when 100 more labels would lower
    the loss by less.

    The columns of --show are shown to you, the others are features, except those of --ignore and
    identifiers such as a column id; if none is left, the words that you are shown are features.

    The answers are kept beside the data unless --answers names another file. --export replaces
    an existing file only with --overwrite.

    Examples
    --------
    proxyprox label mail.csv --classes spam,ham --show text --budget 200
    proxyprox label rows.parquet --classes 0,1,2 --criterion uncertainty
    proxyprox label rows.csv --classes yes,no --ignore id --export labelled.csv

    Every answer is on disk before the next question. Type a class, the beginning of its name or
    its number, b to answer the last one again, q or Enter alone to stop; the same command resumes
    where it stopped, after Ctrl-C too. Rows are counted from 1. One process at a time has the file
    of answers, an SQLite database, which counts rows from 0 as Python does.

    In an exported table, text that begins with = + - or @ has an apostrophe in front, so that no
    spreadsheet takes it for a formula; numbers stay as they are.
    """
    from proxyprox._util.digests import file_digest
    from proxyprox._util.files import atomic_write_bytes
    from proxyprox.sklearn import LabelBudget, ProxyLogisticRegression

    names = _split(classes)
    if len(names) < 2 or len(set(names)) < len(names):
        raise CommandError(f"--classes must name two different classes at least, got {classes!r}.")
    pool = read_pool(data, _split(show), _split(ignore))
    # Version 0.1 put its answers in a file of JSON lines, which is refused.
    new, old = (data.with_name(f"{data.name}.labels.{kind}") for kind in ("sqlite", "jsonl"))
    file = answers or (old if old.is_file() and not new.exists() else new)
    check_files(data, file, export, overwrite)
    about = {"classes": sorted(names), "data": file_digest(data), "show": show or None}
    options: dict[str, Any] = {"criterion": criterion, "least_gain": least_gain, "path": file}
    options |= {"budget": budget, "batch_size": batch, "rng": seed, "about": about}
    with LabelBudget(ProxyLogisticRegression(), pool.X, **options) as bought:
        say(console.stderr(), pool.note)
        if bought.spent:
            say(console.stderr(), f"{bought.spent} answers are in {bought.path} already.")
        ask_and_tell(bought, pool, names)
        export = export if bought.spent else None
        if export is not None:
            atomic_write_bytes(export, pool.table(bought.labels))
        found = summary(bought, export)
    if as_json:
        console.emit(found)
    else:
        say(console.stdout(), "\n".join(found["sentences"]))


# -- the rows -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """The rows to be labelled: features, the cells of a CSV, and what is shown of each row."""

    X: Any
    names: Sequence[str]
    cells: Any
    shown: Sequence[str]
    note: str

    def text_of(self, row: int) -> str:
        """Return a row as a person sees it."""
        if self.shown:
            return "\n".join(f"{name}: {self.cells[name].iloc[row]}" for name in self.shown)
        values = self._features(row)
        order = sorted(range(len(values)), key=lambda j: -abs(values[j]))[:SHOWN]
        # Of many columns, as of words, those that are zero say nothing.
        few = len(values) <= SHOWN
        shown = [j for j in sorted(order) if few or values[j]]
        return "  ".join(f"{self.names[j]} = {values[j]:g}" for j in shown)

    def table(self, labels: dict[int, Any]) -> bytes:
        """Return the labelled rows as CSV, safe to open in a spreadsheet."""
        from proxyprox._util.text import without_formula

        names = list(self.names if self.cells is None else self.cells)
        lines = [[*names, "label" if "label" not in names else "label_"]]
        for row in sorted(labels):
            cells = self._features(row) if self.cells is None else self.cells.iloc[row]
            lines.append([*cells, labels[row]])
        text = io.StringIO(newline="")
        csv.writer(text).writerows([without_formula(cell) for cell in line] for line in lines)
        return text.getvalue().encode("utf-8", "surrogateescape")

    def _features(self, row: int) -> list[float]:
        values = self.X[[row]]
        values = values.toarray() if hasattr(values, "toarray") else values
        return values.ravel().tolist()  # type: ignore[no-any-return]


def read_pool(path: Path, show: list[str], ignore: list[str]) -> Pool:
    """Read rows; if no column is left to be a feature, the words of `show` are the features."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from proxyprox.study.columns import Columns
    from proxyprox.study.tables import (
        FRAMES,
        DataError,
        format_of,
        read_arrays,
        read_cells,
        read_table,
    )  # fmt: skip

    if str(path) == "-":
        raise CommandError("label needs the rows in a file: standard input brings the answers.")
    try:
        cells: Any = read_cells(path) if format_of(path) in FRAMES else None
        if show and cells is None:
            raise CommandError(f"--show needs a CSV or Parquet file, got {path.name}.")
        columns = list(read_arrays(path).feature_names if cells is None else cells)
        for option, names in (("--show", show), ("--ignore", ignore)):
            if absent := [name for name in names if name not in columns]:
                there = f"{path.name} has {_first(columns)}"
                raise CommandError(f"{option} names the column {absent[0]!r}, but {there}.")
        named = [] if cells is None else filter(IDENTIFIER.fullmatch, columns)
        ids = [name for name in named if cells[name].is_unique]
        left = [name for name in dict.fromkeys([*ignore, *ids]) if name not in show]
        features = [name for name in columns if name not in (*show, *left)]
        X: Any = None
        if features and cells is None:
            X = read_arrays(path, features=features).X
        elif features:
            frame = read_table(path)[features]
            made = Columns(scale=False).plan(frame).fit(frame)
            X, features = made.transform(frame), made.feature_names
    except DataError as error:
        # Python has arguments for the format and the features, the command line has options.
        text = str(error).replace(", or pass format=.", ".")
        here = "list the column in --show or in --ignore, too"
        raise CommandError(text.replace("leave the column out of 'features'", here)) from error
    note = f"Features: {_first(features) or f'the words of {_first(show)}'}."
    note += f" Left out: {_first(left)}." if left else ""
    if not features:
        texts = [] if cells is None else [" ".join(row) for row in cells[show].to_numpy()]
        vectorizer = TfidfVectorizer(max_features=WORDS, sublinear_tf=True)
        try:
            X = vectorizer.fit_transform(texts)
        except ValueError:
            raise CommandError(f"{path.name} has neither numbers nor words to use.") from None
        features = vectorizer.get_feature_names_out().tolist()
    return Pool(X, features, cells, show, note)


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


# -- the questions ------------------------------------------------------------------------------


def ask_and_tell(bought: LabelBudget, pool: Pool, classes: list[str]) -> None:
    """Ask until the budget is spent or the person has had enough."""
    terminal = console.stderr()
    if bought.finished is None:
        say(terminal, f"{HOW} Rows are counted from 1.")
    choices = "  ".join(f"{i} {name}" for i, name in enumerate(classes, start=1))
    again: int | None = None
    while again is not None or bought.finished is None:
        row = int(bought.ask()[0]) if again is None else again
        number = bought.spent + (again is None)
        say(terminal, f"\nRow {row + 1}, label {number} of {bought.budget}", style="bold")
        say(terminal, pool.text_of(row))
        found: list[Any] = []
        while len(found) != 1:
            # Not by a prompt of typer's, which puts a blank on standard output.
            line = terminal.input(console.plain(f"{choices}: "), stream=sys.stdin)
            if not (line.endswith("\n") and sys.stdin.isatty()):
                terminal.print()  # nobody has pressed Enter at a terminal
            found = meanings(line.strip(), classes)
            if len(found) != 1:
                say(terminal, f"{line.strip()!r} is none of them, or more than one. {HOW}")
        if found == [STOP]:
            return
        if found == [BACK]:
            again = next(reversed(bought.labels), None)
            if again is None:
                say(terminal, "There is no last question yet.")
        else:
            bought.tell(row, found[0])
            again = None


def meanings(typed: str, classes: list[str]) -> list[Any]:
    """Return the classes that may be meant, or BACK or STOP."""
    if typed in classes:
        return [typed]
    lower, numbers = typed.lower(), map(str, range(1, len(classes) + 1))
    by_number = [name for number, name in zip(numbers, classes, strict=True) if number == typed]
    same = [name for name in classes if name.lower() == lower]
    words = [word for word in (BACK, STOP) if lower in word]
    return by_number or same or words or [c for c in classes if c.lower().startswith(lower)]


def summary(bought: LabelBudget, exported: Path | None) -> dict[str, Any]:
    """Return what was bought and what it is worth."""
    counts = Counter(map(str, bought.labels.values()))
    shares = ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
    noun = "label" if bought.spent == 1 else "labels"
    sentences = [f"{bought.spent} {noun} ({shares}) in {bought.path}."]
    gain, mean = math.inf, None
    if len(counts) > 1:
        model, gain = bought.fit(), bought.expected_gain()
        found = model.mean_prediction(bought.X)
        if isinstance(found.estimate, float):
            mean = {"class": str(model.classes_[1]), **found._asdict()}
            sentences.append(
                f"Of all rows {found.estimate:.1%} are expected to be {mean['class']} "
                f"(95 % interval {found.low:.1%} to {found.high:.1%})."
            )
    if gain < math.inf:
        sentences.append(
            f"Another {bought.ahead} labels are expected to lower the log-loss by {gain:.2g}."
        )
    sentences.append(bought.finished or "The same command resumes from here.")
    if exported is not None:
        sentences.append(f"The labelled rows are in {exported}; --overwrite replaces them.")
    elif bought.spent:
        sentences.append("For a table of the labelled rows: add --export labelled.csv.")
    return {
        "answers": str(bought.path),
        "exported": None if exported is None else str(exported),
        "labels": bought.spent,
        "classes": dict(counts),
        "expected_gain": gain if gain < math.inf else None,
        "mean": mean,
        "finished": bought.finished,
        "sentences": sentences,
    }


# -- files --------------------------------------------------------------------------------------


def check_files(data: Path, answers: Path, export: Path | None, overwrite: bool) -> None:
    """Refuse files that would replace each other, or that cannot be written."""
    if export is None:
        return
    if export.resolve() in (data.resolve(), answers.resolve()):
        raise CommandError(f"--export would replace the rows or the answers: {export}.")
    if export.is_dir() or not export.parent.is_dir():
        raise CommandError(f"--export needs a file in a folder that exists, got {export}.")
    if export.exists() and not overwrite:
        raise CommandError(f"--export would replace {export}: add --overwrite, or name another.")
