"""``proxyprox label``: buy labels from whoever sits at the terminal or before the browser."""

from __future__ import annotations

import math
import sys
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from proxyprox_app.cli import console
from proxyprox_app.cli.console import CommandError, say

if TYPE_CHECKING:
    from proxyprox.sklearn import LabelBudget
    from proxyprox_app.cli.label_pool import Pool

# What may be typed in place of a class, unless a class is called so.
UNDO, SKIP, COMMENT, STOP = (
    ("u", "<", "undo", "b", "back"),
    ("s", "-", "skip"),
    ("c", "#", "comment"),
    ("q", "quit", ""),
)
HOW = (
    "Type a class, the beginning of its name or its number, or one of the other signs; a comment "
    "may follow its sign. Enter alone stops, too; every answer is kept."
)
# Answers over which the model is compared with the person.
RECENT = 20


@console.guarded
def label(
    data: Annotated[Path, typer.Argument(help="Rows: CSV, Parquet, Excel.")],
    classes: Annotated[str, typer.Option(help="The classes, separated by commas.")],
    web: Annotated[bool, typer.Option("--web", help="Ask in a page of the browser.")] = False,
    budget: Annotated[int, typer.Option(min=1, help="Labels to buy at most.")] = 100,
    show: Annotated[str, typer.Option(help="Columns you are shown; default all.")] = "",
    features: Annotated[str, typer.Option(help="Columns to learn from; default all.")] = "",
    ignore: Annotated[str, typer.Option(help="Columns that are no features.")] = "",
    hide: Annotated[str, typer.Option(help="Columns neither shown nor features.")] = "",
    kinds: Annotated[
        list[str] | None, typer.Option("--as", help="COLUMN=number, text, ...")
    ] = None,
    column: Annotated[str, typer.Option("--label", help="Column of labels that are there.")] = "",
    teacher: Annotated[str, typer.Option(help="Column of another model's answers.")] = "",
    source: Annotated[Path | None, typer.Option("--import", help="File of labelled rows.")] = None,
    export: Annotated[Path | None, typer.Option(help="CSV file for the answers.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export.")] = False,
    every: Annotated[bool, typer.Option("--all-rows", help="Export every row, for run.")] = False,
    answers: Annotated[Path | None, typer.Option(help="Journal of the answers.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows chosen at a time.")] = 10,
    criterion: Annotated[str, typer.Option(help="How rows are chosen.")] = "margin",
    least_gain: Annotated[float | None, typer.Option(help="Stop below this gain.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of --web; default any.")] = 0,
    as_json: console.Json = False,
) -> None:
    """Label the rows that are worth it, one question at a time.

    A classifier is fitted to the answers with all rows as proxy, and the rows that it is least
    sure of are asked about next, with some at random among them. What it expected is shown after
    each answer, and what more labels would bring at the end. --criterion is margin, uniform
    or uncertainty; uniform gives an interval for the share of a class, too. --least-gain stops
    when 100 more labels would lower the loss by less.

    Columns may be numbers, categories, text or dates, with gaps; --as zip=category says which.
    You are shown all of them, and all but identifiers are features; --show, --features, --ignore
    and --hide change that.

    The answers are kept beside the data unless --answers names another file. --web prints an
    address for a browser on this computer; both ways of asking use the same file.

    Examples
    --------
    proxyprox label tickets.csv --classes urgent,normal
    proxyprox label tickets.csv --classes urgent,normal --web
    proxyprox label mail.xlsx --classes spam,ham --show text --budget 200
    proxyprox label tickets.csv --classes urgent,normal --export all.csv --all-rows

    Every answer is on disk before the next question. Type a class, the beginning of its name or
    its number, u to take the last answer back (again: the one before), s to skip a row, c and a
    text to comment it, q or Enter alone to stop; the same command resumes where it stopped, after
    Ctrl-C too. Rows are counted from 1. One process at a time has the file of answers, an SQLite
    database, which counts rows from 0 as Python does.

    In an exported table, text that begins with = + - or @ has an apostrophe in front, so that no
    spreadsheet takes it for a formula; numbers stay as they are.
    """
    from proxyprox._util.files import atomic_write_bytes
    from proxyprox.sklearn import LabelBudget, ProxyLogisticRegression
    from proxyprox_app.cli.console import file_digest
    from proxyprox_app.cli.label_pool import add_answers, exported, import_answers, read_pool
    from proxyprox_app.cli.run import parse_kinds

    names = _split(classes)
    if len(names) < 2 or len(set(names)) < len(names):
        raise CommandError(f"--classes must name two different classes at least, got {classes!r}.")
    given = {"show": show, "features": features, "ignore": ignore, "hide": hide}
    given |= {"label": column, "teacher": teacher}
    roles = {role: _split(text) for role, text in given.items()}
    pool = read_pool(data, roles, parse_kinds(kinds or []), names)
    if column and pool.given is None and source is None:
        raise CommandError(f"--label names {column!r}, which is no column of {data.name}.")
    file = answers or data.with_name(f"{data.name}.labels.sqlite")
    check_files(data, file, export, overwrite)
    about = {"classes": sorted(names), "data": file_digest(data)}
    options: dict[str, Any] = {"criterion": criterion, "least_gain": least_gain, "path": file}
    options |= {"budget": budget, "batch_size": batch, "rng": seed, "about": about}
    options["teacher"] = pool.teacher
    with LabelBudget(ProxyLogisticRegression(), pool.X, **options) as bought:
        terminal = console.stderr()
        for note in pool.notes:
            say(terminal, note)
        if bought.labels:
            say(terminal, f"{len(bought.labels)} answers are in {bought.path} already.")
        elif pool.given is not None and pool.given.iloc[:, 0].str.strip().any():
            say(terminal, add_answers(bought, pool.given.iloc[:, 0], names, data.name))
        if source is not None:
            say(terminal, import_answers(bought, pool, source, column, names))
        session = Session(bought, pool, names)
        if web:
            from proxyprox_app.cli.label_web import serve

            serve(session, data.name, port)
        else:
            ask_and_tell(session)
        if not (bought.labels or bought.declined or bought.comments):
            export = None
        if export is not None:
            atomic_write_bytes(export, exported(bought, pool, every))
        result = summary(bought, export)
    if as_json:
        console.emit(result)
    else:
        say(console.stdout(), "\n".join(result["sentences"]))


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


