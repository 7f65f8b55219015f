"""The rows to be labelled: read as they come, shown, and exchanged with other tools as tables."""

from __future__ import annotations

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxyprox_app.cli.console import CommandError
from proxyprox_app.cli.run import csv_text

if TYPE_CHECKING:
    from proxyprox.sklearn import LabelBudget

# How many columns of a row are shown, how many characters of a cell, and how many columns or
# problems a sentence names.
SHOWN, LONGEST, NAMED = 40, 5000, 8

# The names of the columns that an export adds.
LABEL, SKIPPED, COMMENT = "label", "skipped", "comment"


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
    from proxyprox_app.cli.console import without_formula

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
    from proxyprox_app.study.columns import Columns
    from proxyprox_app.study.tables import load_cells

    if str(path) == "-":
        raise CommandError("label needs the rows in a file: standard input brings the answers.")
    label, teacher = (next(iter(roles[role]), "") for role in ("label", "teacher"))
    raw = load_cells(path)
    cells, (frame, odd, decimal) = raw.text(), raw.parse()
    columns = list(cells)
    absent = [
        f"--{role} {name!r}"
        for role, names in roles.items()
        for name in names
        if name not in columns and role != "label"
    ]
    if absent:
        raise CommandError(f"No column {', '.join(absent)}; {path.name} has {first(columns)}.")
    apart = {*roles["hide"], label, teacher}
    shown = roles["show"] or [name for name in columns if name not in apart][:SHOWN]
    apart |= set(roles["ignore"])
    used = roles["features"] or [name for name in columns if name not in apart]
    made = Columns(kinds, decimal=decimal).plan(frame[list(used)])
    made.fit(frame)
    notes = [
        f"Shown: {first(shown)}.",
        f"Features: {first([f'{c.name} ({c.kind})' for c in made.columns if c.kind != 'drop'])}.",
        *map(str, [*odd, *made.findings]),
    ]
    for name in used:
        values = {text.strip() for text in cells[name] if text.strip()}
        if values and all(class_of(text, classes) for text in values):
            notes.append(f"{name} holds the classes: is it the label? Then say --label {name}.")
    answers = [class_of(text, classes) for text in cells[teacher]] if teacher else []
    if count := len(answers) - answers.count(None):
        notes.append(f"Teacher: another model's answers for {count:,} of {len(cells):,} rows.")
    given = cells[[label]] if label in cells else None
    return Pool(made.transform(frame), cells, shown, notes, given, answers if count else None)


def first(names: Sequence[str]) -> str:
    """Return the first of several names as a part of a sentence."""
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


# -- answers that are there already, and exports --------------------------------------------------


def own_names(taken: Sequence[str], *names: str) -> list[str]:
    """Return the names of the columns that an export adds to others."""
    return [f"{name}_" if name in taken else name for name in names]


def class_of(text: str | None, classes: Sequence[str]) -> str | None:
    """Return the class that is written so, in any case, or None; "Y" is a way to write yes."""
    from proxyprox_app.study.columns import NO, YES

    bare = (text or "").strip()
    if bare in classes:
        return bare
    for words in ({bare.lower()}, YES, NO):
        same = [name for name in classes if name.lower() in words]
        if bare.lower() in words and len(same) == 1:
            return same[0]
    return None


def import_answers(
    bought: LabelBudget, pool: Pool, path: Path, label: str, classes: Sequence[str]
) -> str:
    """Add a file's answers for rows that have none yet, and return a sentence about it."""
    from proxyprox_app.study.tables import load_cells

    cells, taken = load_cells(path).text(), list(pool.cells)
    name, skipped, comment = own_names(taken, LABEL, SKIPPED, COMMENT)
    name = label if label in cells else name
    if name not in cells or (label and name != label):
        text = f"--import needs a column {label or LABEL!r}, but {path.name} has "
        raise CommandError(f"{text}{first(list(cells))}: name it by --label.")
    return add_answers(
        bought, cells[name], classes, path.name, pool.places(cells, path.name),
        cells.get(skipped), cells.get(comment),
    )  # fmt: skip


def add_answers(
    bought: LabelBudget,
    labels: Sequence[str],
    classes: Sequence[str],
    name: str,
    places: Iterator[tuple[int | None, int]] | None = None,
    skipped: Any = None,
    comments: Any = None,
) -> str:
    """Add answers for rows that have none yet, and return a sentence about it."""
    found = [class_of(text, classes) for text in labels]
    strange = Counter(
        text for text, label in zip(labels, found, strict=True) if text.strip() and not label
    )
    if strange:
        several = first([f"{text!r} ({count})" for text, count in strange.most_common()])
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
    own = own_names(list(pool.cells), LABEL, SKIPPED, COMMENT)[: 1 if every else 3]
    lines = [[*pool.cells, *own]]
    touched = sorted(bought.labels.keys() | bought.declined | bought.comments.keys())
    for row in range(bought.rows) if every else touched:
        skipped = "yes" if row in bought.declined else ""
        said = [bought.labels.get(row, ""), skipped, bought.comments.get(row, "")]
        lines.append([*pool.cells.iloc[row], *said[: len(own)]])
    return csv_text(lines, "\r\n").encode("utf-8", "surrogateescape")
