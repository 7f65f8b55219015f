"""``proxyprox label``: buy labels from whoever sits at the terminal or before the browser."""

from __future__ import annotations

import contextlib
import math
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from proxyprox._util.text import list_names
from proxyprox_app.cli import console
from proxyprox_app.cli.console import CommandError, file_digest, say, without_formula
from proxyprox_app.cli.run import Kinds, csv_text, parse_kinds

if TYPE_CHECKING:
    from proxyprox.sklearn import LabelBudget

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
# How many columns of a row are shown, how many characters of a cell, and how many columns or
# problems a sentence names.
SHOWN, LONGEST, NAMED = 40, 5000, 8
# The columns that an export adds.
ADDED = ("label", "skipped", "comment")


@console.guarded
def label(
    data: Annotated[Path, typer.Argument(help="Rows: CSV, Parquet, Excel.")],
    classes: Annotated[str, typer.Option(help="The classes, separated by commas.")],
    web: Annotated[bool, typer.Option("--web", help="Ask in a page of the browser.")] = False,
    budget: Annotated[int, typer.Option(min=1, help="Labels to buy at most.")] = 100,
    show: Annotated[str, typer.Option(help="Columns you are shown; default all.")] = "",
    hide: Annotated[str, typer.Option(help="Columns neither shown nor features.")] = "",
    kinds: Kinds = None,
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
    each answer, and what more labels would bring at the end. --criterion is margin or
    uniform, which gives an interval for the share of a class, too. --least-gain stops when 100
    more labels would lower the loss by less.

    Columns may be numbers, categories, text or dates, with gaps; --as zip=category says which.
    You are shown all of them, and all but identifiers are features; --show, --hide and --as
    NAME=drop change that.

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

    names = _split(classes)
    if len(names) < 2 or len(set(names)) < len(names):
        raise CommandError(f"--classes must name two different classes at least, got {classes!r}.")
    given = {"show": show, "hide": hide, "label": column, "teacher": teacher}
    roles = {role: _split(text) for role, text in given.items()}
    pool = read_pool(data, roles, parse_kinds(kinds or []), names)
    if column and pool.given is None and source is None:
        raise CommandError(f"--label names {column!r}, which is no column of {data.name}.")
    file = answers or data.with_name(f"{data.name}.labels.sqlite")
    check_files(data, file, export, overwrite)
    with LabelBudget(
        ProxyLogisticRegression(), pool.X, budget=budget, batch_size=batch, criterion=criterion,
        least_gain=least_gain, path=file, rng=seed, teacher=pool.teacher,
        about={"classes": sorted(names), "data": file_digest(data)},
    ) as bought:  # fmt: skip
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
        export = export if bought.labels or bought.declined or bought.comments else None
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
    for more, words in ((bought.declined, "skipped"), (bought.comments, "with a comment")):
        kinds += f"; {len(more)} {words}" if more else ""
    sentences = [f"{total} {'label' if total == 1 else 'labels'} ({kinds}) in {bought.path}."]
    gain, mean = None, None
    if len(counts) > 1:
        model, gain = bought.fit(), bought.expected_gain()
        gain = gain if gain < math.inf else None
        expected = bought.unbiased and model.mean_prediction(bought.X)
        if expected and isinstance(expected.estimate, float):
            mean = {"class": str(model.classes_[1]), **expected._asdict()}
            sentences.append(
                f"Of all rows {expected.estimate:.1%} are expected to be {mean['class']} "
                f"(95 % interval {expected.low:.1%} to {expected.high:.1%})."
            )
    if gain is not None:
        what = "Another 100 labels are expected to lower the log-loss by"
        sentences.append(f"{what} {gain:.2g}.")
    sentences.append(bought.finished or "The same command resumes from here.")
    if exported is not None:
        sentences.append(f"The answers are in {exported}; --overwrite replaces them.")
    elif total:
        sentences.append("For a table of the labelled rows: add --export labelled.csv.")
    return {
        "answers": str(bought.path), "exported": exported and str(exported), "labels": total,
        "classes": dict(counts), "skipped": len(bought.declined),
        "comments": len(bought.comments), "expected_gain": gain, "mean": mean,
        "finished": bought.finished, "sentences": sentences,
    }  # fmt: skip


# -- files --------------------------------------------------------------------------------------


def check_files(data: Path, answers: Path, export: Path | None, overwrite: bool) -> None:
    """Refuse files that would replace each other, or that cannot be written."""
    if export is None:
        return
    problems = {
        "would replace the rows or the answers": export.resolve()
        in (data.resolve(), answers.resolve()),
        "needs a file in a folder that exists": export.is_dir() or not export.parent.is_dir(),
        "would replace a file: add --overwrite, or name another": export.exists() and not overwrite,
    }
    if found := [text for text, wrong in problems.items() if wrong]:
        raise CommandError(f"--export {found[0]}, got {export}.")


# -- the rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """The rows: features, cells as text, what is shown of them, and answers that are there."""

    X: Any
    cells: Any
    shown: Sequence[str]
    notes: Sequence[str]
    given: Any = None
    teacher: Sequence[str | None] | None = None

    def row(self, row: int) -> list[tuple[str, str]]:
        """Return the columns of a row as a person sees them, by name."""
        texts = ((name, str(self.cells.iloc[row][name])) for name in self.shown)
        return [
            (name, text if len(text) <= LONGEST else f"{text[:LONGEST]} …")
            for name, text in texts
            if text.strip()
        ]

    def places(self, cells: Any, name: str) -> Iterator[tuple[int | None, int]]:
        """Yield, for each row of another table, the row here with the same cells, and its place."""
        common = [column for column in self.cells if column in cells]
        if not common:
            raise CommandError(f"--import needs columns that the rows have, too; {name} has none.")
        rows = defaultdict(list)
        for row, key in enumerate(_keys(self.cells[common])):
            rows[key].append(row)
        for place, key in enumerate(_keys(cells[common])):
            yield (rows[key].pop(0) if rows[key] else None), place


def _keys(cells: Any) -> Iterator[tuple[object, ...]]:
    """Yield rows so that those written by different programs compare equal."""

    def key(cell: str) -> object:
        with contextlib.suppress(ValueError):
            if not math.isnan(number := float(cell)):  # NaN differs from itself
                return number
        return without_formula(cell.strip())

    for row in cells.itertuples(index=False):
        yield tuple(map(key, row))


def read_pool(
    path: Path, roles: Mapping[str, Sequence[str]], kinds: Mapping[str, str], classes: Sequence[str]
) -> Pool:
    """Read rows of any format; `roles` are the columns that each option names."""
    from proxyprox_app.columns import Columns
    from proxyprox_app.tables import load_cells

    if str(path) == "-":
        raise CommandError("label needs the rows in a file: standard input brings the answers.")
    label, teacher = (next(iter(roles[role]), "") for role in ("label", "teacher"))
    raw = load_cells(path)
    cells, (frame, odd, decimal) = raw.text(), raw.parse()
    columns = list(cells)
    named = [(role, name) for role, names in roles.items() for name in names if role != "label"]
    if absent := [f"--{role} {name!r}" for role, name in named if name not in columns]:
        there = list_names(columns, NAMED)
        raise CommandError(f"No column {', '.join(absent)}; {path.name} has {there}.")
    seen = [name for name in columns if name not in {*roles["hide"], label, teacher}]
    shown = roles["show"] or seen[:SHOWN]
    made = Columns(kinds, decimal=decimal).plan(frame[seen]).fit(frame)
    features = [f"{c.name} ({c.kind})" for c in made.columns if c.kind != "drop"]
    notes = [
        f"Shown: {list_names(shown, NAMED)}.",
        f"Features: {list_names(features, NAMED)}.",
        *map(str, [*odd, *made.findings]),
    ]
    for name in seen:
        values = {text.strip() for text in cells[name] if text.strip()}
        if values and all(class_of(text, classes) for text in values):
            notes.append(f"{name} holds the classes: is it the label? Then say --label {name}.")
    answers = [class_of(text, classes) for text in cells[teacher]] if teacher else []
    if count := len(answers) - answers.count(None):
        notes.append(f"Teacher: another model's answers for {count:,} of {len(cells):,} rows.")
    given = cells[[label]] if label in cells else None
    return Pool(made.transform(frame), cells, shown, notes, given, answers if count else None)


# -- answers that are there already, and exports --------------------------------------------------


def own_names(taken: Sequence[str]) -> list[str]:
    """Return the names of the columns that an export adds to others."""
    return [f"{name}_" if name in taken else name for name in ADDED]


def class_of(text: str | None, classes: Sequence[str]) -> str | None:
    """Return the class that is written so, in any case, or None; "Y" is a way to write yes."""
    from proxyprox_app.columns import NO, YES

    bare = (text or "").strip()
    for words in ({bare.lower()}, YES, NO):
        same = [name for name in classes if name.lower() in words]
        if bare not in classes and bare.lower() in words and len(same) == 1:
            return same[0]
    return bare if bare in classes else None


def import_answers(
    bought: LabelBudget, pool: Pool, path: Path, label: str, classes: Sequence[str]
) -> str:
    """Add a file's answers for rows that have none yet, and return a sentence about it."""
    from proxyprox_app.tables import load_cells

    cells, taken = load_cells(path).text(), list(pool.cells)
    name, skipped, comment = own_names(taken)
    name = label if label in cells else name
    if name not in cells or (label and name != label):
        text = f"--import needs a column {label or ADDED[0]!r}, but {path.name} has "
        raise CommandError(f"{text}{list_names(list(cells), NAMED)}: name it by --label.")
    return add_answers(
        bought, cells[name], classes, path.name, pool.places(cells, path.name),
        cells.get(skipped), cells.get(comment),
    )  # fmt: skip


def add_answers(
    bought: LabelBudget, labels: Sequence[str], classes: Sequence[str], name: str,
    places: Iterator[tuple[int | None, int]] | None = None, skipped: Any = None,
    comments: Any = None,
) -> str:  # fmt: skip
    """Add answers for rows that have none yet, and return a sentence about it."""
    found = [class_of(text, classes) for text in labels]
    strange = Counter(
        text for text, label in zip(labels, found, strict=True) if text.strip() and not label
    )
    if strange:
        several = list_names([f"{text!r} ({n})" for text, n in strange.most_common()], NAMED)
        raise CommandError(f"{name} has labels that are none of --classes: {several}.")
    known = bought.labels.keys() | bought.declined
    rows, answers, lost = list[int](), list[str | None](), 0
    for row, place in places or ((row, row) for row in range(len(found))):
        said = found[place] is not None or (skipped is not None and bool(skipped.iloc[place]))
        lost += said and row is None
        if row is None:
            continue
        if said and row not in known:
            rows.append(row)
            answers.append(found[place])
        if comments is not None and comments.iloc[place] and row not in bought.comments:
            bought.comment(row, comments.iloc[place])
    if rows:
        bought.add(rows, answers)
    absent = f"; {lost:,} of its rows are not in the file" if lost else ""
    return f"{len(rows):,} answers taken from {name}{absent}."


def exported(bought: LabelBudget, pool: Pool, every: bool = False) -> bytes:
    """Return rows as CSV, safe in a spreadsheet.

    Those that were answered, skipped or commented, with all of it; or every row, with its label.
    """
    own = own_names(list(pool.cells))[: 1 if every else 3]
    lines = [[*pool.cells, *own]]
    labels, declined = bought.labels, bought.declined
    touched = sorted(labels.keys() | declined | bought.comments.keys())
    for row in range(bought.rows) if every else touched:
        skipped = "yes" if row in declined else ""
        said = [labels.get(row, ""), skipped, bought.comments.get(row, "")]
        lines.append([*pool.cells.iloc[row], *said[: len(own)]])
    return csv_text(lines, "\r\n").encode("utf-8", "surrogateescape")