# -- the questions ------------------------------------------------------------------------------


class Session:
    """One question after the other, however it is asked; the answers are the LabelBudget's.

    Attributes
    ----------
    agreed : deque of bool
        Whether the model had expected each of the last answers, before it was told them.
    """

    def __init__(self, bought: LabelBudget, pool: Pool, classes: Sequence[str]) -> None:
        self.bought, self.pool, self.classes = bought, pool, classes
        self.agreed: deque[bool] = deque(maxlen=RECENT)
        self._guesses: dict[int, tuple[str, float]] = {}
        self._asked: set[int] = set()

    def question(self) -> int | None:
        """Return the row to ask about, None if no more is wanted."""
        rows = self.bought.ask().tolist()
        if rows and not self._asked & set(rows) and len(set(self.bought.labels.values())) > 1:
            # Of a new batch the model has seen no answer yet; its fit is the one that chose it.
            model = self.bought.fit()
            for row, chances in zip(rows, model.predict_proba(self.bought.X[rows]), strict=True):
                best = int(chances.argmax())
                self._guesses[row] = str(model.classes_[best]), float(chances[best])
        self._asked.update(rows)
        return rows[0] if rows else None

    def answer(self, row: int, label: str | None) -> str:
        """Keep an answer, None for a skip, and return what the model had expected, if anything."""
        self.bought.tell(row, label)
        expected, chance = self._guesses.pop(row, ("", 0.0))
        if not expected or label is None:
            return ""
        self.agreed.append(expected == label)
        right = f"{sum(self.agreed)} of the last {len(self.agreed)}"
        return f"The model had expected {expected} ({chance:.0%}); it was right on {right}."


def ask_and_tell(session: Session) -> None:
    """Ask at the terminal until the budget is spent or the person has had enough."""
    terminal, bought, classes = console.stderr(), session.bought, session.classes
    if bought.finished is None:
        say(terminal, f"{HOW} Rows are counted from 1.")
    choices = [f"{i} {name}" for i, name in enumerate(classes, start=1)]
    for words, name in ((UNDO, "undo"), (SKIP, "skip"), (COMMENT, "comment"), (STOP, "stop")):
        sign = next(word for word in words if meanings(word, classes) == [words])
        choices.append(f"{'| ' * (name == 'undo')}{sign} {name}")
    while (row := session.question()) is not None:
        number = f"label {bought.spent + 1} of {bought.budget}"
        say(terminal, f"\nRow {row + 1}, {number}", style="bold")
        say(terminal, "\n".join(f"{name}: {text}" for name, text in session.pool.row(row)))
        if row in bought.comments:
            say(terminal, f"Your comment: {bought.comments[row]}", style="italic")
        meant = _typed(terminal, "  ".join(choices), classes)
        if meant is STOP:
            return
        if meant is UNDO:
            if bought.undo() is None:
                say(terminal, "There is no answer to take back.")
        elif isinstance(meant, Comment):
            bought.comment(row, meant.text)
        elif meant is SKIP:
            session.answer(row, None)
        elif expected := session.answer(row, meant):
            say(terminal, expected, style="dim")


class Comment(NamedTuple):
    """A remark in place of an answer."""

    text: str


def _typed(terminal: Any, choices: str, classes: Sequence[str]) -> Any:
    """Return what the person means: a class, a comment, or UNDO, SKIP or STOP."""
    prompt = f"{choices}: "
    while True:
        # Not by a prompt of typer's, which puts a blank on standard output.
        line = terminal.input(console.plain(prompt), stream=sys.stdin)
        if not (line.endswith("\n") and sys.stdin.isatty()):
            terminal.print()  # nobody has pressed Enter at a terminal
        if prompt.startswith("Comment"):
            return Comment(line.strip())
        found = meanings(line.strip(), classes)
        if found == [COMMENT]:
            prompt = "Comment (Enter alone removes it): "
        elif len(found) == 1:
            return found[0]
        else:
            say(terminal, f"{line.strip()!r} is none of them, or more than one. {HOW}")


def meanings(typed: str, classes: Sequence[str]) -> list[Any]:
    """Return what may be meant: classes, a comment, or one of the words above."""
    if typed in classes:
        return [typed]
    lower, numbers = typed.lower(), map(str, range(1, len(classes) + 1))
    by_number = [name for number, name in zip(numbers, classes, strict=True) if number == typed]
    same = [name for name in classes if name.lower() == lower]
    word, _, rest = typed.partition(" ")
    if not (by_number or same) and word.lower() in COMMENT and rest.strip():
        return [Comment(rest.strip())]
    words = [word for word in (UNDO, SKIP, COMMENT, STOP) if lower in word]
    begun = [name for name in classes if lower and name.lower().startswith(lower)]
    return by_number or same or [*words, *begun]


def summary(bought: LabelBudget, exported: Path | None = None) -> dict[str, Any]:
    """Return what was bought and what it is worth."""
    counts, total = Counter(map(str, bought.labels.values())), len(bought.labels)
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
    kinds += f"; {len(bought.declined)} skipped" if bought.declined else ""
    kinds += f"; {len(bought.comments)} with a comment" if bought.comments else ""
    sentences = [f"{total} {'label' if total == 1 else 'labels'} ({kinds}) in {bought.path}."]
    gain, mean = math.inf, None
    if len(counts) > 1:
        model, gain = bought.fit(), bought.expected_gain()
        expected = bought.unbiased and model.mean_prediction(bought.X)
        if expected and isinstance(expected.estimate, float):
            mean = {"class": str(model.classes_[1]), **expected._asdict()}
            sentences.append(
                f"Of all rows {expected.estimate:.1%} are expected to be {mean['class']} "
                f"(95 % interval {expected.low:.1%} to {expected.high:.1%})."
            )
    if gain < math.inf:
        sentences.append(
            f"Another {bought.ahead} labels are expected to lower the log-loss by {gain:.2g}."
        )
    sentences.append(bought.finished or "The same command resumes from here.")
    if exported is not None:
        sentences.append(f"The answers are in {exported}; --overwrite replaces them.")
    elif total:
        sentences.append("For a table of the labelled rows: add --export labelled.csv.")
    return {
        "answers": str(bought.path),
        "exported": None if exported is None else str(exported),
        "labels": total,
        "classes": dict(counts),
        "skipped": len(bought.declined),
        "comments": len(bought.comments),
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
    problems = {
        "would replace the rows or the answers": export.resolve()
        in (data.resolve(), answers.resolve()),
        "needs a name that ends in .csv": export.suffix.lower() != ".csv",
        "needs a file in a folder that exists": export.is_dir() or not export.parent.is_dir(),
        "would replace a file: add --overwrite, or name another": export.exists() and not overwrite,
    }
    if found := [text for text, wrong in problems.items() if wrong]:
        raise CommandError(f"--export {found[0]}, got {export}.")
